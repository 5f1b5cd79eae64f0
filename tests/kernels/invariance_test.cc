// Results do not depend on the number of threads or on where tensors lie.
#include "tests/kernels/case_memory.h"

#include <gtest/gtest.h>

#include <set>

namespace plimsoll::testing {
namespace {

CaseMemory run_all(const OpCase& c, int num_threads, int64_t shift_elements) {
  ThreadPool pool(num_threads);
  CaseMemory memory(c, DType::kF32, shift_elements);
  for (const Call& call : c.calls) memory.run(call, pool);
  return memory;
}

TEST(Invariance, EveryKernelHasACase) {
  std::set<std::string, std::less<>> covered;
  for (const OpCase& c : op_cases(true)) {
    for (const Call& call : c.calls) covered.insert(call.op);
  }
  for (const std::string_view op : kernel_names()) EXPECT_TRUE(covered.contains(op)) << op;
}

TEST(Invariance, ThreadsAndPlacementDoNotChangeABit) {
  struct Variant {
    int num_threads;
    int64_t shift_elements;
  };
  for (const OpCase& c : op_cases(true)) {
    SCOPED_TRACE(c.name);
    const CaseMemory expected = run_all(c, 1, 0);
    for (const Variant& v :
         {Variant{2, 0}, Variant{5, 0}, Variant{1, 1}, Variant{2, 16}, Variant{5, 3}}) {
      const CaseMemory found = run_all(c, v.num_threads, v.shift_elements);
      for (const TensorSpec& spec : c.tensors) {
        EXPECT_TRUE(found.bytes(spec.name) == expected.bytes(spec.name))
            << spec.name << " with " << v.num_threads << " threads, shifted by "
            << v.shift_elements;
      }
    }
  }
}

TEST(Invariance, OutputsAndWorkspacesAreWrittenWhole) {
  for (const bool large : {false, true}) {
    for (const OpCase& c : op_cases(large)) {
      SCOPED_TRACE(c.name);
      ThreadPool pool(1);
      CaseMemory memory(c, DType::kF32);
      for (const Call& call : c.calls) {
        for (const std::string& name : call.out) {
          if (!name.empty() && c.find(name)->fill == Fill::kOutput) memory.poison(name);
        }
        memory.run(call, pool);
        for (const std::string& name : call.out) {
          if (name.empty()) continue;
          EXPECT_EQ(memory.count_poisoned(name), 0) << call.op << " " << name;
        }
      }
    }
  }
}

// A vectorised loop handles its last elements apart; each must get the bits it gets elsewhere.
TEST(Invariance, AnElementDoesNotDependOnItsPlace) {
  ThreadPool pool(1);
  for (const std::string op : {"gelu", "swiglu", "relu"}) {
    for (const std::string form : {"tanh", "erf"}) {
      OpCase c;
      c.name = op;
      c.attributes.set("approximate", AttributeValue(form));
      const int64_t n = 103;
      c.tensor("x", {1, 2 * n}).output("y", {1, op == "swiglu" ? n : 2 * n});
      c.call({op, {"x"}, {"y"}, {}, {}});
      CaseMemory memory(c, DType::kF32);
      memory.set("x", std::vector<double>(static_cast<size_t>(2 * n), 0.7312345));
      memory.run(c.calls[0], pool);
      const std::vector<double> y = memory.values("y");
      for (const double value : y) ASSERT_EQ(value, y[0]) << op << " " << form;
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
