// The emulator runs right kernels right and sees each planted fault.
#include "base/error.h"
#include "kernels/emulation/runtime.h"
#include "tests/emulation/kernels_with_faults.h"

#include <gtest/gtest.h>

#include <vector>

namespace plimsoll::testing {
namespace {

using namespace plimsoll::emulation;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kChecksAccesses = false;
#else
constexpr bool kChecksAccesses = true;
#endif

// Two streams and three arrays of n elements on one emulated device.
class Emulation : public ::testing::Test {
 protected:
  static constexpr int64_t kN = 256;
  static constexpr int64_t kBytes = kN * 4;

  void SetUp() override {
    if (!kChecksAccesses) GTEST_SKIP() << "fibers and hooks are not for sanitizers";
    reset_device();
    for (cudaStream_t& stream : streams_)
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, 0), cudaSuccess);
    for (void** memory : {&x_, &y_, &z_}) ASSERT_EQ(cudaMalloc(memory, kBytes), cudaSuccess);
    host_.resize(kN);
    for (int64_t i = 0; i < kN; ++i) host_[static_cast<size_t>(i)] = static_cast<float>(i % 7) - 3;
    ASSERT_EQ(cudaMemcpyAsync(x_, host_.data(), kBytes, cudaMemcpyHostToDevice, streams_[0]),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void TearDown() override {
    if (!kChecksAccesses) return;
    reset_device();
    for (void* memory : {x_, y_, z_}) EXPECT_EQ(cudaFree(memory), cudaSuccess);
    for (cudaStream_t stream : streams_) EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    settings() = {};
  }

  // Reads x, writes y, on one stream.
  cuda::Queue queue(int stream = 0) {
    ranges_ = {{x_, kBytes, false}, {y_, kBytes, true}};
    return {streams_[stream], nullptr, &counts_, ranges_};
  }
  std::vector<float> read(void* memory) {
    std::vector<float> values(kN);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), memory, kBytes, cudaMemcpyDeviceToHost, streams_[0]),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
    return values;
  }
  static float* floats(void* memory) { return static_cast<float*>(memory); }

  cudaStream_t streams_[2] = {};
  cudaEvent_t event_ = nullptr;
  void *x_ = nullptr, *y_ = nullptr, *z_ = nullptr;
  std::vector<float> host_;
  std::vector<cuda::OperandRange> ranges_;
  cuda::LaunchCounts counts_;
};

TEST_F(Emulation, BarriersAndShufflesGiveTheRightSumInEveryOrderOfThreads) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    settings().seed = seed;
    sum_blocks(floats(x_), floats(y_), kN, Planted::kNothing, queue());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_fault().text;
    const std::vector<float> y = read(y_);
    for (int64_t i = 0; i < kN; ++i) {
      float expected = 0;
      for (int64_t j = i / 64 * 64; j < i / 64 * 64 + 64; ++j)
        expected += 2 * host_[static_cast<size_t>(j)];
      ASSERT_EQ(y[static_cast<size_t>(i)], expected) << i;
    }
  }
  EXPECT_EQ(counts_.at("sum_blocks"), 4);
}

TEST_F(Emulation, AtomicAdditionsOfAllBlocksAreNoRace) {
  const std::vector<int32_t> zero = {0};
  ASSERT_EQ(cudaMemcpyAsync(y_, zero.data(), 4, cudaMemcpyHostToDevice, streams_[0]), cudaSuccess);
  count_positive(floats(x_), static_cast<int32_t*>(y_), kN, queue());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_fault().text;
  int32_t total = 0;
  ASSERT_EQ(cudaMemcpyAsync(&total, y_, 4, cudaMemcpyDeviceToHost, streams_[0]), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(streams_[0]), cudaSuccess);
  int32_t expected = 0;
  for (const float x : host_) expected += x > 0 ? 1 : 0;
  EXPECT_EQ(total, expected);
}

struct Case {
  Planted fault;
  FaultKind kind;
};

class PlantedFaults : public Emulation, public ::testing::WithParamInterface<Case> {};

