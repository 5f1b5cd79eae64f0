#include "executor/communicator.h"

#include "base/error.h"
#include "base/rng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace plimsoll {
namespace {

using testing::HasSubstr;

// Runs `body(rank, communicator)` in a thread a rank; returns what each threw ("" for nothing).
template <typename Body>
std::vector<std::string> in_ranks(int size, double watchdog_seconds, Body body) {
  auto communicators = make_thread_communicators(size, watchdog_seconds);
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator& communicator = *communicators[static_cast<size_t>(rank)];
      try {
        body(rank, communicator);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
        communicator.abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<float> values_of(int rank, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(rng_normal(5, static_cast<uint64_t>(rank), i));
  }
  return values;
}

TEST(Communicator, SumsInRankOrderOnEveryRank) {
  for (const int size : {1, 2, 3, 5}) {
    for (const size_t count : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}, size_t{5000}}) {
      std::vector<float> expected = values_of(0, count);
      for (int rank = 1; rank < size; ++rank) {
        const std::vector<float> other = values_of(rank, count);
        for (size_t i = 0; i < count; ++i) expected[i] += other[i];
      }
      std::vector<std::vector<float>> data(static_cast<size_t>(size));
      const auto errors = in_ranks(size, 20, [&](int rank, Communicator& communicator) {
        std::vector<float>& own = data[static_cast<size_t>(rank)];
        own = values_of(rank, count);
        communicator.all_reduce(communicator.find_group("dp"), own.data(),
                                static_cast<int64_t>(count), DType::kF32, Reduction::kSum);
      });
      EXPECT_THAT(errors, testing::Each(""));
      for (const std::vector<float>& own : data) EXPECT_EQ(own, expected);  // to the bit
    }
  }
}

TEST(Communicator, ManySumsOfSeveralTypes) {
  const auto errors = in_ranks(3, 20, [](int rank, Communicator& communicator) {
    std::vector<double> doubles(10, rank + 1.0);
    std::vector<int32_t> integers(4, rank + 1);
    const int dp = communicator.find_group("dp");
    for (int i = 0; i < 200; ++i) {
      communicator.all_reduce(dp, doubles.data(), 10, DType::kF64, Reduction::kSum);
      for (double& value : doubles) {
        if (value != (i == 0 ? 6.0 : 3.0)) throw std::runtime_error("wrong sum");
        value = 1;
      }
    }
    communicator.all_reduce(dp, integers.data(), 4, DType::kI32, Reduction::kSum);
    if (integers != std::vector<int32_t>(4, 6)) throw std::runtime_error("wrong sum");
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Communicator, OneFailureWakesEverybody) {
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = in_ranks(4, 60, [](int rank, Communicator& communicator) {
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      throw std::runtime_error("rank 2 has had enough");
    }
    for (;;) communicator.barrier();
  });
  EXPECT_THAT(errors, testing::Each("rank 2 has had enough"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Communicator, AnAbortedGroupStaysAborted) {
  auto communicators = make_thread_communicators(2, 20);
  communicators[0]->abort("first");
  communicators[1]->abort("second");
  for (int i = 0; i < 2; ++i) {
    try {
      communicators[1]->barrier();
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "first");
      EXPECT_EQ(error.code(), ExitCode::kRunFailed);
    }
  }
}

TEST(Communicator, TheWatchdogEndsAWaitForARankThatNeverComes) {
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = in_ranks(3, 0.2, [](int rank, Communicator& communicator) {
    if (rank != 1) communicator.barrier();
  });
  EXPECT_THAT(errors[0], HasSubstr("waited"));
  EXPECT_EQ(errors[1], "");
  EXPECT_THAT(errors[2], HasSubstr("waited"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(Communicator, SizesThatDisagreeAreAnErrorOnAllRanks) {
  const auto errors = in_ranks(2, 20, [](int rank, Communicator& communicator) {
    std::vector<float> values(8, 1.0F);
    communicator.all_reduce(communicator.find_group("dp"), values.data(), rank == 0 ? 8 : 4,
                            DType::kF32, Reduction::kSum);
  });
  EXPECT_THAT(errors, testing::Each(HasSubstr("disagree")));
}

TEST(Communicator, WhatCannotBeSummedIsRefused) {
  uint16_t value = 0;
  const auto communicators = make_thread_communicators(1, 20);
  Communicator& single = *communicators.front();
  EXPECT_THROW(single.all_reduce(single.find_group("dp"), &value, 1, DType::kBF16, Reduction::kSum),
               Error);
}

}  // namespace
}  // namespace plimsoll
