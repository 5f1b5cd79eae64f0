// Every operation against its plain definition, in both float types.
#include "tests/kernels/reference.h"

#include "program/program.h"
#include "tests/kernels/case_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace plimsoll::testing {
namespace {

// Kernels of a type against the definitions in double; the definitions run on the kernels' inputs,
// so that calls are judged one by one.
void compare(const OpCase& c, DType dtype, double tolerance) {
  SCOPED_TRACE(c.name);
  ThreadPool pool(2);
  CaseMemory found(c, dtype);
  CaseMemory expected(c, DType::kF64);
  for (const TensorSpec& spec : c.tensors) {
    if (spec.fill != Fill::kOutput) expected.set(spec.name, found.values(spec.name));
  }
  for (const Call& call : c.calls) {
    const KernelFunction reference = find_reference(call.op);
    if (reference == nullptr) continue;
    found.run(call, pool);
    expected.run(call, reference, pool);
    for (const std::string& name : call.out) {
      if (name.empty() || name == "ws") continue;
      const std::vector<double> y = found.values(name);
      const std::vector<double> want = expected.values(name);
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], want[i], tolerance * (1 + std::abs(want[i])))
            << call.op << " " << name << " element " << i;
      }
    }
  }
}

TEST(Reference, EveryForwardKernelHasOne) {
  for (const std::string_view op : kernel_names()) {
    if (op.find(".backward") != std::string_view::npos) continue;
    EXPECT_NE(find_reference(op), nullptr) << op;
  }
}

TEST(Reference, DoubleKernels) {
  for (const bool large : {false, true}) {
    for (const OpCase& c : op_cases(large)) compare(c, DType::kF64, 1e-11);
  }
}

TEST(Reference, FloatKernels) {
  for (const bool large : {false, true}) {
    for (const OpCase& c : op_cases(large)) compare(c, DType::kF32, 2e-5);
  }
}

TEST(Reference, UpdatesDoNothingWhenTheyAreToBeSkipped) {
  ThreadPool pool(1);
  int num_updates = 0;
  for (const OpCase& c : op_cases(false)) {
    for (const Call& call : c.calls) {
      static const std::set<std::string> updates = {"adamw", "adam", "lion", "sgd", "ema"};
      if (!updates.contains(call.op)) continue;
      ++num_updates;
      CaseMemory memory(c, DType::kF32);
      std::vector<double> scalars = memory.values("scalars");
      scalars[kScalarSkipUpdate] = 1;
      memory.set("scalars", scalars);
      for (const std::string& name : call.out) {
        if (name.empty()) continue;
        const std::string before = memory.bytes(name);
        memory.run(call, pool);
        EXPECT_TRUE(memory.bytes(name) == before) << call.op << " " << name;
      }
    }
  }
  EXPECT_EQ(num_updates, 6);
}

}  // namespace
}  // namespace plimsoll::testing
