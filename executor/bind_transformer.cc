// Bindings of what transformers are made of: linear, embeddings, norms, rope, attention, tokens.
#include "base/error.h"
#include "executor/bind_scalars.h"
#include "executor/bind_tables.h"
#include "executor/rope_attributes.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/bias_add.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/position_embedding.h"
#include "kernels/cpu/prepend_token.h"
#include "kernels/cpu/rms_norm.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/select_token.h"

#include <string>

namespace plimsoll {
namespace {

template <class T>
void linear(const KernelArgs& a) {
  const Operand& w = a.in[1];
  const T* bias = a.in.size() > 2 ? a.in[2].as<T>() : nullptr;
  linear_forward<T>(a.in[0].as<T>(), w.as<T>(), bias, a.out[0].as<T>(), a.in[0].rows(), w.extent(1),
                    w.extent(0), *a.pool);
}

template <class T>
void bias_add(const KernelArgs& a) {
  add_bias<T>(a.in[0].as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), a.in[0].rows(), a.in[0].last(),
              *a.pool);
}

template <class T>
void bias_add_gradient(const KernelArgs& a) {
  const Operand& dy = a.in[0];
  linear_backward_bias<T>(dy.as<T>(), a.out[0].as<T>(), a.accumulates(0), dy.rows(), dy.last(),
                          *a.pool);
}

template <class T>
void linear_input(const KernelArgs& a) {
  const Operand& w = a.in[1];
  linear_backward_input<T>(a.in[0].as<T>(), w.as<T>(), a.out[0].as<T>(), a.accumulates(0),
                           a.in[0].rows(), w.extent(1), w.extent(0), *a.pool);
}

template <class T>
void linear_weight(const KernelArgs& a) {
  const Operand& x = a.in[0];
  const Operand& dy = a.in[1];
  linear_backward_weight<T>(x.as<T>(), dy.as<T>(), a.out[0].as<T>(), a.accumulates(0), x.rows(),
                            x.last(), dy.last(), *a.pool);
  if (a.out.size() > 1 && a.out[1].present()) {
    linear_backward_bias<T>(dy.as<T>(), a.out[1].as<T>(), a.accumulates(1), dy.rows(), dy.last(),
                            *a.pool);
  }
}

// Whether a table is this rank's share of the rows, and the share's first row.
bool is_share(const KernelArgs& a) { return a.attributes->get_int("tp", 1) > 1; }
int64_t first_row(const KernelArgs& a, int64_t rows) { return is_share(a) ? a.tp_place * rows : 0; }

template <class T>
void embedding(const KernelArgs& a) {
  const Operand& table = a.in[1];
  embedding_forward<T>(a.in[0].as<int32_t>(), table.as<T>(), a.out[0].as<T>(), a.in[0].size(),
                       table.extent(0), table.extent(1), *a.pool, is_share(a),
                       first_row(a, table.extent(0)));
}

template <class T>
void embedding_table(const KernelArgs& a) {
  const Operand& table = a.out[0];
  embedding_backward<T>(a.in[0].as<int32_t>(), a.in[1].as<T>(), table.as<T>(), a.accumulates(0),
                        a.out[1].as<int32_t>(), a.in[0].size(), table.extent(0), table.extent(1),
                        *a.pool, is_share(a), first_row(a, table.extent(0)));
}

template <class T>
void position_embedding(const KernelArgs& a) {
  const Operand& x = a.in[0];
  position_embedding_forward<T>(x.as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), x.extent(0),
                                x.extent(1), x.extent(2), *a.pool, first_row(a, x.extent(1)));
}

template <class T>
void position_embedding_table(const KernelArgs& a) {
  const Operand& dy = a.in[0];
  position_embedding_backward<T>(dy.as<T>(), a.out[0].as<T>(), a.accumulates(0), dy.extent(0),
                                 dy.extent(1), a.out[0].extent(0), dy.extent(2), *a.pool,
                                 first_row(a, dy.extent(1)));
}

template <class T>
void layer_norm(const KernelArgs& a) {
  const Operand& x = a.in[0];
  layer_norm_forward<T>(x.as<T>(), a.in[1].as<T>(), a.in[2].as<T>(), a.out[0].as<T>(),
                        a.out[1].as<T>(), a.out[2].as<T>(),
                        static_cast<T>(a.attributes->get_double("epsilon")), x.rows(), x.last(),
                        *a.pool);
}

template <class T>
void layer_norm_gradients(const KernelArgs& a) {
  const T* dy = a.in[0].as<T>();
  const T* x = a.in[1].as<T>();
  const T* mean = a.in[3].as<T>();
  const T* rstd = a.in[4].as<T>();
  const int64_t rows = a.in[1].rows();
  const int64_t channels = a.in[1].last();
  layer_norm_backward_input<T>(dy, x, a.in[2].as<T>(), mean, rstd, a.out[0].as<T>(),
                               a.accumulates(0), rows, channels, *a.pool);
  layer_norm_backward_weight<T>(dy, x, mean, rstd, a.out[1].as<T>(), a.accumulates(1),
                                a.out[2].as<T>(), a.accumulates(2), rows, channels, *a.pool);
}

template <class T>
void rms_norm(const KernelArgs& a) {
  const Operand& x = a.in[0];
  rms_norm_forward<T>(x.as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), a.out[1].as<T>(),
                      static_cast<T>(a.attributes->get_double("epsilon")), x.rows(), x.last(),
                      *a.pool);
}

