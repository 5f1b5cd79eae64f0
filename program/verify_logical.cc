#include "program/verify_rules.h"

#include <cmath>

namespace plimsoll::rules {

namespace {

// Whether the part is a box inside its global tensor; says why not otherwise.
bool box_inside(const std::string& buffer, const LogicalPart& part, Report& report) {
  const size_t rank = part.global_shape.size();
  if (part.box_start.size() != rank || part.box_extent.size() != rank) {
    report.add("buffer '{}', tensor '{}': the global shape has {} dimensions, the box {} and {}",
               buffer, part.name, rank, part.box_start.size(), part.box_extent.size());
    return false;
  }
  for (size_t d = 0; d < rank; ++d) {
    const int64_t whole = part.global_shape[d];
    const int64_t start = part.box_start[d];
    const int64_t extent = part.box_extent[d];
    if (whole < 1 || start < 0 || extent < 1 || extent > whole || start > whole - extent) {
      report.add(
          "buffer '{}', tensor '{}': the box of {} at {} does not lie inside {} (dimension {})",
          buffer, part.name, extent, start, whole, d);
      return false;
    }
  }
  return true;
}

// Whether the parts, one after the other along dimension 0, and the padding are the buffer.
bool parts_fill(const Buffer& buffer, const LogicalTensor& logical) {
  const std::vector<LogicalPart>& parts = logical.parts;
  if (buffer.shape.empty()) return parts.size() == 1 && parts[0].box_extent.empty();
  const int64_t row = num_elements(buffer.shape) / buffer.shape[0];
  if (logical.padding % row != 0 || logical.padding / row > buffer.shape[0]) return false;
  int64_t rows = logical.padding / row;
  for (const LogicalPart& part : parts) {
    if (part.box_extent.size() != buffer.shape.size()) return false;
    for (size_t d = 1; d < buffer.shape.size(); ++d) {
      if (part.box_extent[d] != buffer.shape[d]) return false;
    }
    if (part.box_extent[0] > buffer.shape[0] - rows) return false;
    rows += part.box_extent[0];
  }
  return rows == buffer.shape[0];
}

// Elements of the parts' boxes, which lie inside their tensors; -1 when they overflow.
int64_t elements_of(const std::vector<LogicalPart>& parts) {
  int64_t total = 0;
  for (const LogicalPart& part : parts) {
    int64_t product = 1;
    for (const int64_t extent : part.box_extent) {
      if (__builtin_mul_overflow(product, extent, &product)) return -1;
    }
    if (__builtin_add_overflow(total, product, &total)) return -1;
  }
  return total;
}

// Whether the buffer is one of `shards` equal flat shards of the parts.
bool shard_of_parts(const Buffer& buffer, const LogicalTensor& logical) {
  int64_t elements = elements_of(logical.parts);
  if (elements < 0 || __builtin_add_overflow(elements, logical.padding, &elements)) return false;
  if (elements < 1) return false;
  const int64_t rest = elements % logical.shards == 0 ? 0 : 1;
  return num_elements(buffer.shape) == elements / logical.shards + rest;
}

}  // namespace

void logical_parts(const StepProgram& program, Violations& out) {
  Report report("logical-tensor", out);
  for (const Buffer& buffer : program.buffers) {
    if (!buffer.logical) continue;
    const LogicalTensor& logical = *buffer.logical;
    bool inside = true;
    for (const LogicalPart& part : logical.parts) {
      if (part.name.empty()) report.add("buffer '{}': a logical tensor has no name", buffer.name);
      inside = box_inside(buffer.name, part, report) && inside;
    }
    const Coordinates& at = program.header.coordinates;
    // Sizes from a file may be anything; their own rule reports them.
    int64_t ranks = 1;
    for (const int size : {at.dp_size, at.ep_size, at.cp_size}) {
      if (__builtin_mul_overflow(ranks, int64_t{size}, &ranks)) ranks = 0;
    }
    if (logical.padding < 0) {
      report.add("buffer '{}' has a padding of {} elements", buffer.name, logical.padding);
      continue;
    }
    if (logical.shards < 1 || ranks % logical.shards != 0) {
      report.add("buffer '{}' is one of {} shards, its data-parallel group has {} ranks",
                 buffer.name, logical.shards, ranks);
      continue;
    }
    if (inside && logical.shards > 1) {
      if (!shard_of_parts(buffer, logical)) {
        report.add("buffer '{}' of shape {} is no shard of {} of its {} logical parts", buffer.name,
                   shape_text(buffer.shape), logical.shards, logical.parts.size());
      }
    } else if (inside && !parts_fill(buffer, logical)) {
      report.add("buffer '{}' of shape {}: its {} logical parts do not add up to it", buffer.name,
                 shape_text(buffer.shape), logical.parts.size());
    }
    const bool is_pair = buffer.shape.size() == 2 && buffer.shape[0] == 2;
    if (logical.initialiser.kind == Initialiser::Kind::kRunning && !is_pair) {
      report.add("buffer '{}' of shape {} holds running statistics, which are [2, C]", buffer.name,
                 shape_text(buffer.shape));
    }
    if (!std::isfinite(logical.initialiser.scale) || logical.initialiser.scale < 0) {
      report.add("buffer '{}': initialiser scale {}", buffer.name, logical.initialiser.scale);
    }
  }
}

}  // namespace plimsoll::rules
