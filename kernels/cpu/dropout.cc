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

template void dropout<float>(const float*, float*, const DropoutMask&, int64_t, int64_t,
                             ThreadPool&);
template void dropout<double>(const double*, double*, const DropoutMask&, int64_t, int64_t,
                              ThreadPool&);

}  // namespace plimsoll
