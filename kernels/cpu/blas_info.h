// Which matrix library runs underneath, for the record of a run.
#pragma once

#include <string>

namespace plimsoll {

// "OpenBLAS 0.3.21 (Haswell)": version and the processor core its kernels are for.
[[nodiscard]] std::string blas_description();

}  // namespace plimsoll
