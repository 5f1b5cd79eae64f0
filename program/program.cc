#include "program/program.h"

#include <array>

namespace plimsoll {

namespace {

constexpr std::array<std::string_view, kNumCategories> kCategoryNames = {
    "parameters", "gradients", "optimizer",     "activations",
    "input",      "workspace", "communication", "framework"};

}  // namespace

std::string_view category_name(Category category) {
  return kCategoryNames[static_cast<size_t>(category)];
}

std::optional<Category> parse_category(std::string_view name) {
  for (size_t i = 0; i < kCategoryNames.size(); ++i) {
    if (kCategoryNames[i] == name) return static_cast<Category>(i);
  }
  return std::nullopt;
}

std::string_view stream_name(Stream stream) {
  switch (stream) {
    case Stream::kCompute:
      return "compute";
    case Stream::kTensorParallel:
      return "tensor";
    case Stream::kDataParallel:
      return "data";
    case Stream::kPipeline:
      return "pipeline";
    case Stream::kCopy:
      return "copy";
  }
  return "?";
}

std::string_view pass_name(Pass pass) {
  switch (pass) {
    case Pass::kInput:
      return "input";
    case Pass::kForward:
      return "forward";
    case Pass::kRecompute:
      return "recompute";
    case Pass::kBackward:
      return "backward";
    case Pass::kReduce:
      return "reduce";
    case Pass::kUpdate:
      return "update";
    case Pass::kInitialise:
      return "initialise";
  }
  return "?";
}

const Phase* StepProgram::find_phase(std::string_view name) const {
  for (const Phase& phase : phases) {
    if (phase.name == name) return &phase;
  }
  return nullptr;
}

int StepProgram::find_buffer(std::string_view name) const {
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].name == name) return static_cast<int>(i);
  }
  return kNoBuffer;
}

}  // namespace plimsoll
