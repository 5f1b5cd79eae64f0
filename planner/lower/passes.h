// The passes of lowering, in the order in which `lower()` runs them. Each takes a draft and leaves
// a draft that `to_program` can print.
#pragma once

#include "planner/lower/draft.h"

#include <span>

namespace plimsoll::lowering {

// Declares what lives across steps: parameters, states, scalars, loss.
// `chunks`: the parts of the model that the stage holds, in the model's order.
// Needs: an empty draft. Leaves: `trained` in the model's order, no phases.
void declare_persistent(Draft& draft, std::span<const Graph> chunks);

// Pipelines: parameters of these names are in several stages. They have one gradient, the sum over
// the stages, and the first stage counts it in the norm.
void mark_shared(Draft& draft, const std::vector<std::string>& names);

// A step's phase ("step" or "step_noise"): load, forward and backward of one micro-batch as the
// repeated segment; of several chunks, all forwards and then all backwards. The weights' part of a
// split backward follows the message that the other part sends.
// Needs: declared parameters. Leaves: one gradient tensor a use, not yet accumulated.
void add_micro_batch(Draft& draft, std::span<const TrainingGraph> chunks, const std::string& phase);

// Layers marked for recompute run their forward again before their backward, from the tensors that
// come from outside the layer; those marked selective, the ops that the job's framework names,
// whose results stay kept. Needs: the micro-batch segment. Leaves: the same values, bit for
// bit.
void add_recompute(Draft& draft, const std::string& phase);

// Gradients add up over micro-batches and over the uses of a parameter.
// Needs: one gradient tensor a use. Leaves: `trained[i].gradients[0]` holds the step's sum.
void add_accumulation(Draft& draft, const std::string& phase);

// The same with every micro-batch's gradient in buffers of its own, whose squared norms are the
// small batches of the noise estimator. Rounds differently from `add_accumulation`.
void add_measured_accumulation(Draft& draft, const std::string& phase);

// Data parallelism: gradients, statistics and loss are summed over the ranks.
// Needs: accumulated gradients. Leaves: the same on every rank.
void add_reduction(Draft& draft, const std::string& phase);

// ZeRO 2 and 3, in place of add_accumulation: a block's gradients are reduced to this rank's shards
// when its backward is done. Needs: one gradient tensor a use. Leaves: `trained[i].gradients[0]` is
// the shard that holds the step's sum over micro-batches, uses and ranks; states as
// add_accumulation.
void add_sharded_accumulation(Draft& draft, const std::string& phase);

// Gradient norm, clipping and the optimizer.
// Needs: reduced gradients. Leaves: updated parameters and states.
void add_update(Draft& draft, const std::string& phase);

// Phase "evaluate": forward of the inference graph over the validation set.
// Needs: declared parameters. Leaves: the sum of the losses in the loss buffer.
void add_evaluation(Draft& draft, std::span<const TrainingGraph> chunks);

// ZeRO 3: parameters become shards, which are gathered for each block that uses them.
// Needs: all phases that use parameters. Leaves: whole parameters are transient.
void shard_parameters(Draft& draft);

// Phase "initialise": a first value for all that is persistent. Needs: all persistent tensors.
void add_initialise(Draft& draft);

// Results take over buffers of operands that nobody reads again.
// Needs: all phases. Leaves: fewer buffers, the same values.
void share_in_place(Draft& draft);

// Pipelines: the repeated segment of a step becomes warm-up, steady phase and cool-down of the
// schedule, and what a micro-batch keeps from forward to backward gets a copy for each micro-batch
// in flight; an evaluation works through the chunks in turn.
// Needs: phases with buffers shared. Leaves: the same calls for every micro-batch.
void add_schedule(Draft& draft);

// Calls on other streams wait for what they need, and are waited for.
// Needs: bodies in their final order and buffers as they stay. Leaves: `waits` set.
void order_streams(Draft& draft);

// The draft as a program without offsets.
[[nodiscard]] StepProgram to_program(const Draft& draft);

}  // namespace plimsoll::lowering