template <class T>
void rms_norm_gradients(const KernelArgs& a) {
  const Operand& x = a.in[1];
  rms_norm_backward<T>(a.in[0].as<T>(), x.as<T>(), a.in[2].as<T>(), a.in[3].as<T>(),
                       a.out[0].as<T>(), a.accumulates(0), a.out[1].as<T>(), a.accumulates(1),
                       x.rows(), x.last(), *a.pool);
}

template <class T, bool kBackward>
void turn(const KernelArgs& a) {
  const Operand& x = a.in[0];
  rope<T>(x.as<T>(), a.out[0].as<T>(), rope_options(*a.attributes), kBackward, x.extent(0),
          x.extent(1), *a.pool);
}

AttentionShape attention_shape(const KernelArgs& a, const Operand& qkv) {
  AttentionShape shape;
  shape.batch = qkv.extent(0);
  shape.length = qkv.extent(1);
  shape.heads = a.attributes->get_int("heads");
  shape.kv_heads = a.attributes->get_int("kv_heads");
  shape.head_dim = a.attributes->get_int("head_dim");
  shape.causal = a.attributes->get_int("causal") != 0;
  shape.first_sample = a.first_sample;
  shape.first_head = a.tp_place * shape.heads;
  shape.all_heads = a.attributes->get_int("tp", 1) * shape.heads;
  shape.dropout = dropout_mask(a, a.attributes->get_double("dropout", 0));
  PLIMSOLL_CHECK(shape.heads % shape.kv_heads == 0 && shape.qkv_width() == qkv.last(),
                 "attention: {} heads over {} of {} in rows of {}", shape.heads, shape.kv_heads,
                 shape.head_dim, qkv.last());
  return shape;
}

bool is_flash(const KernelArgs& a) {
  const std::string& form = a.attributes->get_string("form");
  PLIMSOLL_CHECK(form == "flash" || form == "naive", "attention: form {}", form);
  return form == "flash";
}

template <class T>
void attention(const KernelArgs& a) {
  const auto kernel = is_flash(a) ? flash_attention_forward<T> : naive_attention_forward<T>;
  kernel(a.in[0].as<T>(), a.out[0].as<T>(), a.out[1].as<T>(), attention_shape(a, a.in[0]), *a.pool);
}

template <class T>
void attention_gradient(const KernelArgs& a) {
  const T* d_o = a.in[0].as<T>();
  const T* qkv = a.in[1].as<T>();
  const T* saved = a.in[3].as<T>();
  T* dqkv = a.out[0].as<T>();
  T* workspace = a.out[1].as<T>();
  const AttentionShape shape = attention_shape(a, a.in[1]);
  if (is_flash(a)) {
    flash_attention_backward<T>(d_o, qkv, a.in[2].as<T>(), saved, dqkv, workspace, shape, *a.pool);
  } else {
    naive_attention_backward<T>(d_o, qkv, saved, dqkv, workspace, shape, *a.pool);
  }
}

template <class T>
void prepend(const KernelArgs& a) {
  const Operand& x = a.in[0];
  prepend_token_forward<T>(x.as<T>(), a.in[1].as<T>(), a.out[0].as<T>(), x.extent(0), x.extent(1),
                           x.extent(2), *a.pool);
}

template <class T>
void prepend_gradients(const KernelArgs& a) {
  const Operand& dx = a.out[0];
  prepend_token_backward<T>(a.in[0].as<T>(), dx.as<T>(), a.out[1].as<T>(), a.accumulates(1),
                            dx.extent(0), dx.extent(1), dx.extent(2), *a.pool);
}

template <class T>
void select(const KernelArgs& a) {
  const Operand& x = a.in[0];
  select_token_forward<T>(x.as<T>(), a.out[0].as<T>(), a.attributes->get_int("index"), x.extent(0),
                          x.extent(1), x.extent(2), *a.pool);
}

template <class T>
void select_gradient(const KernelArgs& a) {
  const Operand& dx = a.out[0];
  select_token_backward<T>(a.in[0].as<T>(), dx.as<T>(), a.attributes->get_int("index"),
                           dx.extent(0), dx.extent(1), dx.extent(2), *a.pool);
}

constexpr KernelEntry kEntries[] = {
    PLIMSOLL_KERNEL("linear", linear),
    PLIMSOLL_KERNEL("linear.backward_input", linear_input),
    PLIMSOLL_KERNEL("linear.backward_weight", linear_weight),
    PLIMSOLL_KERNEL("bias_add", bias_add),
    PLIMSOLL_KERNEL("bias_add.backward", bias_add_gradient),
    PLIMSOLL_KERNEL("embedding", embedding),
    PLIMSOLL_KERNEL("embedding.backward", embedding_table),
    PLIMSOLL_KERNEL("position_embedding", position_embedding),
    PLIMSOLL_KERNEL("position_embedding.backward", position_embedding_table),
    PLIMSOLL_KERNEL("layer_norm", layer_norm),
    PLIMSOLL_KERNEL("layer_norm.backward", layer_norm_gradients),
    PLIMSOLL_KERNEL("rms_norm", rms_norm),
    PLIMSOLL_KERNEL("rms_norm.backward", rms_norm_gradients),
    {"rope", turn<float, false>, turn<double, false>},
    {"rope.backward", turn<float, true>, turn<double, true>},
    PLIMSOLL_KERNEL("attention", attention),
    PLIMSOLL_KERNEL("attention.backward", attention_gradient),
    PLIMSOLL_KERNEL("prepend_token", prepend),
    PLIMSOLL_KERNEL("prepend_token.backward", prepend_gradients),
    PLIMSOLL_KERNEL("select_token", select),
    PLIMSOLL_KERNEL("select_token.backward", select_gradient),
};

}  // namespace

std::span<const KernelEntry> transformer_kernels() { return kEntries; }

}  // namespace plimsoll
