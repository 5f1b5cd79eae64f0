// Bindings of operations that work element by element.
#include "base/error.h"
#include "executor/bind_scalars.h"
#include "executor/bind_tables.h"
#include "kernels/cpu/arithmetic.h"
#include "kernels/cpu/dropout.h"
#include "kernels/cpu/gelu.h"
#include "kernels/cpu/relu.h"
#include "kernels/cpu/swiglu.h"

#include <string>

namespace plimsoll {
namespace {

GeluForm gelu_form(const KernelArgs& a) {
  const std::string& form = a.attributes->get_string("approximate");
  PLIMSOLL_CHECK(form == "tanh" || form == "erf", "gelu: approximate {}", form);
  return form == "tanh" ? GeluForm::kTanh : GeluForm::kErf;
}

template <class T>
void gelu(const KernelArgs& a) {
  gelu_forward<T>(a.in[0].as<T>(), a.out[0].as<T>(), gelu_form(a), a.in[0].size(), *a.pool);
}

template <class T>
void gelu_gradient(const KernelArgs& a) {
  gelu_backward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), gelu_form(a), a.in[0].size(),
                   *a.pool);
}

template <class T>
void relu(const KernelArgs& a) {
  relu_forward<T>(a.in[0].as<T>(), a.out[0].as<T>(), a.in[0].size(), *a.pool);
}

template <class T>
void relu_gradient(const KernelArgs& a) {
  relu_backward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), a.in[0].size(), *a.pool);
}

template <class T>
void swiglu(const KernelArgs& a) {
  swiglu_forward<T>(a.in[0].as<T>(), a.out[0].as<T>(), a.in[0].rows(), a.in[0].last() / 2, *a.pool);
}

template <class T>
void swiglu_gradient(const KernelArgs& a) {
  swiglu_backward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), a.in[0].rows(),
                     a.in[0].last(), *a.pool);
}

// A rank's part of the tensor along a dimension is rows of a longer whole: the mask is that of the
// whole tensor.
template <class T>
void drop(const KernelArgs& a) {
  const Operand& x = a.in[0];
  const DropoutMask mask = dropout_mask(a, a.attributes->get_double("p"));
  const int64_t tp = a.attributes->get_int("tp", 1);
  const int64_t first = a.first_sample * tp * (x.size() / x.extent(0));
  if (tp == 1) return dropout<T>(x.as<T>(), a.out[0].as<T>(), mask, first, x.size(), *a.pool);
  int64_t run = 1;
  for (auto d = static_cast<size_t>(a.attributes->get_int("dimension")); d < x.shape->size(); ++d) {
    run *= x.extent(d);
  }
  dropout_rows<T>(x.as<T>(), a.out[0].as<T>(), mask, first + a.tp_place * run, x.size() / run, run,
                  tp * run, *a.pool);
}

// The operands of these three may have another type than the model's (the loss is always f64), so
// they look at it themselves.
void add_any(const KernelArgs& a) {
  const Operand& y = a.out[0];
  if (y.dtype == DType::kF64) {
    return add(a.in[0].as<double>(), a.in[1].as<double>(), y.as<double>(), y.size(), *a.pool);
  }
  PLIMSOLL_CHECK(y.dtype == DType::kF32, "add of {}", dtype_name(y.dtype));
  add(a.in[0].as<float>(), a.in[1].as<float>(), y.as<float>(), y.size(), *a.pool);
}

void copy_any(const KernelArgs& a) {
  const Operand& y = a.out[0];
  copy_bytes(a.in[0].data, y.data, y.size() * dtype_bytes(y.dtype), *a.pool);
}

template <class T>
void fill_with(const KernelArgs& a) {
  fill(a.out[0].as<T>(), static_cast<T>(a.attributes->get_double("value")), a.out[0].size(),
       *a.pool);
}

void fill_any(const KernelArgs& a) {
  const DType dtype = a.out[0].dtype;
  switch (dtype) {
    case DType::kF64:
      return fill_with<double>(a);
    case DType::kF32:
      return fill_with<float>(a);
    case DType::kI64:
      return fill_with<int64_t>(a);
    case DType::kI32:
      return fill_with<int32_t>(a);
    case DType::kBF16:
    case DType::kF16:
    case DType::kU16:
    case DType::kU8:
      break;
  }
  PLIMSOLL_CHECK(false, "fill of {}", dtype_name(dtype));
}

constexpr KernelEntry kEntries[] = {
    PLIMSOLL_KERNEL("gelu", gelu),     PLIMSOLL_KERNEL("gelu.backward", gelu_gradient),
    PLIMSOLL_KERNEL("relu", relu),     PLIMSOLL_KERNEL("relu.backward", relu_gradient),
    PLIMSOLL_KERNEL("swiglu", swiglu), PLIMSOLL_KERNEL("swiglu.backward", swiglu_gradient),
    PLIMSOLL_KERNEL("dropout", drop),  PLIMSOLL_KERNEL("dropout.backward", drop),
    {"residual", add_any, add_any},    {"add", add_any, add_any},
    {"copy", copy_any, copy_any},      {"fill", fill_any, fill_any},
};

}  // namespace

std::span<const KernelEntry> elementwise_kernels() { return kEntries; }

}  // namespace plimsoll
