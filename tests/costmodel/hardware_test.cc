#include "costmodel/hardware.h"

#include "costmodel/spelling.h"
#include "tests/costmodel/expect_error.h"

#include <gtest/gtest.h>

#include <set>

namespace plimsoll {
namespace {

TEST(Catalogue, HasTheDevicesThatThePromisedNamesMean) {
  for (const char* id :
       {"h100-sxm", "h100-pcie", "h200", "h800", "b200", "a100-80gb", "a100-40gb", "v100-32gb",
        "v100-16gb", "rtx4090", "rtx3090", "t4", "a10", "l4", "l40s", "a6000", "cpu"}) {
    EXPECT_EQ(find_hardware(id).id, id);
  }
}

TEST(Catalogue, EveryDeviceIsCompleteAndPlausible) {
  std::set<std::string> ids;
  for (const Hardware& hardware : all_hardware()) {
    SCOPED_TRACE(hardware.id);
    EXPECT_TRUE(ids.insert(hardware.id).second);
    EXPECT_FALSE(hardware.name.empty());
    EXPECT_FALSE(hardware.source.empty());
    EXPECT_GT(hardware.f32_flops, 1e10);
    EXPECT_LT(hardware.bf16_flops, 1e16);
    EXPECT_GT(hardware.memory_bytes_per_second, 1e9);
    EXPECT_GT(hardware.network_bytes_per_second, 0);
    if (hardware.link_bytes_per_second == 0) {
      EXPECT_EQ(hardware.link_devices, 1);
    }
    if (hardware.id == "cpu") continue;
    // What is usable is less than the vendor's figure, of which 1 GiB = 1.074 GB, and not by much;
    // vendors count 24 GiB chips as 24 GB.
    EXPECT_GT(hardware.usable_memory_bytes, 0.9 * hardware.vendor_memory_bytes);
    EXPECT_LT(hardware.usable_memory_bytes, 1.08 * hardware.vendor_memory_bytes);
    EXPECT_GT(hardware.context_bytes, 100e6);
    EXPECT_LT(hardware.context_bytes, 1e9);
    EXPECT_GT(hardware.f16_flops, hardware.f32_flops);
  }
}

// Data sheet figures, typed here a second time.
TEST(Catalogue, HoldsTheDataSheets) {
  const Hardware& h100 = find_hardware("h100-sxm");
  EXPECT_DOUBLE_EQ(h100.bf16_flops, 989.4e12);
  EXPECT_DOUBLE_EQ(h100.memory_bytes_per_second, 3350e9);
  EXPECT_DOUBLE_EQ(h100.link_bytes_per_second, 450e9);
  EXPECT_EQ(h100.memory_bytes(), static_cast<int64_t>(79.1 * 0x1p30));
  EXPECT_EQ(h100.outside_bytes(0), int64_t{563} << 20);
  EXPECT_EQ(h100.outside_bytes(2), int64_t{563 + 2 * 656} << 20);
  const Hardware& a100 = find_hardware("a100-80gb");
  EXPECT_DOUBLE_EQ(a100.bf16_flops, 312e12);
  EXPECT_DOUBLE_EQ(a100.f32_flops, 19.5e12);
  EXPECT_DOUBLE_EQ(a100.vendor_memory_bytes, 80e9);
  const Hardware& rtx4090 = find_hardware("rtx4090");
  EXPECT_DOUBLE_EQ(rtx4090.f16_flops, 165.2e12);  // with fp32 accumulation
  EXPECT_EQ(rtx4090.link_bytes_per_second, 0);
}

TEST(Catalogue, CpuDevicesHaveNoMemoryOfTheirOwnAndNothingOutside) {
  const Hardware& cpu = find_hardware("cpu");
  EXPECT_EQ(cpu.memory_bytes(), 0);
  EXPECT_EQ(cpu.outside_bytes(5), 0);
}

TEST(Catalogue, AWrongNameGetsTheNearestOne) {
  const auto hint_for = [](std::string_view name, const std::string& hint) {
    expect_error([&] { (void)find_hardware(name); }, ExitCode::kBadInput, std::string(name), hint);
  };
  hint_for("h100-sxn", "did you mean 'h100-sxm'?");
  hint_for("a100_80gb", "did you mean 'a100-80gb'?");
  hint_for("rtx4900", "did you mean 'rtx4090'?");
  hint_for("H200", "did you mean 'h200'?");
  hint_for("v100", "did you mean 'v100-");
  hint_for("quantum-computer", "known are cpu, ");
  hint_for("", "known are cpu, ");
  hint_for(std::string(100'000, 'h'), "known are cpu, ");
}

TEST(PeakFlops, ATypeThatTheDeviceLacksIsAnError) {
  EXPECT_DOUBLE_EQ(peak_flops(find_hardware("v100-32gb"), DType::kF16), 125e12);
  EXPECT_DOUBLE_EQ(peak_flops(find_hardware("v100-32gb"), DType::kF32), 15.7e12);
  expect_error([] { (void)peak_flops(find_hardware("v100-32gb"), DType::kBF16); },
               ExitCode::kBadInput, "v100-32gb has no bf16", "fp16");
  EXPECT_DEATH((void)peak_flops(find_hardware("t4"), DType::kI32), "i32 is not a float");
}

TEST(ShareHost, DevicesDivideTheCores) {
  const Hardware& cpu = find_hardware("cpu");
  const Hardware four_cores = share_host(cpu, 2, 8);
  EXPECT_DOUBLE_EQ(four_cores.f32_flops, 4 * cpu.f32_flops);
  EXPECT_DOUBLE_EQ(four_cores.memory_bytes_per_second, 4 * cpu.memory_bytes_per_second);
  EXPECT_DOUBLE_EQ(share_host(cpu, 4, 2).f32_flops, cpu.f32_flops / 2);
  EXPECT_TRUE(four_cores.shares_cores);
  const Hardware& gpu = find_hardware("t4");
  EXPECT_EQ(share_host(gpu, 2, 8), gpu);
  EXPECT_GE(host_cores(), 1);
}

TEST(EditDistance, CountsChanges) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("gpt2", "gtp2"), 1);
  EXPECT_EQ(edit_distance("llama2", "llama3"), 1);
}

}  // namespace
}  // namespace plimsoll
