#include "base/checked.h"

#include "base/interval.h"
#include "base/shape.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>

namespace plimsoll {
namespace {

TEST(Checked, OverflowIsAnError) {
  EXPECT_EQ(checked_add(INT64_MAX - 1, 1), INT64_MAX);
  EXPECT_EQ(checked_mul(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_THROW((void)checked_add(INT64_MAX, 1), Error);
  EXPECT_THROW((void)checked_add(INT64_MIN, -1), Error);
  EXPECT_THROW((void)checked_mul(int64_t{1} << 32, int64_t{1} << 31), Error);
  EXPECT_THROW((void)align_up(INT64_MAX - 1, 256), Error);
}

__extension__ using Wide = __int128;

// The reference is 128-bit arithmetic, in which neither can overflow.
RC_GTEST_PROP(Checked, AgreesWithWiderArithmetic, (int64_t a, int64_t b)) {
  const auto fits = [](Wide value) { return value >= INT64_MIN && value <= INT64_MAX; };
  const Wide sum = static_cast<Wide>(a) + b;
  const Wide product = static_cast<Wide>(a) * b;
  if (fits(sum)) {
    RC_ASSERT(checked_add(a, b) == static_cast<int64_t>(sum));
  } else {
    RC_ASSERT_THROWS_AS((void)checked_add(a, b), Error);
  }
  if (fits(product)) {
    RC_ASSERT(checked_mul(a, b) == static_cast<int64_t>(product));
  } else {
    RC_ASSERT_THROWS_AS((void)checked_mul(a, b), Error);
  }
}

RC_GTEST_PROP(Checked, AlignUpIsTheLeastMultiple, ()) {
  const auto value = *rc::gen::inRange<int64_t>(0, int64_t{1} << 40);
  const auto alignment = *rc::gen::inRange<int64_t>(1, 1 << 20);
  const int64_t aligned = align_up(value, alignment);
  RC_ASSERT(aligned % alignment == 0);
  RC_ASSERT(aligned >= value);
  RC_ASSERT(aligned - value < alignment);
  RC_ASSERT(ceil_div(value, alignment) == aligned / alignment);
}

TEST(Shape, ElementsAndText) {
  EXPECT_EQ(num_elements({}), 1);
  EXPECT_EQ(num_elements({4, 1024, 768}), 4 * 1024 * 768);
  EXPECT_EQ(num_elements({4, 0, 768}), 0);
  EXPECT_EQ(shape_text({4, 1024, 768}), "[4, 1024, 768]");
  EXPECT_THROW((void)num_elements({int64_t{1} << 40, int64_t{1} << 40}), Error);
}

TEST(Interval, IsHalfOpen) {
  const Interval a{2, 5};
  EXPECT_EQ(a.length(), 3);
  EXPECT_FALSE(a.overlaps({5, 9}));
  EXPECT_TRUE(a.overlaps({4, 9}));
  EXPECT_FALSE(a.overlaps({0, 2}));
  EXPECT_TRUE((Interval{3, 3}).empty());
  EXPECT_EQ((Interval{7, 3}).length(), 0);
}

}  // namespace
}  // namespace plimsoll
