#include "kernels/cpu/matmul.h"

#include "base/rng.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace plimsoll::testing {
namespace {

// An [rows, columns] matrix of draws inside rows of `stride` elements; with `whole`, small
// integers.
template <class T>
std::vector<T> matrix(int64_t rows, int64_t stride, uint64_t seed, bool whole) {
  std::vector<T> values(static_cast<size_t>(rows * stride));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = whole ? static_cast<T>(static_cast<int>(rng_bits(seed, 1, i) % 9) - 4)
                      : static_cast<T>(rng_normal(seed, 1, i));
  }
  return values;
}

struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate, bias;
  int64_t padding;  // of each matrix's rows
  bool whole;       // integers: compared without tolerance
};

template <class T>
void check(const Product& p, int num_threads = 2) {
  const int64_t a_rows = p.transpose_a ? p.k : p.m;
  const int64_t a_stride = (p.transpose_a ? p.m : p.k) + p.padding;
  const int64_t b_rows = p.transpose_b ? p.n : p.k;
  const int64_t b_stride = (p.transpose_b ? p.k : p.n) + p.padding;
  const int64_t c_stride = p.n + p.padding;
  const std::vector<T> a = matrix<T>(a_rows, a_stride, 1, p.whole);
  const std::vector<T> b = matrix<T>(b_rows, b_stride, 2, p.whole);
  const std::vector<T> bias = matrix<T>(1, p.n, 3, p.whole);
  const std::vector<T> before = matrix<T>(p.m, c_stride, 4, p.whole);
  std::vector<T> c = before;
  if (!p.accumulate) {
    for (int64_t i = 0; i < p.m * p.n; ++i) {
      c[static_cast<size_t>(i / p.n * c_stride + i % p.n)] = std::numeric_limits<T>::quiet_NaN();
    }
  }
  ThreadPool pool(num_threads);
  matmul<T>(p.m, p.n, p.k, {a.data(), a_stride, p.transpose_a}, {b.data(), b_stride, p.transpose_b},
            p.accumulate, c.data(), c_stride, pool, p.bias ? bias.data() : nullptr);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < c_stride; ++j) {
      const auto at = static_cast<size_t>(i * c_stride + j);
      if (j >= p.n) {
        ASSERT_EQ(c[at], before[at]) << "wrote beside the output";
        continue;
      }
      double want = p.accumulate ? static_cast<double>(before[at]) : 0;
      if (p.bias) want += static_cast<double>(bias[static_cast<size_t>(j)]);
      double size = std::abs(want);
      for (int64_t l = 0; l < p.k; ++l) {
        const double term =
            static_cast<double>(
                a[static_cast<size_t>(p.transpose_a ? l * a_stride + i : i * a_stride + l)]) *
            static_cast<double>(
                b[static_cast<size_t>(p.transpose_b ? j * b_stride + l : l * b_stride + j)]);
        want += term;
        size += std::abs(term);
      }
      const double found = static_cast<double>(c[at]);
      if (p.whole) {
        ASSERT_EQ(found, want) << i << " " << j;
      } else {
        ASSERT_NEAR(found, want, 8 * static_cast<double>(std::numeric_limits<T>::epsilon()) * size)
            << i << " " << j;
      }
    }
  }
}

TEST(Matmul, AllTranspositionsAtOddSizes) {
  for (const int transposes : {0, 1, 2, 3}) {
    for (const bool accumulate : {false, true}) {
      for (const bool whole : {false, true}) {
        const bool ta = (transposes & 1) != 0, tb = (transposes & 2) != 0;
        check<float>({37, 53, 29, ta, tb, accumulate, false, 3, whole});
        check<double>({37, 53, 29, ta, tb, accumulate, false, 3, whole});
        check<float>({131, 263, 77, ta, tb, accumulate, !accumulate, 5, whole});
      }
    }
  }
}

TEST(Matmul, ManyTilesAreExactOnIntegers) {
  check<float>({700, 530, 40, false, true, false, true, 0, true});
  check<float>({1, 1200, 300, false, true, false, true, 0, true});
  check<float>({1500, 3, 200, true, false, true, false, 1, true});
  check<double>({129, 65, 1100, true, false, false, false, 0, true});
}

RC_GTEST_PROP(Matmul, RandomShapesAreExactOnIntegers, ()) {
  const auto extent = [] { return *rc::gen::inRange<int64_t>(1, 90); };
  Product p{extent(), extent(), extent(), false, false, false, false, 0, true};
  p.transpose_a = *rc::gen::arbitrary<bool>();
  p.transpose_b = *rc::gen::arbitrary<bool>();
  p.accumulate = *rc::gen::arbitrary<bool>();
  p.bias = !p.accumulate && *rc::gen::arbitrary<bool>();
  p.padding = *rc::gen::inRange<int64_t>(0, 4);
  check<float>(p, 3);
  RC_ASSERT(!::testing::Test::HasFatalFailure());
}

TEST(Matmul, EmptySumGivesZeroOrTheBias) {
  check<float>({5, 6, 0, false, false, false, false, 0, true});
  check<float>({5, 6, 0, false, false, false, true, 0, true});
}

RC_GTEST_PROP(Matmul, TilesCoverTheOutputOnce, ()) {
  const int64_t m = *rc::gen::inRange<int64_t>(1, 5000);
  const int64_t n = *rc::gen::inRange<int64_t>(1, 60000);
  const int64_t k = *rc::gen::inRange<int64_t>(1, 5000);
  const TileGrid grid = tile_grid(m, n, k);
  RC_ASSERT(grid.num_m * grid.tile_m >= m && (grid.num_m - 1) * grid.tile_m < m);
  RC_ASSERT(grid.num_n * grid.tile_n >= n && (grid.num_n - 1) * grid.tile_n < n);
  RC_ASSERT(grid.tile_m <= 512 && grid.tile_n <= 512);
}

// Two threads share the products of a training step evenly: enough tiles wherever there is work.
TEST(Matmul, LargeProductsHaveEnoughTiles) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{4096, 768, 768},
                                                                   {768, 768, 4096},
                                                                   {256, 256, 1024},
                                                                   {64, 4096, 1024},
                                                                   {4096, 50257, 768}}) {
    const TileGrid grid = tile_grid(m, n, k);
    EXPECT_GE(grid.num_m * grid.num_n, 8) << m << " " << n << " " << k;
  }
}

}  // namespace
}  // namespace plimsoll::testing
