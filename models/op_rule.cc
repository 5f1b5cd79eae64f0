#include "models/op_rule.h"

#include "base/error.h"

namespace plimsoll {

void InferContext::require(bool condition, const std::string& message) const {
  if (!condition) throw bad_input(fmt::format("{}: {}", op_name, message));
}

CallBuilder EmitContext::call(std::string kernel) { return {*this, std::move(kernel)}; }

void OpRule::forward(EmitContext& context) const {
  CallBuilder call = context.call(std::string(kind()));
  for (const TensorId id : context.op().inputs) call.read(id);
  for (const TensorId id : context.op().outputs) call.write(id);
  call.emit();
}

std::vector<Sharding> OpRule::shardings(const ShardingContext& context) const {
  return {context.replicated()};
}

CallBuilder::CallBuilder(EmitContext& context, std::string kernel) : context_(context) {
  call_.kernel = std::move(kernel);
  call_.attributes = context.op().attributes;
  call_.layer = context.op().layer;
}

CallBuilder& CallBuilder::read(TensorId tensor) {
  call_.inputs.push_back(tensor);
  return *this;
}

CallBuilder& CallBuilder::write(TensorId tensor) {
  call_.outputs.push_back(tensor);
  call_.accumulated.push_back(kNoTensor);
  return *this;
}

CallBuilder& CallBuilder::write_gradient(size_t input_index, bool can_accumulate) {
  auto& backward = dynamic_cast<BackwardContext&>(context_);
  if (!backward.needs_gradient(input_index)) return write(kNoTensor);
  const auto target = backward.make_gradient(input_index, can_accumulate);
  call_.outputs.push_back(target.tensor);
  call_.accumulated.push_back(target.accumulated);
  return *this;
}

CallBuilder& CallBuilder::continuing(TensorId tensor) {
  call_.accumulated.back() = tensor;
  return *this;
}

CallBuilder& CallBuilder::workspace(TensorType type) {
  return write(context_.make_workspace(std::move(type)));
}

CallBuilder& CallBuilder::write_state_gradient(size_t input_index, TensorType type) {
  call_.side_effect = true;
  return write(context_.make_state_gradient(input_index, std::move(type)));
}

CallBuilder& CallBuilder::in_place(int output, int input) {
  call_.in_place.push_back({output, input});
  return *this;
}

CallBuilder& CallBuilder::attribute(const std::string& name, AttributeValue value) {
  call_.attributes.set(name, std::move(value));
  return *this;
}

CallBuilder& CallBuilder::no_attributes() {
  call_.attributes = {};
  return *this;
}

CallBuilder& CallBuilder::weight_part() {
  call_.weight_part = true;
  return *this;
}

CallBuilder& CallBuilder::flops(double value) {
  call_.flops = value;
  return *this;
}

CallBuilder& CallBuilder::bytes_moved(double value) {
  call_.bytes_moved = value;
  bytes_given_ = true;
  return *this;
}

void CallBuilder::emit() {
  if (!bytes_given_) {
    for (const TensorId id : call_.inputs) {
      if (id != kNoTensor) call_.bytes_moved += static_cast<double>(context_.type_of(id).bytes());
    }
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      if (call_.outputs[i] == kNoTensor) continue;
      const double bytes = static_cast<double>(context_.type_of(call_.outputs[i]).bytes());
      call_.bytes_moved += call_.accumulated[i] == kNoTensor ? bytes : 2 * bytes;
    }
  }
  context_.emit(std::move(call_));
}

}  // namespace plimsoll
