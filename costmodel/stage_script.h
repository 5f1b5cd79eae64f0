// A stage's phase, prepared for the simulator of several ranks: lanes of blocks with their times.
//
// A lane is a queue that runs in order: a stream, or one direction of the pipeline stream. A block
// is one instruction, or a run of instructions of a lane that start as soon as the one before ends
// (nothing but the first waits, nothing waits for any but the last) and whose times are known
// beforehand.
#pragma once

#include "costmodel/rank_simulator.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plimsoll {

// One for each stream, and one more: sends stay in the pipeline stream's.
inline constexpr int kReceiveLane = kNumStreams;
inline constexpr int kNumLanes = kNumStreams + 1;
inline constexpr int kPipelineLane = static_cast<int>(Stream::kPipeline);

enum class BlockKind : uint8_t {
  kFixed,       // instructions whose times are known beforehand
  kCompute,     // one instruction, when times of computation change as it runs
  kCollective,  // one collective, likewise
  kSend,
  kReceive,
  kStages,  // a collective over stages
};

struct Block {
  BlockKind kind = BlockKind::kFixed;
  Pass pass = Pass::kForward;
  bool network = false;              // by the port to other nodes
  double seconds = 0;                // all of it, undisturbed
  double communication_seconds = 0;  // the collectives' part
  double latency_seconds = 0;        // of a transfer: the part that is not shared
  int first_wait = 0;                // into StageScript::waits
  int last_wait = 0;                 // one past the last
  int instruction = 0;               // the last one
  int channel = -1;                  // of messages; of kStages: 0 for "pp", 1 for "embedding"
};

struct LaneRange {
  int begin = 0;  // into StageScript::blocks
  int end = 0;
};

struct SegmentScript {
  int64_t repeat = 0;
  int64_t first_iteration = 0;  // over all segments
  bool meets_stages = false;    // has collectives over stages
  // Of the segments before: the last iteration, over all segments, with such a collective.
  int64_t met_before = -1;
  std::array<LaneRange, kNumLanes> lanes;
};

struct StageScript {
  std::vector<SegmentScript> segments;
  std::vector<Block> blocks;
  std::vector<int> waits;  // blocks of the same segment on other lanes
  double fixed_compute_seconds = 0;
  double fixed_communication_seconds = 0;
  std::array<double, kNumPasses> fixed_pass_seconds{};  // of kFixed blocks
  int64_t num_instructions = 0;                         // times iterations
};

// The messages of one (source, destination, tag).
struct Channel {
  int source = 0;
  int destination = 0;
  std::string tag;
  int64_t sends = 0;
  int64_t receives = 0;
};

struct RankScripts {
  std::vector<StageScript> stages;
  std::vector<Channel> channels;
};

// Throws what simulate_ranks says of programs that do not match.
[[nodiscard]] RankScripts make_scripts(std::span<const StepProgram> stages, const Cluster& cluster,
                                       const OpTimeModel& op_time,
                                       const CollectiveTimeModel& collective_time,
                                       const SimulateOptions& options);

}  // namespace plimsoll
