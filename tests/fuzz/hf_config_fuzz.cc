// A Hugging Face config.json: what is read has a graph, or the graph is refused.
#include "models/model.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  fuzz::accept_errors([&] {
    ModelSpec spec = parse_hugging_face_config(fuzz::as_text(data, size), "input");
    // A graph is as long as the model is deep; 100,000 layers are fine but slow.
    if (spec.layers <= 16) {
      fuzz::require(count_parameters(spec) > 0, "a model has parameters");
    }
  });
  return 0;
}
