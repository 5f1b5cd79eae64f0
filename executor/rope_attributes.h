// The options of rotary position embedding, from an instruction.
#pragma once

#include "base/attributes.h"
#include "kernels/rope_options.h"

namespace plimsoll {

inline RopeOptions rope_options(const Attributes& attributes) {
  RopeOptions options;
  options.heads = attributes.get_int("heads");
  options.kv_heads = attributes.get_int("kv_heads");
  options.head_dim = attributes.get_int("head_dim");
  options.theta = attributes.get_double("theta");
  options.scaling_factor = attributes.get_double("scaling_factor", options.scaling_factor);
  options.low_freq_factor = attributes.get_double("low_freq_factor", options.low_freq_factor);
  options.high_freq_factor = attributes.get_double("high_freq_factor", options.high_freq_factor);
  options.original_context = attributes.get_double("original_context", options.original_context);
  return options;
}

}  // namespace plimsoll
