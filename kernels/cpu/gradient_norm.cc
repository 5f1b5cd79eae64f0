#include "kernels/cpu/gradient_norm.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
double sum_squares(const T* x, int64_t n, ThreadPool& pool) {
  constexpr int64_t kMaxBlocks = 64;
  double part[kMaxBlocks] = {};
  const int64_t grain = std::max(kElementGrain, (n + kMaxBlocks - 1) / kMaxBlocks);
  pool.parallel_ranges(n, grain, [&](int64_t begin, int64_t end) {
    part[begin / grain] = lane_sum_f64(
        end - begin, [](auto a) { return a * a; }, x + begin);
  });
  return sum_terms(part, kMaxBlocks);
}

double sum_terms(const double* terms, int64_t n) {
  double total = 0;
  for (int64_t i = 0; i < n; ++i) total += terms[i];
  return total;
}

double clip_factor(double norm, double max_norm) {
  return max_norm == 0 || norm <= max_norm ? 1 : max_norm / norm;
}

template double sum_squares<float>(const float*, int64_t, ThreadPool&);
template double sum_squares<double>(const double*, int64_t, ThreadPool&);

}  // namespace plimsoll
