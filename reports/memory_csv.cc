#include "reports/memory_csv.h"

#include "base/error.h"
#include "program/timeline.h"

#include <fmt/format.h>

#include <map>

namespace plimsoll {

namespace {

// A field as RFC 4180 has it: in quotes where it holds a comma, a quote or a line break.
std::string field(std::string_view value) {
  if (value.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

struct Row {
  std::string_view where = "device";
  Category category = Category::kFramework;
  int layer = -1;
  std::string_view op;
  std::string_view tensor;
  int64_t count = 1;
  int64_t bytes = 0;
  bool persistent = false;
  bool at_peak = true;
};

void append_row(const StepProgram& program, const Row& row, std::string& out) {
  out += fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", program.header.rank,
                     program.header.coordinates.pp, row.where, category_name(row.category),
                     row.layer, field(row.op), field(row.tensor), row.count, row.bytes,
                     row.persistent ? 1 : 0, row.at_peak ? 1 : 0);
}

// Where a program's memory peaks, and what is known of it.
struct Peak {
  MemoryTimeline timeline;
  std::vector<int64_t> live_copies;  // of each buffer, on the device

  [[nodiscard]] TimelinePoint point() const {
    if (timeline.peak_phase < 0) return {};
    return timeline.phases[static_cast<size_t>(timeline.peak_phase)].peak;
  }
};

Peak find_peak(const StepProgram& program) {
  const Liveness liveness = compute_liveness(program);
  Peak peak{compute_timeline(program, liveness), std::vector<int64_t>(program.buffers.size(), 0)};
  PLIMSOLL_CHECK(program.header.arena_bytes >= peak.timeline.live_peak_bytes(),
                 "rank {}: not placed, or placed wrongly: arena {}, live peak {}",
                 program.header.rank, program.header.arena_bytes, peak.timeline.live_peak_bytes());
  if (peak.timeline.peak_phase < 0) return peak;
  for (const LiveCopy& copy : live_at(program, liveness, peak.timeline.peak_phase,
                                      peak.point().position, Place::kDevice)) {
    ++peak.live_copies[static_cast<size_t>(copy.buffer)];
  }
  return peak;
}

void append_buffers(const StepProgram& program, const Peak& peak, std::string& out) {
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    const int64_t reserved = program.reserved_bytes(static_cast<int>(b));
    Row row;
    row.where = buffer.place == Place::kDevice ? "device" : "host";
    row.category = buffer.category;
    row.layer = buffer.layer;
    row.op = buffer.op;
    row.tensor = buffer.name;
    row.persistent = buffer.persistent;
    const int64_t live = peak.live_copies[b];
    for (const bool at_peak : {true, false}) {
      row.at_peak = at_peak;
      row.count = at_peak ? live : buffer.copies - live;
      row.bytes = row.count * reserved;
      if (row.count > 0) append_row(program, row, out);
    }
  }
}

void append_program(const StepProgram& program, std::string& out) {
  const Peak peak = find_peak(program);
  append_buffers(program, peak, out);
  Row packing;
  packing.op = "arena";
  packing.tensor = "packing";
  packing.bytes = program.header.arena_bytes - peak.timeline.live_peak_bytes();
  if (packing.bytes > 0) append_row(program, packing, out);
  Row outside;
  outside.op = "outside";
  outside.tensor = "outside";
  outside.persistent = true;
  outside.bytes = program.header.outside_bytes;
  if (outside.bytes > 0) append_row(program, outside, out);
}

}  // namespace

std::string memory_csv(std::span<const StepProgram> programs) {
  std::string out = "rank,stage,where,category,layer,op,tensor,count,bytes,persistent,at_peak\n";
  for (const StepProgram& program : programs) append_program(program, out);
  return out;
}

std::string memory_summary_csv(std::span<const StepProgram> programs, int64_t memory_limit_bytes) {
  std::map<int, const StepProgram*> fullest;  // by stage
  for (const StepProgram& program : programs) {
    const StepProgram*& first = fullest[program.header.coordinates.pp];
    if (first == nullptr || program.peak_bytes() > first->peak_bytes()) first = &program;
  }
  std::string out = "stage";
  for (int c = 0; c < kNumCategories; ++c) {
    out += fmt::format(",{}", category_name(static_cast<Category>(c)));
  }
  out += ",peak,limit,headroom,host\n";
  for (const auto& [stage, program] : fullest) {
    const Peak peak = find_peak(*program);
    CategoryBytes split = peak.point().by_category;
    split[static_cast<size_t>(Category::kFramework)] +=
        program->peak_bytes() - peak.timeline.live_peak_bytes();
    out += fmt::format("{},{},{},{},{},{}\n", stage, fmt::join(split, ","), program->peak_bytes(),
                       memory_limit_bytes, memory_limit_bytes - program->peak_bytes(),
                       peak.timeline.host_peak_bytes());
  }
  return out;
}

}  // namespace plimsoll
