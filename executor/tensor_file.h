// A file of named tensors, whatever its format.
#pragma once

#include "base/dtype.h"
#include "base/shape.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace plimsoll {

struct StoredTensor {
  std::optional<DType> dtype;  // empty for a type that Plimsoll does not compute with
  std::string type_name;
  Shape shape;
};

class TensorFile {
 public:
  virtual ~TensorFile() = default;
  [[nodiscard]] virtual const std::string& path() const = 0;
  // Empty when there is no such tensor.
  [[nodiscard]] virtual std::optional<StoredTensor> find(const std::string& name) const = 0;
  // The tensor's bytes, row-major, little-endian. Precondition: find(name) is not empty. Throws
  // Error (exit 2) when the file cannot be read.
  [[nodiscard]] virtual std::vector<std::byte> read(const std::string& name) const = 0;
  // Whether linear layers lie as (out, in) even where their exported form is (in, out).
  [[nodiscard]] virtual bool linear_is_out_in() const = 0;
};

}  // namespace plimsoll
