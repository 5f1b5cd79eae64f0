// Threads of one device, and the fixed division of work that keeps results independent of them.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace plimsoll {

// Runs `count` numbered tasks on the pool's threads and the caller. What a task does may depend on
// its number alone, so any number of threads gives the same bits. Never allocates after
// construction. One caller at a time; nested calls run in the caller.
class ThreadPool {
 public:
  // `num_threads` >= 1 includes the caller.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int num_threads() const;

  template <typename Task>
  void parallel_for(int64_t count, Task&& task) {
    using Plain = std::remove_reference_t<Task>;
    run(
        count, [](void* self, int64_t i) { (*static_cast<Plain*>(self))(i); }, &task);
  }

  // task(begin, end) over [0, count) in pieces of `grain` elements; the pieces depend on count and
  // grain alone.
  template <typename Task>
  void parallel_ranges(int64_t count, int64_t grain, Task&& task) {
    parallel_for((count + grain - 1) / grain, [&](int64_t piece) {
      const int64_t begin = piece * grain;
      task(begin, begin + grain < count ? begin + grain : count);
    });
  }

 private:
  using TaskFunction = void (*)(void*, int64_t);
  void run(int64_t count, TaskFunction task, void* self);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll
