#include "kernels/cpu/dropout.h"

#include "kernels/cpu/elementwise.h"

namespace plimsoll {

template <class T>
void dropout(const T* x, T* y, const DropoutMask& mask, int64_t first_index, int64_t n,
             ThreadPool& pool) {
  const T scale = static_cast<T>(mask.scale());
  const auto first = static_cast<uint64_t>(first_index);
  for_each_element(n, pool, [=](int64_t i) {
    const T kept = x[i] * scale;
    y[i] = mask.keeps(first + static_cast<uint64_t>(i)) ? kept : T{0};
  });
}

template <class T>
void dropout_rows(const T* x, T* y, const DropoutMask& mask, int64_t first_index, int64_t rows,
                  int64_t length, int64_t stride, ThreadPool& pool) {
  const T scale = static_cast<T>(mask.scale());
  const auto first = static_cast<uint64_t>(first_index);
  for_each_row(rows, length, pool, [=](int64_t r) {
    const uint64_t index = first + static_cast<uint64_t>(r * stride);
    const T* from = x + r * length;
    T* to = y + r * length;
    for (int64_t i = 0; i < length; ++i) {
      to[i] = mask.keeps(index + static_cast<uint64_t>(i)) ? from[i] * scale : T{0};
    }
  });
}

template void dropout_rows<float>(const float*, float*, const DropoutMask&, int64_t, int64_t,
                                  int64_t, int64_t, ThreadPool&);
template void dropout_rows<double>(const double*, double*, const DropoutMask&, int64_t, int64_t,
                                   int64_t, int64_t, ThreadPool&);
template void dropout<float>(const float*, float*, const DropoutMask&, int64_t, int64_t,
                             ThreadPool&);
template void dropout<double>(const double*, double*, const DropoutMask&, int64_t, int64_t,
                              ThreadPool&);

}  // namespace plimsoll
