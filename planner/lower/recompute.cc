// Recompute: a layer's forward, or chosen ops of it, run again before their backward.
#include "costmodel/profile.h"
#include "planner/lower/passes.h"

#include <algorithm>
#include <map>
#include <set>

namespace plimsoll::lowering {

namespace {

// The forward calls of a layer whose results its backward needs, as copies on new tensors: all of
// them, or those of the ops named in `chosen`.
class LayerRecompute {
 public:
  LayerRecompute(Draft& draft, DraftSegment& segment, int layer,
                 const std::vector<std::string>* chosen = nullptr)
      : draft_(draft), body_(segment.body), layer_(layer), chosen_(chosen) {}

  void run() {
    find_made();
    find_wanted();
    const auto first = std::find_if(body_.begin(), body_.end(), [&](const DraftCall& c) {
      return is_backward_here(c) && (chosen_ == nullptr || reads_wanted(c));
    });
    if (first == body_.end()) return;
    std::vector<DraftCall> again = copy_calls();
    for (auto call = first; call != body_.end(); ++call) {
      if (is_backward_here(*call)) rename(call->call.inputs);
    }
    body_.insert(first, std::make_move_iterator(again.begin()),
                 std::make_move_iterator(again.end()));
  }

 private:
  [[nodiscard]] bool is_forward_here(const DraftCall& c) const {
    return c.pass == Pass::kForward && c.call.layer == layer_ &&
           (chosen_ == nullptr ||
            std::find(chosen_->begin(), chosen_->end(), c.call.kernel) != chosen_->end());
  }

  [[nodiscard]] bool is_backward_here(const DraftCall& c) const {
    return c.pass == Pass::kBackward && c.call.layer == layer_;
  }

  [[nodiscard]] bool reads_wanted(const DraftCall& c) const {
    return std::any_of(c.call.inputs.begin(), c.call.inputs.end(),
                       [&](TensorId id) { return wanted_.count(id) != 0; });
  }

  // What the layer's forward makes and what of it is kept anyway: what leaves the layer, and of a
  // chosen op its result, which the next op saves.
  void find_made() {
    for (const DraftCall& c : body_) {
      if (!is_forward_here(c)) continue;
      for (const TensorId id : c.call.outputs) {
        if (id == kNoTensor) continue;
        made_.insert(id);
        made_in_[draft_.owner(id)].push_back(id);
      }
      if (chosen_ != nullptr) leaving_.insert(c.call.outputs.front());
    }
    for (const DraftCall& c : body_) {
      if (c.call.layer == layer_) continue;
      for (const TensorId id : c.call.inputs) {
        for (const TensorId made : made_as(id)) leaving_.insert(made);
      }
    }
  }

  // The tensors of the layer's forward that `id` is: itself, or for a view, what it looks at.
  [[nodiscard]] std::vector<TensorId> made_as(TensorId id) const {
    if (id == kNoTensor) return {};
    if (made_.count(id) != 0) return {id};
    const auto at = made_in_.find(draft_.owner(id));
    return at == made_in_.end() ? std::vector<TensorId>{} : at->second;
  }

  void want(const std::vector<TensorId>& ids) {
    for (const TensorId id : ids) {
      for (const TensorId made : made_as(id)) {
        if (leaving_.count(made) == 0) wanted_.insert(made);
      }
    }
  }

  [[nodiscard]] bool makes_wanted(const DraftCall& c) const {
    return std::any_of(c.call.outputs.begin(), c.call.outputs.end(),
                       [&](TensorId id) { return wanted_.count(id) != 0; });
  }

  void find_wanted() {
    for (const DraftCall& c : body_) {
      if (c.pass == Pass::kBackward && c.call.layer == layer_) want(c.call.inputs);
    }
    for (auto c = body_.rbegin(); c != body_.rend(); ++c) {
      if (!is_forward_here(*c) || c->call.side_effect || !makes_wanted(*c)) continue;
      want(c->call.inputs);
      want(c->call.accumulated);
    }
  }

  std::vector<DraftCall> copy_calls() {
    std::vector<DraftCall> again;
    for (const DraftCall& c : body_) {
      if (!is_forward_here(c) || c.call.side_effect || !makes_wanted(c)) continue;
      DraftCall copy = c;
      copy.pass = Pass::kRecompute;
      rename(copy.call.inputs);
      rename(copy.call.accumulated);
      for (size_t k = 0; k < copy.call.outputs.size(); ++k) {
        TensorId& id = copy.call.outputs[k];
        if (id == kNoTensor) continue;
        id = clone(id);
        if (copy.call.accumulated[k] != kNoTensor) draft_.share(id, copy.call.accumulated[k]);
      }
      again.push_back(std::move(copy));
    }
    return again;
  }

  TensorId clone(TensorId id) {
    Tensor tensor = draft_.at(id).tensor;
    tensor.name += ".again";
    const TensorId made = draft_.add(std::move(tensor), draft_.at(id).category);
    clones_[id] = made;
    return made;
  }

  void rename(std::vector<TensorId>& ids) {
    for (TensorId& id : ids) {
      if (id == kNoTensor) continue;
      if (const auto at = clones_.find(id); at != clones_.end()) {
        id = at->second;
      } else if (made_.count(id) == 0) {
        // A view of something that was made again.
        const auto owner = clones_.find(draft_.owner(id));
        if (owner == clones_.end()) continue;
        const TensorId target = owner->second;
        id = clone(id);
        draft_.share(id, target);
      }
    }
  }

  Draft& draft_;
  std::vector<DraftCall>& body_;
  int layer_;
  const std::vector<std::string>* chosen_;  // null: all
  std::set<TensorId> made_, leaving_, wanted_;
  std::map<TensorId, std::vector<TensorId>> made_in_;  // by the owner of the buffer
  std::map<TensorId, TensorId> clones_;
};

}  // namespace

void add_recompute(Draft& draft, const std::string& phase) {
  DraftSegment* segment = find_segment(draft.phase(phase), "micro-batches");
  const std::vector<std::string>& selective = find_profile(draft.job->framework).selective_ops;
  for (size_t layer = 0; layer < draft.strategy->recompute.size(); ++layer) {
    switch (draft.strategy->recompute[layer]) {
      case Recompute::kNone:
        break;
      case Recompute::kSelective:
        LayerRecompute(draft, *segment, static_cast<int>(layer), &selective).run();
        break;
      case Recompute::kFull:
        LayerRecompute(draft, *segment, static_cast<int>(layer)).run();
        break;
    }
  }
}

}  // namespace plimsoll::lowering
