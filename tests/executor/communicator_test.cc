#include "executor/communicator.h"

#include "base/checked.h"
#include "base/error.h"
#include "base/rng.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

namespace plimsoll {
namespace {

using testing::HasSubstr;

// Runs `body(rank, communicator)` in a thread a rank; returns what each threw ("" for nothing).
template <typename Body>
std::vector<std::string> in_ranks(const std::vector<Coordinates>& coordinates,
                                  double watchdog_seconds, Body body) {
  auto communicators = make_thread_communicators(coordinates, watchdog_seconds);
  const auto size = static_cast<int>(coordinates.size());
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

template <typename Body>
std::vector<std::string> in_ranks(int size, double watchdog_seconds, Body body) {
  std::vector<Coordinates> ranks(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    ranks[static_cast<size_t>(rank)].dp = rank;
    ranks[static_cast<size_t>(rank)].dp_size = size;
  }
  return in_ranks(ranks, watchdog_seconds, body);
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

// Ranks of tp 2, dp 2, pp 3 in the order of programs: tp fastest, then dp, then pp.
std::vector<Coordinates> some_ranks() {
  std::vector<Coordinates> ranks;
  for (int pp = 0; pp < 3; ++pp) {
    for (int dp = 0; dp < 2; ++dp) {
      for (int tp = 0; tp < 2; ++tp) {
        ranks.push_back({.dp = dp, .tp = tp, .pp = pp, .dp_size = 2, .tp_size = 2, .pp_size = 3});
      }
    }
  }
  return ranks;
}

TEST(Communicator, GroupsAreThoseOfTheCoordinates) {
  const std::vector<Coordinates> ranks = some_ranks();
  const auto sum = [](Communicator& c, const char* group, int copies = 1) {
    int32_t value = 1 << c.rank();
    c.all_reduce(c.find_group(group, copies), &value, 1, DType::kI32, Reduction::kSum);
    return value;
  };
  const auto errors = in_ranks(ranks, 20, [&](int rank, Communicator& c) {
    const Coordinates& at = ranks[static_cast<size_t>(rank)];
    const auto bits = [&](const auto& belongs) {
      int32_t value = 0;
      for (size_t other = 0; other < ranks.size(); ++other) {
        if (belongs(ranks[other])) value |= 1 << other;
      }
      return value;
    };
    const auto require = [](bool holds, const char* what) {
      if (!holds) throw std::runtime_error(what);
    };
    require(sum(c, "tp") == bits([&](const auto& o) { return o.dp == at.dp && o.pp == at.pp; }),
            "tp");
    require(sum(c, "dp") == bits([&](const auto& o) { return o.tp == at.tp && o.pp == at.pp; }),
            "dp");
    require(sum(c, "pp") == bits([&](const auto& o) { return o.tp == at.tp && o.dp == at.dp; }),
            "pp");
    require(sum(c, "tp", 2) == sum(c, "tp"), "tp in pairs");
    require(sum(c, "world") == (1 << 12) - 1, "world");
    if (at.pp != 1) {
      require(sum(c, "embedding") ==
                  bits([&](const auto& o) { return o.tp == at.tp && o.dp == at.dp && o.pp != 1; }),
              "embedding");
    } else {
      try {
        (void)c.find_group("embedding");
        require(false, "the middle has no embedding");
      } catch (const Error& error) {
        require(error.code() == ExitCode::kBadInput, "exit code");
      }
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Communicator, TheLargestIsTakenAndNotANumberStays) {
  const auto errors = in_ranks(3, 20, [](int rank, Communicator& c) {
    std::vector<float> values = {static_cast<float>(rank), static_cast<float>(-rank),
                                 rank == 1 ? std::nanf("") : 9.0F};
    c.all_reduce(c.find_group("dp"), values.data(), 3, DType::kF32, Reduction::kMax);
    if (values[0] != 2 || values[1] != 0 || !std::isnan(values[2])) {
      throw std::runtime_error("wrong maximum");
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

// Uneven parts, empty ones, rows, in place and not: gather undoes scatter, and both agree with an
// all-reduce.
TEST(Communicator, ScatteredSumsGatheredAreAnAllReduce) {
  for (const int size : {1, 2, 3, 5}) {
    for (const auto& [outer, whole] : {std::pair{1, 7}, {1, 1}, {1, 5}, {4, 5 * size}, {3, 4}}) {
      const int64_t part = ceil_div(whole, size);
      const Parts parts{outer, part, whole};
      const auto count = static_cast<size_t>(outer * whole);
      const auto errors = in_ranks(size, 20, [&](int rank, Communicator& c) {
        const int group = c.find_group("dp");
        const std::vector<float> own = values_of(rank, count);
        std::vector<float> expected = own;
        c.all_reduce(group, expected.data(), static_cast<int64_t>(count), DType::kF32,
                     Reduction::kSum);
        std::vector<float> shard(static_cast<size_t>(outer * part), -1.0F);
        c.reduce_scatter(group, own.data(), shard.data(), parts, DType::kF32);
        for (int64_t o = 0; o < outer; ++o) {
          for (int64_t i = parts.length(rank); i < part; ++i) {
            if (shard[static_cast<size_t>(o * part + i)] != 0) throw std::runtime_error("padding");
          }
        }
        std::vector<float> gathered(count, -1.0F);
        c.all_gather(group, shard.data(), gathered.data(), parts, DType::kF32);
        if (gathered != expected) throw std::runtime_error("not the sum");
        std::vector<float> in_place = own;
        c.reduce_scatter(group, in_place.data(), nullptr, parts, DType::kF32);
        c.all_gather(group, nullptr, in_place.data(), parts, DType::kF32);
        if (in_place != expected) throw std::runtime_error("not the sum in place");
      });
      EXPECT_THAT(errors, testing::Each("")) << size << " ranks, " << outer << " x " << whole;
    }
  }
}

// Sends are left under way while others are received; of one source and tag they keep their order.
TEST(Communicator, MessagesCrossAndKeepTheirOrder) {
  constexpr int kMessages = 200;
  const auto errors = in_ranks(2, 20, [](int rank, Communicator& c) {
    const int other = 1 - rank;
    std::vector<int32_t> out(2);
    std::vector<int32_t> in(2, -1);
    for (int i = 0; i < kMessages; ++i) {
      out = {2 * i, 2 * i + 1};
      Message first{.tag = 7, .data = reinterpret_cast<std::byte*>(out.data()), .bytes = 4};
      Message second{.tag = 8, .data = reinterpret_cast<std::byte*>(out.data() + 1), .bytes = 4};
      c.send(other, first);
      c.send(other, second);
      c.receive(other, 8, in.data() + 1, 4);
      c.receive(other, 7, in.data(), 4);
      if (in != out) throw std::runtime_error("wrong message");
      c.finish(first, other);
      c.finish(second, other);
    }
  });
  EXPECT_THAT(errors, testing::Each(""));
}

TEST(Communicator, MessagesThatNeverComeOrDoNotFitEndTheRun) {
  const auto never = in_ranks(2, 0.2, [](int rank, Communicator& c) {
    int32_t value = 0;
    if (rank == 0) c.receive(1, 0, &value, 4);
  });
  EXPECT_THAT(never[0], HasSubstr("waited 0.2 s for a message of rank 1"));
  const auto unread = in_ranks(2, 0.2, [](int rank, Communicator& c) {
    const int32_t value = 0;
    Message message{.data = reinterpret_cast<const std::byte*>(&value), .bytes = 4};
    if (rank == 1) return;
    c.send(1, message);
    c.finish(message, 1);
  });
  EXPECT_THAT(unread[0], HasSubstr("for rank 1 to take a message of 4 bytes"));
  const auto longer = in_ranks(2, 20, [](int rank, Communicator& c) {
    int64_t value = 0;
    Message message{.data = reinterpret_cast<const std::byte*>(&value), .bytes = 8};
    if (rank == 0) {
      c.send(1, message);
      c.finish(message, 1);
    } else {
      c.receive(0, 0, &value, 4);
    }
  });
  EXPECT_THAT(longer, testing::Each(HasSubstr("rank 0 sent 8 bytes where 4 were expected")));
}

}  // namespace
}  // namespace plimsoll
