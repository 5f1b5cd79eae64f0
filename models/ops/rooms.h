// The rooms' makers: one function an op, listed once in registry.cc.
#pragma once

#include <memory>

#include "base/error.h"
#include "models/op_rule.h"

namespace plimsoll {

[[nodiscard]] std::unique_ptr<OpRule> make_cross_entropy();
[[nodiscard]] std::unique_ptr<OpRule> make_gelu();
[[nodiscard]] std::unique_ptr<OpRule> make_layer_norm();
[[nodiscard]] std::unique_ptr<OpRule> make_linear();
[[nodiscard]] std::unique_ptr<OpRule> make_residual();

}  // namespace plimsoll
