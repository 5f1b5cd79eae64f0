#include "kernels/cpu/thread_pool.h"

#include "base/error.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace plimsoll {
namespace {

// True while this thread runs a task: nested calls then run in place.
thread_local bool inside_task = false;

// How often an idle thread looks again before it sleeps: some ten microseconds, about the gap
// between two instructions of a step.
constexpr int kSpins = 1000;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

struct Job {
  void (*task)(void*, int64_t) = nullptr;
  void* self = nullptr;
  int64_t count = 0;
  uint32_t generation = 0;
};

}  // namespace

// A ticket packs the job's generation and the number of its next task. A worker that wakes late
// holds an old generation, so it can never take a task of a job that it has not read.
struct ThreadPool::Impl {
  std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable work_done;
  Job job;  // guarded by mutex
  bool stopping = false;
  std::atomic<uint32_t> generation{0};
  std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> num_done{0};
  std::vector<std::thread> workers;

  void work(const Job& mine) {
    uint64_t seen = ticket.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(seen >> 32) == mine.generation) {
      const auto index = static_cast<int64_t>(seen & 0xffffffffU);
      if (index >= mine.count) return;
      if (!ticket.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) continue;
      mine.task(mine.self, index);
      if (num_done.fetch_add(1, std::memory_order_acq_rel) + 1 == mine.count) {
        const std::lock_guard lock(mutex);
        work_done.notify_one();
      }
      seen = ticket.load(std::memory_order_acquire);
    }
  }

  void worker_loop() {
    inside_task = true;
    uint32_t last = 0;
    while (true) {
      for (int i = 0; i < kSpins && generation.load(std::memory_order_acquire) == last; ++i)
        relax();
      Job mine;
      {
        std::unique_lock lock(mutex);
        work_ready.wait(lock, [&] { return stopping || job.generation != last; });
        if (stopping) return;
        mine = job;
      }
      last = mine.generation;
      work(mine);
    }
  }
};

ThreadPool::ThreadPool(int num_threads) : impl_(std::make_unique<Impl>()) {
  PLIMSOLL_CHECK(num_threads >= 1, "{} threads", num_threads);
  impl_->workers.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    impl_->workers.emplace_back([impl = impl_.get()] { impl->worker_loop(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->generation.fetch_add(1, std::memory_order_release);
  }
  impl_->work_ready.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::num_threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(int64_t count, TaskFunction task, void* self) {
  PLIMSOLL_CHECK(count < int64_t{1} << 32, "{} tasks", count);
  if (inside_task || count <= 1 || impl_->workers.empty()) {
    for (int64_t i = 0; i < count; ++i) task(self, i);
    return;
  }
  Impl& impl = *impl_;
  Job mine;
  {
    const std::lock_guard lock(impl.mutex);
    mine = {task, self, count, impl.job.generation + 1};
    impl.job = mine;
    impl.num_done.store(0, std::memory_order_relaxed);
    impl.ticket.store(uint64_t{mine.generation} << 32, std::memory_order_release);
    impl.generation.store(mine.generation, std::memory_order_release);
  }
  impl.work_ready.notify_all();
  inside_task = true;
  impl.work(mine);
  inside_task = false;
  const auto finished = [&] { return impl.num_done.load(std::memory_order_acquire) == count; };
  for (int i = 0; i < kSpins && !finished(); ++i) relax();
  if (!finished()) {
    std::unique_lock lock(impl.mutex);
    impl.work_done.wait(lock, finished);
  }
}

}  // namespace plimsoll
