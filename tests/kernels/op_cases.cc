#include "tests/kernels/op_case.h"

namespace plimsoll::testing {
namespace {

using Cases = std::vector<OpCase>;

OpCase named(const std::string& name, Attributes attributes = {}) {
  OpCase c;
  c.name = name;
  c.attributes = std::move(attributes);
  return c;
}

void linear_cases(bool large, Cases& cases) {
  const int64_t r = large ? 1031 : 5, k = large ? 130 : 7, n = large ? 773 : 6;
  for (const bool bias : {true, false}) {
    OpCase c = named(bias ? "linear with bias" : "linear");
    c.tensor("x", {r, k}).tensor("w", {n, k}).tensor("b", {n}).output("y", {r, n}).weighted("y");
    c.gradient("x").gradient("w");
    if (bias) c.gradient("b");
    c.call({"linear", {"x", "w", bias ? "b" : ""}, {"y"}, {}, {}});
    c.call({"linear.backward_input", {"dy", "w"}, {"dx"}, {0}, {}});
    c.call({"linear.backward_weight",
            {"x", "dy"},
            {"dw", bias ? "db" : ""},
            bias ? std::vector<int>{0, 1} : std::vector<int>{0},
            {}});
    cases.push_back(c);
  }
}

// One rank's share: its last two columns are padding.
void vocab_cases(bool large, Cases& cases) {
  const int64_t r = large ? 517 : 5, k = large ? 70 : 3, v = large ? 203 : 7;
  OpCase b = named("bias_add");
  b.tensor("x", {r, v}).tensor("b", {v}).output("y", {r, v}).weighted("y").gradient("b");
  b.call({"bias_add", {"x", "b"}, {"y"}, {}, {{0, 0}}});
  b.call({"bias_add.backward", {"dy"}, {"db"}, {0}, {}});
  cases.push_back(b);

  OpCase c = named("vocab_cross_entropy", {{"vocabulary", v - 2}, {"tp", int64_t{2}}});
  c.forward_calls = 3;
  c.scalars().tensor("logits", {r, v}).targets("targets", {r}, v - 2).gradient("logits");
  c.output("max", {r}).output("sums", {2, r}).output("loss", {1}, Kind::kF64).weighted("loss");
  c.output("row_loss", {r}).output("lse", {r});
  c.call({"vocab_cross_entropy.max", {"logits"}, {"max"}, {}, {}});
  c.call({"vocab_cross_entropy.sums", {"logits", "targets", "max"}, {"sums"}, {}, {}});
  const Call loss{
      "vocab_cross_entropy", {"targets", "max", "sums"}, {"loss", "row_loss", "lse"}, {0}, {}};
  c.call(loss);
  c.call({"vocab_cross_entropy.backward",
          {"logits", "targets", "lse", "scalars"},
          {"dlogits"},
          {},
          {{0, 0}}});
  cases.push_back(c);

  // The loss is the same whatever is taken off the logits.
  OpCase h = named("vocab_linear_cross_entropy",
                   {{"vocabulary", v - 2}, {"tp", int64_t{2}}, {"chunks", int64_t{3}}});
  h.forward_calls = 3;
  h.scalars().tensor("x", {r, k}).tensor("w", {v, k}).targets("targets", {r}, v - 2);
  h.gradient("x").gradient("w").output("ws", {(r + 2) / 3, v});
  h.output("max", {r}).output("sums", {2, r}).tensor("row_max", {r}, Fill::kPositive);
  h.output("rescaled", {2, r}).output("loss", {1}, Kind::kF64).weighted("loss");
  h.output("row_loss", {r}).output("lse", {r});
  h.call(
      {"vocab_linear_cross_entropy.local", {"x", "w", "targets"}, {"max", "sums", "ws"}, {}, {}});
  h.call({"vocab_linear_cross_entropy.rescale",
          {"sums", "max", "row_max"},
          {"rescaled"},
          {},
          {{0, 0}}});
  h.call({loss.op, {"targets", "row_max", "rescaled"}, loss.out, {0}, {}});
  h.call({"vocab_linear_cross_entropy.backward",
          {"x", "w", "targets", "lse", "scalars"},
          {"dx", "dw", "ws"},
          {1},
          {}});
  cases.push_back(h);
}

void embedding_cases(bool large, Cases& cases) {
  const int64_t b = large ? 3 : 2, t = large ? 301 : 6, v = large ? 211 : 5, ch = large ? 70 : 3;
  OpCase e = named("embedding");
  e.tokens("tokens", {b, t}, v).tensor("table", {v, ch}).output("y", {b, t, ch}).weighted("y");
  e.gradient("table").output("ws", {v + b * t}, Kind::kI32);
  e.call({"embedding", {"tokens", "table"}, {"y"}, {}, {}});
  e.call({"embedding.backward", {"tokens", "dy"}, {"dtable", "ws"}, {0}, {}});
  cases.push_back(e);

  OpCase p = named("position_embedding");
  p.tensor("x", {b, t, ch}).tensor("table", {t + 3, ch}).output("y", {b, t, ch}).weighted("y");
  p.gradient("table");
  p.call({"position_embedding", {"x", "table"}, {"y"}, {}, {{0, 0}}});
  p.call({"position_embedding.backward", {"dy"}, {"dtable"}, {0}, {}});
  cases.push_back(p);

  OpCase prepend = named("prepend_token");
  prepend.tensor("x", {b, t, ch}).tensor("token", {ch}).output("y", {b, t + 1, ch}).weighted("y");
  prepend.gradient("x").gradient("token");
  prepend.call({"prepend_token", {"x", "token"}, {"y"}, {}, {}});
  prepend.call({"prepend_token.backward", {"dy"}, {"dx", "dtoken"}, {1}, {}});
  cases.push_back(prepend);

  OpCase select = named("select_token", {{"index", int64_t{2}}});
  select.tensor("x", {b, t, ch}).output("y", {b, ch}).weighted("y").gradient("x");
  select.call({"select_token", {"x"}, {"y"}, {}, {}});
  select.call({"select_token.backward", {"dy"}, {"dx"}, {}, {}});
  cases.push_back(select);
}

void norm_cases(bool large, Cases& cases) {
  const int64_t r = large ? 517 : 5, ch = large ? 203 : 7;
  OpCase l = named("layer_norm", {{"epsilon", 1e-5}});
  l.tensor("x", {r, ch}).tensor("w", {ch}).tensor("b", {ch}).output("y", {r, ch}).weighted("y");
  l.output("mean", {r}).output("rstd", {r}).gradient("x").gradient("w").gradient("b");
  l.call({"layer_norm", {"x", "w", "b"}, {"y", "mean", "rstd"}, {}, {}});
  l.call(
      {"layer_norm.backward", {"dy", "x", "w", "mean", "rstd"}, {"dx", "dw", "db"}, {0, 1, 2}, {}});
  cases.push_back(l);

  OpCase m = named("rms_norm", {{"epsilon", 1e-5}});
  m.tensor("x", {r, ch}).tensor("w", {ch}).output("y", {r, ch}).weighted("y");
  m.output("rstd", {r}).gradient("x").gradient("w");
  m.call({"rms_norm", {"x", "w"}, {"y", "rstd"}, {}, {}});
  m.call({"rms_norm.backward", {"dy", "x", "w", "rstd"}, {"dx", "dw"}, {0, 1}, {}});
  cases.push_back(m);
}

void rope_cases(bool large, Cases& cases) {
  const int64_t b = 2, t = large ? 131 : 5, h = 4, g = 2, d = large ? 32 : 6;
  for (const bool scaled : {false, true}) {
    OpCase c = named(scaled ? "rope, scaled" : "rope",
                     {{"heads", h}, {"kv_heads", g}, {"head_dim", d}, {"theta", 1e4}});
    if (scaled) {
      c.attributes.set("scaling_factor", 8.0);
      c.attributes.set("low_freq_factor", 1.0);
      c.attributes.set("high_freq_factor", 4.0);
      c.attributes.set("original_context", int64_t{128});
    }
    c.tensor("x", {b, t, (h + 2 * g) * d}).output("y", {b, t, (h + 2 * g) * d}).weighted("y");
    c.gradient("x");
    c.call({"rope", {"x"}, {"y"}, {}, {{0, 0}}});
    c.call({"rope.backward", {"dy"}, {"dx"}, {}, {{0, 0}}});
    cases.push_back(c);
  }
}

void attention_cases(bool large, Cases& cases) {
  const int64_t b = 2, h = 4, d = large ? 24 : 3;
  for (const std::string form : {"flash", "naive"}) {
    for (const int64_t g : {h, int64_t{2}}) {
      for (const int64_t causal : {1, 0}) {
        for (const double dropout : {0.0, 0.3}) {
          const int64_t t = large ? 201 : (causal != 0 ? 7 : 6);
          const int64_t width = (h + 2 * g) * d;
          OpCase c = named(fmt::format("attention {} kv_heads {} causal {} dropout {}", form, g,
                                       causal, dropout),
                           {{"heads", h},
                            {"kv_heads", g},
                            {"head_dim", d},
                            {"causal", causal},
                            {"form", form},
                            {"dropout", dropout},
                            {"key", int64_t{77}}});
          c.first_sample = 5;
          const bool flash = form == "flash";
          const Shape saved = flash ? Shape{b, h, t} : Shape{b, h, t, t};
          c.scalars().tensor("qkv", {b, t, width}).output("o", {b, t, h * d}).weighted("o");
          c.output("saved", saved).gradient("qkv").output("ws", saved);
          c.call({"attention", {"qkv"}, {"o", "saved"}, {}, {}});
          c.call({"attention.backward", {"do", "qkv", "o", "saved"}, {"dqkv", "ws"}, {}, {}});
          cases.push_back(c);
        }
      }
    }
  }
}

void activation_cases(bool large, Cases& cases) {
  const int64_t r = large ? 309 : 4, f = large ? 117 : 5;
  for (const std::string form : {"tanh", "erf"}) {
    OpCase c = named("gelu " + form, {{"approximate", form}});
    c.tensor("x", {r, f}).output("y", {r, f}).weighted("y").gradient("x");
    c.call({"gelu", {"x"}, {"y"}, {}, {{0, 0}}});
    c.call({"gelu.backward", {"dy", "x"}, {"dx"}, {}, {{0, 0}}});
    cases.push_back(c);
  }
  OpCase relu = named("relu");
  relu.tensor("x", {r, f}).output("y", {r, f}).weighted("y").gradient("x");
  relu.call({"relu", {"x"}, {"y"}, {}, {{0, 0}}});
  relu.call({"relu.backward", {"dy", "y"}, {"dx"}, {}, {{0, 0}}});
  cases.push_back(relu);

  OpCase swiglu = named("swiglu");
  swiglu.tensor("x", {r, 2 * f}).output("y", {r, f}).weighted("y").gradient("x");
  swiglu.call({"swiglu", {"x"}, {"y"}, {}, {}});
  swiglu.call({"swiglu.backward", {"dy", "x"}, {"dx"}, {}, {{0, 1}}});
  cases.push_back(swiglu);

  OpCase dropout = named("dropout", {{"p", 0.4}, {"key", int64_t{123456789}}});
  dropout.first_sample = 3;
  dropout.scalars().tensor("x", {r, f}).output("y", {r, f}).weighted("y").gradient("x");
  dropout.call({"dropout", {"x"}, {"y"}, {}, {{0, 0}}});
  dropout.call({"dropout.backward", {"dy"}, {"dx"}, {}, {{0, 0}}});
  cases.push_back(dropout);

  for (const std::string op : {"residual", "add"}) {
    OpCase c = named(op);
    c.tensor("a", {r, f}).tensor("b", {r, f}).output("y", {r, f});
    c.call({op, {"a", "b"}, {"y"}, {}, {{0, 0}, {0, 1}}});
    cases.push_back(c);
  }
  OpCase copy = named("copy");
  copy.tensor("a", {r, f}).output("y", {r, f}).call({"copy", {"a"}, {"y"}, {}, {}});
  cases.push_back(copy);
  OpCase fill = named("fill", {{"value", 2.5}});
  fill.output("y", {r, f}).call({"fill", {}, {"y"}, {}, {}});
  cases.push_back(fill);
}

void loss_cases(bool large, Cases& cases) {
  const int64_t r = large ? 253 : 7, v = large ? 515 : 6, ch = large ? 64 : 4;
  OpCase c = named("cross_entropy");
  c.scalars().tensor("logits", {r, v}).targets("targets", {r}, v).output("loss", {1}, Kind::kF64);
  c.output("row_loss", {r}).output("lse", {r}).weighted("loss").gradient("logits");
  c.call({"cross_entropy", {"logits", "targets"}, {"loss", "row_loss", "lse"}, {0}, {}});
  c.call({"cross_entropy.backward",
          {"logits", "targets", "lse", "scalars"},
          {"dlogits"},
          {},
          {{0, 0}}});
  cases.push_back(c);

  OpCase correct = named("count_correct");
  correct.tensor("logits", {r, v}).targets("targets", {r}, v).output("correct", {1}, Kind::kF64);
  correct.call({"count_correct", {"logits", "targets"}, {"correct"}, {0}, {}});
  cases.push_back(correct);

  for (const int64_t chunks : {1, 3}) {
    OpCase l = named(fmt::format("linear_cross_entropy in {}", chunks), {{"chunks", chunks}});
    l.scalars().tensor("x", {r, ch}).tensor("w", {v, ch}).targets("targets", {r}, v);
    l.output("loss", {1}, Kind::kF64).output("row_loss", {r}).output("lse", {r}).weighted("loss");
    l.output("ws", {ceil_div(r, chunks), v}).gradient("x").gradient("w");
    l.call({"linear_cross_entropy",
            {"x", "w", "targets"},
            {"loss", "row_loss", "lse", "ws"},
            {0},
            {}});
    l.call({"linear_cross_entropy.backward",
            {"x", "w", "targets", "lse", "scalars"},
            {"dx", "dw", "ws"},
            {1},
            {}});
    cases.push_back(l);
  }

  OpCase m = named("mse");
  m.scalars().tensor("x", {r, ch}).tensor("target", {r, ch}).output("loss", {1}, Kind::kF64);
  m.output("row_loss", {r}).weighted("loss").gradient("x");
  m.call({"mse", {"x", "target"}, {"loss", "row_loss"}, {0}, {}});
  m.call({"mse.backward", {"x", "target", "scalars"}, {"dx"}, {}, {{0, 0}}});
  cases.push_back(m);
}

struct ConvSizes {
  int64_t height, width, kernel_height, kernel_width, stride, padding;
};

void conv_cases(bool large, Cases& cases) {
  const int64_t n = 3, ci = large ? 8 : 2, co = large ? 33 : 3;
  const int64_t grow = large ? 5 : 1;
  for (const ConvSizes& s :
       {ConvSizes{5, 6, 3, 3, 1, 1}, ConvSizes{7, 6, 3, 2, 2, 1}, ConvSizes{4, 4, 1, 1, 1, 0},
        ConvSizes{6, 6, 1, 1, 2, 0}, ConvSizes{7, 7, 5, 5, 3, 2}}) {
    const int64_t h = s.height * grow, w = s.width * grow;
    const int64_t ho = (h + 2 * s.padding - s.kernel_height) / s.stride + 1;
    const int64_t wo = (w + 2 * s.padding - s.kernel_width) / s.stride + 1;
    const bool bias = s.kernel_height > 1;
    OpCase c = named(fmt::format("conv2d {}x{} stride {} padding {}", s.kernel_height,
                                 s.kernel_width, s.stride, s.padding),
                     {{"stride", s.stride}, {"padding", s.padding}});
    c.tensor("x", {n, ci, h, w}).tensor("w", {co, ci, s.kernel_height, s.kernel_width});
    c.tensor("b", {co}).output("y", {n, co, ho, wo}).weighted("y");
    c.output("ws", {ci * s.kernel_height * s.kernel_width * ho * wo});
    c.gradient("x").gradient("w");
    if (bias) c.gradient("b");
    c.call({"conv2d", {"x", "w", bias ? "b" : ""}, {"y", "ws"}, {}, {}});
    c.call({"conv2d.backward_input", {"dy", "w"}, {"dx", "ws"}, {0}, {}});
    c.call({"conv2d.backward_weight",
            {"x", "dy"},
            {"dw", bias ? "db" : "", "ws"},
            bias ? std::vector<int>{0, 1} : std::vector<int>{0},
            {}});
    cases.push_back(c);
  }
}

void image_cases(bool large, Cases& cases) {
  const int64_t n = 3, ch = large ? 37 : 3, h = large ? 30 : 5, w = large ? 41 : 4;
  OpCase b = named("batch_norm", {{"epsilon", 1e-5}, {"count", n * h * w}});
  b.tensor("x", {n, ch, h, w}).tensor("w", {ch}).tensor("b", {ch}).output("y", {n, ch, h, w});
  b.weighted("y").output("mean", {ch}).output("rstd", {ch}).output("statistics", {2, ch});
  b.gradient("x").gradient("w").gradient("b");
  b.call({"batch_norm", {"x", "w", "b"}, {"y", "mean", "rstd"}, {}, {}});
  b.call(
      {"batch_norm.backward", {"dy", "x", "w", "mean", "rstd"}, {"dx", "dw", "db"}, {0, 1, 2}, {}});
  b.call({"batch_norm.statistics", {"mean", "rstd"}, {"statistics"}, {0}, {}});
  cases.push_back(b);

  OpCase i = named("batch_norm.inference", {{"epsilon", 1e-5}});
  i.tensor("x", {n, ch, h, w}).tensor("w", {ch}).tensor("b", {ch});
  i.tensor("running", {2, ch}, Fill::kPositive).output("y", {n, ch, h, w});
  i.call({"batch_norm.inference", {"x", "w", "b", "running"}, {"y"}, {}, {}});
  cases.push_back(i);

  for (const int64_t kernel : {2, 3}) {
    const int64_t padding = kernel - 2;
    const int64_t ho = (h + 2 * padding - kernel) / 2 + 1, wo = (w + 2 * padding - kernel) / 2 + 1;
    OpCase m = named(fmt::format("max_pool2d {}", kernel),
                     {{"kernel", kernel}, {"stride", int64_t{2}}, {"padding", padding}});
    m.tensor("x", {n, ch, h, w}).output("y", {n, ch, ho, wo}).weighted("y").gradient("x");
    m.call({"max_pool2d", {"x"}, {"y"}, {}, {}});
    m.call({"max_pool2d.backward", {"dy", "x", "y"}, {"dx"}, {}, {}});
    cases.push_back(m);
  }

  OpCase g = named("global_avg_pool");
  g.tensor("x", {n, ch, h, w}).output("y", {n, ch}).weighted("y").gradient("x");
  g.call({"global_avg_pool", {"x"}, {"y"}, {}, {}});
  g.call({"global_avg_pool.backward", {"dy"}, {"dx"}, {}, {}});
  cases.push_back(g);

  OpCase t = named("image_to_tokens");
  t.tensor("x", {n, ch, h, w}).output("y", {n, h * w, ch}).weighted("y").gradient("x");
  t.call({"image_to_tokens", {"x"}, {"y"}, {}, {}});
  t.call({"image_to_tokens.backward", {"dy"}, {"dx"}, {}, {}});
  cases.push_back(t);
}

// Outputs of these are inputs of the same name: they change in place.
void update_cases(bool large, Cases& cases) {
  const int64_t r = large ? 211 : 3, ch = large ? 419 : 5;
  OpCase a =
      named("adamw", {{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-8}, {"weight_decay", 0.1}});
  a.scalars().tensor("param", {r, ch}).tensor("grad", {r, ch}).tensor("m", {r, ch});
  a.tensor("v", {r, ch}, Fill::kPositive);
  a.call({"adamw", {"param", "grad", "m", "v", "scalars"}, {"param", "m", "v"}, {}, {}});
  cases.push_back(a);
  OpCase adam = a;
  adam.name = "adam";
  adam.calls.front().op = "adam";
  cases.push_back(adam);
  OpCase lion = named("lion", {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}});
  lion.scalars().tensor("param", {r, ch}).tensor("grad", {r, ch}).tensor("m", {r, ch});
  lion.call({"lion", {"param", "grad", "m", "scalars"}, {"param", "m"}, {}, {}});
  cases.push_back(lion);
  for (const bool momentum : {true, false}) {
    OpCase s =
        named(momentum ? "sgd with momentum" : "sgd", {{"momentum", 0.9}, {"weight_decay", 0.01}});
    s.scalars().tensor("param", {r, ch}).tensor("grad", {r, ch}).tensor("momentum", {r, ch});
    const std::string name = momentum ? "momentum" : "";
    s.call({"sgd", {"param", "grad", name, "scalars"}, {"param", name}, {}, {}});
    cases.push_back(s);
  }
  OpCase e = named("ema", {{"momentum", 0.1}, {"count", int64_t{4}}});
  e.scalars().tensor("statistics", {2, ch}).tensor("state", {2, ch});
  e.call({"ema", {"statistics", "scalars"}, {"state"}, {}, {}});
  cases.push_back(e);

  OpCase n = named("gradient norm", {{"index", int64_t{1}}, {"max_norm", 0.5}});
  n.scalars().tensor("x", {r, ch}).tensor("terms", {3}, Fill::kPositive, 0, Kind::kF64);
  n.output("total", {1}, Kind::kF64);
  n.call({"sum_squares", {"x"}, {"terms"}, {}, {}});
  n.call({"sum_terms", {"terms"}, {"total"}, {}, {}});
  n.call({"clip", {"terms", "scalars"}, {"scalars"}, {}, {}});
  cases.push_back(n);
}

}  // namespace

std::vector<OpCase> op_cases(bool large) {
  Cases cases;
  linear_cases(large, cases);
  vocab_cases(large, cases);
  embedding_cases(large, cases);
  norm_cases(large, cases);
  rope_cases(large, cases);
  attention_cases(large, cases);
  activation_cases(large, cases);
  loss_cases(large, cases);
  conv_cases(large, cases);
  image_cases(large, cases);
  update_cases(large, cases);
  return cases;
}

}  // namespace plimsoll::testing
