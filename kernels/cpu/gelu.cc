#include "kernels/cpu/gelu.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {
namespace {

// The tanh form is x * (1 + tanh(u)) / 2 = x * sigmoid(2 u) with u = sqrt(2/pi) (x + 0.044715 x^3);
// the sigmoid loses no digits where tanh is near -1.
template <class T>
struct TanhForm {
  static constexpr T kTwiceScale = static_cast<T>(1.5957691216057307118);  // 2 sqrt(2/pi)
  static constexpr T kCubic = static_cast<T>(0.044715);

  static T value(T x) { return x * sigmoid(kTwiceScale * (x + kCubic * x * x * x)); }
  static T slope(T x) {
    const T s = sigmoid(kTwiceScale * (x + kCubic * x * x * x));
    return s + x * s * (T{1} - s) * kTwiceScale * (T{1} + T{3} * kCubic * x * x);
  }
};

template <class T>
struct ErfForm {
  static T value(T x) { return x * normal_cdf(x); }
  static T slope(T x) { return normal_cdf(x) + x * normal_density(x); }
};

template <class Form, class T>
void forward(const T* x, T* y, int64_t n, ThreadPool& pool) {
  for_each_element(n, pool, [=](int64_t i) { y[i] = Form::value(x[i]); });
}

template <class Form, class T>
void backward(const T* dy, const T* x, T* dx, int64_t n, ThreadPool& pool) {
  for_each_element(n, pool, [=](int64_t i) { dx[i] = dy[i] * Form::slope(x[i]); });
}

}  // namespace

template <class T>
void gelu_forward(const T* x, T* y, GeluForm form, int64_t n, ThreadPool& pool) {
  switch (form) {
    case GeluForm::kErf:
      return forward<ErfForm<T>>(x, y, n, pool);
    case GeluForm::kTanh:
      return forward<TanhForm<T>>(x, y, n, pool);
  }
}

template <class T>
void gelu_backward(const T* dy, const T* x, T* dx, GeluForm form, int64_t n, ThreadPool& pool) {
  switch (form) {
    case GeluForm::kErf:
      return backward<ErfForm<T>>(dy, x, dx, n, pool);
    case GeluForm::kTanh:
      return backward<TanhForm<T>>(dy, x, dx, n, pool);
  }
}

#define PLIMSOLL_INSTANTIATE(T)                                                \
  template void gelu_forward<T>(const T*, T*, GeluForm, int64_t, ThreadPool&); \
  template void gelu_backward<T>(const T*, const T*, T*, GeluForm, int64_t, ThreadPool&);
PLIMSOLL_INSTANTIATE(float)
PLIMSOLL_INSTANTIATE(double)
#undef PLIMSOLL_INSTANTIATE

}  // namespace plimsoll
