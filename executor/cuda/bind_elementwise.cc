// CUDA bindings of operations that work element by element; operands as on the CPU.
#include "base/error.h"
#include "executor/cuda/bind_tables.h"
#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/dropout.h"
#include "kernels/cuda/gelu.h"
#include "kernels/cuda/relu.h"
#include "kernels/cuda/swiglu.h"
#include "program/program.h"

namespace plimsoll {
namespace {

cuda::GeluForm gelu_form(const KernelArgs& a) {
  return a.attributes->get_string("approximate") == "tanh" ? cuda::GeluForm::kTanh
                                                           : cuda::GeluForm::kErf;
}

void gelu(const KernelArgs& a) {
  cuda::gelu_forward(f32(a.in[0]), f32(a.out[0]), gelu_form(a), a.in[0].size(), *a.queue);
}

void gelu_gradient(const KernelArgs& a) {
  cuda::gelu_backward(f32(a.in[0]), f32(a.in[1]), f32(a.out[0]), gelu_form(a), a.in[0].size(),
                      *a.queue);
}

void relu(const KernelArgs& a) {
  cuda::relu_forward(f32(a.in[0]), f32(a.out[0]), a.in[0].size(), *a.queue);
}

void relu_gradient(const KernelArgs& a) {
  cuda::relu_backward(f32(a.in[0]), f32(a.in[1]), f32(a.out[0]), a.in[0].size(), *a.queue);
}

void swiglu(const KernelArgs& a) {
  cuda::swiglu_forward(f32(a.in[0]), f32(a.out[0]), a.in[0].rows(), a.in[0].last() / 2, *a.queue);
}

void swiglu_gradient(const KernelArgs& a) {
  cuda::swiglu_backward(f32(a.in[0]), f32(a.in[1]), f32(a.out[0]), a.in[0].rows(), a.in[0].last(),
                        *a.queue);
}

template <bool kBackward>
void drop(const KernelArgs& a) {
  const Operand& x = a.in[0];
  const cuda::DropoutDraw draw = cuda::dropout_draw(
      a.attributes->get_double("p"), a.scalars + kScalarSeed, a.scalars + kScalarStep,
      static_cast<uint64_t>(a.attributes->get_int("key", 0)));
  const int64_t first = a.first_sample * (x.size() / x.extent(0));
  cuda::dropout(f32(x), f32(a.out[0]), draw, first, x.size(),
                kBackward ? "dropout.backward" : "dropout", *a.queue);
}

void add(const KernelArgs& a) {
  const Operand& y = a.out[0];
  if (y.dtype == DType::kF64) {
    return cuda::add(a.in[0].as<double>(), a.in[1].as<double>(), y.as<double>(), y.size(),
                     *a.queue);
  }
  PLIMSOLL_CHECK(y.dtype == DType::kF32, "add of {}", dtype_name(y.dtype));
  cuda::add(f32(a.in[0]), f32(a.in[1]), f32(y), y.size(), *a.queue);
}

void copy(const KernelArgs& a) {
  const Operand& y = a.out[0];
  const int64_t bytes = y.size() * dtype_bytes(y.dtype);
  PLIMSOLL_CHECK(bytes % 4 == 0, "copy of {} bytes", bytes);
  cuda::copy_words(a.in[0].data, y.data, bytes / 4, *a.queue);
}

void fill(const KernelArgs& a) {
  const Operand& y = a.out[0];
  const double value = a.attributes->get_double("value");
  switch (y.dtype) {
    case DType::kF64:
      return cuda::fill(y.as<double>(), value, y.size(), *a.queue);
    case DType::kF32:
      return cuda::fill(f32(y), static_cast<float>(value), y.size(), *a.queue);
    case DType::kI32:
      return cuda::fill(y.as<int32_t>(), static_cast<int32_t>(value), y.size(), *a.queue);
    default:
      PLIMSOLL_CHECK(false, "fill of {}", dtype_name(y.dtype));
  }
}

constexpr CudaKernelEntry kEntries[] = {
    {"gelu", gelu},           {"gelu.backward", gelu_gradient},
    {"relu", relu},           {"relu.backward", relu_gradient},
    {"swiglu", swiglu},       {"swiglu.backward", swiglu_gradient},
    {"dropout", drop<false>}, {"dropout.backward", drop<true>},
    {"residual", add},        {"add", add},
    {"copy", copy},           {"fill", fill},
};

}  // namespace

std::span<const CudaKernelEntry> cuda_elementwise_kernels() { return kEntries; }

}  // namespace plimsoll
