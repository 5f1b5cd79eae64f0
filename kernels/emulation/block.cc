#include "kernels/emulation/block.h"

#include "base/rng.h"
#include "kernels/emulation/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <numeric>

namespace plimsoll::emulation {
namespace {

std::string where_text(const std::source_location& at) {
  const std::string_view path = at.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), at.line());
}

// One for each host thread: the ranks of a run emulate at the same time. Intervals are of the whole
// process, because the marks in device memory outlive a host thread.
Executor& executor() {
  thread_local Executor instance;
  return instance;
}
thread_local Executor* active = nullptr;

uint32_t next_interval() {
  static std::atomic<uint32_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

bool Executor::check_launch() {
  const int64_t threads = grid_->block.count();
  const auto refuse = [&](const std::string& text) {
    fault_ = {FaultKind::kBadLaunch, fmt::format("kernel {}: {}", grid_->kernel, text)};
    return false;
  };
  if (threads < 1 || threads > kMaxBlockThreads || threads % kLanes != 0) {
    return refuse(
        fmt::format("a block of {} threads; they come in warps of 32, up to 1024", threads));
  }
  if (grid_->grid.count() < 1 || grid_->grid.y > 65535 || grid_->grid.z > 65535) {
    return refuse(
        fmt::format("a grid of {} x {} x {}", grid_->grid.x, grid_->grid.y, grid_->grid.z));
  }
  if (grid_->shared_bytes < 0 || grid_->shared_bytes > kMaxSharedBytes) {
    return refuse(fmt::format("{} bytes of shared memory, a block has {}", grid_->shared_bytes,
                              kMaxSharedBytes));
  }
  return true;
}

Fault Executor::run(const Grid& grid, uint64_t seed) {
  grid_ = &grid;
  fault_ = {};
  allocation_ = nullptr;
  if (!check_launch()) return fault_;
  const auto count = static_cast<size_t>(grid.block.count());
  threads_.resize(count);
  warps_.resize(count / kLanes);
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  if (seed != 0) {
    for (size_t i = count; i > 1; --i) std::swap(order_[i - 1], order_[splitmix64(seed + i) % i]);
  }
  who_.launch_interval = next_interval();
  active = this;
  for (unsigned z = 0; z < grid.grid.z && fault_.kind == FaultKind::kNone; ++z) {
    for (unsigned y = 0; y < grid.grid.y && fault_.kind == FaultKind::kNone; ++y) {
      for (unsigned x = 0; x < grid.grid.x && fault_.kind == FaultKind::kNone; ++x) {
        run_block({x, y, z});
      }
    }
  }
  active = nullptr;
  current_ = nullptr;
  return fault_;
}

void Executor::run_block(Dim3 block) {
  const Dim3& dim = grid_->block;
  for (size_t i = 0; i < threads_.size(); ++i) {
    const auto index = static_cast<unsigned>(i);
    Thread& thread = threads_[i];
    thread.index = static_cast<int>(i);
    thread.place = {
        {index % dim.x, index / dim.x % dim.y, index / dim.x / dim.y}, block, dim, grid_->grid};
    thread.state = State::kUnstarted;
  }
  for (Warp& warp : warps_) warp.arrived = 0;
  next_unstarted_ = 0;
  num_done_ = 0;
  at_barrier_ = 0;
  ready_.clear();
  stacks_used_ = 0;
  who_.interval = who_.block_interval = next_interval();
  while (num_done_ < static_cast<int>(threads_.size()) && fault_.kind == FaultKind::kNone) {
    if (next_unstarted_ < order_.size()) {
      start_fiber();
    } else if (!ready_.empty()) {
      Thread* thread = ready_.front();
      ready_.pop_front();
      resume(*thread);
    } else {
      report_deadlock();
    }
  }
}

// A fiber runs unstarted threads until one of them waits; that thread then keeps the fiber.
void Executor::fiber_main(context::transfer_t from) {
  Executor& self = *static_cast<Executor*>(from.data);
  self.main_ = from.fctx;
  while (self.next_unstarted_ < self.order_.size()) {
    Thread& thread = self.threads_[static_cast<size_t>(self.order_[self.next_unstarted_++])];
    thread.state = State::kRunning;
    self.current_ = &thread;
    self.grid_->body();
    self.current_->state = State::kDone;
    ++self.num_done_;
  }
  self.leave();
}

void Executor::start_fiber() {
  if (stacks_used_ == stacks_.size()) stacks_.push_back(std::make_unique<Stack>());
  const Stack& stack = *stacks_[stacks_used_++];
  const context::fcontext_t fiber = context::make_fcontext(stack.top(), kStackBytes, fiber_main);
  const context::transfer_t back = context::jump_fcontext(fiber, this);
  if (current_ != nullptr) current_->fiber = back.fctx;
}

void Executor::resume(Thread& thread) {
  thread.state = State::kRunning;
  current_ = &thread;
  const context::transfer_t back = context::jump_fcontext(thread.fiber, this);
  if (current_ != nullptr) current_->fiber = back.fctx;
}

void Executor::wait(State state, const std::source_location& at) {
  Thread& self = *current_;
  self.state = state;
  self.at = at;
  const context::transfer_t back = context::jump_fcontext(main_, this);
  main_ = back.fctx;
}

// Gives the host thread back for good; the fiber's stack is used again for the next block.
void Executor::leave() {
  current_ = nullptr;
  context::jump_fcontext(main_, this);
  __builtin_unreachable();
}

void Executor::fail(FaultKind kind, const std::string& text) {
  fault_ = {kind, fmt::format("kernel {}, {}: {}", grid_->kernel, thread_text(), text)};
  leave();
}

std::string Executor::thread_text() const {
  const Place& p = current_->place;
  return fmt::format("block ({},{},{}) thread ({},{},{})", p.block.x, p.block.y, p.block.z,
                     p.thread.x, p.thread.y, p.thread.z);
}

void Executor::report_deadlock() {
  std::string text;
  for (const Thread& thread : threads_) {
    if (thread.state == State::kAtBlockBarrier || thread.state == State::kAtWarpBarrier) {
      text = fmt::format("thread {} waits at {}", thread.index, where_text(thread.at));
      break;
    }
  }
  fault_ = {FaultKind::kDivergentBarrier,
            fmt::format("kernel {}: {}, and {} of {} threads have ended without it", grid_->kernel,
                        text, num_done_, threads_.size())};
}

void Executor::sync_threads(const std::source_location& at) {
  if (at_barrier_ == 0) barrier_at_ = at;
  if (at.line() != barrier_at_.line()) {
    fail(FaultKind::kDivergentBarrier, fmt::format("is at the barrier of {}, others wait at {}",
                                                   where_text(at), where_text(barrier_at_)));
  }
  if (++at_barrier_ < static_cast<int>(threads_.size())) return wait(State::kAtBlockBarrier, at);
  at_barrier_ = 0;
  who_.interval = next_interval();
  for (const int index : order_) {
    Thread& thread = threads_[static_cast<size_t>(index)];
    if (thread.state != State::kAtBlockBarrier) continue;
    thread.state = State::kReady;
    ready_.push_back(&thread);
  }
}

uint64_t Executor::exchange(uint64_t value, int source, const std::source_location& at) {
  Warp& group = warp();
  if (group.arrived == 0) group.at = at;
  if (at.line() != group.at.line()) {
    fail(FaultKind::kDivergentBarrier,
         fmt::format("is at the warp's exchange of {}, others wait at {}", where_text(at),
                     where_text(group.at)));
  }
  uint64_t* slots = group.slots[group.passed % 2];
  slots[lane()] = value;
  if (++group.arrived < kLanes) {
    wait(State::kAtWarpBarrier, at);
  } else {
    group.arrived = 0;
    ++group.passed;
    const size_t first = static_cast<size_t>(current_->index / kLanes * kLanes);
    for (size_t i = first; i < first + kLanes; ++i) {
      if (threads_[i].state != State::kAtWarpBarrier) continue;
      threads_[i].state = State::kReady;
      ready_.push_back(&threads_[i]);
    }
  }
  return slots[source % kLanes];
}

Fault run_grid(const Grid& grid, uint64_t seed) { return executor().run(grid, seed); }

const Place& place() { return active->place(); }
void* shared_memory() { return active->shared_begin(); }
int lane() { return active->lane(); }
void sync_threads(const std::source_location& at) { active->sync_threads(at); }
uint64_t exchange(uint64_t value, int source, const std::source_location& at) {
  return active->exchange(value, source, at);
}

uint32_t ballot(bool predicate, const std::source_location& at) {
  (void)active->exchange(predicate ? 1 : 0, 0, at);
  Warp& warp = active->warp();
  uint32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) {
    bits |= static_cast<uint32_t>(warp.slots[(warp.passed - 1) % 2][i] & 1) << i;
  }
  return bits;
}

void note_access(const void* address, int64_t bytes, bool writes, bool atomic) {
  if (active == nullptr || !active->running()) return;
  const Access kind = atomic ? Access::kAtomic : writes ? Access::kWrite : Access::kRead;
  active->access(reinterpret_cast<uintptr_t>(address), bytes, kind);
}

int32_t atomic_add(int32_t* address, int32_t value) {
  note_access(address, sizeof value, true, true);
  const int32_t before = *address;
  *address = before + value;
  return before;
}

float atomic_add(float* address, float value) {
  note_access(address, sizeof value, true, true);
  const float before = *address;
  *address = before + value;
  return before;
}

}  // namespace plimsoll::emulation
