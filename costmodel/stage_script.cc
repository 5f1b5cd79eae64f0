#include "costmodel/stage_script.h"

#include "base/checked.h"
#include "base/error.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace plimsoll {

namespace {

// Of all stages, times iterations: hours of work. A file may claim anything.
constexpr int64_t kMaxInstructions = int64_t{1} << 36;

std::string tag_of(const Instruction& instruction) {
  for (const auto& [name, value] : instruction.attributes.entries()) {
    if (name != "tag") continue;
    if (const auto* word = std::get_if<std::string>(&value)) return *word;
    if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
    return fmt::format("{}", std::get<double>(value));
  }
  return "";
}

class ScriptMaker {
 public:
  ScriptMaker(std::span<const StepProgram> programs, const Cluster& cluster,
              const OpTimeModel& op_time, const CollectiveTimeModel& collective_time,
              const SimulateOptions& options)
      : programs_(programs),
        cluster_(cluster),
        op_time_(op_time),
        collective_time_(collective_time),
        options_(options),
        keep_apart_(options.record_events || options.jitter > 0),
        shares_cores_(options.host_cores > 0 && cluster.device.shares_cores) {}

  RankScripts make() {
    for (size_t s = 0; s < programs_.size(); ++s) {
      const Coordinates& at = programs_[s].header.coordinates;
      if (at.pp != static_cast<int>(s) || at.pp_size != static_cast<int>(programs_.size())) {
        throw bad_input(fmt::format("program {} of {} is of pipeline stage {} of {}", s,
                                    programs_.size(), at.pp, at.pp_size),
                        "give the programs of one rank of each stage, in order");
      }
      make_stage(static_cast<int>(s));
    }
    check_messages();
    check_stage_collectives();
    return std::move(scripts_);
  }

 private:
  int num_stages() const { return static_cast<int>(programs_.size()); }

  void make_stage(int stage) {
    stage_ = stage;
    program_ = &programs_[static_cast<size_t>(stage)];
    slow_ = options_.slow.empty() ? 1 : options_.slow.at(static_cast<size_t>(stage));
    script_ = &scripts_.stages.emplace_back();
    stage_collectives_.push_back({});
    const Phase* phase = program_->find_phase(options_.phase);
    if (phase == nullptr) {
      throw bad_input(
          fmt::format("the program of stage {} has no phase '{}'", stage, options_.phase));
    }
    int64_t first_iteration = 0;
    int64_t met_before = -1;
    for (const Segment& segment : phase->segments) {
      const int64_t repeat = segment.body.empty() ? 0 : std::max<int64_t>(segment.repeat, 0);
      script_->segments.push_back({repeat, first_iteration, false, met_before, {}});
      const auto size = static_cast<int64_t>(segment.body.size());
      num_instructions_ = checked_add(num_instructions_, checked_mul(repeat, size));
      if (num_instructions_ > kMaxInstructions) {
        throw bad_input(fmt::format("stage {}: segment '{}' repeats {} times: too much to simulate",
                                    stage, segment.name, repeat),
                        fmt::format("at most {} instructions in all", kMaxInstructions));
      }
      first_iteration += repeat;
      add_body(segment);
      if (script_->segments.back().meets_stages) met_before = first_iteration - 1;
    }
  }

  int lane_of(const Instruction& instruction) const {
    return options_.overlap_messages && instruction.op == "receive"
               ? kReceiveLane
               : static_cast<int>(instruction.stream);
  }

