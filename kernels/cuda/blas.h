// cuBLAS, or its stand-in where the host's compiler compiles.
#pragma once

#include "kernels/cuda/device.h"

#if defined(__CUDACC__)
#include <cublas_v2.h>
#else
#include "kernels/emulation/blas.h"
#endif
