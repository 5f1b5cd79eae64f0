// Program text: what parses prints to a text that parses to the same program, and verify holds
// against any of them.
#include "program/text.h"
#include "program/verify.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  fuzz::accept_errors([&] {
    const StepProgram program = parse_text(fuzz::as_text(data, size), "input");
    // Printed again, NaNs included, rather than compared: a NaN differs from itself.
    const std::string text = to_text(program);
    fuzz::require(to_text(parse_text(text, "printed")) == text, "text survives parsing");
    (void)verify(program);
  });
  return 0;
}
