// A safetensors file: every tensor that the header names can be read, and its size is its shape's.
#include "base/shape.h"
#include "executor/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const fuzz::InputFile input(data, size);
  fuzz::accept_errors([&] {
    const SafetensorsFile file(input.path());
    size_t total = 0;
    for (const std::string& name : file.names()) {
      fuzz::require(file.find(name).has_value(), "a name is found");
      total += file.read(name).size();
    }
    fuzz::require(total < size, "tensors lie in the file");
  });
  return 0;
}
