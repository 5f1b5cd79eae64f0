// A test case of one operation: its tensors, and the calls (forward, backward, update) that use
// them by name. Tests that go over all cases cover a new operation without a line more.
#pragma once

#include "base/attributes.h"
#include "base/dtype.h"
#include "base/shape.h"

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll::testing {

// kFloat is the type under test (f32 or f64).
enum class Kind : uint8_t { kFloat, kI32, kF64 };

enum class Fill : uint8_t {
  kNormal,
  kPositive,  // |normal| + 0.1
  kToken,     // in [0, bound)
  kTarget,    // in [0, bound), every fifth ignored
  kScalars,   // the scalars buffer
  kOutput,    // poisoned; must be written whole
};

struct TensorSpec {
  std::string name;
  Kind kind = Kind::kFloat;
  Shape shape;
  Fill fill = Fill::kNormal;
  int64_t bound = 0;
};

struct Call {
  std::string op;
  std::vector<std::string> in;  // "" is an absent operand
  std::vector<std::string> out;
  std::vector<int> accumulates;  // outputs that may be added to
  struct Alias {
    int out, in;
  };
  std::vector<Alias> aliases;  // outputs that may share an input's buffer
};

struct OpCase {
  std::string name;
  Attributes attributes;
  std::vector<TensorSpec> tensors;
  std::vector<Call> calls;  // the first (or first few) are the forward pass
  size_t forward_calls = 1;
  std::string result;  // output whose weighted sum is differentiated; "loss" for a loss
  int64_t first_sample = 0;

  OpCase& tensor(const std::string& tensor_name, Shape shape, Fill fill = Fill::kNormal,
                 int64_t bound = 0, Kind kind = Kind::kFloat);
  OpCase& tokens(const std::string& tensor_name, Shape shape, int64_t bound);
  OpCase& targets(const std::string& tensor_name, Shape shape, int64_t bound);
  OpCase& output(const std::string& tensor_name, Shape shape, Kind kind = Kind::kFloat);
  OpCase& scalars();
  // Adds "dNAME" for an input as an output of its shape.
  OpCase& gradient(const std::string& tensor_name);
  // Names the differentiated output and adds "dNAME", the random weights of its elements.
  OpCase& weighted(const std::string& tensor_name);
  OpCase& call(Call next);

  [[nodiscard]] const TensorSpec* find(const std::string& tensor_name) const;
};

// Cases of every bound operation: small ones for gradients, or large ones that need several tasks.
[[nodiscard]] std::vector<OpCase> op_cases(bool large);

}  // namespace plimsoll::testing
