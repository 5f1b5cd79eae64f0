#include "costmodel/rank_simulator.h"

#include "base/error.h"
#include "base/rng.h"
#include "costmodel/shared_rates.h"
#include "costmodel/stage_lanes.h"

#include <algorithm>
#include <cmath>
#include <queue>

namespace plimsoll {

namespace {

// What a lane's head is doing.
struct Lane {
  bool running = false;     // it has begun and has an end
  bool posted = false;      // it has begun and waits for another stage
  bool transit = false;     // counted: the message it waits for is on its way
  bool in_latency = false;  // its transfer has not begun to take a share
  bool sharing = false;     // its end depends on others
  double begin = 0;
  double shared_seconds = 0;  // at full rate
  int64_t message = -1;       // that it sends or has received
  uint32_t generation = 0;    // events of earlier generations are void
};

struct Event {
  double time;
  uint64_t order;  // ties go by the order of scheduling
  int slot;        // of the lane
  uint32_t generation;
  friend bool operator>(const Event& a, const Event& b) {
    return a.time != b.time ? a.time > b.time : a.order > b.order;
  }
};

struct ChannelState {
  int64_t first_message = 0;
  int64_t started = 0;
  int64_t arrived = 0;
  int64_t received = 0;
};

// How many things of each kind a stage does, and for how long it has done any.
struct Account {
  int computing = 0;
  int communicating = 0;
  double since = 0;
  double busy = 0;
  double exposed = 0;

  void advance(double now) {
    if (computing > 0) {
      busy += now - since;
    } else if (communicating > 0) {
      exposed += now - since;
    }
    since = now;
  }
};

struct Stage {
  StageLanes lanes;
  std::array<int64_t, 2> stage_collectives{};  // over "pp" and "embedding", so far
  Account account;
};

class RankSimulator {
 public:
  RankSimulator(std::span<const StepProgram> programs, const Cluster& cluster,
                const SimulateOptions& options, const RankScripts& scripts)
      : programs_(programs),
        options_(options),
        scripts_(scripts),
        shares_cores_(options.host_cores > 0 && cluster.device.shares_cores),
        lanes_(scripts.stages.size() * kNumLanes),
        channels_(scripts.channels.size()) {
    run_.stages.resize(scripts.stages.size());
    int64_t message = 0;
    for (size_t c = 0; c < channels_.size(); ++c) {
      channels_[c].first_message = message;
      message += scripts.channels[c].sends;
    }
    for (const StageScript& script : scripts.stages) {
      stages_.push_back({StageLanes(script, options), {}, {}});
      run_.num_instructions += script.num_instructions;
    }
    for (int p = 0; p < 4 * num_stages(); ++p) rates_.add_resource(1, 1);
    // Times are of devices that have num_devices-th parts of the cores each.
    const auto devices = static_cast<double>(cluster.devices_per_node);
    const double cores = static_cast<double>(std::max<int64_t>(options.host_cores, 1));
    cores_ = rates_.add_resource(std::max(1.0, devices / cores),
                                 std::max(1.0, static_cast<double>(num_stages()) * devices /
                                                   static_cast<double>(cluster.num_devices())));
  }

  SimulatedRun run() {
    for (int s = 0; s < num_stages(); ++s) start_ready(s);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      Lane& lane = lanes_[static_cast<size_t>(event.slot)];
      if (event.generation != lane.generation) continue;
      now_ = event.time;
      ++run_.num_events;
      if (lane.in_latency) {
        begin_sharing(event.slot);
      } else {
        finish(event.slot);
      }
    }
    check_finished();
    summarise();
    return std::move(run_);
  }

 private:
  // A slot is a lane of a stage.
  static int stage_of(int slot) { return slot / kNumLanes; }
  static int lane_of(int slot) { return slot % kNumLanes; }
  int num_stages() const { return static_cast<int>(scripts_.stages.size()); }
  Stage& stage_at(int s) { return stages_[static_cast<size_t>(s)]; }
  const StageLanes& lanes_of(int slot) const {
    return stages_[static_cast<size_t>(stage_of(slot))].lanes;
  }
  const Block& head(int slot) const { return lanes_of(slot).head(lane_of(slot)); }

