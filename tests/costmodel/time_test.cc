// Times of operations and collectives against their formulas, worked by hand.
#include "costmodel/collective_time.h"
#include "costmodel/op_time.h"
#include "tests/costmodel/expect_error.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

// Round figures: 1 TFLOP/s attainable, 100 GB/s of memory, 10 GB/s inside a node, 1 between.
Cluster round_cluster(int64_t nodes, int64_t devices_per_node) {
  Hardware device;
  device.id = "round";
  device.f32_flops = 2e12;
  device.matmul_efficiency = 0.5;
  device.memory_bytes_per_second = 200e9;
  device.memory_efficiency = 0.5;
  device.link_bytes_per_second = 20e9;
  device.link_devices = 8;
  device.pcie_bytes_per_second = 4e9;
  device.network_bytes_per_second = 2e9;
  device.collective_efficiency = 0.5;
  device.launch_seconds = 1e-6;
  device.link_latency_seconds = 1e-5;
  device.network_latency_seconds = 1e-4;
  return {"round", nodes, devices_per_node, device};
}

TEST(Roofline, IsTheSlowerOfArithmeticAndMemory) {
  const Hardware device = round_cluster(1, 1).device;
  Instruction instruction;
  EXPECT_DOUBLE_EQ(RooflineTime().op_seconds(instruction, device, DType::kF32), 1e-6);
  instruction.flops = 1e12;
  instruction.bytes_moved = 50e9;
  EXPECT_DOUBLE_EQ(RooflineTime().op_seconds(instruction, device, DType::kF32), 1 + 1e-6);
  instruction.bytes_moved = 300e9;
  EXPECT_DOUBLE_EQ(RooflineTime().op_seconds(instruction, device, DType::kF32), 3 + 1e-6);
  instruction.flops = 8e12;
  EXPECT_DOUBLE_EQ(RooflineTime().op_seconds(instruction, device, DType::kF64), 16 + 1e-6);
}

TEST(Roofline, NeedsTheTypeOnlyForArithmetic) {
  const Hardware device = round_cluster(1, 1).device;
  Instruction instruction;
  instruction.bytes_moved = 1e9;
  EXPECT_DOUBLE_EQ(RooflineTime().op_seconds(instruction, device, DType::kBF16), 0.01 + 1e-6);
  instruction.flops = 1;
  expect_error([&] { (void)RooflineTime().op_seconds(instruction, device, DType::kBF16); },
               ExitCode::kBadInput, "no bf16");
}

TEST(FloatType, IsTheFirstFloatOperands) {
  StepProgram program;
  program.buffers.resize(4);
  program.buffers[0].dtype = DType::kI32;
  program.buffers[1].dtype = DType::kBF16;
  program.buffers[2].dtype = DType::kF64;
  program.buffers[3].dtype = DType::kU8;
  Instruction instruction;
  instruction.inputs = {0, kNoBuffer, 1, 2};
  EXPECT_EQ(float_type_of(program, instruction), DType::kBF16);
  instruction.inputs = {0, 3};
  instruction.outputs = {2};
  EXPECT_EQ(float_type_of(program, instruction), DType::kF64);
  instruction.outputs = {3};
  EXPECT_EQ(float_type_of(program, instruction), DType::kF32);
}

double seconds(Collective kind, double bytes, CollectiveGroup group, const Cluster& cluster) {
  return RingTime().collective_seconds(kind, bytes, group, cluster);
}

TEST(Ring, FollowsTheFormulasInsideANode) {
  const Cluster node = round_cluster(1, 8);
  // 4 ranks, 10 GB/s: 2 * 3 * (10 us) + 2 * 3/4 * 1e9 / 1e10.
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllReduce, 1e9, {4, 1}, node), 6e-5 + 0.15);
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 1e9, {4, 1}, node), 3e-5 + 0.075);
  EXPECT_DOUBLE_EQ(seconds(Collective::kReduceScatter, 1e9, {4, 1}, node), 3e-5 + 0.075);
  EXPECT_DOUBLE_EQ(seconds(Collective::kSendReceive, 1e9, {2, 4}, node), 1e-5 + 0.1);
  EXPECT_EQ(seconds(Collective::kAllReduce, 1e9, {1, 1}, node), 0);
}

