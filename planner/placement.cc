#include "planner/placement.h"

#include "base/checked.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace plimsoll {

namespace {

// What the inner loop reads of an item, kept small so that thousands stay in the cache.
struct Flat {
  int64_t lower;  // first and last instant of life
  int64_t upper;
  int64_t offset;
  int64_t size;
  int64_t lifetime;  // total length of its intervals
  const std::vector<Interval>* live;
};

bool live_together(const Flat& a, const Flat& b) {
  if (a.lower >= b.upper || b.lower >= a.upper) return false;
  if (a.live->size() == 1 && b.live->size() == 1) return true;
  auto x = a.live->begin();
  auto y = b.live->begin();
  while (x != a.live->end() && y != b.live->end()) {
    if (x->overlaps(*y)) return true;
    if (x->upper <= y->upper) {
      ++x;
    } else {
      ++y;
    }
  }
  return false;
}

int64_t max_load(std::span<const Flat> items) {
  std::vector<std::pair<int64_t, int64_t>> events;  // (instant, bytes): deaths sort before births
  for (const Flat& item : items) {
    for (const Interval& live : *item.live) {
      events.emplace_back(live.lower, item.size);
      events.emplace_back(live.upper, -item.size);
    }
  }
  std::sort(events.begin(), events.end());
  int64_t load = 0;
  int64_t most = 0;
  for (const auto& [instant, bytes] : events) {
    load += bytes;
    most = std::max(most, load);
  }
  return most;
}

enum class Fit { kBest, kLowest };

// Packs items in the given order; stops early, returning the height so far, once that reaches
// `limit`.
int64_t pack(std::vector<Flat>& items, const std::vector<uint32_t>& order, Fit fit, int64_t limit) {
  std::vector<uint32_t> by_offset;  // placed items
  by_offset.reserve(order.size());
  int64_t height = 0;
  for (const uint32_t index : order) {
    Flat& item = items[index];
    int64_t best = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    int64_t end = 0;  // of the items below that are live together with this one
    for (const uint32_t other_index : by_offset) {
      const Flat& other = items[other_index];
      if (!live_together(item, other)) continue;
      const int64_t gap = other.offset - end;
      if (gap >= item.size && gap < best_gap) {
        best = end;
        best_gap = gap;
        if (fit == Fit::kLowest || gap == item.size) break;
      }
      end = std::max(end, other.offset + other.size);
    }
    item.offset = best >= 0 ? best : end;
    height = std::max(height, item.offset + item.size);
    if (height >= limit) return height;
    const auto at = std::upper_bound(
        by_offset.begin(), by_offset.end(), item.offset,
        [&](int64_t offset, uint32_t other) { return offset < items[other].offset; });
    by_offset.insert(at, index);
  }
  return height;
}

// The orders to try. Ties fall by birth, then by index, so that the result is a function of the
// items.
std::vector<std::vector<uint32_t>> packing_orders(const std::vector<Flat>& items) {
  using Less = std::function<bool(const Flat&, const Flat&)>;
  const auto area = [](const Flat& item) {
    return static_cast<double>(item.size) * static_cast<double>(item.lifetime);
  };
  int64_t last = 0;
  for (const Flat& item : items) last = std::max(last, item.upper);
  // Items that live longer than half of the time lie at the bottom, in order of size.
  const auto is_long = [last](const Flat& item) { return item.lifetime > last / 2; };
  const std::vector<Less> rules = {
      [](const Flat& a, const Flat& b) { return a.size > b.size; },
      [area](const Flat& a, const Flat& b) { return area(a) > area(b); },
      [](const Flat& a, const Flat& b) { return a.lifetime > b.lifetime; },
      [is_long](const Flat& a, const Flat& b) {
        return is_long(a) != is_long(b) ? is_long(a) : a.size > b.size;
      },
  };
  std::vector<std::vector<uint32_t>> orders;
  for (const Less& less : rules) {
    std::vector<uint32_t> order(items.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) {
      const Flat& a = items[x];
      const Flat& b = items[y];
      if (less(a, b)) return true;
      if (less(b, a)) return false;
      return a.lower < b.lower;
    });
    orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace

Placement place(std::span<const PlacementItem> items, int64_t alignment) {
  PLIMSOLL_CHECK(alignment > 0, "alignment {}", alignment);
  Placement out;
  out.offsets.assign(items.size(), 0);
  std::vector<Flat> flat;
  std::vector<size_t> original;
  int64_t total = 0;  // checked, so that no sum of some of the sizes can overflow later
  for (size_t i = 0; i < items.size(); ++i) {
    const PlacementItem& item = items[i];
    PLIMSOLL_CHECK(item.size >= 0, "item {} has size {}", i, item.size);
    if (item.size == 0 || item.live.empty()) continue;
    const int64_t size = align_up(item.size, alignment);
    total = checked_add(total, size);
    int64_t lifetime = 0;
    for (const Interval& live : item.live) lifetime += live.length();
    flat.push_back(
        {item.live.front().lower, item.live.back().upper, 0, size, lifetime, &item.live});
    original.push_back(i);
  }
  out.lower_bound = max_load(flat);
  out.height = std::numeric_limits<int64_t>::max();
  for (const std::vector<uint32_t>& order : packing_orders(flat)) {
    for (const Fit fit : {Fit::kBest, Fit::kLowest}) {
      if (out.height == out.lower_bound) return out;
      const int64_t height = pack(flat, order, fit, out.height);
      if (height >= out.height) continue;
      out.height = height;
      for (size_t i = 0; i < flat.size(); ++i) out.offsets[original[i]] = flat[i].offset;
    }
  }
  return out;
}

}  // namespace plimsoll
