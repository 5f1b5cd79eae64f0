#include "costmodel/cluster.h"

#include "base/files.h"
#include "tests/costmodel/expect_error.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>

namespace plimsoll {
namespace {

TEST(ParseCluster, TakesDevicesAndNodes) {
  const Cluster eight = parse_cluster("8xa100-80gb");
  EXPECT_EQ(eight.text, "8xa100-80gb");
  EXPECT_EQ(eight.nodes, 1);
  EXPECT_EQ(eight.devices_per_node, 8);
  EXPECT_EQ(eight.device, find_hardware("a100-80gb"));

  const Cluster two_nodes = parse_cluster("2x8xh100-sxm");
  EXPECT_EQ(two_nodes.nodes, 2);
  EXPECT_EQ(two_nodes.devices_per_node, 8);
  EXPECT_EQ(two_nodes.num_devices(), 16);

  const Cluster digits = parse_cluster("4xrtx4090");  // an x and digits in the name
  EXPECT_EQ(digits.num_devices(), 4);
  EXPECT_EQ(digits.device.id, "rtx4090");
}

TEST(ParseCluster, DevicesFillEqualNodes) {
  const auto shape = [](const char* text) {
    const Cluster cluster = parse_cluster(text);
    return std::pair(cluster.nodes, cluster.devices_per_node);
  };
  EXPECT_EQ(shape("1xh200"), std::pair(int64_t{1}, int64_t{1}));
  EXPECT_EQ(shape("64xh200"), std::pair(int64_t{8}, int64_t{8}));
  EXPECT_EQ(shape("12xh200"), std::pair(int64_t{2}, int64_t{6}));
  EXPECT_EQ(shape("13xh200"), std::pair(int64_t{13}, int64_t{1}));
  EXPECT_EQ(shape("72xgb200"), std::pair(int64_t{1}, int64_t{72}));
  EXPECT_EQ(shape("16xcpu"), std::pair(int64_t{1}, int64_t{16}));
}

TEST(ParseCluster, CpuDevicesShareThisMachine) {
  const Cluster two = parse_cluster("2xcpu");
  EXPECT_DOUBLE_EQ(two.device.f32_flops,
                   find_hardware("cpu").f32_flops * static_cast<double>(host_cores()) / 2);
  EXPECT_DOUBLE_EQ(parse_cluster("4xcpu").device.f32_flops, two.device.f32_flops / 2);
}

TEST(ParseCluster, AbsurdSizesAndNamesAreErrors) {
  const auto fails = [](std::string_view text, const std::string& message,
                        const std::string& hint = "") {
    SCOPED_TRACE(text);
    expect_error([&] { (void)parse_cluster(text); }, ExitCode::kBadInput, message, hint);
  };
  fails("", "does not begin with a number", "GPUSxNAME");
  fails("a100-80gb", "does not begin with a number", "8xa100-80gb");
  fails("-1xa100-80gb", "does not begin with a number");
  fails("8", "does not begin with a number");
  fails("8x", "names no device");
  fails("2x8x", "names no device");
  fails("0xa100-80gb", "at least 1");
  fails("2x0xa100-80gb", "at least 1");
  fails("2000000xa100-80gb", "too many");
  fails("99999999999999999999xa100-80gb", "too many");
  fails("1048576x1048576xa100-80gb", "too many");
  fails("8xa100-80bg", "unknown hardware", "did you mean 'a100-80gb'?");
  fails("2x2x2xcpu", "unknown hardware");
  fails("8 xcpu", "does not begin");
  fails("no/such/file.toml", "no/such/file.toml");
}

RC_GTEST_PROP(ParseCluster, SurvivesAnyBytes, (const std::string& text)) {
  try {
    RC_ASSERT(parse_cluster(text).num_devices() >= 1);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

constexpr const char* kFile = R"(# a cluster of our own
nodes = 4
devices_per_node = 8
device = "h100-sxm"

[figures]
usable_gib = 78.5
network_gb_s = 25
)";

TEST(ClusterFile, OverridesTheCatalogue) {
  const Cluster cluster = parse_cluster_toml(kFile, "own.toml");
  EXPECT_EQ(cluster.text, "own.toml");
  EXPECT_EQ(cluster.num_devices(), 32);
  EXPECT_DOUBLE_EQ(cluster.device.usable_memory_bytes, 78.5 * 0x1p30);
  EXPECT_DOUBLE_EQ(cluster.device.network_bytes_per_second, 25e9);
  EXPECT_DOUBLE_EQ(cluster.device.bf16_flops, 989.4e12);
}

TEST(ClusterFile, IsReadFromDisk) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "plimsoll_cluster_test.toml").string();
  write_file(path, kFile);
  EXPECT_EQ(parse_cluster(path), parse_cluster_toml(kFile, path));
  std::filesystem::remove(path);
}

TEST(ClusterFile, ErrorsNameLineColumnAndKey) {
  const auto fails = [](std::string_view text, const std::string& message,
                        const std::string& hint = "") {
    SCOPED_TRACE(text);
    expect_error([&] { (void)parse_cluster_toml(text, "c.toml"); }, ExitCode::kBadInput, message,
                 hint);
  };
  const std::string device = "device = \"h200\"\n";
  fails("", "c.toml: device must name");
  fails("device = 3", "c.toml:1:10: device must name");
  fails("device = \"h201\"", "c.toml:1:10: unknown hardware 'h201'", "'h200'");
  fails(device + "node = 2", "c.toml:2:8: unknown key 'node'", "did you mean 'nodes'?");
  fails(device + "usable_gib = 70", "c.toml:2:14: unknown key 'usable_gib'", "[figures]");
  fails(device + "nodes = 0", "c.toml:2:9: nodes must be a whole number");
  fails(device + "nodes = -3", "nodes must be a whole number");
  fails(device + "nodes = 1.5", "nodes must be a whole number");
  fails(device + "nodes = 9223372036854775807", "nodes must be a whole number");
  fails(device + "nodes = 9223372036854775808", "c.toml:2:");
  fails(device + "nodes = 1048576\ndevices_per_node = 2", "too many");
  fails(device + "figures = 1", "c.toml:2:11: figures must be a table");
  fails(device + "[figures]\nusable_gb = 1", "c.toml:3:13: unknown key 'usable_gb'",
        "did you mean 'usable_gib'?");
  fails(device + "[figures]\nusable_gib = \"1\"", "c.toml:3:14: usable_gib must be a number");
  fails(device + "[figures]\nusable_gib = nan", "usable_gib must be a number");
  fails(device + "[figures]\nusable_gib = inf", "usable_gib must be a number");
  fails(device + "[figures]\nusable_gib = -1", "usable_gib must be from 0 to 1e6");
  fails(device + "[figures]\nusable_gib = 1e300", "usable_gib must be from 0 to 1e6");
  fails(device + "[figures]\nf32_tflops = 0", "f32_tflops must be above 0");
  fails(device + "[figures]\nmatmul_efficiency = 1.5", "matmul_efficiency must be above 0");
  fails(device + "[figures]\nlink_devices = 0", "link_devices must be a whole number");
  fails(device + "[figures]\nname = 1", "name must be a string");
  fails(device + "[figures]\nshares_cores = 1", "shares_cores must be true or false");
  fails("device = ", "c.toml:1:");
  fails(device + device, "c.toml:2:");
  fails(std::string("device = \"h200\"\0", 16), "c.toml:");
  fails("\xff\xfe\x00", "c.toml:");
  fails(std::string(100'000, '['), "c.toml:1:");
  fails("device = " + std::string(100'000, '['), "c.toml:1:");
  // Tables of so many names were once destroyed by as deep a recursion.
  std::string names = "a";
  for (int i = 0; i < 100'000; ++i) names += ".a";
  fails(device + "[" + names + "]", "c.toml:2: more than 100 dots");
  fails(device + names + " = 1", "c.toml:2: more than 100 dots");
}

// Any bytes, and any one change to a valid file, give a cluster or an Error.
RC_GTEST_PROP(ClusterFile, SurvivesAnyBytes, (const std::string& text)) {
  try {
    (void)parse_cluster_toml(text, "c.toml");
    RC_FAIL("random bytes name no device");
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

RC_GTEST_PROP(ClusterFile, SurvivesDamage, ()) {
  std::string text = kFile;
  const auto at = *rc::gen::inRange<size_t>(0, text.size());
  const auto length = *rc::gen::inRange<size_t>(0, 20);
  text.replace(at, length, *rc::gen::arbitrary<std::string>());
  try {
    RC_ASSERT(parse_cluster_toml(text, "c.toml").num_devices() >= 1);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

}  // namespace
}  // namespace plimsoll
