#include "tests/kernels/op_case.h"

#include "base/error.h"
#include "program/program.h"

namespace plimsoll::testing {

OpCase& OpCase::tensor(const std::string& tensor_name, Shape shape, Fill fill, int64_t bound,
                       Kind kind) {
  tensors.push_back({tensor_name, kind, std::move(shape), fill, bound});
  return *this;
}

OpCase& OpCase::tokens(const std::string& tensor_name, Shape shape, int64_t bound) {
  return tensor(tensor_name, std::move(shape), Fill::kToken, bound, Kind::kI32);
}

OpCase& OpCase::targets(const std::string& tensor_name, Shape shape, int64_t bound) {
  return tensor(tensor_name, std::move(shape), Fill::kTarget, bound, Kind::kI32);
}

OpCase& OpCase::output(const std::string& tensor_name, Shape shape, Kind kind) {
  return tensor(tensor_name, std::move(shape), Fill::kOutput, 0, kind);
}

OpCase& OpCase::scalars() {
  return tensor("scalars", {kNumScalars}, Fill::kScalars, 0, Kind::kF64);
}

OpCase& OpCase::gradient(const std::string& tensor_name) {
  return output("d" + tensor_name, find(tensor_name)->shape);
}

OpCase& OpCase::weighted(const std::string& tensor_name) {
  result = tensor_name;
  if (tensor_name == "loss") return *this;
  return tensor("d" + tensor_name, find(tensor_name)->shape);
}

OpCase& OpCase::call(Call next) {
  calls.push_back(std::move(next));
  return *this;
}

const TensorSpec* OpCase::find(const std::string& tensor_name) const {
  for (const TensorSpec& spec : tensors) {
    if (spec.name == tensor_name) return &spec;
  }
  return nullptr;
}

}  // namespace plimsoll::testing
