#include "planner/partition.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace plimsoll {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 50;

PartitionProblem uniform_problem(int num_layers, int num_stages, int64_t micro_batches,
                                 const PartitionLayer& layer, int64_t limit_bytes) {
  PartitionProblem problem;
  problem.micro_batches = micro_batches;
  problem.layers.assign(static_cast<size_t>(num_layers), layer);
  for (int r = 0; r < num_stages; ++r) {
    problem.stages.push_back(
        {.limit_bytes = limit_bytes, .in_flight = in_flight_1f1b(r, num_stages, micro_batches)});
  }
  return problem;
}

// Every partition with every choice of options, memory added up here a second time.
std::optional<double> brute_force(const PartitionProblem& problem) {
  const size_t num_layers = problem.layers.size();
  const size_t num_stages = problem.stages.size();
  if (num_layers < num_stages) return std::nullopt;
  double best = std::numeric_limits<double>::infinity();
  // The fastest options of a stage that fit, by trying all.
  const auto stage_seconds = [&](size_t stage, size_t first, size_t last) {
    const PartitionStage& own = problem.stages[stage];
    double fastest = std::numeric_limits<double>::infinity();
    std::vector<size_t> option(last - first, 0);
    for (;;) {
      int64_t fixed = own.state_bytes;
      int64_t in_flight = own.saved_bytes;
      int64_t working = own.working_bytes;
      double seconds = own.seconds;
      if (stage > 0) {
        fixed += problem.layers[first].boundary.receiver_bytes;
        in_flight += problem.layers[first].boundary.in_flight_bytes;
        seconds += problem.layers[first].boundary.receiver_seconds;
      }
      if (stage + 1 < num_stages) {
        fixed += problem.layers[last].boundary.sender_bytes;
        seconds += problem.layers[last].boundary.sender_seconds;
      }
      for (size_t i = first; i < last; ++i) {
        const PartitionOption& chosen = problem.layers[i].options[option[i - first]];
        fixed += problem.layers[i].state_bytes;
        in_flight += chosen.saved_bytes;
        working = std::max(working, chosen.working_bytes);
        seconds += problem.layers[i].seconds + chosen.extra_seconds;
      }
      if (fixed + own.in_flight * in_flight + working <= own.limit_bytes) {
        fastest = std::min(fastest, seconds);
      }
      size_t digit = 0;
      while (digit < option.size() &&
             ++option[digit] == problem.layers[first + digit].options.size()) {
        option[digit++] = 0;
      }
      if (digit == option.size()) return fastest;
    }
  };
  std::function<void(size_t, size_t, double, double)> cut = [&](size_t stage, size_t first,
                                                                double sum, double max) {
    for (size_t last = first + 1; last <= num_layers; ++last) {
      if (stage + 1 == num_stages && last != num_layers) continue;
      if (stage + 1 < num_stages && last == num_layers) continue;
      const double seconds = stage_seconds(stage, first, last);
      const double new_max = std::max(max, seconds);
      if (stage + 1 == num_stages) {
        best = std::min(best,
                        sum + seconds + static_cast<double>(problem.micro_batches - 1) * new_max);
      } else {
        cut(stage + 1, last, sum + seconds, new_max);
      }
    }
  };
  cut(0, 0, 0, 0);
  if (best == std::numeric_limits<double>::infinity()) return std::nullopt;
  return best;
}

// A solution is a partition, keeps to the limits, and is as fast as it says.
void expect_valid(const PartitionProblem& problem, const PartitionSolution& solution) {
  ASSERT_EQ(solution.first_layer_of_stage.size(), problem.stages.size());
  ASSERT_EQ(solution.option_of_layer.size(), problem.layers.size());
  EXPECT_EQ(solution.first_layer_of_stage[0], 0);
  for (size_t r = 1; r < problem.stages.size(); ++r) {
    EXPECT_LT(solution.first_layer_of_stage[r - 1], solution.first_layer_of_stage[r]);
  }
  const PartitionSolution again =
      evaluate_partition(problem, solution.first_layer_of_stage, solution.option_of_layer);
  EXPECT_EQ(again.seconds, solution.seconds);
  EXPECT_EQ(again.bytes_of_stage, solution.bytes_of_stage);
  for (size_t r = 0; r < problem.stages.size(); ++r) {
    EXPECT_LE(solution.bytes_of_stage[r], problem.stages[r].limit_bytes) << "stage " << r;
  }
  EXPECT_LE(solution.lower_bound_seconds, solution.seconds);
}

std::vector<int> layers_of_stage(const PartitionSolution& solution) {
  std::vector<int> counts;
  const auto& first = solution.first_layer_of_stage;
  for (size_t r = 0; r < first.size(); ++r) {
    const int end =
        r + 1 < first.size() ? first[r + 1] : static_cast<int>(solution.option_of_layer.size());
    counts.push_back(end - first[r]);
  }
  return counts;
}

// Whole numbers, so that sums are exact and equality can be asked for.
PartitionLayer random_layer(int most_options) {
  PartitionLayer layer;
  layer.state_bytes = *rc::gen::inRange(0, 12);
  layer.seconds = *rc::gen::inRange(0, 9);
  const int num_options = *rc::gen::inRange(1, most_options + 1);
  for (int i = 0; i < num_options; ++i) {
    layer.options.push_back({.saved_bytes = *rc::gen::inRange(0, 12),
                             .working_bytes = *rc::gen::inRange(0, 12),
                             .extra_seconds = static_cast<double>(*rc::gen::inRange(0, 6))});
  }
  layer.boundary = {.in_flight_bytes = *rc::gen::inRange(0, 3),
                    .receiver_bytes = *rc::gen::inRange(0, 3),
                    .sender_bytes = *rc::gen::inRange(0, 3),
                    .receiver_seconds = static_cast<double>(*rc::gen::inRange(0, 3)),
                    .sender_seconds = static_cast<double>(*rc::gen::inRange(0, 3))};
  return layer;
}

PartitionProblem random_problem(int most_layers, int most_stages, int most_options) {
  PartitionProblem problem;
  const int num_layers = *rc::gen::inRange(1, most_layers + 1);
  const int num_stages = *rc::gen::inRange(1, most_stages + 1);
  problem.micro_batches = *rc::gen::inRange(1, 10);
  // A few kinds of layer in runs, or all of one kind, or all different.
  std::vector<PartitionLayer> kinds;
  const int num_kinds = *rc::gen::element(1, 2, num_layers);
  for (int i = 0; i < num_kinds; ++i) kinds.push_back(random_layer(most_options));
  for (int i = 0; i < num_layers; ++i) {
    problem.layers.push_back(kinds[static_cast<size_t>(i * num_kinds / num_layers)]);
  }
  const bool gpipe = *rc::gen::arbitrary<bool>();
  const int limit = *rc::gen::inRange(5, 300);
  for (int r = 0; r < num_stages; ++r) {
    const int64_t in_flight = gpipe ? in_flight_gpipe(r, num_stages, problem.micro_batches)
                                    : in_flight_1f1b(r, num_stages, problem.micro_batches);
    problem.stages.push_back({.limit_bytes = limit + *rc::gen::inRange(0, 20),
                              .in_flight = in_flight,
                              .state_bytes = *rc::gen::inRange(0, 12),
                              .saved_bytes = *rc::gen::inRange(0, 3),
                              .working_bytes = *rc::gen::inRange(0, 12),
                              .seconds = static_cast<double>(*rc::gen::inRange(0, 9))});
  }
  return problem;
}

RC_GTEST_PROP(Partition, EqualsBruteForce, ()) {
  const PartitionProblem problem = random_problem(7, 4, 3);
  const auto expected = brute_force(problem);
  const auto found = solve_partition(problem);
  RC_CLASSIFY(!expected.has_value(), "infeasible");
  RC_ASSERT(found.has_value() == expected.has_value());
  if (!found) return;
  RC_ASSERT(found->seconds == *expected);
  RC_ASSERT(found->lower_bound_seconds == *expected);
  expect_valid(problem, *found);
}

// Limits at which some partition just fits: what is hardest to get right.
RC_GTEST_PROP(Partition, EqualsBruteForceAtTheEdgeOfMemory, ()) {
  PartitionProblem problem = random_problem(7, 4, 2);
  RC_PRE(problem.layers.size() >= problem.stages.size());
  std::vector<int> first(problem.stages.size());
  std::iota(first.begin(), first.end(), 0);
  std::vector<int> options;
  for (const PartitionLayer& layer : problem.layers) {
    options.push_back(*rc::gen::inRange(0, static_cast<int>(layer.options.size())));
  }
  const PartitionSolution some = evaluate_partition(problem, first, options);
  for (size_t r = 0; r < problem.stages.size(); ++r) {
    problem.stages[r].limit_bytes = some.bytes_of_stage[r];
  }
  const auto found = solve_partition(problem);
  RC_ASSERT(found.has_value());
  RC_ASSERT(found->seconds == brute_force(problem).value());
  RC_ASSERT(found->seconds <= some.seconds);
  expect_valid(problem, *found);
}

RC_GTEST_PROP(Partition, MoreMemoryIsNeverSlower, ()) {
  PartitionProblem problem = random_problem(24, 6, 3);
  const auto tight = solve_partition(problem);
  for (PartitionStage& stage : problem.stages) stage.limit_bytes += *rc::gen::inRange(0, 100);
  const auto wide = solve_partition(problem);
  RC_CLASSIFY(tight.has_value(), "feasible");
  if (!tight) return;
  expect_valid(problem, *tight);
  RC_ASSERT(wide.has_value());
  RC_ASSERT(wide->seconds <= tight->seconds);
}

