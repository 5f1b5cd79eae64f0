// A cluster as a file and as a word.
#include "costmodel/cluster.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

void check(const plimsoll::Cluster& cluster) {
  plimsoll::fuzz::require(cluster.nodes >= 1 && cluster.devices_per_node >= 1 &&
                              cluster.num_devices() <= plimsoll::kMaxDevices,
                          "a cluster has a sound number of devices");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text = fuzz::as_text(data, size);
  fuzz::accept_errors([&] { check(parse_cluster_toml(text, "input")); });
  // The name of a file would be read from disk.
  if (!text.ends_with(".toml")) fuzz::accept_errors([&] { check(parse_cluster(text)); });
  return 0;
}
