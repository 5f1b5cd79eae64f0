// The dimensions along which a configuration can be changed to need less memory, as a table.
//
// All that the fit advisor knows about a dimension is its row here: what settings lie beyond the
// current one, how each is written as a pin and on the command line. A new dimension of the
// strategy (sharding, offload, …) is a new row.
#pragma once

#include "planner/evaluator.h"
#include "planner/search.h"

#include <functional>
#include <string>
#include <vector>

namespace plimsoll {

// Gives a dimension one value.
using Setting = std::function<void(Configuration&)>;

struct Dimension {
  std::string key;    // "recompute": stable, for JSON
  std::string title;  // "recompute layers"
  // A change of the strategy alone: the loss stays the same but for rounding. Else what is trained
  // changes (precision, optimizer).
  bool same_result = true;

  // The configuration's value in words: "recompute 12 of 48 layers".
  std::string (*text)(const ModelSpec&, const Configuration&) = nullptr;
  // Settings with less memory than the current one, mildest first: along them memory falls.
  std::vector<Setting> (*stronger)(const ModelSpec&, const Configuration&) = nullptr;
  // Settings of the search's space of which one has the least memory, likeliest first; empty when
  // the search does not choose this dimension.
  std::vector<Setting> (*extremes)(const ModelSpec&, const Configuration&) = nullptr;
  // Sets the value that a run has when nothing is said.
  void (*reset)(Configuration&) = nullptr;

  // The user fixed this dimension (always, for what belongs to the job).
  bool (*is_pinned)(const Pins&) = nullptr;
  // Makes `pins` say what the configuration has; null for what belongs to the job. What cannot be
  // pinned (part of the layers) is left to the search, which finds it.
  void (*pin)(Pins&, const Configuration&) = nullptr;
  void (*release)(Pins&) = nullptr;  // takes the pin away; null for what belongs to the job
  // The option's name, and how the configuration's value is written; empty where nothing need or
  // can be written.
  std::string option;
  std::string (*flag)(const ModelSpec&, const Configuration&) = nullptr;
};

// In the order in which people try them.
[[nodiscard]] const std::vector<Dimension>& change_dimensions();

// Pins under which the search gives the configuration's strategy, from the user's pins.
[[nodiscard]] Pins pins_for(const Configuration& configuration, Pins pins);

// What to add to (`add`) and take from (`drop`) a command line with `pins` and the job of `from`,
// so that the search gives `to`.
struct FlagChange {
  std::vector<std::string> add, drop;
};
[[nodiscard]] FlagChange flag_change(const ModelSpec& model, const Pins& pins,
                                     const Configuration& from, const Configuration& to);

// Some layers are recomputed and some are not.
[[nodiscard]] bool is_partial(const Strategy& strategy);

// Divisors of n > 0, ascending.
[[nodiscard]] std::vector<int64_t> divisors(int64_t n);

}  // namespace plimsoll
