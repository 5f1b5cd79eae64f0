#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace plimsoll::testing {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int num_threads : {1, 2, 5}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const int64_t count : {0, 1, 2, 3, 100, 10000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      pool.parallel_for(count, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (const auto& times : runs) ASSERT_EQ(times.load(), 1);
    }
  }
}

// Workers that wake late must not take tasks of a job that they have not read.
TEST(ThreadPool, ManyShortJobsInARow) {
  ThreadPool pool(4);
  for (int64_t job = 0; job < 20000; ++job) {
    std::atomic<int64_t> total = 0;
    const int64_t count = job % 7 + 1;
    pool.parallel_for(count, [&](int64_t i) { total += job + i; });
    ASSERT_EQ(total.load(), count * job + count * (count - 1) / 2);
  }
}

TEST(ThreadPool, NestedCallsRunInTheCaller) {
  ThreadPool pool(3);
  std::vector<std::atomic<int>> runs(64);
  std::atomic<int> elsewhere = 0;
  pool.parallel_for(8, [&](int64_t outer) {
    const std::thread::id self = std::this_thread::get_id();
    pool.parallel_for(8, [&](int64_t inner) {
      ++runs[static_cast<size_t>(outer * 8 + inner)];
      if (std::this_thread::get_id() != self) ++elsewhere;
    });
  });
  for (const auto& times : runs) EXPECT_EQ(times.load(), 1);
  EXPECT_EQ(elsewhere.load(), 0);
}

TEST(ThreadPool, RangesDependOnCountAndGrainAlone) {
  for (const int num_threads : {1, 4}) {
    ThreadPool pool(num_threads);
    std::vector<int64_t> ends(4, -1);
    pool.parallel_ranges(
        10, 3, [&](int64_t begin, int64_t end) { ends[static_cast<size_t>(begin / 3)] = end; });
    EXPECT_EQ(ends, (std::vector<int64_t>{3, 6, 9, 10}));
  }
}

TEST(ThreadPool, PoolsOfSeveralDevicesWorkSideBySide) {
  std::vector<std::thread> devices;
  std::atomic<int64_t> total = 0;
  for (int device = 0; device < 3; ++device) {
    devices.emplace_back([&total] {
      ThreadPool pool(2);
      for (int job = 0; job < 500; ++job) pool.parallel_for(10, [&](int64_t i) { total += i; });
    });
  }
  for (std::thread& device : devices) device.join();
  EXPECT_EQ(total.load(), 3 * 500 * 45);
}

}  // namespace
}  // namespace plimsoll::testing
