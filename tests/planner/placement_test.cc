#include "planner/placement.h"

#include "base/error.h"
#include "base/rng.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace plimsoll {
namespace {

bool overlap_in_time(const PlacementItem& a, const PlacementItem& b) {
  for (const Interval& x : a.live) {
    for (const Interval& y : b.live) {
      if (x.overlaps(y)) return true;
    }
  }
  return false;
}

// Says what is wrong with a placement, or nothing. Apart from the packer on purpose: plain and
// slow.
std::string defect(const std::vector<PlacementItem>& items, const Placement& placement,
                   int64_t alignment) {
  int64_t highest = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].size == 0 || items[i].live.empty()) continue;
    const Interval bytes = {placement.offsets[i], placement.offsets[i] + items[i].size};
    if (bytes.lower < 0 || bytes.lower % alignment != 0) return fmt::format("item {}: offset", i);
    highest = std::max(highest, align_up(bytes.upper, alignment));
    for (size_t j = 0; j < i; ++j) {
      const Interval other = {placement.offsets[j], placement.offsets[j] + items[j].size};
      if (bytes.overlaps(other) && overlap_in_time(items[i], items[j])) {
        return fmt::format("items {} and {} overlap", j, i);
      }
    }
  }
  if (placement.height != highest)
    return fmt::format("height {} is not {}", placement.height, highest);
  if (placement.height < placement.lower_bound) return "height below the lower bound";
  return "";
}

//   bytes
//     2 |  B B
//     1 |  A A  C C
//       +-----------> time
//          0 1  2 3
TEST(Placement, ReusesBytesOfTheDead) {
  const std::vector<PlacementItem> items = {{1, {{0, 2}}}, {1, {{0, 2}}}, {1, {{2, 4}}}};
  const Placement placement = place(items, 1);
  EXPECT_EQ(defect(items, placement, 1), "");
  EXPECT_EQ(placement.height, 2);
  EXPECT_EQ(placement.lower_bound, 2);
}

// Touching intervals are half-open, so A and B share bytes.
//
//     1 |  A A B B
TEST(Placement, HalfOpenIntervalsTouch) {
  const std::vector<PlacementItem> items = {{8, {{0, 2}}}, {8, {{2, 4}}}};
  EXPECT_EQ(place(items, 1).height, 8);
}

// A pyramid as recompute-free training makes it: first in, last out.
//
//     4 |        D D
//     3 |      C C C C
//     2 |    B B B B B B
//     1 |  A A A A A A A A
TEST(Placement, PyramidIsPackedTight) {
  const std::vector<PlacementItem> items = {
      {4, {{0, 8}}}, {4, {{1, 7}}}, {4, {{2, 6}}}, {4, {{3, 5}}}};
  const Placement placement = place(items, 4);
  EXPECT_EQ(defect(items, placement, 4), "");
  EXPECT_EQ(placement.height, 16);
}

// B lives twice, with a hole that A fits into.
//
//     2 |  B B A A B B
//     1 |  C C C C C C
TEST(Placement, UsesHolesInALifetime) {
  const std::vector<PlacementItem> items = {{4, {{2, 4}}}, {4, {{0, 2}, {4, 6}}}, {4, {{0, 6}}}};
  const Placement placement = place(items, 4);
  EXPECT_EQ(defect(items, placement, 4), "");
  EXPECT_EQ(placement.height, 8);
}

// The gap under C is filled by D, which fits it best, not by the top.
//
//     4 |  C C C
//     3 |  . D .
//     2 |  B . B'
//     1 |  B . B'
TEST(Placement, FillsTheGapThatFits) {
  const std::vector<PlacementItem> items = {
      {2, {{0, 1}}}, {2, {{2, 3}}}, {1, {{0, 3}}}, {2, {{1, 2}}}};
  const Placement placement = place(items, 1);
  EXPECT_EQ(defect(items, placement, 1), "");
  EXPECT_EQ(placement.height, 3);
}

TEST(Placement, RoundsSizesUpToTheAlignment) {
  const std::vector<PlacementItem> items = {{1, {{0, 1}}}, {257, {{0, 1}}}};
  const Placement placement = place(items, 256);
  EXPECT_EQ(defect(items, placement, 256), "");
  EXPECT_EQ(placement.height, 768);
  EXPECT_EQ(placement.lower_bound, 768);
}