TEST_P(PlantedFaults, IsFoundInEveryOrderOfThreads) {
  for (const uint64_t seed : {0, 1, 2}) {
    SCOPED_TRACE(seed);
    settings().seed = seed;
    reset_device();
    sum_blocks(floats(x_), floats(y_), kN, GetParam().fault, queue());
    EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(last_fault().kind, GetParam().kind) << last_fault().text;
    EXPECT_NE(last_fault().text.find("sum_blocks"), std::string::npos) << last_fault().text;
    // As on a GPU, nothing runs behind an error.
    EXPECT_NE(cudaStreamSynchronize(streams_[1]), cudaSuccess);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedFaults,
    ::testing::Values(Case{Planted::kPastTheEnd, FaultKind::kOutOfBounds},
                      Case{Planted::kBeforeTheStart, FaultKind::kOutOfBounds},
                      Case{Planted::kMisaligned, FaultKind::kMisaligned},
                      Case{Planted::kWritesInput, FaultKind::kReadOnly},
                      Case{Planted::kSharedPastTheEnd, FaultKind::kOutOfBounds},
                      Case{Planted::kUninitialised, FaultKind::kUninitialised},
                      Case{Planted::kNoWarpBarrier, FaultKind::kRace},
                      Case{Planted::kBarrierInBranch, FaultKind::kDivergentBarrier},
                      Case{Planted::kTwoBarriers, FaultKind::kDivergentBarrier},
                      Case{Planted::kShuffleInBranch, FaultKind::kDivergentBarrier},
                      Case{Planted::kTwoBlocks, FaultKind::kRace},
                      Case{Planted::kUnevenBlock, FaultKind::kBadLaunch},
                      Case{Planted::kTooMuchShared, FaultKind::kBadLaunch}));

// A neighbour's value read too early is a race, or was not written at all: the order decides.
TEST_F(Emulation, AMissingBarrierIsFoundInEveryOrderOfThreads) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    settings().seed = seed;
    reset_device();
    sum_blocks(floats(x_), floats(y_), kN, Planted::kNoBarrier, queue());
    EXPECT_NE(cudaDeviceSynchronize(), cudaSuccess);
    const FaultKind kind = last_fault().kind;
    EXPECT_TRUE(kind == FaultKind::kRace || kind == FaultKind::kUninitialised) << last_fault().text;
  }
}

TEST_F(Emulation, AStreamThatUsesAResultWithoutTheEventIsFound) {
  add_one(floats(x_), floats(y_), kN, queue(0));
  ranges_ = {{y_, kBytes, false}, {z_, kBytes, true}};
  EXPECT_THROW(add_one(floats(y_), floats(z_), kN, {streams_[1], nullptr, nullptr, ranges_}),
               Error);
  EXPECT_EQ(last_fault().kind, FaultKind::kStreamOrder) << last_fault().text;
}

TEST_F(Emulation, OverwritingWhatAnotherStreamStillReadsIsFound) {
  ranges_ = {{y_, kBytes, false}, {z_, kBytes, true}};
  add_one(floats(y_), floats(z_), kN, {streams_[1], nullptr, nullptr, ranges_});
  EXPECT_THROW(add_one(floats(x_), floats(y_), kN, queue(0)), Error);
  EXPECT_EQ(last_fault().kind, FaultKind::kStreamOrder) << last_fault().text;
}

TEST_F(Emulation, AnEventOrdersTwoStreamsWhateverTheSeed) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    settings().seed = seed;
    add_one(floats(x_), floats(y_), kN, queue(0));
    ASSERT_EQ(cudaEventRecord(event_, streams_[0]), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(streams_[1], event_), cudaSuccess);
    ranges_ = {{y_, kBytes, false}, {z_, kBytes, true}};
    add_one(floats(y_), floats(z_), kN, {streams_[1], nullptr, nullptr, ranges_});
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess) << last_fault().text;
    const std::vector<float> z = read(z_);
    for (size_t i = 0; i < z.size(); ++i) ASSERT_EQ(z[i], host_[i] + 2);
  }
}

TEST_F(Emulation, MemoryThatWasGivenBackIsOutOfBounds) {
  void* gone = nullptr;
  ASSERT_EQ(cudaMalloc(&gone, kBytes), cudaSuccess);
  ASSERT_EQ(cudaFree(gone), cudaSuccess);
  EXPECT_EQ(cudaFree(gone), cudaErrorInvalidValue);
  add_one(floats(x_), floats(gone), kN, {streams_[0], nullptr, nullptr, {}});
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(last_fault().kind, FaultKind::kOutOfBounds);
}

TEST_F(Emulation, ADeviceGivesNoMoreThanItHas) {
  settings().device_bytes = 1 << 20;
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 2 << 20), cudaErrorMemoryAllocation);
  size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total - free, 3 * static_cast<size_t>(kBytes));
}

}  // namespace
}  // namespace plimsoll::testing