  void add_body(const Segment& segment) {
    const std::vector<Instruction>& body = segment.body;
    const size_t n = body.size();
    std::vector<int> lane(n);
    std::vector<bool> awaited(n, false);  // by another lane
    std::vector<bool> waits(n, false);    // for another lane
    for (size_t i = 0; i < n; ++i) {
      lane[i] = lane_of(body[i]);
      for (const int wait : body[i].waits) {
        PLIMSOLL_CHECK(wait >= 0 && static_cast<size_t>(wait) < i,
                       "instruction {} of segment {} waits for {}", i, segment.name, wait);
        if (lane[static_cast<size_t>(wait)] == lane[i]) continue;
        waits[i] = awaited[static_cast<size_t>(wait)] = true;
      }
    }
    SegmentScript& script = script_->segments.back();
    std::vector<int> block_of(n);
    std::vector<int> opener;  // first instruction of each block
    const int first_block = static_cast<int>(script_->blocks.size());
    for (int l = 0; l < kNumLanes; ++l) {
      LaneRange& range = script.lanes[static_cast<size_t>(l)];
      range.begin = static_cast<int>(script_->blocks.size());
      bool open = false;  // the newest block may take another instruction
      for (size_t i = 0; i < n; ++i) {
        if (lane[i] != l) continue;
        Block block = make_block(body[i], script.repeat);
        block.instruction = static_cast<int>(i);
        const bool fixed = block.kind == BlockKind::kFixed && !keep_apart_;
        if (open && fixed && !waits[i]) {
          Block& last = script_->blocks.back();
          last.seconds += block.seconds;
          last.communication_seconds += block.communication_seconds;
          last.instruction = block.instruction;
        } else {
          script_->blocks.push_back(block);
          opener.push_back(static_cast<int>(i));
        }
        block_of[i] = static_cast<int>(script_->blocks.size()) - 1;
        open = fixed && !awaited[i];
      }
      range.end = static_cast<int>(script_->blocks.size());
    }
    for (size_t k = 0; k < opener.size(); ++k) {
      set_waits(body[static_cast<size_t>(opener[k])], lane, block_of,
                script_->blocks[static_cast<size_t>(first_block) + k]);
    }
    script_->num_instructions += script.repeat * static_cast<int64_t>(n);
  }

  // Lanes run in order, so the last block of each lane stands for all that is waited for there.
  void set_waits(const Instruction& instruction, const std::vector<int>& lane,
                 const std::vector<int>& block_of, Block& block) {
    std::array<int, kNumLanes> latest;
    latest.fill(-1);
    for (const int wait : instruction.waits) {
      const auto w = static_cast<size_t>(wait);
      int& on_lane = latest[static_cast<size_t>(lane[w])];
      on_lane = std::max(on_lane, block_of[w]);
    }
    block.first_wait = static_cast<int>(script_->waits.size());
    for (int l = 0; l < kNumLanes; ++l) {
      if (l == lane_of(instruction) || latest[static_cast<size_t>(l)] < 0) continue;
      script_->waits.push_back(latest[static_cast<size_t>(l)]);
    }
    block.last_wait = static_cast<int>(script_->waits.size());
  }

  Block make_block(const Instruction& instruction, int64_t repeat) {
    Block block;
    block.pass = instruction.pass;
    if (instruction.op == "send" || instruction.op == "receive") {
      set_message(instruction, repeat, block);
    } else if (const std::optional<Collective> kind = find_collective(instruction.op)) {
      set_collective(instruction, *kind, repeat, block);
    } else {
      block.kind = shares_cores_ || keep_apart_ ? BlockKind::kCompute : BlockKind::kFixed;
      block.seconds = slow_ * op_time_.op_seconds(instruction, cluster_.device,
                                                  float_type_of(*program_, instruction));
      if (instruction.stream == Stream::kCopy) block.communication_seconds = block.seconds;
    }
    if (block.kind == BlockKind::kFixed) {
      const auto times = static_cast<double>(repeat);
      script_->fixed_pass_seconds[static_cast<size_t>(block.pass)] += times * block.seconds;
      script_->fixed_communication_seconds += times * block.communication_seconds;
      script_->fixed_compute_seconds += times * (block.seconds - block.communication_seconds);
    }
    return block;
  }

  void set_transfer(Collective kind, double bytes, const CollectiveGroup& group,
                    Block& block) const {
    block.network = (group.size - 1) * group.stride + 1 > cluster_.devices_per_node;
    block.seconds = collective_time_.collective_seconds(kind, bytes, group, cluster_);
    block.latency_seconds = collective_time_.collective_seconds(kind, 0, group, cluster_);
    block.communication_seconds = block.seconds;
  }

  void set_collective(const Instruction& instruction, Collective kind, int64_t repeat,
                      Block& block) {
    const CollectiveGroup group = group_of(instruction, program_->header.coordinates);
    set_transfer(kind, collective_bytes(*program_, instruction), group, block);
    const std::string name = instruction.attributes.get_string("group", "dp");
    if ((name == "pp" || name == "embedding") && num_stages() > 1) {
      block.kind = BlockKind::kStages;
      script_->segments.back().meets_stages = repeat > 0;
      block.channel = name == "pp" ? 0 : 1;
      stage_collectives_.back()[static_cast<size_t>(block.channel)] += repeat;
      return;
    }
    const bool alone = group.size == 1;
    block.kind =
        (options_.contention && !alone) || keep_apart_ ? BlockKind::kCollective : BlockKind::kFixed;
  }

