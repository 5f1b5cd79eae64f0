#include "executor/arena.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

namespace plimsoll {
namespace {

using testing::HasSubstr;

constexpr int64_t kNoCap = int64_t{1} << 40;

ExitCode code_of(const std::function<void()>& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.code();
  }
  return ExitCode::kDone;
}

TEST(Arena, ThePatternIsNoLegalValue) {
  EXPECT_TRUE(std::isnan(std::bit_cast<float>(kArenaPattern)));
  for (const uint32_t half : {kArenaPattern >> 16, kArenaPattern & 0xFFFFU}) {
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(half << 16))) << "as bf16";
  }
  EXPECT_LT(static_cast<int32_t>(kArenaPattern), -100);
  uint64_t two = kArenaPattern;
  two = two << 32 | kArenaPattern;
  EXPECT_LT(std::bit_cast<double>(two), -1e300);
}

// A signalling NaN comes out of arithmetic as a quiet one, so a kernel that reads what it should
// not never writes the pattern.
TEST(Arena, ArithmeticNeverGivesThePattern) {
  volatile float pattern = std::bit_cast<float>(kArenaPattern);
  EXPECT_NE(std::bit_cast<uint32_t>(static_cast<float>(pattern + 1.0F)), kArenaPattern);
  EXPECT_NE(std::bit_cast<uint32_t>(static_cast<float>(pattern * 2.0F)), kArenaPattern);
}

TEST(Arena, TheCapIsToTheByte) {
  EXPECT_EQ(Arena(1000, 1000).bytes(), 1000);
  std::string message;
  EXPECT_EQ(code_of([] { Arena(1001, 1000); }, &message), ExitCode::kInfeasible);
  EXPECT_THAT(message, HasSubstr("1,001"));
  EXPECT_THAT(message, HasSubstr("1,000"));
  EXPECT_EQ(code_of([] { Arena(256, -5); }), ExitCode::kInfeasible);
}

TEST(Arena, WhatTheSystemRefusesIsAFailedRun) {
  EXPECT_EQ(code_of([] { Arena(int64_t{1} << 60, int64_t{1} << 61); }), ExitCode::kRunFailed);
}

TEST(Arena, NothingIsHandedOutOnceSealed) {
  Arena arena(1024, kNoCap);
  EXPECT_NE(arena.allocate(0, 1024, "all"), nullptr);
  arena.seal();
  std::string message;
  EXPECT_EQ(code_of([&] { (void)arena.allocate(0, 16, "late"); }, &message), ExitCode::kRunFailed);
  EXPECT_THAT(message, HasSubstr("late"));
}

TEST(Arena, RangesStayInside) {
  Arena arena(1024, kNoCap);
  EXPECT_EQ(code_of([&] { (void)arena.allocate(1000, 25, "x"); }), ExitCode::kBadInput);
  EXPECT_EQ(code_of([&] { (void)arena.allocate(-1, 5, "x"); }), ExitCode::kBadInput);
  EXPECT_EQ(code_of([&] { (void)arena.allocate(8, INT64_MAX, "x"); }), ExitCode::kBadInput);
  EXPECT_EQ(code_of([&] { (void)arena.allocate(1024, 0, "x"); }), ExitCode::kDone);
}

TEST(Arena, MeasuresTheHighestWrittenWord) {
  Arena arena(4096, kNoCap);
  std::byte* base = arena.allocate(0, 4096, "all");
  EXPECT_EQ(arena.measured_bytes(256), 0);
  std::memset(base + 4, 0, 4);
  EXPECT_EQ(arena.measured_bytes(256), 256);
  EXPECT_EQ(arena.measured_bytes(8), 8);
  std::memset(base + 1027, 0, 1);  // one byte of a word
  EXPECT_EQ(arena.measured_bytes(256), 1280);
  std::memset(base + 4095, 0, 1);
  EXPECT_EQ(arena.measured_bytes(256), 4096);
  EXPECT_TRUE(arena.guard_intact());
}

TEST(Arena, SizesThatAreNoWholeWords) {
  for (const int64_t bytes : {0, 1, 2, 3, 5, 1023}) {
    Arena arena(bytes, kNoCap);
    EXPECT_EQ(arena.measured_bytes(1), 0) << bytes;
    EXPECT_TRUE(arena.guard_intact());
    std::byte* base = arena.allocate(0, bytes, "all");
    if (bytes == 0) continue;
    base[bytes - 1] = std::byte{1};
    EXPECT_EQ(arena.measured_bytes(1), bytes) << bytes;
    EXPECT_TRUE(arena.guard_intact()) << bytes;
    base[bytes] = std::byte{1};
    EXPECT_FALSE(arena.guard_intact()) << bytes;
  }
}

TEST(Arena, TheGuardReachesFourKilobytesBehind) {
  for (const int64_t offset : {int64_t{0}, int64_t{1}, kArenaGuardBytes - 1}) {
    Arena arena(512, kNoCap);
    arena.allocate(0, 512, "all")[512 + offset] = std::byte{0};
    EXPECT_FALSE(arena.guard_intact()) << offset;
    EXPECT_EQ(arena.measured_bytes(256), 0);
  }
}

TEST(Arena, PoisonSparesWhatWasNeverWritten) {
  Arena arena(64, kNoCap);
  std::byte* base = arena.allocate(0, 64, "all");
  std::memset(base, 0, 16);
  poison_bytes(base, 64);
  EXPECT_EQ(arena.measured_bytes(4), 16);
  float value = 0;
  std::memcpy(&value, base, 4);
  EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace plimsoll