  void start_ready(int s) {
    const StageLanes& lanes = stage_at(s).lanes;
    for (const int l : lanes.used()) {
      const Lane& lane = lanes_[static_cast<size_t>(s * kNumLanes + l)];
      if (!lane.running && !lane.posted && !lanes.ended(l) && lanes.ready(l)) {
        start(s * kNumLanes + l);
      }
    }
  }

  void start(int slot) {
    Lane& lane = lanes_[static_cast<size_t>(slot)];
    const Block& block = head(slot);
    lane.begin = now_;
    switch (block.kind) {
      case BlockKind::kFixed:
      case BlockKind::kCompute:
      case BlockKind::kCollective:
        count_work(slot, 1);
        begin_work(slot, noise(slot));
        return;
      case BlockKind::kSend: {
        ChannelState& channel = channels_[static_cast<size_t>(block.channel)];
        lane.message = channel.first_message + channel.started++;
        begin_work(slot, noise(slot));
        count_transit(waiting_receiver(block.channel));
        return;
      }
      case BlockKind::kReceive:
        lane.posted = true;
        if (!take_message(slot)) count_transit(slot);
        return;
      case BlockKind::kStages:
        lane.posted = true;
        meet(slot);
        return;
    }
  }

  // Time passes for the head from now on: `factor` times its own.
  void begin_work(int slot, double factor) {
    Lane& lane = lanes_[static_cast<size_t>(slot)];
    const Block& block = head(slot);
    lane.running = true;
    const bool transfer = block.kind == BlockKind::kSend || block.kind == BlockKind::kCollective;
    lane.sharing = (transfer && options_.contention && block.seconds > 0) ||
                   (block.kind == BlockKind::kCompute && shares_cores_);
    if (!lane.sharing) {
      schedule(slot, now_ + factor * block.seconds);
      return;
    }
    lane.in_latency = true;
    lane.shared_seconds = factor * (block.seconds - block.latency_seconds);
    schedule(slot, now_ + factor * block.latency_seconds);
  }

  // From here on the head's end depends on who else uses its ports, or the cores.
  void begin_sharing(int slot) {
    Lane& lane = lanes_[static_cast<size_t>(slot)];
    const Block& block = head(slot);
    lane.in_latency = false;
    int out = cores_;
    int in = cores_;
    if (block.kind != BlockKind::kCompute) {
      const int from = stage_of(slot);
      const int to = block.kind == BlockKind::kSend
                         ? scripts_.channels[static_cast<size_t>(block.channel)].destination
                         : from;
      out = port(from, block.network, false);
      in = port(to, block.network, true);
    }
    rates_.begin(slot, lane.shared_seconds, out, in, now_,
                 [this](int changed, double end) { schedule(changed, end); });
  }

  static int port(int stage, bool network, bool in) {
    return 4 * stage + (network ? 2 : 0) + (in ? 1 : 0);
  }

  void schedule(int slot, double time) {
    const uint32_t generation = ++lanes_[static_cast<size_t>(slot)].generation;
    events_.push({time, next_order_++, slot, generation});
  }

  double noise(int slot) const {
    if (options_.jitter <= 0) return 1;
    const StageLanes& lanes = lanes_of(slot);
    const uint64_t purpose =
        rng_bits(rng_purpose("simulated jitter"), static_cast<uint64_t>(stage_of(slot)),
                 static_cast<uint64_t>(lanes.global_iteration(lane_of(slot))));
    const double draw =
        rng_normal(options_.seed, purpose, static_cast<uint64_t>(lanes.block(lane_of(slot))));
    return std::exp(options_.jitter * draw - options_.jitter * options_.jitter / 2);
  }

  // The head is done: books it, moves on and starts what waited for it.
  void finish(int slot) {
    Lane& lane = lanes_[static_cast<size_t>(slot)];
    const Block& block = head(slot);
    const int s = stage_of(slot);
    if (lane.sharing) {
      lane.sharing = false;
      rates_.end(slot, now_, [this](int changed, double end) { schedule(changed, end); });
    }
    book(slot);
    lane.running = false;
    lane.message = -1;
    run_.stages[static_cast<size_t>(s)].finish_seconds = now_;
    stage_at(s).lanes.finish_head(lane_of(slot));
    if (block.kind == BlockKind::kSend) {
      ++channels_[static_cast<size_t>(block.channel)].arrived;
      const int receiver = waiting_receiver(block.channel);
      if (receiver >= 0) (void)take_message(receiver);
    }
    start_ready(s);
  }