TEST(Ring, GoesOverPcieWhereTheLinkDoesNotReach) {
  Cluster node = round_cluster(1, 4);
  node.device.link_devices = 2;
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 1e9, {2, 1}, node), 1e-5 + 0.05);
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 1e9, {4, 1}, node), 3e-5 + 0.375);
  node.device.link_bytes_per_second = 0;
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 1e9, {2, 1}, node), 1e-5 + 0.25);
}

TEST(Ring, UsesTheNetworkPortsOfEveryMemberOfANode) {
  const Cluster cluster = round_cluster(2, 4);
  // All 8: four ports of 1 GB/s a node against 10 GB/s of link: 4 GB/s.
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 1e9, {8, 1}, cluster), 7e-4 + 7.0 / 8 / 4);
  // One member a node (behind tensor parallelism of 4): one port.
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllGather, 1e9, {2, 4}, cluster), 1e-4 + 0.5);
  // Many ports: the link is the bound.
  EXPECT_DOUBLE_EQ(seconds(Collective::kSendReceive, 1e10, {64, 1}, round_cluster(2, 32)),
                   1e-4 + 1e10 / 2e9);
}

// A rank keeps its own n-th; links and the rank's port work side by side.
TEST(Ring, AnAllToAllGoesThroughEveryRanksOwnPort) {
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllToAll, 1e9, {4, 1}, round_cluster(1, 8)), 3e-5 + 0.075);
  // 4 of 8 parts leave the node at 1 GB/s, 3 stay at 10 GB/s.
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllToAll, 1e9, {8, 1}, round_cluster(2, 4)), 7e-4 + 0.5);
  EXPECT_DOUBLE_EQ(seconds(Collective::kAllToAll, 1e9, {2, 4}, round_cluster(2, 4)), 1e-4 + 0.5);
}

TEST(Ring, KnowsItsInstructions) {
  EXPECT_EQ(find_collective("all_to_all"), Collective::kAllToAll);
  EXPECT_EQ(find_collective("all_reduce"), Collective::kAllReduce);
  EXPECT_EQ(find_collective("all_gather"), Collective::kAllGather);
  EXPECT_EQ(find_collective("reduce_scatter"), Collective::kReduceScatter);
  EXPECT_EQ(find_collective("send"), Collective::kSendReceive);
  EXPECT_EQ(find_collective("receive"), Collective::kSendReceive);
  EXPECT_FALSE(find_collective("linear").has_value());
}

// More bytes never take less time; an all-reduce is a reduce-scatter and an all-gather.
RC_GTEST_PROP(Ring, IsMonotoneAndComposes, ()) {
  const Cluster cluster =
      round_cluster(*rc::gen::inRange<int64_t>(1, 9), *rc::gen::inRange<int64_t>(1, 9));
  const CollectiveGroup group{*rc::gen::inRange<int64_t>(1, cluster.num_devices() + 1), 1};
  const auto bytes = static_cast<double>(*rc::gen::inRange<int64_t>(0, int64_t{1} << 40));
  const double whole = seconds(Collective::kAllReduce, bytes, group, cluster);
  const double parts = seconds(Collective::kReduceScatter, bytes, group, cluster) +
                       seconds(Collective::kAllGather, bytes, group, cluster);
  RC_ASSERT(whole >= 0);
  RC_ASSERT(std::abs(whole - parts) <= 1e-12 * whole);
  RC_ASSERT(seconds(Collective::kAllReduce, bytes + 1e6, group, cluster) >= whole);
}

}  // namespace
}  // namespace plimsoll
