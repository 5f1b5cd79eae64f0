// The CUDA kernels, emulated, against the CPU's on the cases of every operation: within rounding,
// the same bits in every order of threads, every output written, and no fault that the emulator
// sees.
#include "executor/cuda/bind.h"
#include "kernels/emulation/blas.h"
#include "kernels/emulation/runtime.h"
#include "tests/kernels/case_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace plimsoll::testing {
namespace {

using namespace plimsoll::emulation;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kEmulates = false;
#else
constexpr bool kEmulates = true;
#endif

// A case's tensors copied to an emulated device, one allocation each.
class OnDevice {
 public:
  explicit OnDevice(const OpCase& op_case) : case_(op_case) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, 0), cudaSuccess);
    EXPECT_EQ(cublasCreate_v2(&blas_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetStream_v2(blas_, stream_), CUBLAS_STATUS_SUCCESS);
  }
  ~OnDevice() {
    reset_device();
    for (const auto& [name, memory] : memory_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
    EXPECT_EQ(cublasDestroy_v2(blas_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  // Runs the call on the tensors of `host` and puts what comes out back there.
  void run(const Call& call, CaseMemory& host, uint32_t accumulate, Call::Alias in_place) {
    std::vector<Operand> in;
    std::vector<Operand> out;
    std::vector<cuda::OperandRange> ranges;
    for (const std::string& name : call.in) in.push_back(upload(name, host));
    for (const std::string& name : call.out) out.push_back(upload(name, host));
    if (in_place.out >= 0) {
      out[static_cast<size_t>(in_place.out)].data = in[static_cast<size_t>(in_place.in)].data;
    }
    KernelArgs args;
    if (case_.find("scalars") != nullptr) {
      const Operand scalars = upload("scalars", host);
      args.scalars = scalars.as<double>();
      ranges.push_back({scalars.data, bytes(scalars), false});
    }
    for (const Operand& o : in) {
      if (o.present()) ranges.push_back({o.data, bytes(o), false});
    }
    for (const Operand& o : out) {
      if (o.present()) ranges.push_back({o.data, bytes(o), true});
    }
    cuda::LaunchCounts counts;
    const cuda::Queue queue{stream_, blas_, &counts, ranges};
    args.in = in;
    args.out = out;
    args.accumulate = accumulate;
    args.attributes = &case_.attributes;
    args.first_sample = case_.first_sample;
    args.queue = &queue;
    const KernelFunction kernel = find_cuda_kernel(call.op, case_.attributes);
    ASSERT_NE(kernel, nullptr) << call.op;
    kernel(args);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_fault().text;
    EXPECT_FALSE(counts.empty());
    for (size_t k = 0; k < out.size(); ++k) {
      if (!out[k].present()) continue;
      const Operand to = host.operand(call.out[k]);
      EXPECT_EQ(cudaMemcpyAsync(to.data, out[k].data, static_cast<size_t>(bytes(to)),
                                cudaMemcpyDeviceToHost, stream_),
                cudaSuccess);
    }
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  }

 private:
  static int64_t bytes(const Operand& o) { return o.size() * dtype_bytes(o.dtype); }

  Operand upload(const std::string& name, const CaseMemory& host) {
    Operand operand = host.operand(name);
    if (!operand.present()) return operand;
    void*& memory = memory_[name];
    if (memory == nullptr) {
      EXPECT_EQ(cudaMalloc(&memory, static_cast<size_t>(bytes(operand))), cudaSuccess);
    }
    EXPECT_EQ(cudaMemcpyAsync(memory, operand.data, static_cast<size_t>(bytes(operand)),
                              cudaMemcpyHostToDevice, stream_),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    operand.data = memory;
    return operand;
  }

  const OpCase& case_;
  cudaStream_t stream_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  std::map<std::string, void*> memory_;
};

bool has_all_kernels(const OpCase& c) {
  for (const Call& call : c.calls) {
    if (find_cuda_kernel(call.op, c.attributes) == nullptr) return false;
  }
  return true;
}

// Each call starts from the CPU's tensors, so that calls are judged one by one.
void compare(const OpCase& c, uint32_t accumulate, bool in_place) {
  SCOPED_TRACE(c.name);
  ThreadPool pool(1);
  CaseMemory expected(c, DType::kF32);
  OnDevice device(c);
  for (const Call& call : c.calls) {
    SCOPED_TRACE(call.op);
    uint32_t bits = 0;
    for (const int k : call.accumulates) bits |= accumulate << k;
    if (accumulate != 0 && call.accumulates.empty()) {
      expected.run(call, pool);
      continue;
    }
    const Call::Alias alias =
        in_place && !call.aliases.empty() ? call.aliases.front() : Call::Alias{-1, -1};
    if (bits != 0) {  // something to add to
      for (const int k : call.accumulates) {
        const std::string& name = call.out[static_cast<size_t>(k)];
        if (name.empty()) continue;
        std::vector<double> values(static_cast<size_t>(num_elements(c.find(name)->shape)));
        for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25 * static_cast<double>(i % 9);
        expected.set(name, values);
      }
    }
    CaseMemory found(c, DType::kF32);
    for (const TensorSpec& spec : c.tensors) {
      const std::string same = expected.bytes(spec.name);
      std::memcpy(found.operand(spec.name).data, same.data(), same.size());
    }
    expected.run(call, pool, bits);
    device.run(call, found, bits, alias);
    if (::testing::Test::HasFatalFailure()) return;
    for (const std::string& name : call.out) {
      if (name.empty()) continue;
      EXPECT_EQ(found.count_poisoned(name), 0) << name;
      if (name == "ws") continue;  // each has its own use of it
      const std::vector<double> y = found.values(name);
      const std::vector<double> want = expected.values(name);
      const double tolerance = call.op.starts_with("dropout") ? 0 : 2e-5;
      for (size_t i = 0; i < y.size(); ++i) {
        ASSERT_NEAR(y[i], want[i], tolerance * (1 + std::abs(want[i]))) << name << " element " << i;
      }
    }
  }
}

class CudaKernels : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kEmulates) GTEST_SKIP() << "fibers and hooks are not for sanitizers";
  }
  void TearDown() override { settings() = {}; }
};

TEST_F(CudaKernels, AgreeWithTheCpuInEveryOrderOfThreads) {
  for (const OpCase& c : op_cases(false)) {
    if (!has_all_kernels(c)) continue;
    for (const uint64_t seed : {0, 1}) {
      settings().seed = seed;
      compare(c, 0, false);
      if (HasFatalFailure()) return;
    }
    compare(c, 1, false);
    compare(c, 0, true);
  }
}

TEST_F(CudaKernels, AgreeWithTheCpuOnSeveralTiles) {
  for (const OpCase& c : op_cases(true)) {
    if (!has_all_kernels(c)) continue;
    // A tiled attention takes seconds; two of its sixteen forms go through every branch of it.
    const bool is_attention = c.name.starts_with("attention");
    if (is_attention && (c.name.find("flash kv_heads 2") == std::string::npos ||
                         c.name.find("dropout 0.3") == std::string::npos)) {
      continue;
    }
    compare(c, 0, false);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaKernels, ARanksShareHasNone) {
  EXPECT_NE(find_cuda_kernel("embedding", {}), nullptr);
  EXPECT_EQ(find_cuda_kernel("embedding", {{"tp", int64_t{2}}}), nullptr);
  EXPECT_EQ(find_cuda_kernel("adamw", {{"shards", int64_t{2}}}), nullptr);
  EXPECT_EQ(find_cuda_kernel("sum_squares", {{"count", int64_t{2}}}), nullptr);
  EXPECT_EQ(find_cuda_kernel("sum_squares", {{"scale", 0.5}}), nullptr);
}

TEST_F(CudaKernels, EveryBoundKernelHasACase) {
  std::set<std::string, std::less<>> covered;
  for (const OpCase& c : op_cases(false)) {
    if (!has_all_kernels(c)) continue;
    for (const Call& call : c.calls) covered.insert(call.op);
  }
  for (const std::string_view op : cuda_kernel_names()) EXPECT_TRUE(covered.contains(op)) << op;
}

}  // namespace
}  // namespace plimsoll::testing
