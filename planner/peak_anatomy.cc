#include "planner/peak_anatomy.h"

#include "base/error.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace plimsoll {

namespace {

// First touch of every live copy, from the peak on.
class NextUses {
 public:
  NextUses(const StepProgram& program, const Liveness& liveness, int phase,
           const std::vector<LiveCopy>& live)
      : program_(program),
        liveness_(liveness),
        phase_(program.phases[static_cast<size_t>(phase)]),
        expansion_(liveness.phases[static_cast<size_t>(phase)].expansion),
        wanted_(static_cast<size_t>(liveness.num_copies()), false),
        uses_(wanted_.size()),
        missing_(static_cast<int64_t>(live.size())) {
    for (const LiveCopy& copy : live) wanted_[id_of(copy.buffer, copy.copy)] = true;
  }

  void walk(int64_t from) {
    for (int64_t at = from; at < expansion_.num_positions() && missing_ > 0; ++at) {
      const FoldedPosition folded = expansion_.locate(at);
      const Segment& segment = phase_.segments[static_cast<size_t>(folded.segment)];
      const Instruction& instruction = segment.body[static_cast<size_t>(folded.index)];
      for (const auto* operands : {&instruction.inputs, &instruction.outputs}) {
        for (const int buffer : *operands) {
          if (buffer == kNoBuffer) continue;
          const int64_t copies = program_.buffers[static_cast<size_t>(buffer)].copies;
          touch(id_of(buffer, copy_touched(segment, instruction, folded.iteration, copies)),
                instruction, at - from);
        }
      }
    }
  }

  [[nodiscard]] const NextUse& of(const LiveCopy& copy) const {
    return uses_[id_of(copy.buffer, copy.copy)];
  }

 private:
  [[nodiscard]] size_t id_of(int buffer, int64_t copy) const {
    return static_cast<size_t>(liveness_.copy_id(buffer, copy));
  }

  void touch(size_t id, const Instruction& instruction, int64_t ahead) {
    if (!wanted_[id]) return;
    wanted_[id] = false;
    --missing_;
    uses_[id] = {.when = ahead == 0 ? NextUse::When::kNow : NextUse::When::kLater,
                 .pass = instruction.pass,
                 .op = instruction.op,
                 .layer = instruction.layer,
                 .instructions_ahead = ahead};
  }

