// Events a second of the simulator of several ranks, and the time of the largest plans.
//
//     cmake --preset release -DPLIMSOLL_BENCH=ON && ninja -C build/release bench_simulator
//     build/release/bench/bench_simulator
#include "costmodel/rank_simulator.h"
#include "tests/costmodel/pipeline_programs.h"
#include "tests/costmodel/unit_time.h"

#include <benchmark/benchmark.h>

namespace plimsoll {
namespace {

Pipeline pipeline(int instructions) {
  return {ScheduleKind::k1F1B, 16, 512, 1, equal_stages(1, 2), 1, instructions};
}

void simulate(benchmark::State& state, const std::vector<StepProgram>& programs,
              const SimulateOptions& options) {
  int64_t events = 0;
  int64_t instructions = 0;
  for (auto _ : state) {
    const SimulatedRun run =
        simulate_ranks(programs, Cluster{}, FlopsAreSeconds(), BytesAreSeconds(), options);
    benchmark::DoNotOptimize(run.step_seconds);
    events += run.num_events;
    instructions += run.num_instructions;
  }
  state.counters["events"] =
      benchmark::Counter(static_cast<double>(events), benchmark::Counter::kIsRate);
  state.counters["instructions"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsRate);
}

// Messages between 16 stages and one instruction a slot: every instruction is an event.
void BM_Messages(benchmark::State& state) {
  simulate(state, folded_1f1b_programs(pipeline(1)), {});
}
BENCHMARK(BM_Messages)->Unit(benchmark::kMillisecond);

// 200 instructions a slot, as of eight layers: 16,384 GPUs as 16 stages of 1,024, 512
// micro-batches.
void BM_LargePlan(benchmark::State& state) {
  simulate(state, folded_1f1b_programs(pipeline(200)), {});
}
BENCHMARK(BM_LargePlan)->Unit(benchmark::kMillisecond);

// The same with nothing joined into runs, and a random draw an instruction.
void BM_LargePlanWithJitter(benchmark::State& state) {
  SimulateOptions options;
  options.jitter = 0.05;
  simulate(state, folded_1f1b_programs(pipeline(200)), options);
}
BENCHMARK(BM_LargePlanWithJitter)->Unit(benchmark::kMillisecond);

void BM_Contention(benchmark::State& state) {
  SimulateOptions options;
  options.contention = true;
  simulate(state, folded_1f1b_programs(pipeline(1)), options);
}
BENCHMARK(BM_Contention)->Unit(benchmark::kMillisecond);

// Written out: a zero-bubble order has no short body.
void BM_WrittenOut(benchmark::State& state) {
  Pipeline written = pipeline(10);
  written.schedule = ScheduleKind::kZeroBubbleH1;
  written.seconds = equal_stages(1, 1, 1);
  simulate(state, pipeline_programs(written), {});
}
BENCHMARK(BM_WrittenOut)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
