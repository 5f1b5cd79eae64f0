// The tensors of a case in memory, and calls of bound kernels on them.
#pragma once

#include "executor/bind.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/kernels/op_case.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plimsoll::testing {

class CaseMemory {
 public:
  // Fills every tensor from its name, so two memories of a case start equal. Data starts
  // `shift_elements` elements behind a 64-byte border.
  CaseMemory(const OpCase& op_case, DType dtype, int64_t shift_elements = 0);

  // Runs a call. `accumulate` as in KernelArgs; output k may be put into the buffer of another
  // tensor by `in_place` (-1: its own).
  void run(const Call& call, ThreadPool& pool, uint32_t accumulate = 0,
           Call::Alias in_place = {-1, -1});
  // The same with another function, for references.
  void run(const Call& call, KernelFunction kernel, ThreadPool& pool, uint32_t accumulate = 0,
           Call::Alias in_place = {-1, -1});

  [[nodiscard]] Operand operand(const std::string& name) const;
  // Elements as doubles, and for comparison without tolerance as bytes.
  [[nodiscard]] std::vector<double> values(const std::string& name) const;
  [[nodiscard]] std::string bytes(const std::string& name) const;
  void set(const std::string& name, const std::vector<double>& values);
  // Elements that still hold what outputs are poisoned with.
  [[nodiscard]] int64_t count_poisoned(const std::string& name) const;
  void poison(const std::string& name);

 private:
  struct Tensor {
    const TensorSpec* spec = nullptr;
    DType dtype = DType::kF32;
    std::vector<char> storage;
    char* data = nullptr;
    [[nodiscard]] int64_t count() const { return num_elements(spec->shape); }
  };
  void fill(Tensor& tensor);
  [[nodiscard]] const Tensor& at(const std::string& name) const;

  const OpCase* case_;
  DType dtype_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace plimsoll::testing
