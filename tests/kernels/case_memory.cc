#include "tests/kernels/case_memory.h"

#include "base/error.h"
#include "base/rng.h"
#include "program/program.h"

#include <cmath>
#include <cstring>

namespace plimsoll::testing {
namespace {

// NaNs with a payload that no kernel computes; as an integer out of range of anything.
constexpr uint32_t kPoison32 = 0x7fc5a5a5;
constexpr uint64_t kPoison64 = 0x7ff8a5a5a5a5a5a5;

DType dtype_of(Kind kind, DType floats) {
  switch (kind) {
    case Kind::kFloat:
      return floats;
    case Kind::kI32:
      return DType::kI32;
    case Kind::kF64:
      return DType::kF64;
  }
  return floats;
}

void store(DType dtype, char* data, int64_t i, double value) {
  if (dtype == DType::kF64) reinterpret_cast<double*>(data)[i] = value;
  if (dtype == DType::kF32) reinterpret_cast<float*>(data)[i] = static_cast<float>(value);
  if (dtype == DType::kI32) reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(value);
}

double load(DType dtype, const char* data, int64_t i) {
  if (dtype == DType::kF64) return reinterpret_cast<const double*>(data)[i];
  if (dtype == DType::kF32) return static_cast<double>(reinterpret_cast<const float*>(data)[i]);
  return reinterpret_cast<const int32_t*>(data)[i];
}

double scalar_value(int64_t slot) {
  switch (slot) {
    case kScalarStep:
      return 6;
    case kScalarSeed:
      return 1234;
    case kScalarLearningRate:
      return 0.01;
    case kScalarBiasCorrection1:
      return 1 - std::pow(0.9, 7);
    case kScalarBiasCorrection2:
      return 1 - std::pow(0.95, 7);
    case kScalarGradientScale:
      return 0.125;
    case kScalarClipFactor:
      return 0.75;
    default:
      return 0;
  }
}

double initial_value(const TensorSpec& spec, int64_t i) {
  const uint64_t purpose = rng_purpose(spec.name);
  const auto index = static_cast<uint64_t>(i);
  switch (spec.fill) {
    case Fill::kNormal:
      return rng_normal(1, purpose, index);
    case Fill::kPositive:
      return std::abs(rng_normal(1, purpose, index)) + 0.1;
    case Fill::kTarget:
      if (i % 5 == 4) return -100;
      [[fallthrough]];
    case Fill::kToken:
      return static_cast<double>(rng_bits(1, purpose, index) % static_cast<uint64_t>(spec.bound));
    case Fill::kScalars:
      return scalar_value(i);
    case Fill::kOutput:
      break;
  }
  return 0;
}

}  // namespace

CaseMemory::CaseMemory(const OpCase& op_case, DType dtype, int64_t shift_elements)
    : case_(&op_case), dtype_(dtype) {
  for (const TensorSpec& spec : op_case.tensors) {
    Tensor& tensor = tensors_[spec.name];
    tensor.spec = &spec;
    tensor.dtype = dtype_of(spec.kind, dtype);
    const int64_t element = dtype_bytes(tensor.dtype);
    tensor.storage.resize(static_cast<size_t>((tensor.count() + shift_elements) * element + 64));
    const auto address = reinterpret_cast<uintptr_t>(tensor.storage.data());
    tensor.data = tensor.storage.data() + (64 - address % 64) % 64 + shift_elements * element;
    fill(tensor);
  }
}

void CaseMemory::fill(Tensor& tensor) {
  if (tensor.spec->fill == Fill::kOutput) return poison(tensor.spec->name);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    store(tensor.dtype, tensor.data, i, initial_value(*tensor.spec, i));
  }
}

const CaseMemory::Tensor& CaseMemory::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  PLIMSOLL_CHECK(found != tensors_.end(), "case {} has no tensor {}", case_->name, name);
  return found->second;
}

void CaseMemory::poison(const std::string& name) {
  const Tensor& tensor = at(name);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (tensor.dtype == DType::kF64) {
      std::memcpy(tensor.data + i * 8, &kPoison64, 8);
    } else {
      std::memcpy(tensor.data + i * 4, &kPoison32, 4);
    }
  }
}

int64_t CaseMemory::count_poisoned(const std::string& name) const {
  const Tensor& tensor = at(name);
  int64_t count = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const bool wide = tensor.dtype == DType::kF64;
    count +=
        std::memcmp(tensor.data + i * (wide ? 8 : 4),
                    wide ? static_cast<const void*>(&kPoison64) : &kPoison32, wide ? 8 : 4) == 0
            ? 1
            : 0;
  }
  return count;
}

Operand CaseMemory::operand(const std::string& name) const {
  static const Shape kNoShape;
  if (name.empty()) return {nullptr, dtype_, &kNoShape};
  const Tensor& tensor = at(name);
  return {tensor.data, tensor.dtype, &tensor.spec->shape};
}

void CaseMemory::run(const Call& call, ThreadPool& pool, uint32_t accumulate,
                     Call::Alias in_place) {
  const KernelFunction kernel = find_kernel(call.op, dtype_);
  PLIMSOLL_CHECK(kernel != nullptr, "no kernel for {}", call.op);
  run(call, kernel, pool, accumulate, in_place);
}

void CaseMemory::run(const Call& call, KernelFunction kernel, ThreadPool& pool, uint32_t accumulate,
                     Call::Alias in_place) {
  std::vector<Operand> in;
  std::vector<Operand> out;
  for (const std::string& name : call.in) in.push_back(operand(name));
  for (const std::string& name : call.out) out.push_back(operand(name));
  if (in_place.out >= 0) {
    out[static_cast<size_t>(in_place.out)].data = in[static_cast<size_t>(in_place.in)].data;
  }
  KernelArgs args;
  args.in = in;
  args.out = out;
  args.accumulate = accumulate;
  args.attributes = &case_->attributes;
  args.scalars = tensors_.contains("scalars") ? operand("scalars").as<double>() : nullptr;
  args.first_sample = case_->first_sample;
  args.pool = &pool;
  kernel(args);
}

std::vector<double> CaseMemory::values(const std::string& name) const {
  const Tensor& tensor = at(name);
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    result.push_back(load(tensor.dtype, tensor.data, i));
  }
  return result;
}

std::string CaseMemory::bytes(const std::string& name) const {
  const Tensor& tensor = at(name);
  return {tensor.data, static_cast<size_t>(tensor.count() * dtype_bytes(tensor.dtype))};
}

void CaseMemory::set(const std::string& name, const std::vector<double>& values) {
  const Tensor& tensor = at(name);
  for (size_t i = 0; i < values.size(); ++i) {
    store(tensor.dtype, tensor.data, static_cast<int64_t>(i), values[i]);
  }
}

}  // namespace plimsoll::testing
