#include "executor/communicator.h"

#include "base/checked.h"
#include "executor/thread_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <functional>

namespace plimsoll {

namespace {

template <typename T>
T combine(T a, T b, Reduction reduction) {
  if (reduction == Reduction::kSum) return a + b;
  return b > a || b != b ? b : a;  // a value that is not a number stays one
}

// out[0, count) = the reduction over ranks of their [from, from + count), in rank order. `out` may
// be that range of one of them: only its own rank writes it, and no other reads it.
template <typename T>
void reduce_range(const std::vector<const std::byte*>& ranks, int64_t from, int64_t count, T* out,
                  Reduction reduction) {
  constexpr int64_t kBlock = 512;
  std::array<T, kBlock> total{};
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t width = std::min(kBlock, count - at);
    const auto block_of = [&](const std::byte* data) {
      return reinterpret_cast<const T*>(data) + from + at;
    };
    std::copy_n(block_of(ranks[0]), width, total.data());
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      const T* other = block_of(ranks[rank]);
      for (int64_t i = 0; i < width; ++i) {
        T& value = total[static_cast<size_t>(i)];
        value = combine(value, other[i], reduction);
      }
    }
    std::copy_n(total.data(), width, out + at);
  }
}

void reduce_range(const std::vector<const std::byte*>& ranks, int64_t from, int64_t count,
                  std::byte* out, DType dtype, Reduction reduction) {
  if (dtype == DType::kF32) {
    reduce_range(ranks, from, count, reinterpret_cast<float*>(out), reduction);
  } else if (dtype == DType::kF64) {
    reduce_range(ranks, from, count, reinterpret_cast<double*>(out), reduction);
  } else {
    reduce_range(ranks, from, count, reinterpret_cast<int32_t*>(out), reduction);
  }
}

