#include "tests/kernels/reference.h"

#include "base/rng.h"
#include "program/program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

namespace plimsoll::testing {
namespace {

double* in(const KernelArgs& a, size_t i) { return a.in[i].as<double>(); }
double* out(const KernelArgs& a, size_t i) { return a.out[i].as<double>(); }
int64_t whole(const KernelArgs& a, const char* name) { return a.attributes->get_int(name); }
double real(const KernelArgs& a, const char* name) { return a.attributes->get_double(name); }

// rng_uniform of the step's stream; the definition that kernels/cpu/dropout.h must agree with.
bool kept(const KernelArgs& a, double probability, int64_t index) {
  const auto seed = static_cast<uint64_t>(a.scalars[kScalarSeed]);
  const auto step = static_cast<uint64_t>(a.scalars[kScalarStep]);
  return rng_uniform(seed ^ splitmix64(step + 1), static_cast<uint64_t>(whole(a, "key")),
                     static_cast<uint64_t>(index)) >= static_cast<float>(probability);
}

void linear(const KernelArgs& a) {
  const int64_t rows = a.in[0].rows(), k = a.in[1].extent(1), n = a.in[1].extent(0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < n; ++j) {
      double total = a.in[2].present() ? in(a, 2)[j] : 0;
      for (int64_t i = 0; i < k; ++i) total += in(a, 0)[r * k + i] * in(a, 1)[j * k + i];
      out(a, 0)[r * n + j] = total;
    }
  }
}

void bias_add(const KernelArgs& a) {
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    out(a, 0)[i] = in(a, 0)[i] + in(a, 1)[i % a.in[1].size()];
  }
}

// Largest logit of a row, the sum of exponentials below `top`, and the target's logit less `top`.
double vocab_largest(const double* row, int64_t valid) {
  return *std::max_element(row, row + valid);
}

void vocab_row(const double* row, int64_t valid, int32_t target, double top, double absent,
               double* sum, double* of_target) {
  *sum = 0;
  for (int64_t i = 0; i < valid; ++i) *sum += std::exp(row[i] - top);
  *of_target = target < 0 ? absent : row[target] - top;
}

void vocab_max(const KernelArgs& a) {
  for (int64_t r = 0; r < a.out[0].size(); ++r) {
    out(a, 0)[r] = vocab_largest(in(a, 0) + r * a.in[0].last(), whole(a, "vocabulary"));
  }
}

void vocab_sums(const KernelArgs& a) {
  const int64_t rows = a.in[2].size();
  for (int64_t r = 0; r < rows; ++r) {
    vocab_row(in(a, 0) + r * a.in[0].last(), whole(a, "vocabulary"), a.in[1].as<int32_t>()[r],
              in(a, 2)[r], 0, out(a, 0) + r, out(a, 0) + rows + r);
  }
}

void vocab_cross_entropy(const KernelArgs& a) {
  const int64_t rows = a.in[1].size();
  if (!a.accumulates(0)) out(a, 0)[0] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    out(a, 2)[r] = in(a, 1)[r] + std::log(in(a, 2)[r]);
    out(a, 1)[r] =
        a.in[0].as<int32_t>()[r] < 0 ? 0 : out(a, 2)[r] - in(a, 1)[r] - in(a, 2)[rows + r];
    out(a, 0)[0] += out(a, 1)[r];
  }
}

void vocab_head_local(const KernelArgs& a) {
  const int64_t rows = a.in[0].rows(), k = a.in[0].last(), v = a.in[1].extent(0);
  std::vector<double> logits(static_cast<size_t>(v));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < v; ++j) {
      double& logit = logits[static_cast<size_t>(j)];
      logit = 0;
      for (int64_t i = 0; i < k; ++i) logit += in(a, 0)[r * k + i] * in(a, 1)[j * k + i];
    }
    out(a, 0)[r] = vocab_largest(logits.data(), whole(a, "vocabulary"));
    vocab_row(logits.data(), whole(a, "vocabulary"), a.in[2].as<int32_t>()[r], out(a, 0)[r], 1,
              out(a, 1) + r, out(a, 1) + rows + r);
  }
}

void vocab_head_rescale(const KernelArgs& a) {
  const int64_t rows = a.in[1].size();
  for (int64_t r = 0; r < rows; ++r) {
    const double target = in(a, 0)[rows + r];
    out(a, 0)[r] = in(a, 0)[r] * std::exp(in(a, 1)[r] - in(a, 2)[r]);
    out(a, 0)[rows + r] = target > 0 ? 0 : target + in(a, 1)[r] - in(a, 2)[r];
  }
}

void embedding(const KernelArgs& a) {
  const int64_t ch = a.in[1].extent(1);
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    out(a, 0)[i] = in(a, 1)[a.in[0].as<int32_t>()[i / ch] * ch + i % ch];
  }
}

void position_embedding(const KernelArgs& a) {
  const int64_t used = a.in[0].extent(1) * a.in[0].extent(2);
  for (int64_t i = 0; i < a.out[0].size(); ++i) out(a, 0)[i] = in(a, 0)[i] + in(a, 1)[i % used];
}

void prepend_token(const KernelArgs& a) {
  const int64_t p = a.in[0].extent(1), ch = a.in[0].extent(2);
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    const int64_t b = i / ((p + 1) * ch), t = i / ch % (p + 1), c = i % ch;
    out(a, 0)[i] = t == 0 ? in(a, 1)[c] : in(a, 0)[(b * p + t - 1) * ch + c];
  }
}

void select_token(const KernelArgs& a) {
  const int64_t t = a.in[0].extent(1), ch = a.in[0].extent(2);
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    out(a, 0)[i] = in(a, 0)[(i / ch * t + whole(a, "index")) * ch + i % ch];
  }
}

void image_to_tokens(const KernelArgs& a) {
  const int64_t ch = a.in[0].extent(1), pixels = a.in[0].extent(2) * a.in[0].extent(3);
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    const int64_t b = i / (ch * pixels), pixel = i / ch % pixels, c = i % ch;
    out(a, 0)[i] = in(a, 0)[(b * ch + c) * pixels + pixel];
  }
}

void layer_norm(const KernelArgs& a) {
  const int64_t ch = a.in[0].last();
  for (int64_t r = 0; r < a.in[0].rows(); ++r) {
    const double* x = in(a, 0) + r * ch;
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < ch; ++c) mean += x[c] / static_cast<double>(ch);
    for (int64_t c = 0; c < ch; ++c) {
      variance += (x[c] - mean) * (x[c] - mean) / static_cast<double>(ch);
    }
    const double rstd = 1 / std::sqrt(variance + real(a, "epsilon"));
    for (int64_t c = 0; c < ch; ++c) {
      out(a, 0)[r * ch + c] = (x[c] - mean) * rstd * in(a, 1)[c] + in(a, 2)[c];
    }
    out(a, 1)[r] = mean;
    out(a, 2)[r] = rstd;
  }
}

void rms_norm(const KernelArgs& a) {
  const int64_t ch = a.in[0].last();
  for (int64_t r = 0; r < a.in[0].rows(); ++r) {
    const double* x = in(a, 0) + r * ch;
    double mean = 0;
    for (int64_t c = 0; c < ch; ++c) mean += x[c] * x[c] / static_cast<double>(ch);
    out(a, 1)[r] = 1 / std::sqrt(mean + real(a, "epsilon"));
    for (int64_t c = 0; c < ch; ++c) out(a, 0)[r * ch + c] = x[c] * out(a, 1)[r] * in(a, 1)[c];
  }
}

double rope_frequency(const KernelArgs& a, int64_t pair) {
  const double exponent = -2.0 * static_cast<double>(pair) / real(a, "head_dim");
  const double plain = std::pow(real(a, "theta"), exponent);
  if (!a.attributes->has("scaling_factor")) return plain;
  const double factor = real(a, "scaling_factor"), low = real(a, "low_freq_factor");
  const double high = real(a, "high_freq_factor"), context = real(a, "original_context");
  const double wavelength = 2 * std::numbers::pi / plain;
  const double smooth = std::clamp((context / wavelength - low) / (high - low), 0.0, 1.0);
  return (1 - smooth) * plain / factor + smooth * plain;
}

