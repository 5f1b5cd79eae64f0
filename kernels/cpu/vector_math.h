// Sums and mathematical functions whose bits depend on values and extents alone.
//
// A sum runs over a fixed number of lanes that are joined in a fixed tree, whatever the alignment
// of its pointer. A function is one branch-free path for every element, so that an element gets the
// same bits in a vectorised loop, in its remainder and in a chunk of any size. (Kernels are
// compiled without contraction of a * b + c; where a fused one is meant it is written as `madd`.)
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>

#if defined(__clang__)
#define PLIMSOLL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define PLIMSOLL_INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace plimsoll {

// Lanes of 64 bytes.
template <class T>
struct Lanes {
  static constexpr int64_t kWidth = 64 / static_cast<int64_t>(sizeof(T));
  typedef T Type __attribute__((vector_size(64)));
};

template <class T>
[[nodiscard]] inline typename Lanes<T>::Type load_lanes(const T* p) {
  typename Lanes<T>::Type v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class T>
inline void store_lanes(T* p, typename Lanes<T>::Type v) {
  std::memcpy(p, &v, sizeof v);
}

// Sum of all lanes, joined pairwise.
template <class T>
[[nodiscard]] inline T join_lanes(typename Lanes<T>::Type v) {
  T lane[Lanes<T>::kWidth];
  std::memcpy(lane, &v, sizeof v);
  for (int64_t half = Lanes<T>::kWidth / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

// Sum over i of f(p0[i], p1[i], …); f is called with lanes and with single elements.
template <class T, class F, class... P>
[[nodiscard]] inline T lane_sum(int64_t n, F f, const P*... p) {
  constexpr int64_t kWidth = Lanes<T>::kWidth;
  typename Lanes<T>::Type even = {};
  typename Lanes<T>::Type odd = {};
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    even += f(load_lanes<T>(p + i)...);
    odd += f(load_lanes<T>(p + i + kWidth)...);
  }
  for (; i + kWidth <= n; i += kWidth) even += f(load_lanes<T>(p + i)...);
  for (int64_t lane = 0; i < n; ++i, ++lane) odd[lane] += f(p[i]...);
  return join_lanes<T>(even + odd);
}

// Eight elements as doubles.
[[nodiscard]] inline Lanes<double>::Type load_as_double(const double* p) {
  return load_lanes<double>(p);
}
[[nodiscard]] inline Lanes<double>::Type load_as_double(const float* p) {
  typedef float Half __attribute__((vector_size(32)));
  Half v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Lanes<double>::Type);
}

// The same as lane_sum, with elements of any float type widened to double.
template <class F, class... P>
[[nodiscard]] inline double lane_sum_f64(int64_t n, F f, const P*... p) {
  constexpr int64_t kWidth = Lanes<double>::kWidth;
  Lanes<double>::Type even = {};
  Lanes<double>::Type odd = {};
  int64_t i = 0;
  for (; i + 2 * kWidth <= n; i += 2 * kWidth) {
    even += f(load_as_double(p + i)...);
    odd += f(load_as_double(p + i + kWidth)...);
  }
  for (; i + kWidth <= n; i += kWidth) even += f(load_as_double(p + i)...);
  for (int64_t lane = 0; i < n; ++i, ++lane) odd[lane] += f(static_cast<double>(p[i])...);
  return join_lanes<double>(even + odd);
}

template <class T>
[[nodiscard]] inline T sum(const T* x, int64_t n) {
  return lane_sum<T>(
      n, [](auto a) { return a; }, x);
}

template <class T>
[[nodiscard]] inline T dot(const T* x, const T* y, int64_t n) {
  return lane_sum<T>(
      n, [](auto a, auto b) { return a * b; }, x, y);
}

// Largest element, -infinity of none.
template <class T>
[[nodiscard]] inline T max_element(const T* x, int64_t n) {
  constexpr int64_t kWidth = Lanes<T>::kWidth;
  T lane[kWidth];
  for (T& value : lane) value = -std::numeric_limits<T>::infinity();
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) {
    for (int64_t l = 0; l < kWidth; ++l) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
  }
  for (int64_t l = 0; i < n; ++i, ++l) lane[l] = x[i] > lane[l] ? x[i] : lane[l];
  T largest = lane[0];
  for (int64_t l = 1; l < kWidth; ++l) largest = lane[l] > largest ? lane[l] : largest;
  return largest;
}

// a * b + c, rounded once where the processor has it.
[[nodiscard]] inline float madd(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// e^x within 2 ulp; 0 below the smallest normal number, infinity above the largest.
[[nodiscard]] inline float exp_value(float x) {
  constexpr float kLow = -87.3365402F;
  constexpr float kHigh = 88.7228394F;
  constexpr float kLog2e = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;  // exact in few bits, so n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float low = x < kLow ? kLow : x;
  const float inside = low > kHigh ? kHigh : low;
  const float shifted = madd(inside, kLog2e, kRound);
  const float n = shifted - kRound;
  const float r = madd(n, -kLn2Low, madd(n, -kLn2High, inside));
  // Chebyshev fit of (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2; 2e-10 relative error of e^r.
  float q = 1.989108046e-4F;
  q = madd(q, r, 1.393373072e-3F);
  q = madd(q, r, 8.333310845e-3F);
  q = madd(q, r, 4.16664642e-2F);
  q = madd(q, r, 1.666666668e-1F);
  q = madd(q, r, 5.000000014e-1F);
  const float power = madd(r * r, q, r) + 1.0F;
  // 2^n by its exponent bits, in two factors because n may be 128.
  const int32_t exponent =
      static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRound));
  const int32_t half = exponent >> 1;
  const float scale_a = std::bit_cast<float>(static_cast<uint32_t>(half + 127) << 23);
  const float scale_b = std::bit_cast<float>(static_cast<uint32_t>(exponent - half + 127) << 23);
  const float value = power * scale_a * scale_b;
  const float above = x > kHigh ? std::numeric_limits<float>::infinity() : value;
  return x < kLow ? 0.0F : above;
}
[[nodiscard]] inline double exp_value(double x) { return std::exp(x); }

template <class T>
[[nodiscard]] inline T sigmoid(T x) {
  return T{1} / (T{1} + exp_value(-x));
}

// Density of the standard normal distribution.
template <class T>
[[nodiscard]] inline T normal_density(T x) {
  constexpr T kScale = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return kScale * exp_value(T{-0.5} * x * x);
}

// P(X <= x) of the standard normal distribution, (1 + erf(x / sqrt(2))) / 2.
[[nodiscard]] inline float normal_cdf(float x) {
  const float distance = x < 0 ? -x : x;
  // The tail is e^(-x^2/2) t Q(t) with t = 1 / (1 + 0.3 |x|); Q is a Chebyshev fit for |x| <= 14
  // with a relative error of 4e-9.
  const float t = 1.0F / madd(0.3F, distance, 1.0F);
  float q = -0.02091435973F;
  q = madd(q, t, 0.1140402721F);
  q = madd(q, t, -0.2320384829F);
  q = madd(q, t, 0.196940677F);
  q = madd(q, t, -0.08374254902F);
  q = madd(q, t, 0.09848074018F);
  q = madd(q, t, 0.07758906438F);
  q = madd(q, t, 0.1104051798F);
  q = madd(q, t, 0.1195517632F);
  q = madd(q, t, 0.1196876931F);
  const float tail = exp_value(-0.5F * x * x) * (t * q);
  return x > 0 ? 1.0F - tail : tail;
}
[[nodiscard]] inline double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

}  // namespace plimsoll
