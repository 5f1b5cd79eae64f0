#include "models/layout.h"

#include "base/error.h"
#include "models/ops/rooms.h"

namespace plimsoll {

Sharding ShardingContext::uniform(Layout activations, Layout parameters) const {
  Sharding way;
  way.inputs.assign(inputs.size(), std::move(parameters));
  way.inputs.front() = activations;
  way.outputs.assign(num_outputs, std::move(activations));
  return way;
}

ShardedRange divide(const ShardSegment& segment, int tp, bool padded, std::string_view op_name) {
  if (padded) return {segment.extent, ceil_div(segment.extent, tp), 1};
  if (segment.pieces % tp == 0) return {segment.extent, segment.extent / tp, 1};
  if (segment.repeats && tp % segment.pieces == 0) {
    return {segment.extent, segment.extent / segment.pieces, tp / static_cast<int>(segment.pieces)};
  }
  throw bad_input(fmt::format("{}: {} {} cannot be divided over {} tensor-parallel ranks", op_name,
                              segment.pieces, segment.of, tp),
                  fmt::format("choose a --tp that divides {}", segment.pieces));
}

std::vector<Sharding> elementwise_shardings(const ShardingContext& c) {
  std::vector<Sharding> ways;
  if (c.wanted && c.wanted->segments.empty()) ways.push_back(c.uniform(*c.wanted, *c.wanted));
  if (c.has_sequence()) {
    const Layout tokens = Layout::sharded(kSequenceDimension);
    ways.push_back(c.uniform(tokens, tokens));
  }
  ways.push_back(c.replicated());
  return ways;
}

std::vector<Sharding> row_shardings(const ShardingContext& c) {
  std::vector<Sharding> ways;
  if (c.has_sequence()) {
    ways.push_back(c.uniform(Layout::sharded(kSequenceDimension), Layout::copied()));
  }
  ways.push_back(c.replicated());
  return ways;
}

Sharding head_sharding(const ShardingContext& c) {
  const int64_t heads = c.attributes.get_int("heads");
  const int64_t kv_heads = c.attributes.get_int("kv_heads");
  const int64_t head_dim = c.attributes.get_int("head_dim");
  const ShardSegment q{.extent = heads * head_dim, .pieces = heads, .of = "heads"};
  const ShardSegment kv{
      .extent = kv_heads * head_dim, .pieces = kv_heads, .repeats = true, .of = "key/value heads"};
  Sharding way;
  way.inputs = {Layout::sharded(static_cast<int>(c.inputs[0].shape.size()) - 1)};
  way.inputs[0].segments = {q, kv, kv};
  way.outputs.assign(c.num_outputs, Layout::sharded(1));
  way.outputs[0] = *c.wanted;
  way.attributes.set("heads", divide(q, c.tp, false, c.op_name).local / head_dim);
  way.attributes.set("kv_heads", divide(kv, c.tp, false, c.op_name).local / head_dim);
  return way;
}

}  // namespace plimsoll
