#include "executor/communicator.h"

#include "base/checked.h"
#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>

namespace plimsoll {

namespace {

// A barrier that can fail: all waiters throw the same reason.
class Rendezvous {
 public:
  Rendezvous(int size, double watchdog_seconds) : size_(size), watchdog_(watchdog_seconds) {}

  void wait(int rank) {
    std::unique_lock lock(mutex_);
    throw_if_aborted();
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++generation_;
      changed_.notify_all();
      return;
    }
    const uint64_t generation = generation_;
    const bool in_time =
        changed_.wait_for(lock, watchdog_, [&] { return generation_ != generation || aborted_; });
    if (generation_ != generation) return;  // all had arrived before anything failed
    if (!in_time) {
      set_aborted(fmt::format("rank {} waited {:.0f} s for the other ranks ({} of {} arrived)",
                              rank, watchdog_.count(), arrived_, size_));
    }
    throw_if_aborted();
  }

  void abort(const std::string& reason) {
    const std::scoped_lock lock(mutex_);
    set_aborted(reason);
  }

 private:
  void set_aborted(const std::string& reason) {
    if (!aborted_) reason_ = reason;
    aborted_ = true;
    changed_.notify_all();
  }
  void throw_if_aborted() const {
    if (aborted_) throw run_failed(reason_);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int size_;
  std::chrono::duration<double> watchdog_;
  int arrived_ = 0;
  uint64_t generation_ = 0;
  bool aborted_ = false;
  std::string reason_;
};

struct ThreadGroup {
  ThreadGroup(int size, double watchdog_seconds)
      : rendezvous(size, watchdog_seconds),
        data(static_cast<size_t>(size)),
        bytes(static_cast<size_t>(size)) {}
  Rendezvous rendezvous;
  // Of the collective that is running, by rank.
  std::vector<std::byte*> data;
  std::vector<int64_t> bytes;
};

// own[begin, end) = sum over ranks, in rank order. `own` is one of the ranks' arrays; only its own
// rank writes that range, and only this rank reads it from the others.
template <typename T>
void sum_slice(const std::vector<std::byte*>& ranks, std::byte* own, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = 512;
  std::array<T, kBlock> sum{};
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t width = std::min(kBlock, end - at);
    std::memcpy(sum.data(), reinterpret_cast<const T*>(ranks[0]) + at,
                static_cast<size_t>(width) * sizeof(T));
    for (size_t rank = 1; rank < ranks.size(); ++rank) {
      const T* other = reinterpret_cast<const T*>(ranks[rank]) + at;
      for (int64_t i = 0; i < width; ++i) sum[static_cast<size_t>(i)] += other[i];
    }
    std::memcpy(reinterpret_cast<T*>(own) + at, sum.data(), static_cast<size_t>(width) * sizeof(T));
  }
}

bool can_sum(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI32;
}

void require_sum(DType dtype) {
  if (!can_sum(dtype)) {
    throw bad_input(
        fmt::format("all_reduce of {}: the cpu backend sums f32, f64 and i32", dtype_name(dtype)));
  }
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadGroup> group, int rank)
      : group_(std::move(group)), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(group_->data.size()); }

  // Each rank sums its slice from all ranks' memory, then copies the other slices.
  void all_reduce(void* data, int64_t count, DType dtype) override {
    require_sum(dtype);
    auto* own = static_cast<std::byte*>(data);
    group_->data[static_cast<size_t>(rank_)] = own;
    group_->bytes[static_cast<size_t>(rank_)] = checked_mul(count, dtype_bytes(dtype));
    barrier();
    if (std::adjacent_find(group_->bytes.begin(), group_->bytes.end(), std::not_equal_to<>()) !=
        group_->bytes.end()) {
      throw run_failed(fmt::format("all_reduce: the ranks disagree on its size ({} bytes by rank)",
                                   fmt::join(group_->bytes, ", ")));
    }
    const int64_t begin = slice_begin(rank_, count);
    const int64_t end = slice_begin(rank_ + 1, count);
    if (dtype == DType::kF32) sum_slice<float>(group_->data, own, begin, end);
    if (dtype == DType::kF64) sum_slice<double>(group_->data, own, begin, end);
    if (dtype == DType::kI32) sum_slice<int32_t>(group_->data, own, begin, end);
    barrier();
    for (int other = 0; other < size(); ++other) {
      if (other == rank_) continue;
      const int64_t from = slice_begin(other, count) * dtype_bytes(dtype);
      const int64_t to = slice_begin(other + 1, count) * dtype_bytes(dtype);
      std::copy(group_->data[static_cast<size_t>(other)] + from,
                group_->data[static_cast<size_t>(other)] + to, own + from);
    }
    barrier();  // nobody changes its slice while another still copies it
  }

  void barrier() override { group_->rendezvous.wait(rank_); }
  void abort(const std::string& reason) override { group_->rendezvous.abort(reason); }

 private:
  [[nodiscard]] int64_t slice_begin(int rank, int64_t count) const {
    return count / size() * rank + std::min<int64_t>(rank, count % size());
  }

  std::shared_ptr<ThreadGroup> group_;
  int rank_;
};

}  // namespace

void SingleCommunicator::all_reduce(void* /*data*/, int64_t /*count*/, DType dtype) {
  require_sum(dtype);
  barrier();
}

void SingleCommunicator::barrier() {
  if (!reason_.empty()) throw run_failed(reason_);
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int size,
                                                                     double watchdog_seconds) {
  PLIMSOLL_CHECK(size >= 1, "a group of {} ranks", size);
  std::vector<std::unique_ptr<Communicator>> communicators;
  const auto group = std::make_shared<ThreadGroup>(size, watchdog_seconds);
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(group, rank));
  }
  return communicators;
}

}  // namespace plimsoll