TEST(Placement, NothingToPlace) {
  EXPECT_EQ(place({}, 256).height, 0);
  const std::vector<PlacementItem> items = {{0, {{0, 1}}}, {7, {}}};
  const Placement placement = place(items, 256);
  EXPECT_EQ(placement.height, 0);
  EXPECT_EQ(placement.offsets, (std::vector<int64_t>{0, 0}));
}

TEST(Placement, OverflowOfSizesIsAnError) {
  const int64_t huge = int64_t{1} << 62;
  const std::vector<PlacementItem> items = {{huge, {{0, 1}}}, {huge, {{1, 2}}}};
  EXPECT_THROW((void)place(items, 256), Error);
}

std::vector<PlacementItem> random_items() {
  const auto draw = [](int low, int high) { return *rc::gen::inRange(low, high + 1); };
  std::vector<PlacementItem> items(static_cast<size_t>(draw(0, 30)));
  for (PlacementItem& item : items) {
    item.size = draw(0, 1000);
    int64_t at = draw(0, 20);
    for (int n = draw(0, 3); n > 0; --n) {
      const int64_t length = draw(1, 20);
      item.live.push_back({at, at + length});
      at += length + draw(1, 10);
    }
  }
  return items;
}

RC_GTEST_PROP(PlacementProperty, IsValidAndDeterministic, ()) {
  const std::vector<PlacementItem> items = random_items();
  const int64_t alignment = int64_t{1} << *rc::gen::inRange(0, 9);
  const Placement placement = place(items, alignment);
  RC_ASSERT(defect(items, placement, alignment) == "");
  RC_ASSERT(place(items, alignment).offsets == placement.offsets);
}

std::vector<PlacementItem> read_csv(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  std::vector<std::string> names;
  std::stringstream header(line);
  for (std::string cell; std::getline(header, cell, ',');) names.push_back(cell);
  std::vector<PlacementItem> items;
  while (std::getline(in, line)) {
    PlacementItem item;
    Interval live;
    std::stringstream row(line);
    std::string cell;
    for (size_t column = 0; std::getline(row, cell, ','); ++column) {
      if (names[column] == "lower") live.lower = std::stoll(cell);
      if (names[column] == "upper") live.upper = std::stoll(cell);
      if (names[column] == "size") item.size = std::stoll(cell);
    }
    item.live = {live};
    items.push_back(item);
  }
  return items;
}

TEST(Placement, MiniMallocBenchmarks) {
  const std::filesystem::path folder =
      std::filesystem::path(PLIMSOLL_SHARED_DATA) / "benchmarks" / "minimalloc";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no benchmark data in " << folder;
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    ++files;
    const std::vector<PlacementItem> items = read_csv(entry.path());
    ASSERT_FALSE(items.empty()) << entry.path();
    const Placement placement = place(items, 1);
    EXPECT_EQ(defect(items, placement, 1), "") << entry.path();
    const double ratio =
        static_cast<double>(placement.height) / static_cast<double>(placement.lower_bound);
    RecordProperty("ratio_" + entry.path().stem().string(), std::to_string(ratio));
    EXPECT_LE(ratio, 1.45) << entry.path();
  }
  EXPECT_GT(files, 0);
}

// 5,000 buffers of a training step: stored on the way forward, used in reverse, with temporaries.
// The bound is far above what it takes (see the test's time); it catches a cubic loop, not a busy
// machine.
TEST(Placement, ThousandsOfItemsAreFast) {
  constexpr int64_t kItems = 5000;
  std::vector<PlacementItem> items;
  for (int64_t i = 0; i < kItems; ++i) {
    const auto random = [&](uint64_t k) { return rng_bits(1, rng_purpose("items"), 4 * i + k); };
    const int64_t at = static_cast<int64_t>(random(0) % kItems);
    const bool stored = random(1) % 2 == 0;
    const int64_t end = stored ? 2 * kItems - at : at + 1 + static_cast<int64_t>(random(3) % 20);
    items.push_back({1 + static_cast<int64_t>(random(2) % (1 << 20)), {{at, end}}});
  }
  const auto start = std::chrono::steady_clock::now();
  const Placement placement = place(items, 256);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(took.count()));
  EXPECT_EQ(defect(items, placement, 256), "");
  EXPECT_LT(took.count(), 5.0);
}

}  // namespace
}  // namespace plimsoll
