// Pipeline partition: equal layers with tight memory, and layers that all differ.
#include "planner/partition.h"

#include <benchmark/benchmark.h>

#include <random>

namespace {

using namespace plimsoll;

constexpr int64_t kMib = int64_t{1} << 20;

// Roughly a layer of 175 billion parameters over eight devices: no, selective and full recompute.
PartitionLayer transformer_layer() {
  return {
      .state_bytes = 1944 * kMib,
      .seconds = 0.061,
      .options = {{.saved_bytes = 342 * kMib, .working_bytes = 150 * kMib},
                  {.saved_bytes = 102 * kMib, .working_bytes = 390 * kMib, .extra_seconds = 0.0007},
                  {.saved_bytes = 6 * kMib, .working_bytes = 460 * kMib, .extra_seconds = 0.0197}},
      .boundary = {.receiver_bytes = 6 * kMib, .sender_bytes = 6 * kMib}};
}

void set_stages(PartitionProblem& problem, int num_stages, int64_t limit_bytes) {
  for (int r = 0; r < num_stages; ++r) {
    problem.stages.push_back({.limit_bytes = limit_bytes,
                              .in_flight = in_flight_1f1b(r, num_stages, problem.micro_batches)});
  }
  problem.stages.front().state_bytes = 1400 * kMib;
  problem.stages.front().seconds = 0.001;
  problem.stages.back().state_bytes = 1400 * kMib;
  problem.stages.back().working_bytes = 300 * kMib;
  problem.stages.back().seconds = 0.02;
}

void report(benchmark::State& state, const PartitionProblem& problem) {
  const auto solution = solve_partition(problem);
  state.counters["feasible"] = solution.has_value() ? 1 : 0;
  if (solution) state.counters["gap"] = solution->seconds / solution->lower_bound_seconds - 1;
}

// layers, stages, micro-batches, limit as a percentage of what keeping everything takes on stage 0
void equal_layers(benchmark::State& state) {
  const PartitionLayer layer = transformer_layer();
  PartitionProblem problem;
  problem.micro_batches = state.range(2);
  problem.layers.assign(static_cast<size_t>(state.range(0)), layer);
  const int64_t a_stage = state.range(0) / state.range(1);
  const int64_t all =
      1400 * kMib + a_stage * (layer.state_bytes + layer.options[0].saved_bytes *
                                                       std::min(state.range(1), state.range(2)));
  set_stages(problem, static_cast<int>(state.range(1)), all * state.range(3) / 100);
  for (auto _ : state) benchmark::DoNotOptimize(solve_partition(problem));
  report(state, problem);
}
BENCHMARK(equal_layers)
    ->Unit(benchmark::kMillisecond)
    ->Args({128, 64, 256, 200})
    ->Args({128, 64, 256, 80})
    ->Args({128, 64, 256, 50})
    ->Args({128, 64, 256, 35})
    ->Args({128, 64, 2, 95})
    ->Args({128, 16, 64, 60})
    ->Args({126, 8, 16, 60})
    ->Args({96, 8, 64, 55})
    ->Args({128, 1, 64, 55});

// layers, stages, options, percentage as above; options are random, so nothing is shared
void different_layers(benchmark::State& state) {
  std::mt19937_64 random(17);
  std::uniform_real_distribution<double> factor(0.5, 1.5);
  PartitionProblem problem;
  problem.micro_batches = 64;
  int64_t all_saved = 0;
  int64_t all_states = 0;
  for (int64_t i = 0; i < state.range(0); ++i) {
    PartitionLayer layer = transformer_layer();
    layer.seconds *= factor(random);
    layer.state_bytes =
        static_cast<int64_t>(static_cast<double>(layer.state_bytes) * factor(random));
    layer.options.resize(static_cast<size_t>(state.range(2)), layer.options.back());
    for (PartitionOption& option : layer.options) {
      option.saved_bytes =
          static_cast<int64_t>(static_cast<double>(option.saved_bytes) * factor(random));
      option.working_bytes =
          static_cast<int64_t>(static_cast<double>(option.working_bytes) * factor(random));
      option.extra_seconds *= factor(random);
    }
    all_saved += layer.options[0].saved_bytes;
    all_states += layer.state_bytes;
    problem.layers.push_back(layer);
  }
  const int64_t all =
      (all_states + all_saved * std::min<int64_t>(state.range(1), 64)) / state.range(1);
  set_stages(problem, static_cast<int>(state.range(1)), 1400 * kMib + all * state.range(3) / 100);
  for (auto _ : state) benchmark::DoNotOptimize(solve_partition(problem));
  report(state, problem);
}
BENCHMARK(different_layers)
    ->Unit(benchmark::kMillisecond)
    ->Args({64, 1, 3, 95})
    ->Args({64, 2, 3, 90})
    ->Args({64, 4, 3, 80})
    ->Args({64, 8, 3, 70})
    ->Args({64, 16, 3, 60})
    ->Args({64, 32, 3, 60})
    ->Args({128, 16, 3, 60});

}  // namespace

BENCHMARK_MAIN();
