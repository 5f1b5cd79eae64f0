// What a framework keeps for backward, as data: profiles fill it, autodiff obeys it.
#pragma once

namespace plimsoll {

struct SaveRules {
  bool store_dropout_mask = false;     // one byte an element; else regenerated from the counter RNG
  bool store_softmax_dropout = false;  // naive attention: mask and the dropped copy of the softmax

  // Our own executor: masks are regenerated.
  [[nodiscard]] static SaveRules plimsoll() { return {}; }
  // Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", §4.1.
  [[nodiscard]] static SaveRules korthikanti() {
    return {.store_dropout_mask = true, .store_softmax_dropout = true};
  }
};

}  // namespace plimsoll
