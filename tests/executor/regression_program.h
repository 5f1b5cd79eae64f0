// Linear regression y = w x + b as programs of one or more ranks, written instruction by
// instruction: what the executor's tests train.
#pragma once

#include "planner/placement.h"
#include "program/builder.h"
#include "program/program.h"

#include <string>
#include <vector>

namespace plimsoll::test {

struct RegressionOptions {
  int dp = 1;
  int64_t global_batch = 8;
  int64_t micro_batch = 8;
  int64_t inputs = 3;
  int64_t outputs = 2;
  double momentum = 0.9;
  double clip = 0;
  int64_t eval_batches = 0;
  int copies = 1;  // of the input buffers, indexed by micro-batch
};

namespace internal {

class RegressionBuilder {
 public:
  RegressionBuilder(const RegressionOptions& options, int rank) : o_(options) {
    Header& header = b_.header();
    header.model = "regression";
    header.rank = rank;
    header.coordinates.dp = rank;
    header.coordinates.dp_size = o_.dp;
    const int64_t per_rank = o_.global_batch / o_.dp;
    microbatches_ = per_rank / o_.micro_batch;
    header.samples = {.global_batch = o_.global_batch,
                      .micro_batch = o_.micro_batch,
                      .first = rank * per_rank,
                      .per_microbatch = o_.micro_batch,
                      .num_microbatches = microbatches_};
    header.model_flops = 1000;
    header.peak_flops_per_second = 1e9;
    header.hyperparameters.set("objective", std::string("regression"));
    header.hyperparameters.set("float", std::string("f32"));
    if (o_.dp > 1) header.hyperparameters.set("noise_small_batches", o_.dp);
  }

  StepProgram build() {
    declare();
    initialise();
    step();
    if (o_.eval_batches > 0) evaluate();
    StepProgram program = std::move(b_).build();
    place_buffers(program);
    return program;
  }

 private:
  int persistent(const std::string& name, DType dtype, Shape shape, const std::string& role,
                 Initialiser initialiser) {
    const Category category = role == "parameter" ? Category::kParameters : Category::kOptimizer;
    const int at = b_.add_buffer(name, category, dtype, shape);
    b_.buffer(at).persistent = true;
    b_.buffer(at).logical =
        LogicalTensor{.parts = {{.name = name,
                                 .global_shape = shape,
                                 .box_start = std::vector<int64_t>(shape.size(), 0),
                                 .box_extent = shape,
                                 .transposed = role == "parameter" && shape.size() == 2}},
                      .initialiser = initialiser,
                      .role = role,
                      .optimizer_group = "matrix"};
    return at;
  }
  int special(const char* name, Shape shape) {
    const int at = b_.add_buffer(name, Category::kWorkspace, DType::kF64, std::move(shape));
    b_.buffer(at).persistent = true;
    return at;
  }
  int transient(const char* name, Category category, DType dtype, Shape shape) {
    return b_.add_buffer(name, category, dtype, std::move(shape));
  }

  void declare() {
    const Shape matrix{o_.outputs, o_.inputs};
    const Initialiser normal{Initialiser::Kind::kNormal, 0.5};
    weight_ = persistent("weight", DType::kF32, matrix, "parameter", normal);
    bias_ = persistent("bias", DType::kF32, {o_.outputs}, "parameter", {});
    weight_momentum_ = persistent("weight.momentum", DType::kF32, matrix, "momentum", {});
    bias_momentum_ = persistent("bias.momentum", DType::kF32, {o_.outputs}, "momentum", {});
    scalars_ = special(kScalarsBuffer, {kNumScalars});
    loss_ = special(kLossBuffer, {1});
    if (o_.dp > 1) small_norm_ = special(kNoiseBuffer, {1});

    const Shape rows{o_.micro_batch, o_.outputs};
    features_ = transient("features", Category::kInput, DType::kF32, {o_.micro_batch, o_.inputs});
    values_ = transient("values", Category::kInput, DType::kF32, rows);
    b_.buffer(features_).copies = o_.copies;
    b_.buffer(values_).copies = o_.copies;
    prediction_ = transient("prediction", Category::kActivations, DType::kF32, rows);
    row_loss_ = transient("row_loss", Category::kActivations, DType::kF32, {o_.micro_batch});
    weight_gradient_ = transient("weight.gradient", Category::kGradients, DType::kF32, matrix);
    bias_gradient_ = transient("bias.gradient", Category::kGradients, DType::kF32, {o_.outputs});
    terms_ = transient("terms", Category::kWorkspace, DType::kF64, {2});
  }

