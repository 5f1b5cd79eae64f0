#include "kernels/cpu/arithmetic.h"

#include "kernels/cpu/elementwise.h"

#include <cstring>

namespace plimsoll {

template <class T>
void add(const T* a, const T* b, T* y, int64_t n, ThreadPool& pool) {
  for_each_element(n, pool, [=](int64_t i) { y[i] = a[i] + b[i]; });
}

void copy_bytes(const void* from, void* to, int64_t bytes, ThreadPool& pool) {
  if (from == to) return;
  constexpr int64_t kGrainBytes = int64_t{1} << 18;
  pool.parallel_ranges(bytes, kGrainBytes, [=](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

template <class T>
void fill(T* y, T value, int64_t n, ThreadPool& pool) {
  for_each_element(n, pool, [=](int64_t i) { y[i] = value; });
}

template void add<float>(const float*, const float*, float*, int64_t, ThreadPool&);
template void add<double>(const double*, const double*, double*, int64_t, ThreadPool&);
template void fill<float>(float*, float, int64_t, ThreadPool&);
template void fill<double>(double*, double, int64_t, ThreadPool&);
template void fill<int32_t>(int32_t*, int32_t, int64_t, ThreadPool&);
template void fill<int64_t>(int64_t*, int64_t, int64_t, ThreadPool&);

}  // namespace plimsoll
