// Small random models, jobs and strategies for property tests.
#pragma once

#include "models/model.h"
#include "planner/job.h"
#include "planner/strategy.h"

#include <rapidcheck.h>

namespace plimsoll::testing {

struct RandomCase {
  ModelSpec model;
  Job job;
  Strategy strategy;
};

inline ModelSpec random_transformer(const std::string& base, int64_t layers, int64_t heads,
                                    int64_t head_dim, int64_t vocabulary) {
  ModelSpec model = load_model(base);
  model.layers = layers;
  model.heads = heads;
  model.kv_heads = model.family == Family::kLlama && heads % 2 == 0 ? heads / 2 : heads;
  model.head_dim = head_dim;
  model.hidden = heads * head_dim;
  model.feed_forward = 2 * model.hidden + 4;
  model.vocabulary = vocabulary;
  return model;
}

// A model of any family with a job and a data-parallel strategy that suits it.
inline rc::Gen<RandomCase> random_case() {
  return rc::gen::exec([] {
    RandomCase c;
    const std::string base = *rc::gen::element<std::string>("gpt2-tiny", "llama-tiny", "mlp",
                                                            "resnet-tiny", "bert-tiny", "vit-tiny");
    c.model = load_model(base);
    if (base == "gpt2-tiny" || base == "llama-tiny") {
      c.model = random_transformer(base, *rc::gen::inRange(1, 5), *rc::gen::inRange(1, 5),
                                   2 * *rc::gen::inRange(1, 9), *rc::gen::inRange(3, 70));
    }
    c.strategy.dp = *rc::gen::inRange(1, 4);
    c.strategy.micro_batch = *rc::gen::inRange(1, 4);
    c.job.global_batch = c.strategy.dp * c.strategy.micro_batch * *rc::gen::inRange(1, 4);
    if (c.model.training_length > 0) c.job.seq = *rc::gen::inRange(1, 33);
    c.job.optimizer =
        *rc::gen::element(Optimizer::kAdamW, Optimizer::kAdam, Optimizer::kLion, Optimizer::kSgd);
    if (base == "gpt2-tiny") c.job.dropout = *rc::gen::element(0.0, 0.1);
    c.job.eval_batches = *rc::gen::inRange(0, 3);
    c.job.measure_noise = *rc::gen::arbitrary<bool>();
    for (int64_t i = 0; i < c.model.layers; ++i) {
      c.strategy.recompute.push_back(
          *rc::gen::element(Recompute::kNone, Recompute::kSelective, Recompute::kFull));
    }
    if (c.model.objective == Objective::kNextToken) {
      c.strategy.loss_chunks = std::min<int64_t>(*rc::gen::element(1, 3), c.job.seq);
      c.strategy.attention = *rc::gen::element<std::string>("flash", "naive");
    }
    return c;
  });
}

}  // namespace plimsoll::testing