  void fill(int buffer) { b_.emit("fill", {}, {buffer}, {{"value", 0.0}}); }

  void initialise() {
    b_.phase("initialise").segment("initialise");
    for (const int buffer : {weight_, bias_, weight_momentum_, bias_momentum_}) {
      b_.emit("initialise", {}, {buffer}).pass = Pass::kInitialise;
    }
    fill(scalars_);
    fill(loss_);
    if (small_norm_ != kNoBuffer) fill(small_norm_);
  }

  void forward(const char* split) {
    for (const auto& [buffer, field] : {std::pair(features_, "features"), {values_, "values"}}) {
      b_.emit("load_batch", {}, {buffer},
              {{"field", std::string(field)}, {"split", std::string(split)}});
    }
    b_.emit("linear", {features_, weight_, bias_}, {prediction_});
    b_.emit("mse", {prediction_, values_}, {loss_, row_loss_}).accumulate = 1;
  }

  void all_reduce(int buffer) {
    Instruction& reduce = b_.emit("all_reduce", {}, {buffer}, {{"group", std::string("dp")}});
    reduce.accumulate = 1;
    reduce.stream = Stream::kDataParallel;
  }

  void norm_terms() {
    fill(terms_);
    b_.emit("sum_squares", {weight_gradient_}, {terms_}, {{"index", int64_t{0}}}).accumulate = 1;
    b_.emit("sum_squares", {bias_gradient_}, {terms_}, {{"index", int64_t{1}}}).accumulate = 1;
  }

  void update(int parameter, int gradient, int momentum) {
    b_.emit("sgd", {parameter, gradient, momentum, scalars_}, {parameter, momentum},
            {{"momentum", o_.momentum}, {"weight_decay", 0.0}})
        .accumulate = 3;
  }

  void step() {
    b_.phase("step").segment("begin");
    fill(loss_);
    fill(weight_gradient_);
    fill(bias_gradient_);
    b_.segment("micro-batches", microbatches_);
    forward("train");
    b_.emit("mse.backward", {prediction_, values_, scalars_}, {prediction_});
    b_.emit("linear.backward_weight", {features_, prediction_}, {weight_gradient_, bias_gradient_})
        .accumulate = 3;
    if (o_.dp > 1) {
      b_.segment("reduce");
      norm_terms();
      b_.emit("sum_terms", {terms_}, {small_norm_});
      b_.segment("exchange");
      for (const int buffer : {weight_gradient_, bias_gradient_, loss_, small_norm_}) {
        all_reduce(buffer);
      }
    }
    b_.segment("update");
    norm_terms();
    b_.emit("clip", {terms_, scalars_}, {scalars_}, {{"max_norm", o_.clip}}).accumulate = 1;
    update(weight_, weight_gradient_, weight_momentum_);
    update(bias_, bias_gradient_, bias_momentum_);
  }

  void evaluate() {
    b_.phase("evaluate").segment("begin");
    fill(loss_);
    b_.segment("micro-batches", microbatches_ * o_.eval_batches);
    forward("validation");
    if (o_.dp > 1) {
      b_.segment("reduce");
      all_reduce(loss_);
    }
  }

  RegressionOptions o_;
  ProgramBuilder b_;
  int64_t microbatches_ = 1;
  int weight_ = kNoBuffer, bias_ = kNoBuffer;
  int weight_momentum_ = kNoBuffer, bias_momentum_ = kNoBuffer;
  int scalars_ = kNoBuffer, loss_ = kNoBuffer, small_norm_ = kNoBuffer;
  int features_ = kNoBuffer, values_ = kNoBuffer, prediction_ = kNoBuffer, row_loss_ = kNoBuffer;
  int weight_gradient_ = kNoBuffer, bias_gradient_ = kNoBuffer, terms_ = kNoBuffer;
};

}  // namespace internal

inline std::vector<StepProgram> regression_programs(const RegressionOptions& options) {
  std::vector<StepProgram> programs;
  for (int rank = 0; rank < options.dp; ++rank) {
    programs.push_back(internal::RegressionBuilder(options, rank).build());
  }
  return programs;
}

}  // namespace plimsoll::test
