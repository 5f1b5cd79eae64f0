#include "base/units.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

TEST(ParseSize, TakesBytesAndUnits) {
  EXPECT_EQ(parse_size("4096", "size"), 4096);
  EXPECT_EQ(parse_size("1KiB", "size"), 1024);
  EXPECT_EQ(parse_size("1.5GiB", "size"), int64_t{3} << 29);
  EXPECT_EQ(parse_size("512 MiB", "size"), int64_t{512} << 20);
  EXPECT_EQ(parse_size("2TiB", "size"), int64_t{2} << 40);
  EXPECT_EQ(parse_size("80 GB", "size"), 80'000'000'000);
  EXPECT_EQ(parse_size("3kB", "size"), 3000);
  EXPECT_EQ(parse_size("7B", "size"), 7);
  EXPECT_EQ(parse_size("9223372036854775807", "size"), INT64_MAX);
}

TEST(ParseSize, RefusesWhatIsNoPositiveSize) {
  for (const char* text :
       {"", " ", "0", "-1", "-5GiB", "0GiB", "GiB", "1XiB", "1 2", "nan", "inf", "infGiB", "1e99",
        "9223372036854775808", "99999999999TiB", "0.1", "1GiB ", "0x10", "--3"}) {
    try {
      const int64_t size = parse_size(text, "--device-memory");
      FAIL() << "'" << text << "' was taken as " << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_THAT(error.what(), testing::HasSubstr("--device-memory"));
      EXPECT_FALSE(error.hint().empty());
    }
  }
}

RC_GTEST_PROP(ParseSize, PlainBytesKeepEveryBit, ()) {
  const auto bytes = *rc::gen::inRange<int64_t>(1, INT64_MAX);
  RC_ASSERT(parse_size(std::to_string(bytes), "size") == bytes);
}

RC_GTEST_PROP(ParseSize, SurvivesAnyBytes, (const std::string& text)) {
  try {
    RC_ASSERT(parse_size(text, "size") > 0);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

TEST(FormatBytes, ThreeDigitsInBinaryUnits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(640), "640 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(12 << 20), "12.0 MiB");
  EXPECT_EQ(format_bytes(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(format_bytes(int64_t{100} << 30), "100 GiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_bytes(INT64_MIN), "-8589934592 GiB");
}

TEST(FormatCount, SeparatesThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(124'439'808), "124,439,808");
  EXPECT_EQ(format_count(-999), "-999");
  EXPECT_EQ(format_count(-123'456), "-123,456");
}

TEST(FormatSeconds, PicksTheUnit) {
  EXPECT_EQ(format_seconds(1.94), "1.94 s");
  EXPECT_EQ(format_seconds(0.0123), "12.3 ms");
  EXPECT_EQ(format_seconds(45e-6), "45.0 us");
  EXPECT_EQ(format_seconds(3600), "3600 s");
}

}  // namespace
}  // namespace plimsoll