void require_reducible(DType dtype, const char* what) {
  if (dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI32) return;
  throw bad_input(
      fmt::format("{} of {}: the cpu backend sums f32, f64 and i32", what, dtype_name(dtype)));
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadWorld> world, int rank)
      : world_(std::move(world)), rank_(rank), all_(find_group("world", 1)) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return world_->size(); }

  [[nodiscard]] int find_group(std::string_view name, int copies) final {
    const auto group = world_->group_of(rank_, name, copies);
    const auto known = std::find(groups_.begin(), groups_.end(), group);
    if (known != groups_.end()) return static_cast<int>(known - groups_.begin());
    groups_.push_back(group);
    places_.push_back(static_cast<int>(std::find(group->ranks.begin(), group->ranks.end(), rank_) -
                                       group->ranks.begin()));
    return static_cast<int>(groups_.size()) - 1;
  }
  [[nodiscard]] int group_size(int group) const override { return at(group).size(); }
  [[nodiscard]] int place_in(int group) const override {
    return places_[static_cast<size_t>(group)];
  }
  [[nodiscard]] int neighbour(int group, int steps) const override {
    const int size = group_size(group);
    return at(group).ranks[static_cast<size_t>((place_in(group) + steps % size + size) % size)];
  }

  // Each rank reduces its slice from all ranks' memory, then copies the other slices.
  void all_reduce(int group, void* data, int64_t count, DType dtype, Reduction reduction) override {
    require_reducible(dtype, "all_reduce");
    ThreadGroup& g = at(group);
    if (g.size() == 1) return world_->throw_if_aborted();
    const int place = place_in(group);
    auto* own = static_cast<std::byte*>(data);
    open(g, place, own, checked_mul(count, dtype_bytes(dtype)), "all_reduce");
    const auto slice = [&](int of) {
      return count / g.size() * of + std::min<int64_t>(of, count % g.size());
    };
    const int64_t width = dtype_bytes(dtype);
    reduce_range(g.data, slice(place), slice(place + 1) - slice(place), own + slice(place) * width,
                 dtype, reduction);
    g.meet(place);
    for (int other = 0; other < g.size(); ++other) {
      if (other == place) continue;
      const int64_t from = slice(other) * width;
      std::copy(g.data[static_cast<size_t>(other)] + from,
                g.data[static_cast<size_t>(other)] + slice(other + 1) * width, own + from);
    }
    g.meet(place);  // nobody changes its slice while another still copies it
  }

  void all_gather(int group, const void* part, void* whole, const Parts& parts,
                  DType dtype) override {
    ThreadGroup& g = at(group);
    const int place = place_in(group);
    const int64_t width = dtype_bytes(dtype);
    auto* out = static_cast<std::byte*>(whole);
    const bool in_place = part == nullptr;
    open(g, place, in_place ? out : static_cast<const std::byte*>(part),
         checked_mul(checked_mul(parts.outer, parts.whole), width), "all_gather");
    for (int other = 0; other < g.size(); ++other) {
      if (in_place && other == place) continue;
      const int64_t begin = parts.begin(other);
      const int64_t length = parts.length(other) * width;
      const std::byte* from = g.data[static_cast<size_t>(other)];
      for (int64_t o = 0; o < parts.outer; ++o) {
        const int64_t to = (o * parts.whole + begin) * width;
        const int64_t at = in_place ? to : o * parts.part * width;
        std::copy(from + at, from + at + length, out + to);
      }
    }
    g.meet(place);
  }

  void reduce_scatter(int group, const void* whole, void* part, const Parts& parts,
                      DType dtype) override {
    require_reducible(dtype, "reduce_scatter");
    ThreadGroup& g = at(group);
    const int place = place_in(group);
    const int64_t width = dtype_bytes(dtype);
    open(g, place, static_cast<const std::byte*>(whole),
         checked_mul(checked_mul(parts.outer, parts.whole), width), "reduce_scatter");
    const bool in_place = part == nullptr;
    auto* out = static_cast<std::byte*>(in_place ? const_cast<void*>(whole) : part);
    const int64_t length = parts.length(place);
    for (int64_t o = 0; o < parts.outer; ++o) {
      const int64_t from = o * parts.whole + parts.begin(place);
      std::byte* to = out + (in_place ? from : o * parts.part) * width;
      reduce_range(g.data, from, length, to, dtype, Reduction::kSum);
      if (!in_place) std::fill_n(to + length * width, (parts.part - length) * width, std::byte{});
    }
    g.meet(place);
  }

  void barrier() override { at(all_).meet(place_in(all_)); }

  void send(int to, Message& message) override {
    message.source = rank_;
    world_->send(to, message);
  }
  void finish(Message& message, int to) override { world_->finish(message, to); }
  void receive(int from, int64_t tag, void* data, int64_t bytes) override {
    world_->receive(from, rank_, tag, static_cast<std::byte*>(data), bytes);
  }

  void set_place(const std::string* place) override { world_->set_place(rank_, place); }
  void abort(const std::string& reason) override { world_->abort(reason); }

 private:
  [[nodiscard]] ThreadGroup& at(int group) const { return *groups_[static_cast<size_t>(group)]; }

  // Shows the others where this rank's data are and waits for theirs.
  void open(ThreadGroup& g, int place, const std::byte* data, int64_t bytes, const char* what) {
    g.data[static_cast<size_t>(place)] = data;
    g.bytes[static_cast<size_t>(place)] = bytes;
    g.meet(place);
    if (std::adjacent_find(g.bytes.begin(), g.bytes.end(), std::not_equal_to<>()) !=
        g.bytes.end()) {
      throw run_failed(fmt::format("{}: the ranks disagree on its size ({} bytes by rank)", what,
                                   fmt::join(g.bytes, ", ")));
    }
  }

  std::shared_ptr<ThreadWorld> world_;
  int rank_;
  std::vector<std::shared_ptr<ThreadGroup>> groups_;
  std::vector<int> places_;  // this rank's in each group
  int all_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    std::span<const Coordinates> ranks, double watchdog_seconds) {
  PLIMSOLL_CHECK(!ranks.empty(), "a world of no ranks");
  const auto world = std::make_shared<ThreadWorld>(
      std::vector<Coordinates>(ranks.begin(), ranks.end()), watchdog_seconds);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(world, static_cast<int>(rank)));
  }
  return communicators;
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size,
                                                                     double watchdog_seconds) {
  std::vector<Coordinates> ranks(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks[static_cast<size_t>(rank)].dp = rank;
    ranks[static_cast<size_t>(rank)].dp_size = size;
  }
  return make_thread_communicators(ranks, watchdog_seconds);
}

}  // namespace plimsoll
