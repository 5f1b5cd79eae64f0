// A GPT-2 model file of llm.c: what it takes for one can be read to the last tensor.
#include "base/shape.h"
#include "executor/llmc_model.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const fuzz::InputFile input(data, size);
  fuzz::accept_errors([&] {
    if (!LlmcModelFile::recognise(input.path())) return;
    const LlmcModelFile file(input.path());
    for (const char* name : {"wte.weight", "wpe.weight", "h.0.mlp.c_fc.weight", "ln_f.bias"}) {
      const auto tensor = file.find(name);
      fuzz::require(tensor.has_value(), "a model has its tables and a layer");
      fuzz::require(static_cast<int64_t>(file.read(name).size()) == 4 * num_elements(tensor->shape),
                    "a tensor has the bytes of its shape");
    }
  });
  return 0;
}
