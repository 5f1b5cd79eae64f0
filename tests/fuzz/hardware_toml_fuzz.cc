// A catalogue of hardware: figures of what is read are finite and positive where time is divided
// by them.
#include "costmodel/hardware_toml.h"
#include "tests/fuzz/fuzz_target.h"

#include <cmath>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  fuzz::accept_errors([&] {
    for (const Hardware& one : internal::parse_catalogue(fuzz::as_text(data, size), "input")) {
      for (const double figure : {one.f32_flops, one.memory_bytes_per_second,
                                  one.pcie_bytes_per_second, one.network_bytes_per_second}) {
        fuzz::require(std::isfinite(figure) && figure > 0, "figures are positive");
      }
    }
  });
  return 0;
}
