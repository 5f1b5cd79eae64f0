#include "models/ops/collective.h"

#include "base/error.h"

namespace plimsoll {

namespace {

constexpr const char* kGroup = "tp";

int64_t& extent_along(const InferContext& c, TensorType& type) {
  const int64_t dimension = c.attributes.get_int("dimension");
  c.require(dimension >= 0 && dimension < static_cast<int64_t>(type.shape.size()),
            fmt::format("{} has no dimension {}", shape_text(type.shape), dimension));
  return type.shape[static_cast<size_t>(dimension)];
}

}  // namespace

CallBuilder all_reduce(EmitContext& context, TensorId buffer) {
  CallBuilder call = context.call("all_reduce").no_attributes().attribute("group", kGroup);
  return call.bytes_moved(2.0 * static_cast<double>(context.type_of(buffer).bytes()));
}

CallBuilder exchange(EmitContext& context, const std::string& kernel) {
  return context.call(kernel)
      .no_attributes()
      .attribute("group", kGroup)
      .attribute("dimension", context.op().attributes.get_int("dimension"));
}

TensorType gathered_type(const InferContext& context) {
  TensorType type = context.inputs[0];
  int64_t& extent = extent_along(context, type);
  extent = checked_mul(extent, context.attributes.get_int("tp"));
  return type;
}

TensorType scattered_type(const InferContext& context) {
  TensorType type = context.inputs[0];
  int64_t& extent = extent_along(context, type);
  const int64_t tp = context.attributes.get_int("tp");
  if (tp < 1 || extent % tp != 0) {
    throw bad_input(fmt::format("{}: a sequence of {} tokens cannot be divided over {} "
                                "tensor-parallel ranks",
                                context.op_name, extent, tp),
                    fmt::format("choose a sequence length that is a multiple of {}, or leave out "
                                "--sequence-parallel",
                                tp));
  }
  extent /= tp;
  return type;
}

void emit_vocab_loss(EmitContext& context, TensorId targets, TensorId row_max, TensorId sums) {
  context.call("vocab_cross_entropy")
      .no_attributes()
      .read(targets)
      .read(row_max)
      .read(sums)
      .write(context.output(0))
      .write(context.output(1))
      .write(context.output(2))
      .flops(4.0 * static_cast<double>(context.type_of(row_max).elements()))
      .emit();
}

}  // namespace plimsoll