void rope(const KernelArgs& a) {
  const int64_t d = whole(a, "head_dim"), half = d / 2, width = a.in[0].last();
  const int64_t turned = (whole(a, "heads") + whole(a, "kv_heads")) * d;
  for (int64_t i = 0; i < a.in[0].size(); ++i) {
    const int64_t t = i / width % a.in[0].extent(1), w = i % width, e = w % d;
    if (w >= turned) {
      out(a, 0)[i] = in(a, 0)[i];
      continue;
    }
    const double angle = static_cast<double>(t) * rope_frequency(a, e % half);
    const double other = e < half ? -in(a, 0)[i + half] : in(a, 0)[i - half];
    out(a, 0)[i] = in(a, 0)[i] * std::cos(angle) + other * std::sin(angle);
  }
}

// One query of one head; returns the log-sum-exp of its scores and fills its probabilities.
double attend(const KernelArgs& a, int64_t b, int64_t h, int64_t i, std::vector<double>& p) {
  const int64_t heads = whole(a, "heads"), kv = whole(a, "kv_heads"), d = whole(a, "head_dim");
  const int64_t t = a.in[0].extent(1), width = a.in[0].last();
  const double* q = in(a, 0) + (b * t + i) * width + h * d;
  const int64_t visible = whole(a, "causal") != 0 ? i + 1 : t;
  double total = 0;
  p.assign(static_cast<size_t>(t), 0);
  for (int64_t j = 0; j < visible; ++j) {
    const double* k = in(a, 0) + (b * t + j) * width + (heads + h / (heads / kv)) * d;
    double score = 0;
    for (int64_t e = 0; e < d; ++e) score += q[e] * k[e];
    p[static_cast<size_t>(j)] = std::exp(score / std::sqrt(static_cast<double>(d)));
    total += p[static_cast<size_t>(j)];
  }
  for (double& value : p) value /= total;
  return std::log(total);
}

void attention(const KernelArgs& a) {
  const int64_t heads = whole(a, "heads"), kv = whole(a, "kv_heads"), d = whole(a, "head_dim");
  const int64_t t = a.in[0].extent(1), width = a.in[0].last();
  const double drop = real(a, "dropout");
  std::vector<double> p;
  for (int64_t b = 0; b < a.in[0].extent(0); ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < t; ++i) {
        const double lse = attend(a, b, h, i, p);
        const int64_t row = (b * heads + h) * t + i;
        if (a.attributes->get_string("form") == "flash") {
          out(a, 1)[row] = lse;
        } else {
          std::copy(p.begin(), p.end(), out(a, 1) + row * t);
        }
        double* o = out(a, 0) + (b * t + i) * heads * d + h * d;
        std::fill_n(o, d, 0);
        for (int64_t j = 0; j < t; ++j) {
          const int64_t draw = (((a.first_sample + b) * heads + h) * t + i) * t + j;
          if (drop > 0 && !kept(a, drop, draw)) continue;
          const double* v = in(a, 0) + (b * t + j) * width + (heads + kv + h / (heads / kv)) * d;
          for (int64_t e = 0; e < d; ++e) o[e] += p[static_cast<size_t>(j)] / (1 - drop) * v[e];
        }
      }
    }
  }
}

void gelu(const KernelArgs& a) {
  const bool erf = a.attributes->get_string("approximate") == "erf";
  for (int64_t i = 0; i < a.in[0].size(); ++i) {
    const double x = in(a, 0)[i];
    const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    out(a, 0)[i] = 0.5 * x * (1 + (erf ? std::erf(x / std::sqrt(2.0)) : std::tanh(u)));
  }
}

void relu(const KernelArgs& a) {
  for (int64_t i = 0; i < a.in[0].size(); ++i) out(a, 0)[i] = std::max(0.0, in(a, 0)[i]);
}

void swiglu(const KernelArgs& a) {
  const int64_t f = a.out[0].last();
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    const double gate = in(a, 0)[i / f * 2 * f + i % f], up = in(a, 0)[i / f * 2 * f + f + i % f];
    out(a, 0)[i] = up * gate / (1 + std::exp(-gate));
  }
}

void dropout(const KernelArgs& a) {
  const int64_t per_sample = a.in[0].size() / a.in[0].extent(0);
  for (int64_t i = 0; i < a.in[0].size(); ++i) {
    const bool keep = kept(a, real(a, "p"), a.first_sample * per_sample + i);
    out(a, 0)[i] = keep ? in(a, 0)[i] / (1 - real(a, "p")) : 0;
  }
}