// A stage's list of choices that is cut short leaves a valid partition and a true bound.
RC_GTEST_PROP(Partition, ALimitOnChoicesIsBounded, ()) {
  const PartitionProblem problem = random_problem(7, 3, 3);
  const auto expected = brute_force(problem);
  const auto found = solve_partition(problem, 1);
  RC_ASSERT(found.has_value() == expected.has_value());
  if (!found) return;
  expect_valid(problem, *found);
  RC_ASSERT(found->lower_bound_seconds <= *expected);
  RC_ASSERT(found->seconds >= *expected);
}

TEST(Partition, TimeInProportionToBytesIsCutShortAndSaysSo) {
  // Every subset of the layers is undominated, and the budget is no sum of them.
  std::mt19937_64 random(1);
  PartitionProblem problem;
  problem.micro_batches = 4;
  int64_t total = 0;
  for (int i = 0; i < 48; ++i) {
    const auto bytes = static_cast<int64_t>(random() >> 24);
    total += bytes;
    problem.layers.push_back(
        {.seconds = 1,
         .options = {{.saved_bytes = bytes},
                     {.extra_seconds = static_cast<double>(bytes) * 0x1p-40}}});
  }
  problem.stages.push_back({.limit_bytes = total / 2 | 1, .in_flight = 1});
  const auto found = solve_partition(problem, 1000);
  ASSERT_TRUE(found.has_value());
  expect_valid(problem, *found);
  EXPECT_LT(found->lower_bound_seconds, found->seconds);
  EXPECT_GT(found->lower_bound_seconds, 0.99 * found->seconds);
}

TEST(Partition, EqualLayersSplitEvenly) {
  const PartitionLayer layer{.state_bytes = 100, .seconds = 3, .options = {{.saved_bytes = 10}}};
  for (const int num_stages : {1, 2, 4, 8, 16}) {
    const auto found = solve_partition(uniform_problem(16, num_stages, 32, layer, kPlenty));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(layers_of_stage(*found),
              std::vector<int>(static_cast<size_t>(num_stages), 16 / num_stages));
    EXPECT_DOUBLE_EQ(found->seconds, 48 + 31.0 * 48 / num_stages);
    EXPECT_EQ(found->lower_bound_seconds, found->seconds);
  }
}

TEST(Partition, EmbeddingAndHeadTakeLayersFromTheirStages) {
  const PartitionLayer layer{.state_bytes = 100, .seconds = 3, .options = {{.saved_bytes = 10}}};
  PartitionProblem problem = uniform_problem(14, 4, 64, layer, kPlenty);
  problem.stages.front().seconds = 3;
  problem.stages.back().seconds = 3;
  EXPECT_EQ(layers_of_stage(solve_partition(problem).value()), (std::vector<int>{3, 4, 4, 3}));
  problem.stages.front().seconds = 0;
  problem.stages.back().seconds = 6;
  EXPECT_EQ(layers_of_stage(solve_partition(problem).value()), (std::vector<int>{4, 4, 4, 2}));
  // By memory alone: stage 0 has room for two layers beside its embedding.
  problem.stages.back().seconds = 0;
  problem.stages.front().state_bytes = 1000;
  problem.stages.front().limit_bytes = 1000 + 2 * (100 + 4 * 10);
  EXPECT_EQ(layers_of_stage(solve_partition(problem).value()), (std::vector<int>{2, 4, 4, 4}));
}

// 1F1B holds p - r micro-batches at stage r: early stages recompute, the last does not.
TEST(Partition, EarlyStagesRecompute) {
  const PartitionLayer layer{
      .state_bytes = 0,
      .seconds = 3,
      .options = {{.saved_bytes = 10},
                  {.saved_bytes = 1, .working_bytes = 10, .extra_seconds = 1}}};
  const PartitionProblem problem = uniform_problem(8, 4, 1000, layer, 45);
  const PartitionSolution found = solve_partition(problem).value();
  expect_valid(problem, found);
  // By hand, two layers a stage: 4 * 20 and 4 * 11 + 10 are too much on stage 0; 3 * 11 + 10 fits
  // on stage 1 and 2 * 20 on stage 2. So the slowest stage has two layers, both or one recomputed.
  EXPECT_EQ(found.option_of_layer.front(), 1);
  EXPECT_EQ(found.option_of_layer.back(), 0);
  EXPECT_EQ(found.seconds, brute_force(problem).value());
}

