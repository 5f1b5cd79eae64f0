// The simulator of several ranks: one StepProgram a pipeline stage, run against one another.
//
// Discrete events on the folded programs. Ranks that differ only in their data- or tensor-parallel
// place do the same at the same time, so a stage stands for all of its ranks and their collectives
// ("tp", "dp", "cp", "ep") take their time on their stream. What couples stages are messages and
// collectives over stages.
//
// When an instruction starts. Each stream runs its instructions in the order of the list; one
// starts when its stream is free, everything in its `waits` is done, and the iteration before is
// done as far as streams join (program/program.h). Of the pipeline stream, two rules keep messages
// off the path of the computation:
//   1. No stream waits at a join for the pipeline stream's messages (it waits for the others). A
//      receive holds up what names it in `waits`, and nothing else. Its collectives over stages are
//      waited for as those of any stream are.
//   2. Its sends are in order among themselves and so are its receives, but not one to the other: a
//      link works both ways.
// So a send may be under way while later iterations compute: who lowers or runs a program must keep
// the bytes of a message until it is sent, and has only so many copies of them; `send_lag` says for
// how many iterations they last. With `overlap_messages` off both rules are off, and the order is
// the letter of program.h.
//
// Messages are matched first in, first out, for each (source, destination, tag). A send takes the
// time of the transfer from its start, whether or not it is awaited; a receive ends when its
// message has arrived. "next" of the last stage is stage 0 and the reverse; the tag tells chunks
// apart. Collectives over stages ("pp": all of them; "embedding": the first and the last) are
// matched in the order in which each stage comes to them, and start when the last has come.
#pragma once

#include "costmodel/cluster.h"
#include "costmodel/collective_time.h"
#include "costmodel/op_time.h"
#include "costmodel/simulator.h"
#include "program/program.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll {

struct SimulateOptions {
  std::string phase = "step";
  // Computation of stage s takes slow[s] times as long; empty for 1 everywhere.
  std::vector<double> slow;
  // Each instruction's time is multiplied by a log-normal draw of mean 1 whose logarithm has this
  // standard deviation: a function of (seed, stage, segment, iteration, instruction) alone.
  double jitter = 0;
  uint64_t seed = 0;
  // Transfers and collectives that leave or enter a device by the same port (its link inside the
  // node, its network port outside; each way) at once share it evenly. Latencies are not shared,
  // nor collectives over stages.
  bool contention = false;
  // Cores that CPU devices share: when there are more devices than cores, those that compute while
  // others wait have up to a whole core each. 0: each keeps its share. Other devices ignore it.
  int64_t host_cores = 0;
  bool overlap_messages = true;
  // An iteration starts only when the sends of all but this many iterations before it are done; 1:
  // a send has until the end of the next iteration. Negative: nothing ever waits for a send.
  int64_t send_lag = -1;
  bool record_events = false;  // fills SimulatedRun::events
};

struct SimulatedStage {
  double finish_seconds = 0;         // when its last instruction ends
  double compute_seconds = 0;        // sum over instructions that compute
  double communication_seconds = 0;  // sum over collectives and sends, hidden or not
  double busy_seconds = 0;           // of the step: it computes
  // Of the step: it does not compute, while a collective runs or a message that it has asked for is
  // on its way.
  double exposed_seconds = 0;
  double bubble_seconds = 0;                      // the rest of the step
  std::array<double, kNumPasses> pass_seconds{};  // sum over instructions, by Pass; receives are 0
};

// One instruction of one iteration.
struct SimulatedEvent {
  int stage = 0;
  int segment = 0;
  int64_t iteration = 0;
  int instruction = 0;  // in the body
  double begin = 0;     // of a receive: when it is posted
  double end = 0;
  int64_t message = -1;  // the same number at the send and at its receive
  friend bool operator==(const SimulatedEvent&, const SimulatedEvent&) = default;
};

struct SimulatedRun {
  double step_seconds = 0;
  std::vector<SimulatedStage> stages;
  int64_t num_instructions = 0;  // instructions times iterations, of all stages
  int64_t num_events = 0;        // what the simulator worked through; fewer, since it joins runs
  std::vector<SimulatedEvent> events;  // by end, then in the order of simulation

  // Part of all stages' time that is bubble, in [0, 1].
  [[nodiscard]] double bubble_fraction() const;
};

// Runs phase `options.phase` of `stages`, the verified programs of one rank of each pipeline stage,
// in the order of stages. Throws Error (exit 2) when a program lacks the phase or is not the one of
// its stage, when messages or collectives over stages do not match (naming who misses what), and
// when the stages wait for one another (naming each one's instruction).
[[nodiscard]] SimulatedRun simulate_ranks(std::span<const StepProgram> stages,
                                          const Cluster& cluster, const OpTimeModel& op_time,
                                          const CollectiveTimeModel& collective_time,
                                          const SimulateOptions& options = {});

// The same with the models that a plan's prediction is made with.
[[nodiscard]] SimulatedRun simulate_ranks(std::span<const StepProgram> stages,
                                          const Cluster& cluster,
                                          const SimulateOptions& options = {});

}  // namespace plimsoll
