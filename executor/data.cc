#include "executor/data.h"

#include "base/error.h"
#include "executor/row_data.h"
#include "executor/token_data.h"

namespace plimsoll {

namespace {

void require_fields(const DataSpec& spec, std::initializer_list<std::string_view> fields) {
  for (const std::string_view field : fields) {
    if (spec.elements(field) == 0) {
      throw bad_input(
          fmt::format("a program of objective '{}' does not load '{}'", spec.objective, field));
    }
  }
}

std::unique_ptr<DataSource> open_tokens(const std::string& path, const DataSpec& spec,
                                        const DataOptions& options) {
  require_fields(spec, {"tokens", "targets"});
  const int64_t seq = spec.elements("tokens");
  if (spec.vocabulary < 1 || spec.elements("targets") != seq) {
    throw bad_input(
        fmt::format("a program with a vocabulary of {}, {} tokens and {} targets a "
                    "sample",
                    spec.vocabulary, seq, spec.elements("targets")));
  }
  std::unique_ptr<TokenSequences> sequences =
      path.empty()
          ? markov_sequences(spec.vocabulary, spec.global_batch, options.seed)
          : file_sequences(TokenFile(path, spec.vocabulary), seq, spec.global_batch, options);
  return token_data(std::move(sequences), spec, options);
}

// Width of the logits that the loss reads: how many classes there are.
int64_t num_classes(const StepProgram& program) {
  for (const Phase& phase : program.phases) {
    for (const Segment& segment : phase.segments) {
      for (const Instruction& instruction : segment.body) {
        if (instruction.attributes.has("vocabulary")) {  // the logits are this rank's part of it
          return instruction.attributes.get_int("vocabulary");
        }
        if (instruction.op != "cross_entropy" || instruction.inputs.empty()) continue;
        const Shape& shape = program.buffers.at(static_cast<size_t>(instruction.inputs[0])).shape;
        for (const OperandShape& view : instruction.views) {
          if (view.operand == 0 && !view.shape.empty()) return view.shape.back();
        }
        return shape.empty() ? 0 : shape.back();
      }
    }
  }
  return 0;
}

}  // namespace

std::string_view split_name(Split split) {
  switch (split) {
    case Split::kTrain:
      return "train";
    case Split::kValidation:
      return "validation";
  }
  return "?";
}

Split parse_split(std::string_view name) {
  if (name == "train") return Split::kTrain;
  if (name == "validation") return Split::kValidation;
  throw bad_input(fmt::format("load_batch: no split '{}'", name), "train or validation");
}

int64_t DataSpec::elements(std::string_view field) const {
  const auto at = fields.find(field);
  return at == fields.end() ? 0 : num_elements(at->second);
}

DataSpec describe_data(const StepProgram& program) {
  const Header& header = program.header;
  DataSpec spec;
  spec.objective = header.hyperparameters.get_string("objective", "");
  spec.vocabulary = header.hyperparameters.get_int("vocabulary", 0);
  if (spec.objective == "classes") spec.vocabulary = num_classes(program);
  spec.global_batch = header.samples.global_batch;
  for (const Phase& phase : program.phases) {
    for (const Segment& segment : phase.segments) {
      for (const Instruction& instruction : segment.body) {
        if (instruction.op != "load_batch" || instruction.outputs.size() != 1) continue;
        const int buffer = instruction.outputs[0];
        const std::string field = instruction.attributes.get_string("field", "");
        Shape shape = program.buffers.at(static_cast<size_t>(buffer)).shape;
        if (shape.empty() || shape[0] != header.samples.micro_batch) {
          throw bad_input(
              fmt::format("load_batch of '{}': {} does not begin with the micro-batch {}", field,
                          shape_text(shape), header.samples.micro_batch));
        }
        shape.erase(shape.begin());
        const auto [at, is_new] = spec.fields.emplace(field, shape);
        if (!is_new && at->second != shape) {
          throw bad_input(fmt::format("load_batch of '{}': samples of {} and of {}", field,
                                      shape_text(at->second), shape_text(shape)));
        }
      }
    }
  }
  return spec;
}

DataSpec describe_data(std::span<const StepProgram> programs) {
  DataSpec spec = describe_data(programs.front());
  for (const StepProgram& program : programs) {
    const DataSpec other = describe_data(program);
    spec.vocabulary = std::max(spec.vocabulary, other.vocabulary);
    for (const auto& [field, shape] : other.fields) {
      const auto [at, is_new] = spec.fields.emplace(field, shape);
      if (!is_new && at->second != shape) {
        throw bad_input(fmt::format("load_batch of '{}': samples of {} and of {}", field,
                                    shape_text(at->second), shape_text(shape)));
      }
    }
  }
  return spec;
}

std::unique_ptr<DataSource> open_data(const std::string& path, const DataSpec& spec,
                                      const DataOptions& options) {
  if (spec.objective == "next_token" || spec.objective == "masked_token") {
    return open_tokens(path, spec, options);
  }
  if (spec.objective == "classes") {
    require_fields(spec, {"labels"});
    return open_classes(path, spec, options);
  }
  if (spec.objective == "regression") {
    require_fields(spec, {"features", "values"});
    return open_regression(path, spec, options);
  }
  throw bad_input(fmt::format("no data set for the objective '{}'", spec.objective));
}

}  // namespace plimsoll
