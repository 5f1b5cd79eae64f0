// Bindings of operations on images.
#include "executor/bind_tables.h"
#include "kernels/cpu/batch_norm.h"
#include "kernels/cpu/conv2d.h"
#include "kernels/cpu/global_avg_pool.h"
#include "kernels/cpu/image_to_tokens.h"
#include "kernels/cpu/max_pool2d.h"

namespace plimsoll {
namespace {

// x [N,Ci,H,W] (or its gradient), w [Co,Ci,Kh,Kw] (or its gradient).
Conv2dShape conv2d_shape(const KernelArgs& a, const Operand& x, const Operand& w) {
  Conv2dShape shape;
  shape.batch = x.extent(0);
  shape.in_channels = x.extent(1);
  shape.in_height = x.extent(2);
  shape.in_width = x.extent(3);
  shape.out_channels = w.extent(0);
  shape.kernel_height = w.extent(2);
  shape.kernel_width = w.extent(3);
  shape.stride = a.attributes->get_int("stride");
  shape.padding = a.attributes->get_int("padding");
  return shape;
}

template <class T>
void conv2d(const KernelArgs& a) {
  const T* bias = a.in.size() > 2 ? a.in[2].as<T>() : nullptr;
  conv2d_forward<T>(a.in[0].as<T>(), a.in[1].as<T>(), bias, a.out[0].as<T>(), a.out.back().as<T>(),
                    conv2d_shape(a, a.in[0], a.in[1]), *a.pool);
}

template <class T>
void conv2d_input(const KernelArgs& a) {
  conv2d_backward_input<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), a.accumulates(0),
                           a.out[1].as<T>(), conv2d_shape(a, a.out[0], a.in[1]), *a.pool);
}

template <class T>
void conv2d_weight(const KernelArgs& a) {
  const Conv2dShape shape = conv2d_shape(a, a.in[0], a.out[0]);
  const T* dy = a.in[1].as<T>();
  conv2d_backward_weight<T>(a.in[0].as<T>(), dy, a.out[0].as<T>(), a.accumulates(0),
                            a.out.back().as<T>(), shape, *a.pool);
  if (a.out.size() > 2 && a.out[1].present()) {
    conv2d_backward_bias<T>(dy, a.out[1].as<T>(), a.accumulates(1), shape, *a.pool);
  }
}

BatchNormShape batch_norm_shape(const Operand& x) {
  return {x.extent(0), x.extent(1), x.extent(2) * x.extent(3)};
}

template <class T>
void batch_norm(const KernelArgs& a) {
  batch_norm_forward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.in[2].as<T>(), a.out[0].as<T>(),
                        a.out[1].as<T>(), a.out[2].as<T>(), a.attributes->get_double("epsilon"),
                        batch_norm_shape(a.in[0]), *a.pool);
}

template <class T>
void batch_norm_gradients(const KernelArgs& a) {
  batch_norm_backward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.in[2].as<T>(), a.in[3].as<T>(),
                         a.in[4].as<T>(), a.out[0].as<T>(), a.accumulates(0), a.out[1].as<T>(),
                         a.accumulates(1), a.out[2].as<T>(), a.accumulates(2),
                         batch_norm_shape(a.in[1]), *a.pool);
}

template <class T>
void batch_norm_infer(const KernelArgs& a) {
  batch_norm_inference<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.in[2].as<T>(), a.in[3].as<T>(),
                          a.out[0].as<T>(), a.attributes->get_double("epsilon"),
                          batch_norm_shape(a.in[0]), *a.pool);
}

template <class T>
void batch_norm_collect(const KernelArgs& a) {
  batch_norm_statistics<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), a.accumulates(0),
                           a.attributes->get_double("epsilon"), a.attributes->get_int("count"),
                           a.in[0].size());
}

MaxPoolShape max_pool_shape(const KernelArgs& a, const Operand& x) {
  MaxPoolShape shape;
  shape.planes = x.extent(0) * x.extent(1);
  shape.in_height = x.extent(2);
  shape.in_width = x.extent(3);
  shape.kernel = a.attributes->get_int("kernel");
  shape.stride = a.attributes->get_int("stride");
  shape.padding = a.attributes->get_int("padding");
  return shape;
}

template <class T>
void max_pool(const KernelArgs& a) {
  max_pool2d_forward<T>(a.in[0].as<T>(), a.out[0].as<T>(), max_pool_shape(a, a.in[0]), *a.pool);
}

template <class T>
void max_pool_gradient(const KernelArgs& a) {
  max_pool2d_backward<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.in[2].as<T>(), a.out[0].as<T>(),
                         max_pool_shape(a, a.in[1]), *a.pool);
}

template <class T>
void avg_pool(const KernelArgs& a) {
  const int64_t planes = a.out[0].size();
  global_avg_pool_forward<T>(a.in[0].as<T>(), a.out[0].as<T>(), planes, a.in[0].size() / planes,
                             *a.pool);
}

template <class T>
void avg_pool_gradient(const KernelArgs& a) {
  const int64_t planes = a.in[0].size();
  global_avg_pool_backward<T>(a.in[0].as<T>(), a.out[0].as<T>(), planes, a.out[0].size() / planes,
                              *a.pool);
}

template <class T>
void to_tokens(const KernelArgs& a) {
  const Operand& x = a.in[0];
  exchange_last_two<T>(x.as<T>(), a.out[0].as<T>(), x.extent(0), x.extent(1),
                       x.extent(2) * x.extent(3), *a.pool);
}

template <class T>
void to_tokens_gradient(const KernelArgs& a) {
  const Operand& dy = a.in[0];
  exchange_last_two<T>(dy.as<T>(), a.out[0].as<T>(), dy.extent(0), dy.extent(1), dy.extent(2),
                       *a.pool);
}

constexpr KernelEntry kEntries[] = {
    PLIMSOLL_KERNEL("conv2d", conv2d),
    PLIMSOLL_KERNEL("conv2d.backward_input", conv2d_input),
    PLIMSOLL_KERNEL("conv2d.backward_weight", conv2d_weight),
    PLIMSOLL_KERNEL("batch_norm", batch_norm),
    PLIMSOLL_KERNEL("batch_norm.backward", batch_norm_gradients),
    PLIMSOLL_KERNEL("batch_norm.inference", batch_norm_infer),
    PLIMSOLL_KERNEL("batch_norm.statistics", batch_norm_collect),
    PLIMSOLL_KERNEL("max_pool2d", max_pool),
    PLIMSOLL_KERNEL("max_pool2d.backward", max_pool_gradient),
    PLIMSOLL_KERNEL("global_avg_pool", avg_pool),
    PLIMSOLL_KERNEL("global_avg_pool.backward", avg_pool_gradient),
    PLIMSOLL_KERNEL("image_to_tokens", to_tokens),
    PLIMSOLL_KERNEL("image_to_tokens.backward", to_tokens_gradient),
};

}  // namespace

std::span<const KernelEntry> vision_kernels() { return kEntries; }

}  // namespace plimsoll
