#include "base/spelling.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

int edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment over three rows: before the previous, previous, current.
  std::vector<int> older(b.size() + 1);
  std::vector<int> previous(b.size() + 1);
  std::vector<int> current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], older[j - 2] + 1);
      }
    }
    older.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kLongestName = 64;  // a longer one is no slip of the finger
  const std::string* nearest = nullptr;
  int least = 1 + static_cast<int>(name.size()) / 3;  // more changes than this are another word
  for (const std::string& candidate : known) {
    if (name.size() > kLongestName) break;
    const int distance = edit_distance(name, candidate);
    // A name that only leaves off the end ("a100") is near too.
    const bool begins = !name.empty() && candidate.compare(0, name.size(), name) == 0;
    if (distance <= least || (begins && nearest == nullptr)) {
      if (nearest != nullptr && distance == least) continue;
      nearest = &candidate;
      least = std::min(distance, least);
    }
  }
  if (nearest != nullptr) return fmt::format("did you mean '{}'?", *nearest);
  return fmt::format("known are {}", fmt::join(known, ", "));
}

}  // namespace plimsoll
