// Sums, copies and constants, element by element.
#pragma once

#include "kernels/cuda/queue.h"

#include <cstdint>

namespace plimsoll::cuda {

// y [n] = a + b (y may be either).
void add(const float* a, const float* b, float* y, int64_t n, const Queue& queue);
void add(const double* a, const double* b, double* y, int64_t n, const Queue& queue);
// Copies 4-byte words.
void copy_words(const void* from, void* to, int64_t words, const Queue& queue);
void fill(float* y, float value, int64_t n, const Queue& queue);
void fill(double* y, double value, int64_t n, const Queue& queue);
void fill(int32_t* y, int32_t value, int64_t n, const Queue& queue);

}  // namespace plimsoll::cuda
