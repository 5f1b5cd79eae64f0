// CUDA bindings of what transformers are made of; operands as in executor/bind_transformer.cc.
#include "base/error.h"
#include "executor/cuda/bind_tables.h"
#include "executor/rope_attributes.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/layer_norm.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/position_embedding.h"
#include "kernels/cuda/prepend_token.h"
#include "kernels/cuda/rms_norm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/select_token.h"
#include "program/program.h"

#include <string>

namespace plimsoll {
namespace {

void linear(const KernelArgs& a) {
  const Operand& w = a.in[1];
  const float* bias = a.in.size() > 2 ? f32(a.in[2]) : nullptr;
  cuda::linear_forward(f32(a.in[0]), f32(w), bias, f32(a.out[0]), a.in[0].rows(), w.extent(1),
                       w.extent(0), *a.queue);
}

void linear_input(const KernelArgs& a) {
  const Operand& w = a.in[1];
  cuda::linear_backward_input(f32(a.in[0]), f32(w), f32(a.out[0]), a.accumulates(0), a.in[0].rows(),
                              w.extent(1), w.extent(0), *a.queue);
}

void linear_weight(const KernelArgs& a) {
  const Operand& x = a.in[0];
  const Operand& dy = a.in[1];
  cuda::linear_backward_weight(f32(x), f32(dy), f32(a.out[0]), a.accumulates(0), x.rows(), x.last(),
                               dy.last(), *a.queue);
  if (a.out.size() > 1 && a.out[1].present()) {
    cuda::linear_backward_bias(f32(dy), f32(a.out[1]), a.accumulates(1), dy.rows(), dy.last(),
                               *a.queue);
  }
}

void embedding(const KernelArgs& a) {
  cuda::embedding_forward(a.in[0].as<int32_t>(), f32(a.in[1]), f32(a.out[0]), a.in[0].size(),
                          a.in[1].extent(1), *a.queue);
}

void embedding_table(const KernelArgs& a) {
  const Operand& table = a.out[0];
  cuda::embedding_backward(a.in[0].as<int32_t>(), f32(a.in[1]), f32(table), a.accumulates(0),
                           a.out[1].as<int32_t>(), a.in[0].size(), table.extent(0), table.extent(1),
                           *a.queue);
}

void position_embedding(const KernelArgs& a) {
  const Operand& x = a.in[0];
  cuda::position_embedding_forward(f32(x), f32(a.in[1]), f32(a.out[0]), x.extent(0), x.extent(1),
                                   x.extent(2), *a.queue);
}

void position_embedding_table(const KernelArgs& a) {
  const Operand& dy = a.in[0];
  cuda::position_embedding_backward(f32(dy), f32(a.out[0]), a.accumulates(0), dy.extent(0),
                                    dy.extent(1), a.out[0].extent(0), dy.extent(2), *a.queue);
}

void layer_norm(const KernelArgs& a) {
  const Operand& x = a.in[0];
  cuda::layer_norm_forward(f32(x), f32(a.in[1]), f32(a.in[2]), f32(a.out[0]), f32(a.out[1]),
                           f32(a.out[2]), static_cast<float>(a.attributes->get_double("epsilon")),
                           x.rows(), x.last(), *a.queue);
}

void layer_norm_gradients(const KernelArgs& a) {
  const float* dy = f32(a.in[0]);
  const Operand& x = a.in[1];
  cuda::layer_norm_backward_input(dy, f32(x), f32(a.in[2]), f32(a.in[3]), f32(a.in[4]),
                                  f32(a.out[0]), a.accumulates(0), x.rows(), x.last(), *a.queue);
  cuda::layer_norm_backward_weight(dy, f32(x), f32(a.in[3]), f32(a.in[4]), f32(a.out[1]),
                                   a.accumulates(1), f32(a.out[2]), a.accumulates(2), x.rows(),
                                   x.last(), *a.queue);
}

void rms_norm(const KernelArgs& a) {
  const Operand& x = a.in[0];
  cuda::rms_norm_forward(f32(x), f32(a.in[1]), f32(a.out[0]), f32(a.out[1]),
                         static_cast<float>(a.attributes->get_double("epsilon")), x.rows(),
                         x.last(), *a.queue);
}

void rms_norm_gradients(const KernelArgs& a) {
  const Operand& x = a.in[1];
  cuda::rms_norm_backward(f32(a.in[0]), f32(x), f32(a.in[2]), f32(a.in[3]), f32(a.out[0]),
                          a.accumulates(0), f32(a.out[1]), a.accumulates(1), x.rows(), x.last(),
                          *a.queue);
}

template <bool kBackward>
void turn(const KernelArgs& a) {
  const Operand& x = a.in[0];
  cuda::rope(f32(x), f32(a.out[0]), rope_options(*a.attributes), kBackward, x.extent(0),
             x.extent(1), *a.queue);
}

cuda::AttentionShape attention_shape(const KernelArgs& a, const Operand& qkv) {
  cuda::AttentionShape shape;
  shape.batch = qkv.extent(0);
  shape.length = qkv.extent(1);
  shape.heads = a.attributes->get_int("heads");
  shape.kv_heads = a.attributes->get_int("kv_heads");
  shape.head_dim = a.attributes->get_int("head_dim");
  shape.causal = a.attributes->get_int("causal") != 0;
  shape.first_sample = a.first_sample;
  const double probability = a.attributes->get_double("dropout", 0);
  if (probability != 0) {
    shape.dropout =
        cuda::dropout_draw(probability, a.scalars + kScalarSeed, a.scalars + kScalarStep,
                           static_cast<uint64_t>(a.attributes->get_int("key", 0)));
  }
  PLIMSOLL_CHECK(shape.heads % shape.kv_heads == 0 &&
                     (shape.heads + 2 * shape.kv_heads) * shape.head_dim == qkv.last(),
                 "attention: {} heads over {} of {} in rows of {}", shape.heads, shape.kv_heads,
                 shape.head_dim, qkv.last());
  return shape;
}

void attention(const KernelArgs& a) {
  const bool flash = a.attributes->get_string("form") == "flash";
  const auto kernel = flash ? cuda::flash_attention_forward : cuda::naive_attention_forward;
  kernel(f32(a.in[0]), f32(a.out[0]), f32(a.out[1]), attention_shape(a, a.in[0]), *a.queue);
}

void attention_gradient(const KernelArgs& a) {
  const cuda::AttentionShape shape = attention_shape(a, a.in[1]);
  const float* d_o = f32(a.in[0]);
  const float* qkv = f32(a.in[1]);
  if (a.attributes->get_string("form") == "flash") {
    cuda::flash_attention_backward(d_o, qkv, f32(a.in[2]), f32(a.in[3]), f32(a.out[0]),
                                   f32(a.out[1]), shape, *a.queue);
  } else {
    cuda::naive_attention_backward(d_o, qkv, f32(a.in[3]), f32(a.out[0]), f32(a.out[1]), shape,
                                   *a.queue);
  }
}

void prepend(const KernelArgs& a) {
  const Operand& x = a.in[0];
  cuda::prepend_token_forward(f32(x), f32(a.in[1]), f32(a.out[0]), x.extent(0), x.extent(1),
                              x.extent(2), *a.queue);
}

void prepend_gradients(const KernelArgs& a) {
  const Operand& dx = a.out[0];
  cuda::prepend_token_backward(f32(a.in[0]), f32(dx), f32(a.out[1]), a.accumulates(1), dx.extent(0),
                               dx.extent(1), dx.extent(2), *a.queue);
}

void select(const KernelArgs& a) {
  const Operand& x = a.in[0];
  cuda::select_token_forward(f32(x), f32(a.out[0]), a.attributes->get_int("index"), x.extent(0),
                             x.extent(1), x.extent(2), *a.queue);
}

void select_gradient(const KernelArgs& a) {
  const Operand& dx = a.out[0];
  cuda::select_token_backward(f32(a.in[0]), f32(dx), a.attributes->get_int("index"), dx.extent(0),
                              dx.extent(1), dx.extent(2), *a.queue);
}

constexpr CudaKernelEntry kEntries[] = {
    {"linear", linear},
    {"linear.backward_input", linear_input},
    {"linear.backward_weight", linear_weight},
    {"embedding", embedding},
    {"embedding.backward", embedding_table},
    {"position_embedding", position_embedding},
    {"position_embedding.backward", position_embedding_table},
    {"layer_norm", layer_norm},
    {"layer_norm.backward", layer_norm_gradients},
    {"rms_norm", rms_norm},
    {"rms_norm.backward", rms_norm_gradients},
    {"rope", turn<false>},
    {"rope.backward", turn<true>},
    {"attention", attention},
    {"attention.backward", attention_gradient},
    {"prepend_token", prepend},
    {"prepend_token.backward", prepend_gradients},
    {"select_token", select},
    {"select_token.backward", select_gradient},
};

}  // namespace

std::span<const CudaKernelEntry> cuda_transformer_kernels() { return kEntries; }

}  // namespace plimsoll
