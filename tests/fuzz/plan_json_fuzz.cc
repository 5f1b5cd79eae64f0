// Plan JSON: a plan that is read prints to a plan that reads the same.
#include "planner/plan.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  fuzz::accept_errors([&] {
    const std::string text = plan_json(parse_plan_json(fuzz::as_text(data, size), "input"));
    fuzz::require(plan_json(parse_plan_json(text, "printed")) == text, "a plan survives reading");
  });
  return 0;
}
