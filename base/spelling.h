// The known name that a mistyped one is nearest to, for the hints of errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

// Number of insertions, deletions, substitutions and swaps of neighbours between two words.
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

// "did you mean 'a100-80gb'?", or the list of known names when none is near.
[[nodiscard]] std::string did_you_mean(std::string_view name,
                                       const std::vector<std::string>& known);

}  // namespace plimsoll