TEST(Partition, WhatDoesNotFitIsNothing) {
  const PartitionLayer layer{.state_bytes = 100, .seconds = 3, .options = {{.saved_bytes = 10}}};
  EXPECT_FALSE(solve_partition(uniform_problem(8, 4, 8, layer, 200 + 20 * 4 - 1)).has_value());
  EXPECT_TRUE(solve_partition(uniform_problem(8, 4, 8, layer, 200 + 20 * 4)).has_value());
  EXPECT_FALSE(solve_partition(uniform_problem(3, 4, 8, layer, kPlenty)).has_value());
}

TEST(Partition, SumsBeyond63BitsAreAnError) {
  PartitionLayer layer{.state_bytes = std::numeric_limits<int64_t>::max() / 4,
                       .seconds = 1,
                       .options = {{.saved_bytes = 1}}};
  EXPECT_THROW((void)solve_partition(uniform_problem(8, 2, 8, layer, kPlenty)), Error);
  layer.state_bytes = 0;
  layer.options[0].saved_bytes = std::numeric_limits<int64_t>::max() / 12;
  EXPECT_THROW((void)solve_partition(uniform_problem(8, 2, 8, layer, kPlenty)), Error);
}

TEST(Partition, InFlight) {
  EXPECT_EQ(in_flight_1f1b(0, 4, 8), 4);
  EXPECT_EQ(in_flight_1f1b(3, 4, 8), 1);
  EXPECT_EQ(in_flight_1f1b(0, 4, 2), 2);
  EXPECT_EQ(in_flight_gpipe(3, 4, 8), 8);
}

// Values of a partition by bisection and greedy filling, a different algorithm.
double greedy_minmax(const std::vector<double>& weights, int num_parts) {
  double low = 0;
  double high = std::accumulate(weights.begin(), weights.end(), 0.0);
  while (low < high) {
    const double middle = std::floor((low + high) / 2);
    int parts = 1;
    double sum = 0;
    bool fits = true;
    for (const double weight : weights) {
      fits = fits && weight <= middle;
      if (sum + weight > middle) {
        ++parts;
        sum = 0;
      }
      sum += weight;
    }
    if (fits && parts <= num_parts) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

TEST(MinMaxPartition, KnownValues) {
  std::vector<double> ten(10);
  std::iota(ten.begin(), ten.end(), 1);
  EXPECT_EQ(minmax_partition(ten, 3).value, 21);
  const auto with_ends = [](double front, int middle, double each, double back) {
    std::vector<double> weights(static_cast<size_t>(middle), each);
    weights.insert(weights.begin(), front);
    weights.push_back(back);
    return weights;
  };
  EXPECT_EQ(minmax_partition(with_ends(5, 12, 2, 7), 4).value, 10);
  EXPECT_EQ(minmax_partition(with_ends(4, 8, 1, 9), 4).value, 9);
  EXPECT_EQ(minmax_partition({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}, 4).value, 14);
  EXPECT_EQ(minmax_partition(with_ends(10, 31, 1, 12), 8).value, 12);
}

RC_GTEST_PROP(MinMaxPartition, EqualsBisection, ()) {
  const int num_parts = *rc::gen::inRange(1, 9);
  std::vector<double> weights;
  const int count = *rc::gen::inRange(num_parts, 40);
  for (int i = 0; i < count; ++i) weights.push_back(*rc::gen::inRange(0, 50));
  const MinMaxPartition found = minmax_partition(weights, num_parts);
  RC_ASSERT(found.value == greedy_minmax(weights, num_parts));
  double largest = 0;
  for (size_t part = 0; part < found.first_of_part.size(); ++part) {
    const int first = found.first_of_part[part];
    const int last = part + 1 < found.first_of_part.size() ? found.first_of_part[part + 1] : count;
    RC_ASSERT(first < last);
    largest =
        std::max(largest, std::accumulate(weights.begin() + first, weights.begin() + last, 0.0));
  }
  RC_ASSERT(found.first_of_part[0] == 0);
  RC_ASSERT(largest == found.value);
}

// With very many micro-batches and no limits, the largest stage is what counts.
RC_GTEST_PROP(MinMaxPartition, IsThePipelineOfManyMicroBatches, ()) {
  PartitionProblem problem = random_problem(30, 6, 1);
  RC_PRE(problem.layers.size() >= problem.stages.size());
  problem.micro_batches = 1'000'000;
  std::vector<double> weights;
  for (PartitionLayer& layer : problem.layers) {
    layer.boundary = {};
    layer.options[0].extra_seconds = 0;
    weights.push_back(layer.seconds);
  }
  for (PartitionStage& stage : problem.stages) {
    stage.seconds = 0;
    stage.limit_bytes = kPlenty;
  }
  const PartitionSolution found = solve_partition(problem).value();
  RC_ASSERT(*std::max_element(found.seconds_of_stage.begin(), found.seconds_of_stage.end()) ==
            minmax_partition(weights, static_cast<int>(problem.stages.size())).value);
}

}  // namespace
}  // namespace plimsoll