void add(const KernelArgs& a) {
  for (int64_t i = 0; i < a.out[0].size(); ++i) out(a, 0)[i] = in(a, 0)[i] + in(a, 1)[i];
}

void copy(const KernelArgs& a) { std::copy_n(in(a, 0), a.out[0].size(), out(a, 0)); }

void fill(const KernelArgs& a) { std::fill_n(out(a, 0), a.out[0].size(), real(a, "value")); }

void softmax_losses(const double* logits, const int32_t* targets, const KernelArgs& a, int64_t rows,
                    int64_t v) {
  out(a, 0)[0] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double total = 0;
    for (int64_t i = 0; i < v; ++i) total += std::exp(logits[r * v + i]);
    out(a, 2)[r] = std::log(total);
    out(a, 1)[r] = targets[r] == -100 ? 0 : out(a, 2)[r] - logits[r * v + targets[r]];
    out(a, 0)[0] += out(a, 1)[r];
  }
}

void cross_entropy(const KernelArgs& a) {
  softmax_losses(in(a, 0), a.in[1].as<int32_t>(), a, a.in[0].rows(), a.in[0].last());
}

void count_correct(const KernelArgs& a) {
  const int64_t v = a.in[0].last();
  out(a, 0)[0] = 0;
  for (int64_t r = 0; r < a.in[0].rows(); ++r) {
    int64_t best = 0;
    for (int64_t i = 1; i < v; ++i) {
      if (in(a, 0)[r * v + i] > in(a, 0)[r * v + best]) best = i;
    }
    out(a, 0)[0] += best == a.in[1].as<int32_t>()[r] ? 1 : 0;
  }
}

void linear_cross_entropy(const KernelArgs& a) {
  const int64_t rows = a.in[0].rows(), ch = a.in[0].last(), v = a.in[1].extent(0);
  std::vector<double> logits(static_cast<size_t>(rows * v));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < v; ++j) {
      for (int64_t c = 0; c < ch; ++c) {
        logits[static_cast<size_t>(r * v + j)] += in(a, 0)[r * ch + c] * in(a, 1)[j * ch + c];
      }
    }
  }
  softmax_losses(logits.data(), a.in[2].as<int32_t>(), a, rows, v);
}

void mse(const KernelArgs& a) {
  const int64_t d = a.in[0].last();
  out(a, 0)[0] = 0;
  for (int64_t r = 0; r < a.in[0].rows(); ++r) {
    out(a, 1)[r] = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double difference = in(a, 0)[r * d + c] - in(a, 1)[r * d + c];
      out(a, 1)[r] += difference * difference;
    }
    out(a, 0)[0] += out(a, 1)[r];
  }
}

void conv2d(const KernelArgs& a) {
  const Operand &x = a.in[0], &w = a.in[1], &y = a.out[0];
  const int64_t stride = whole(a, "stride"), padding = whole(a, "padding");
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t ow = i % y.extent(3), oh = i / y.extent(3) % y.extent(2);
    const int64_t co = i / (y.extent(2) * y.extent(3)) % y.extent(1);
    const int64_t n = i / (y.extent(1) * y.extent(2) * y.extent(3));
    double total = a.in[2].present() ? in(a, 2)[co] : 0;
    for (int64_t tap = 0; tap < w.size() / w.extent(0); ++tap) {
      const int64_t kw = tap % w.extent(3), kh = tap / w.extent(3) % w.extent(2);
      const int64_t ci = tap / (w.extent(2) * w.extent(3));
      const int64_t ih = oh * stride + kh - padding, iw = ow * stride + kw - padding;
      if (ih < 0 || iw < 0 || ih >= x.extent(2) || iw >= x.extent(3)) continue;
      total += in(a, 0)[((n * x.extent(1) + ci) * x.extent(2) + ih) * x.extent(3) + iw] *
               in(a, 1)[co * (w.size() / w.extent(0)) + tap];
    }
    out(a, 0)[i] = total;
  }
}