  const StepProgram& program_;
  const Liveness& liveness_;
  const Phase& phase_;
  const PhaseExpansion& expansion_;
  std::vector<bool> wanted_;
  std::vector<NextUse> uses_;
  int64_t missing_;
};

// A buffer's name without its block: "h.5.attn.c_attn" of layer 5 is "attn.c_attn". Names that do
// not hold the layer's number (blocks counted within stages) are told by their op.
std::string label_of(const Buffer& buffer) {
  std::string name = buffer.name;
  std::string prefix;
  if (name.rfind("d.", 0) == 0) {
    prefix = "gradient of ";
    name.erase(0, 2);
  }
  if (buffer.layer < 0) return prefix + name;
  const std::string number = "." + std::to_string(buffer.layer) + ".";
  const size_t at = name.find(number);
  return prefix + (at == std::string::npos ? buffer.op : name.substr(at + number.size()));
}

using GroupKey = std::tuple<Category, std::string, DType, bool, int64_t, bool>;

GroupKey key_of(const Buffer& buffer, int64_t reserved) {
  if (buffer.persistent && buffer.logical) {
    return {buffer.category, buffer.logical->role, buffer.dtype, true, 0, false};
  }
  if (buffer.category == Category::kGradients) {
    return {buffer.category, "gradients", buffer.dtype, buffer.persistent, 0, false};
  }
  return {buffer.category,   label_of(buffer), buffer.dtype,
          buffer.persistent, reserved,         buffer.layer >= 0};
}

struct Gathered {
  BufferGroup group;
  std::map<std::tuple<NextUse::When, Pass, std::string>, std::pair<int64_t, NextUse>> uses;
};

void add(Gathered& gathered, const Buffer& buffer, const LiveCopy& copy, const NextUse& next) {
  BufferGroup& group = gathered.group;
  group.each_bytes =
      group.count == 0 || group.each_bytes == copy.reserved_bytes ? copy.reserved_bytes : 0;
  if (buffer.layer >= 0) group.layers.insert(buffer.layer);
  ++group.count;
  group.bytes += copy.reserved_bytes;
  auto& [count, use] = gathered.uses[{next.when, next.pass, next.op}];
  if (count == 0) use = next;
  ++count;
}

std::vector<BufferGroup> gather(const StepProgram& program, const std::vector<LiveCopy>& live,
                                const NextUses& uses) {
  std::map<GroupKey, Gathered> groups;
  for (const LiveCopy& copy : live) {
    const Buffer& buffer = program.buffers[static_cast<size_t>(copy.buffer)];
    const GroupKey key = key_of(buffer, copy.reserved_bytes);
    Gathered& gathered = groups[key];
    gathered.group.category = buffer.category;
    gathered.group.label = std::get<1>(key);
    gathered.group.dtype = buffer.dtype;
    gathered.group.persistent = buffer.persistent;
    add(gathered, buffer, copy, uses.of(copy));
  }
  std::vector<BufferGroup> out;
  for (auto& [key, gathered] : groups) {
    const auto most = std::max_element(
        gathered.uses.begin(), gathered.uses.end(),
        [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    gathered.group.next = most->second.second;
    out.push_back(std::move(gathered.group));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const BufferGroup& a, const BufferGroup& b) { return a.bytes > b.bytes; });
  return out;
}

PeakInstruction instruction_at(const StepProgram& program, int phase, const TimelinePoint& point) {
  PeakInstruction at;
  const Phase& of = program.phases[static_cast<size_t>(phase)];
  at.phase = of.name;
  at.num_micro_batches = program.header.samples.num_microbatches;
  if (point.position < 0) return at;
  const Segment& segment = of.segments[static_cast<size_t>(point.folded.segment)];
  const Instruction& instruction = segment.body[static_cast<size_t>(point.folded.index)];
  at.segment = segment.name;
  at.iteration = point.folded.iteration;
  at.repeat = segment.repeat;
  at.pass = instruction.pass;
  at.layer = instruction.layer;
  at.op = instruction.op;
  if (!instruction.outputs.empty() && instruction.outputs.front() != kNoBuffer) {
    at.writes = program.buffers[static_cast<size_t>(instruction.outputs.front())].name;
  }
  return at;
}

}  // namespace

PeakAnatomy peak_anatomy(const StepProgram& program) {
  const Liveness liveness = compute_liveness(program);
  const MemoryTimeline timeline = compute_timeline(program, liveness);
  const int phase = timeline.peak_phase;
  PLIMSOLL_CHECK(phase >= 0, "{} has no phases", program.header.model);
  const TimelinePoint& point = timeline.phases[static_cast<size_t>(phase)].peak;
  const std::vector<LiveCopy> live =
      live_at(program, liveness, phase, point.position, Place::kDevice);
  NextUses uses(program, liveness, phase, live);
  uses.walk(std::max<int64_t>(0, point.position));

  PeakAnatomy anatomy;
  anatomy.rank = program.header.rank;
  anatomy.at = instruction_at(program, phase, point);
  anatomy.groups = gather(program, live, uses);
  anatomy.packing_bytes = program.header.arena_bytes - timeline.live_peak_bytes();
  anatomy.outside_bytes = program.header.outside_bytes;
  anatomy.peak_bytes = program.peak_bytes();
  anatomy.floor_bytes = anatomy.outside_bytes;
  for (const BufferGroup& group : anatomy.groups) {
    if (group.persistent) anatomy.floor_bytes += group.bytes;
  }
  return anatomy;
}

}  // namespace plimsoll