  // The lane that has posted a receive of the channel; -1 when none has.
  int waiting_receiver(int channel) {
    const int to = scripts_.channels[static_cast<size_t>(channel)].destination;
    for (const int l : stage_at(to).lanes.used()) {
      const int slot = to * kNumLanes + l;
      if (lanes_[static_cast<size_t>(slot)].posted && head(slot).kind == BlockKind::kReceive &&
          head(slot).channel == channel) {
        return slot;
      }
    }
    return -1;
  }

  // Ends the receive at the lane's head when a message is there for it.
  bool take_message(int slot) {
    Lane& lane = lanes_[static_cast<size_t>(slot)];
    ChannelState& channel = channels_[static_cast<size_t>(head(slot).channel)];
    if (channel.arrived == channel.received) return false;
    lane.message = channel.first_message + channel.received++;
    lane.posted = false;
    lane.running = true;
    if (lane.transit) count_communicating(stage_of(slot), -1);
    lane.transit = false;
    schedule(slot, now_);
    return true;
  }

  // Counts the message of a posted receive as communication once it is on its way.
  void count_transit(int slot) {
    if (slot < 0 || lanes_[static_cast<size_t>(slot)].transit) return;
    const ChannelState& channel = channels_[static_cast<size_t>(head(slot).channel)];
    if (channel.started == channel.received) return;
    lanes_[static_cast<size_t>(slot)].transit = true;
    count_communicating(stage_of(slot), 1);
  }

  // A member of a collective over stages has come; the last one starts it.
  void meet(int slot) {
    const auto group = static_cast<size_t>(head(slot).channel);
    const auto number = static_cast<size_t>(stage_at(stage_of(slot)).stage_collectives[group]++);
    std::vector<std::vector<int>>& meetings = meetings_[group];
    if (meetings.size() <= number) meetings.resize(number + 1);
    meetings[number].push_back(slot);
    const int members = group == 0 ? num_stages() : 2;
    if (static_cast<int>(meetings[number].size()) < members) return;
    const double factor =
        noise(*std::min_element(meetings[number].begin(), meetings[number].end()));
    for (const int member : meetings[number]) {
      Lane& lane = lanes_[static_cast<size_t>(member)];
      lane.posted = false;
      lane.begin = now_;
      count_communicating(stage_of(member), 1);
      begin_work(member, factor);
    }
    meetings[number] = {};
  }

  void count_communicating(int s, int change) {
    Account& account = stage_at(s).account;
    account.advance(now_);
    account.communicating += change;
  }

  // A block that both computes and communicates (a run on one lane) counts as computing; book()
  // moves its communication over.
  void count_work(int slot, int change) {
    const Block& block = head(slot);
    if (block.communication_seconds >= block.seconds && block.seconds > 0) {
      count_communicating(stage_of(slot), change);
      return;
    }
    Account& account = stage_at(stage_of(slot)).account;
    account.advance(now_);
    account.computing += change;
  }

  void book(int slot) {
    const Lane& lane = lanes_[static_cast<size_t>(slot)];
    const Block& block = head(slot);
    SimulatedStage& stage = run_.stages[static_cast<size_t>(stage_of(slot))];
    const double seconds = block.kind == BlockKind::kReceive ? 0 : now_ - lane.begin;
    switch (block.kind) {
      case BlockKind::kFixed: {  // its sums are known
        count_work(slot, -1);
        if (block.communication_seconds < block.seconds) {
          Account& account = stage_at(stage_of(slot)).account;
          account.busy -= block.communication_seconds;
          account.exposed += block.communication_seconds;
        }
        break;
      }
      case BlockKind::kCompute:
      case BlockKind::kCollective:
        count_work(slot, -1);
        (block.communication_seconds > 0 ? stage.communication_seconds : stage.compute_seconds) +=
            seconds;
        break;
      case BlockKind::kStages:
        count_communicating(stage_of(slot), -1);
        stage.communication_seconds += seconds;
        break;
      case BlockKind::kSend:
        stage.communication_seconds += seconds;
        break;
      case BlockKind::kReceive:
        break;
    }
    if (block.kind != BlockKind::kFixed) {
      stage.pass_seconds[static_cast<size_t>(block.pass)] += seconds;
    }
    if (options_.record_events) {
      run_.events.push_back({stage_of(slot), lanes_of(slot).segment(lane_of(slot)),
                             lanes_of(slot).iteration(lane_of(slot)), block.instruction, lane.begin,
                             now_, lane.message});
    }
  }