void normalise(const KernelArgs& a, int64_t c, double mean, double rstd) {
  const int64_t ch = a.in[0].extent(1), pixels = a.in[0].extent(2) * a.in[0].extent(3);
  for (int64_t i = 0; i < a.in[0].size(); ++i) {
    if (i / pixels % ch != c) continue;
    out(a, 0)[i] = (in(a, 0)[i] - mean) * rstd * in(a, 1)[c] + in(a, 2)[c];
  }
}

void batch_norm(const KernelArgs& a) {
  const int64_t ch = a.in[0].extent(1), pixels = a.in[0].extent(2) * a.in[0].extent(3);
  const auto count = static_cast<double>(a.in[0].extent(0) * pixels);
  for (int64_t c = 0; c < ch; ++c) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < a.in[0].size(); ++i) {
      if (i / pixels % ch != c) continue;
      mean += in(a, 0)[i] / count;
      square += in(a, 0)[i] * in(a, 0)[i] / count;
    }
    out(a, 1)[c] = mean;
    out(a, 2)[c] = 1 / std::sqrt(square - mean * mean + real(a, "epsilon"));
    normalise(a, c, mean, out(a, 2)[c]);
  }
}

void batch_norm_inference(const KernelArgs& a) {
  const int64_t ch = a.in[0].extent(1);
  for (int64_t c = 0; c < ch; ++c) {
    normalise(a, c, in(a, 3)[c], 1 / std::sqrt(in(a, 3)[ch + c] + real(a, "epsilon")));
  }
}

void batch_norm_statistics(const KernelArgs& a) {
  const int64_t ch = a.in[0].size();
  const double count = real(a, "count");
  for (int64_t c = 0; c < ch; ++c) {
    const double variance = std::pow(in(a, 1)[c], -2) - real(a, "epsilon");
    out(a, 0)[c] = in(a, 0)[c];
    out(a, 0)[ch + c] = variance * count / (count - 1);
  }
}

void max_pool2d(const KernelArgs& a) {
  const Operand &x = a.in[0], &y = a.out[0];
  const int64_t kernel = whole(a, "kernel"), stride = whole(a, "stride");
  for (int64_t i = 0; i < y.size(); ++i) {
    const int64_t ow = i % y.extent(3), oh = i / y.extent(3) % y.extent(2);
    const int64_t plane = i / (y.extent(2) * y.extent(3));
    double largest = -1e300;
    for (int64_t k = 0; k < kernel * kernel; ++k) {
      const int64_t ih = oh * stride + k / kernel - whole(a, "padding");
      const int64_t iw = ow * stride + k % kernel - whole(a, "padding");
      if (ih < 0 || iw < 0 || ih >= x.extent(2) || iw >= x.extent(3)) continue;
      largest = std::max(largest, in(a, 0)[(plane * x.extent(2) + ih) * x.extent(3) + iw]);
    }
    out(a, 0)[i] = largest;
  }
}

void global_avg_pool(const KernelArgs& a) {
  const int64_t pixels = a.in[0].size() / a.out[0].size();
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    out(a, 0)[i] = 0;
    for (int64_t j = 0; j < pixels; ++j) out(a, 0)[i] += in(a, 0)[i * pixels + j];
    out(a, 0)[i] /= static_cast<double>(pixels);
  }
}

void adamw(const KernelArgs& a) {
  const double* s = in(a, 4);
  const double beta1 = real(a, "beta1"), beta2 = real(a, "beta2");
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    const double g = in(a, 1)[i] * s[kScalarClipFactor];
    double &p = out(a, 0)[i], &m = out(a, 1)[i], &v = out(a, 2)[i];
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double m_hat = m / s[kScalarBiasCorrection1], v_hat = v / s[kScalarBiasCorrection2];
    p -= s[kScalarLearningRate] *
         (m_hat / (std::sqrt(v_hat) + real(a, "epsilon")) + real(a, "weight_decay") * p);
  }
}

void adam(const KernelArgs& a) {
  const double* s = in(a, 4);
  const double beta1 = real(a, "beta1"), beta2 = real(a, "beta2");
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    double &p = out(a, 0)[i], &m = out(a, 1)[i], &v = out(a, 2)[i];
    const double g = in(a, 1)[i] * s[kScalarClipFactor] + real(a, "weight_decay") * p;
    m += (1 - beta1) * (g - m);
    v += (1 - beta2) * (g * g - v);
    const double m_hat = m / s[kScalarBiasCorrection1], v_hat = v / s[kScalarBiasCorrection2];
    p -= s[kScalarLearningRate] * m_hat / (std::sqrt(v_hat) + real(a, "epsilon"));
  }
}

