// The state of a running grid; of the emulator's own sources alone. block.cc runs the threads,
// access.cc looks at what they touch.
#pragma once

#include "kernels/emulation/address_space.h"
#include "kernels/emulation/block.h"

#include <boost/context/detail/fcontext.hpp>
#include <sys/mman.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll::emulation {

namespace context = boost::context::detail;

inline constexpr int kLanes = 32;
inline constexpr size_t kStackBytes = size_t{64} << 10;
inline constexpr size_t kPageBytes = 4096;
inline constexpr int64_t kSharedGuardBytes = int64_t{64} << 10;

enum class State : uint8_t { kUnstarted, kReady, kRunning, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Thread {
  Place place;
  int index = 0;
  State state = State::kUnstarted;
  context::fcontext_t fiber = nullptr;
  std::source_location at;  // where it waits
};

struct Warp {
  uint64_t slots[2][kLanes] = {};
  int arrived = 0;
  uint32_t passed = 0;  // exchanges so far
  std::source_location at;
};

// A stack with a page below it that may not be touched.
class Stack {
 public:
  Stack() {
    base_ = static_cast<char*>(::mmap(nullptr, kStackBytes + kPageBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ::mprotect(base_, kPageBytes, PROT_NONE);
  }
  ~Stack() { ::munmap(base_, kStackBytes + kPageBytes); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;
  [[nodiscard]] void* top() const { return base_ + kPageBytes + kStackBytes; }

 private:
  char* base_;
};

class Executor {
 public:
  Executor()
      : shared_(static_cast<size_t>(kMaxSharedBytes + 2 * kSharedGuardBytes)),
        shared_shadow_(kMaxSharedBytes / kShadowWordBytes) {}

  Fault run(const Grid& grid, uint64_t seed);

  void sync_threads(const std::source_location& at);
  uint64_t exchange(uint64_t value, int source, const std::source_location& at);
  void access(uintptr_t address, int64_t bytes, Access kind);

  [[nodiscard]] bool running() const { return current_ != nullptr; }
  [[nodiscard]] const Place& place() const { return current_->place; }
  [[nodiscard]] int lane() const { return current_->index % kLanes; }
  [[nodiscard]] Warp& warp() { return warps_[static_cast<size_t>(current_->index / kLanes)]; }
  [[nodiscard]] char* shared_begin() { return shared_.data() + kSharedGuardBytes; }

 private:
  static void fiber_main(context::transfer_t from);
  bool check_launch();
  void run_block(Dim3 block);
  void start_fiber();
  void resume(Thread& thread);
  void wait(State state, const std::source_location& at);
  [[noreturn]] void leave();
  [[noreturn]] void fail(FaultKind kind, const std::string& text);
  void report_deadlock();
  void note(ShadowWord* word, uintptr_t address, int64_t bytes, uintptr_t base, Access kind,
            bool shared);
  void check_operands(uintptr_t address, int64_t bytes, Access kind);
  [[nodiscard]] std::string thread_text() const;

  const Grid* grid_ = nullptr;
  Fault fault_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<int> order_;
  size_t next_unstarted_ = 0;
  int num_done_ = 0;
  int at_barrier_ = 0;
  std::source_location barrier_at_;
  std::deque<Thread*> ready_;
  Thread* current_ = nullptr;
  context::fcontext_t main_ = nullptr;
  std::vector<std::unique_ptr<Stack>> stacks_;
  size_t stacks_used_ = 0;
  bool fiber_ended_ = false;

  std::vector<char> shared_;
  std::vector<ShadowWord> shared_shadow_;
  std::shared_ptr<const Allocation> allocation_;  // of the last access
  size_t last_operand_ = 0;
  Accessor who_;
};

}  // namespace plimsoll::emulation