  void summarise() {
    for (const SimulatedStage& stage : run_.stages) {
      run_.step_seconds = std::max(run_.step_seconds, stage.finish_seconds);
    }
    for (int s = 0; s < num_stages(); ++s) {
      SimulatedStage& stage = run_.stages[static_cast<size_t>(s)];
      const StageScript& script = scripts_.stages[static_cast<size_t>(s)];
      const Account& account = stage_at(s).account;
      stage.compute_seconds += script.fixed_compute_seconds;
      stage.communication_seconds += script.fixed_communication_seconds;
      for (size_t p = 0; p < kNumPasses; ++p) {
        stage.pass_seconds[p] += script.fixed_pass_seconds[p];
      }
      stage.busy_seconds = account.busy;
      stage.exposed_seconds = account.exposed;
      stage.bubble_seconds = std::max(run_.step_seconds - account.busy - account.exposed, 0.0);
    }
  }

  // Throws when a lane has not ended: the stages wait for one another.
  void check_finished() const {
    std::vector<std::string> stuck;
    for (int slot = 0; slot < static_cast<int>(lanes_.size()); ++slot) {
      if (!lanes_[static_cast<size_t>(slot)].posted) continue;
      const StageLanes& lanes = lanes_of(slot);
      const Block& block = head(slot);
      const Phase& phase =
          *programs_[static_cast<size_t>(stage_of(slot))].find_phase(options_.phase);
      const Segment& segment = phase.segments[static_cast<size_t>(lanes.segment(lane_of(slot)))];
      const std::string what =
          block.kind == BlockKind::kReceive
              ? fmt::format("a message '{}' from stage {}",
                            scripts_.channels[static_cast<size_t>(block.channel)].tag,
                            scripts_.channels[static_cast<size_t>(block.channel)].source)
              : std::string("the other stages");
      stuck.push_back(
          fmt::format("stage {} waits for {} (segment '{}', iteration {}, instruction {}, {})",
                      stage_of(slot), what, segment.name, lanes.iteration(lane_of(slot)),
                      block.instruction, segment.body[static_cast<size_t>(block.instruction)].op));
    }
    if (stuck.empty()) return;
    throw bad_input(fmt::format("the stages wait for one another: {}", fmt::join(stuck, "; ")),
                    "order the messages of neighbouring stages alike");
  }

  std::span<const StepProgram> programs_;
  const SimulateOptions& options_;
  const RankScripts& scripts_;
  bool shares_cores_;
  SharedRates rates_;
  int cores_ = 0;  // their resource

  double now_ = 0;
  uint64_t next_order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Lane> lanes_;
  std::vector<Stage> stages_;
  std::vector<ChannelState> channels_;
  std::array<std::vector<std::vector<int>>, 2> meetings_;  // lanes that have come, by number
  SimulatedRun run_;
};

}  // namespace

double SimulatedRun::bubble_fraction() const {
  double bubble = 0;
  for (const SimulatedStage& stage : stages) bubble += stage.bubble_seconds;
  const double all = step_seconds * static_cast<double>(stages.size());
  return all > 0 ? bubble / all : 0;
}

SimulatedRun simulate_ranks(std::span<const StepProgram> stages, const Cluster& cluster,
                            const OpTimeModel& op_time, const CollectiveTimeModel& collective_time,
                            const SimulateOptions& options) {
  const RankScripts scripts = make_scripts(stages, cluster, op_time, collective_time, options);
  return RankSimulator(stages, cluster, options, scripts).run();
}

SimulatedRun simulate_ranks(std::span<const StepProgram> stages, const Cluster& cluster,
                            const SimulateOptions& options) {
  return simulate_ranks(stages, cluster, RooflineTime(), RingTime(), options);
}

}  // namespace plimsoll