void lion(const KernelArgs& a) {
  const double* s = in(a, 3);
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    double &p = out(a, 0)[i], &m = out(a, 1)[i];
    const double g = in(a, 1)[i] * s[kScalarClipFactor];
    const double direction = g + real(a, "beta1") * (m - g);
    m = g + real(a, "beta2") * (m - g);
    const double step = direction == 0 ? 0 : std::copysign(1.0, direction);
    p -= s[kScalarLearningRate] * (step + real(a, "weight_decay") * p);
  }
}

void sgd(const KernelArgs& a) {
  const double* s = in(a, 3);
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    double& p = out(a, 0)[i];
    double step = in(a, 1)[i] * s[kScalarClipFactor] + real(a, "weight_decay") * p;
    if (a.out[1].present()) step = out(a, 1)[i] = real(a, "momentum") * out(a, 1)[i] + step;
    p -= s[kScalarLearningRate] * step;
  }
}

void ema(const KernelArgs& a) {
  const double momentum = real(a, "momentum");
  for (int64_t i = 0; i < a.out[0].size(); ++i) {
    out(a, 0)[i] = (1 - momentum) * out(a, 0)[i] + momentum * in(a, 0)[i] / real(a, "count");
  }
}

void sum_squares(const KernelArgs& a) {
  double total = 0;
  for (int64_t i = 0; i < a.in[0].size(); ++i) total += in(a, 0)[i] * in(a, 0)[i];
  out(a, 0)[whole(a, "index")] = total;
}

void sum_terms(const KernelArgs& a) {
  out(a, 0)[0] = 0;
  for (int64_t i = 0; i < a.in[0].size(); ++i) out(a, 0)[0] += in(a, 0)[i];
}

void clip(const KernelArgs& a) {
  double total = 0;
  for (int64_t i = 0; i < a.in[0].size(); ++i) total += in(a, 0)[i];
  out(a, 0)[kScalarGradientNorm] = std::sqrt(total);
  out(a, 0)[kScalarClipFactor] = std::min(1.0, real(a, "max_norm") / std::sqrt(total));
}

}  // namespace

KernelFunction find_reference(std::string_view op) {
  static const std::map<std::string_view, KernelFunction> kTable = {
      {"adam", adam},
      {"adamw", adamw},
      {"add", add},
      {"attention", attention},
      {"batch_norm", batch_norm},
      {"batch_norm.inference", batch_norm_inference},
      {"batch_norm.statistics", batch_norm_statistics},
      {"bias_add", bias_add},
      {"clip", clip},
      {"conv2d", conv2d},
      {"copy", copy},
      {"count_correct", count_correct},
      {"cross_entropy", cross_entropy},
      {"dropout", dropout},
      {"ema", ema},
      {"embedding", embedding},
      {"fill", fill},
      {"gelu", gelu},
      {"global_avg_pool", global_avg_pool},
      {"image_to_tokens", image_to_tokens},
      {"layer_norm", layer_norm},
      {"linear", linear},
      {"linear_cross_entropy", linear_cross_entropy},
      {"max_pool2d", max_pool2d},
      {"mse", mse},
      {"position_embedding", position_embedding},
      {"prepend_token", prepend_token},
      {"relu", relu},
      {"residual", add},
      {"rms_norm", rms_norm},
      {"rope", rope},
      {"select_token", select_token},
      {"lion", lion},
      {"sgd", sgd},
      {"sum_squares", sum_squares},
      {"sum_terms", sum_terms},
      {"swiglu", swiglu},
      {"vocab_cross_entropy", vocab_cross_entropy},
      {"vocab_cross_entropy.max", vocab_max},
      {"vocab_cross_entropy.sums", vocab_sums},
      {"vocab_linear_cross_entropy.local", vocab_head_local},
      {"vocab_linear_cross_entropy.rescale", vocab_head_rescale},
  };
  const auto found = kTable.find(op);
  return found == kTable.end() ? nullptr : found->second;
}

}  // namespace plimsoll::testing
