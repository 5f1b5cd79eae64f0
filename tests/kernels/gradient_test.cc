// Every backward kernel against central differences of its forward kernel, in double precision.
#include "program/program.h"
#include "tests/kernels/case_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace plimsoll::testing {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-8;   // of 1 + |gradient|; errors are kStep^2 and 1e-16 / kStep
constexpr int64_t kMaxElements = 60;  // probed of each tensor

bool is_backward(std::string_view op) { return op.find(".backward") != std::string_view::npos; }

// The scalar that is differentiated.
double loss_of(const OpCase& c, CaseMemory& memory, ThreadPool& pool) {
  for (size_t i = 0; i < c.forward_calls; ++i) memory.run(c.calls[i], pool);
  const std::vector<double> y = memory.values(c.result);
  if (c.result == "loss") return y[0] * memory.values("scalars")[kScalarGradientScale];
  const std::vector<double> weights = memory.values("d" + c.result);
  double total = 0;
  for (size_t i = 0; i < y.size(); ++i) total += y[i] * weights[i];
  return total;
}

double central_difference(const OpCase& c, CaseMemory& memory, ThreadPool& pool,
                          const std::string& name, size_t element) {
  const std::vector<double> before = memory.values(name);
  std::vector<double> moved = before;
  moved[element] = before[element] + kStep;
  memory.set(name, moved);
  const double above = loss_of(c, memory, pool);
  moved[element] = before[element] - kStep;
  memory.set(name, moved);
  const double below = loss_of(c, memory, pool);
  memory.set(name, before);
  return (above - below) / (2 * kStep);
}

// Forward and all backward calls.
CaseMemory run_all(const OpCase& c, ThreadPool& pool, DType dtype = DType::kF64) {
  CaseMemory memory(c, dtype);
  for (const Call& call : c.calls) memory.run(call, pool);
  return memory;
}

TEST(Gradient, EveryBackwardKernelHasACase) {
  std::set<std::string, std::less<>> covered;
  for (const OpCase& c : op_cases(false)) {
    for (const Call& call : c.calls) {
      if (!c.result.empty()) covered.insert(call.op);
    }
  }
  for (const std::string_view op : kernel_names()) {
    EXPECT_TRUE(!is_backward(op) || covered.contains(op)) << op;
  }
}

TEST(Gradient, MatchesCentralDifferences) {
  ThreadPool pool(1);
  for (const OpCase& c : op_cases(false)) {
    if (c.result.empty()) continue;
    SCOPED_TRACE(c.name);
    const CaseMemory analytic = run_all(c, pool);
    CaseMemory probed(c, DType::kF64);
    int64_t num_tensors = 0;
    for (const TensorSpec& spec : c.tensors) {
      const std::string gradient = "d" + spec.name;
      if (spec.name == c.result || c.find(gradient) == nullptr) continue;
      ++num_tensors;
      const std::vector<double> dx = analytic.values(gradient);
      const size_t stride = std::max<size_t>(1, dx.size() / kMaxElements);
      for (size_t i = 0; i < dx.size(); i += stride) {
        const double expected = central_difference(c, probed, pool, spec.name, i);
        ASSERT_NEAR(dx[i], expected, kTolerance * (1 + std::abs(expected)))
            << gradient << " element " << i;
      }
    }
    EXPECT_GT(num_tensors, 0);
  }
}

TEST(Gradient, AccumulationAddsToWhatIsThere) {
  ThreadPool pool(2);
  for (const OpCase& c : op_cases(false)) {
    CaseMemory plain = run_all(c, pool);
    for (const Call& call : c.calls) {
      if (!call.accumulates.empty()) plain.run(call, pool);  // calls share their workspace
      for (const int output : call.accumulates) {
        SCOPED_TRACE(c.name + ", " + call.op + " output " + std::to_string(output));
        CaseMemory memory = run_all(c, pool);
        const std::string& name = call.out[static_cast<size_t>(output)];
        const std::vector<double> gradient = plain.values(name);
        std::vector<double> before(gradient.size());
        for (size_t i = 0; i < before.size(); ++i) before[i] = 0.5 + static_cast<double>(i % 7);
        for (const std::string& out : call.out) {
          if (!out.empty()) memory.poison(out);
        }
        memory.set(name, before);
        memory.run(call, pool, 1U << static_cast<unsigned>(output));
        const std::vector<double> after = memory.values(name);
        for (size_t i = 0; i < after.size(); ++i) {
          ASSERT_NEAR(after[i], before[i] + gradient[i], 1e-12 * (1 + std::abs(gradient[i])))
              << name << " element " << i;
        }
        for (const std::string& out : call.out) {
          if (out.empty() || out == name) continue;
          EXPECT_TRUE(memory.bytes(out) == plain.bytes(out)) << out;
        }
      }
    }
  }
}

TEST(Gradient, InPlaceGivesTheSameBits) {
  ThreadPool pool(2);
  for (const bool large : {false, true}) {
    for (const OpCase& c : op_cases(large)) {
      const CaseMemory plain = run_all(c, pool, DType::kF32);
      for (const Call& call : c.calls) {
        for (const Call::Alias alias : call.aliases) {
          SCOPED_TRACE(c.name + ", " + call.op);
          CaseMemory memory = run_all(c, pool, DType::kF32);
          memory.run(call, pool, 0, alias);
          EXPECT_TRUE(memory.bytes(call.in[static_cast<size_t>(alias.in)]) ==
                      plain.bytes(call.out[static_cast<size_t>(alias.out)]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace plimsoll::testing