  void set_message(const Instruction& instruction, int64_t repeat, Block& block) {
    const bool send = instruction.op == "send";
    const std::string peer = instruction.attributes.get_string("peer", "");
    if (peer != "next" && peer != "previous") {
      throw bad_input(fmt::format("stage {}: {}: unknown peer '{}'", stage_, instruction.op, peer),
                      "peers are next and previous");
    }
    const int n = num_stages();
    const int other = (stage_ + (peer == "next" ? 1 : n - 1)) % n;
    const auto key = std::tuple(send ? stage_ : other, send ? other : stage_, tag_of(instruction));
    const auto [found, added] =
        channel_of_.try_emplace(key, static_cast<int>(scripts_.channels.size()));
    if (added) {
      scripts_.channels.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), 0, 0});
    }
    block.channel = found->second;
    Channel& channel = scripts_.channels[static_cast<size_t>(block.channel)];
    (send ? channel.sends : channel.receives) += repeat;
    block.kind = send ? BlockKind::kSend : BlockKind::kReceive;
    if (send) {
      set_transfer(Collective::kSendReceive, collective_bytes(*program_, instruction),
                   group_of(instruction, program_->header.coordinates), block);
    }
  }

  void check_messages() const {
    for (const Channel& channel : scripts_.channels) {
      if (channel.sends == channel.receives) continue;
      throw bad_input(
          fmt::format("stage {} sends {} messages '{}' to stage {}, which receives {}",
                      channel.source, channel.sends, channel.tag, channel.destination,
                      channel.receives),
          "every send needs a receive of the same tag at the neighbour, and the reverse");
    }
  }

  void check_stage_collectives() const {
    const auto check = [&](int a, int b, size_t group, const char* name) {
      const int64_t first = stage_collectives_[static_cast<size_t>(a)][group];
      const int64_t second = stage_collectives_[static_cast<size_t>(b)][group];
      if (first == second) return;
      throw bad_input(fmt::format("stage {} has {} collectives over group {}, stage {} has {}", a,
                                  first, name, b, second),
                      "all members of a group call the same collectives");
    };
    for (int s = 1; s < num_stages(); ++s) {
      check(0, s, 0, "pp");
      if (s == num_stages() - 1) {
        check(0, s, 1, "embedding");
      } else if (stage_collectives_[static_cast<size_t>(s)][1] > 0) {
        throw bad_input(
            fmt::format("stage {} of {} is no member of group embedding", s, num_stages()),
            "its members are the first and the last stage");
      }
    }
  }

  std::span<const StepProgram> programs_;
  const Cluster& cluster_;
  const OpTimeModel& op_time_;
  const CollectiveTimeModel& collective_time_;
  const SimulateOptions& options_;
  bool keep_apart_;    // a block for each instruction
  bool shares_cores_;  // times of computation depend on who else computes

  int64_t num_instructions_ = 0;  // so far, of all stages
  RankScripts scripts_;
  std::map<std::tuple<int, int, std::string>, int> channel_of_;
  std::vector<std::array<int64_t, 2>> stage_collectives_;  // of each stage: over "pp", "embedding"

  // Of the stage that is being made.
  int stage_ = 0;
  const StepProgram* program_ = nullptr;
  StageScript* script_ = nullptr;
  double slow_ = 1;
};

}  // namespace

RankScripts make_scripts(std::span<const StepProgram> stages, const Cluster& cluster,
                         const OpTimeModel& op_time, const CollectiveTimeModel& collective_time,
                         const SimulateOptions& options) {
  if (stages.empty()) throw bad_input("there is no program to simulate");
  if (!options.slow.empty() && options.slow.size() != stages.size()) {
    throw bad_input(
        fmt::format("{} factors of slowness for {} stages", options.slow.size(), stages.size()));
  }
  return ScriptMaker(stages, cluster, op_time, collective_time, options).make();
}

}  // namespace plimsoll
