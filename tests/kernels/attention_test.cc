// The two forms of attention against each other.
#include "kernels/cpu/attention.h"

#include "base/rng.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <vector>

namespace plimsoll::testing {
namespace {

std::vector<float> draws(int64_t n, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(rng_normal(seed, 2, i));
  }
  return values;
}

struct Result {
  std::vector<float> o, dqkv;
};

Result run(const AttentionShape& s, bool flash, float scale = 1) {
  const int64_t rows = s.batch * s.length;
  const int64_t saved = s.batch * s.heads * s.length * (flash ? 1 : s.length);
  std::vector<float> qkv = draws(rows * s.qkv_width(), 1);
  for (float& value : qkv) value *= scale;
  const std::vector<float> d_o = draws(rows * s.out_width(), 2);
  Result r{std::vector<float>(d_o.size()), std::vector<float>(qkv.size())};
  std::vector<float> kept(static_cast<size_t>(saved)), workspace(static_cast<size_t>(saved));
  ThreadPool pool(2);
  if (flash) {
    flash_attention_forward(qkv.data(), r.o.data(), kept.data(), s, pool);
    flash_attention_backward(d_o.data(), qkv.data(), r.o.data(), kept.data(), r.dqkv.data(),
                             workspace.data(), s, pool);
  } else {
    naive_attention_forward(qkv.data(), r.o.data(), kept.data(), s, pool);
    naive_attention_backward(d_o.data(), qkv.data(), kept.data(), r.dqkv.data(), workspace.data(),
                             s, pool);
  }
  return r;
}

// Largest difference; -1 when a value is not a number.
float difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) return -1;
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

RC_GTEST_PROP(Attention, FlashEqualsNaive, ()) {
  AttentionShape s;
  s.batch = *rc::gen::inRange<int64_t>(1, 3);
  s.length = *rc::gen::inRange<int64_t>(1, 300);
  s.kv_heads = *rc::gen::inRange<int64_t>(1, 3);
  s.heads = s.kv_heads * *rc::gen::inRange<int64_t>(1, 4);
  s.head_dim = *rc::gen::inRange<int64_t>(1, 40);
  s.causal = *rc::gen::arbitrary<bool>();
  s.first_sample = *rc::gen::inRange<int64_t>(0, 1000);
  if (*rc::gen::arbitrary<bool>()) s.dropout = DropoutMask(0.2, 7, 8);
  const Result flash = run(s, true);
  const Result naive = run(s, false);
  const float o = difference(flash.o, naive.o);
  const float dqkv = difference(flash.dqkv, naive.dqkv);
  RC_ASSERT(o >= 0 && o < 2e-5F);
  RC_ASSERT(dqkv >= 0 && dqkv < 2e-4F);
}

// Scores of some thousands: the softmax must not overflow in either form.
TEST(Attention, LargeScoresStayFinite) {
  AttentionShape s;
  s.length = 150;
  s.heads = s.kv_heads = 2;
  s.head_dim = 16;
  for (const bool causal : {true, false}) {
    s.causal = causal;
    const Result flash = run(s, true, 40);
    const Result naive = run(s, false, 40);
    EXPECT_GE(difference(flash.o, naive.o), 0);
    EXPECT_LT(difference(flash.o, naive.o), 0.02);
  }
}

// Dropping is by global sample: the second sample of a batch is the first of the next micro-batch.
TEST(Attention, DropoutFollowsTheGlobalSample) {
  AttentionShape both;
  both.batch = 2;
  both.length = 70;
  both.head_dim = 4;
  both.first_sample = 10;
  both.dropout = DropoutMask(0.5, 3, 4);
  const std::vector<float> qkv = draws(2 * 70 * both.qkv_width(), 1);
  AttentionShape second = both;
  second.batch = 1;
  second.first_sample = 11;
  ThreadPool pool(1);
  std::vector<float> o(2 * 70 * 4), lse(2 * 70), o_second(70 * 4), lse_second(70);
  flash_attention_forward(qkv.data(), o.data(), lse.data(), both, pool);
  flash_attention_forward(qkv.data() + 70 * both.qkv_width(), o_second.data(), lse_second.data(),
                          second, pool);
  EXPECT_EQ(std::vector<float>(o.begin() + 70 * 4, o.end()), o_second);
  second.first_sample = 12;
  flash_attention_forward(qkv.data() + 70 * both.qkv_width(), o_second.data(), lse_second.data(),
                          second, pool);
  EXPECT_NE(std::vector<float>(o.begin() + 70 * 4, o.end()), o_second);
}

TEST(Dropout, MaskIsTheCountersUniform) {
  for (const double p : {0.0, 0.1, 0.25, 0.9}) {
    const DropoutMask mask(p, 11, 22);
    int64_t num_kept = 0;
    for (uint64_t i = 0; i < 20000; ++i) {
      ASSERT_EQ(mask.keeps(i), rng_uniform(11, 22, i) >= static_cast<float>(p)) << p << " " << i;
      num_kept += mask.keeps(i) ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(num_kept) / 20000, 1 - p, 0.02);
  }
  EXPECT_NE(dropout_seed(1, 0), dropout_seed(1, 1));
}

}  // namespace
}  // namespace plimsoll::testing
