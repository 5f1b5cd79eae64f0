// Recompute: a layer's forward runs again before its backward.
#include "planner/lower/passes.h"

#include <algorithm>
#include <map>
#include <set>

namespace plimsoll::lowering {

namespace {

// The forward calls of a layer whose results its backward needs, as copies on new tensors.
class LayerRecompute {
 public:
  LayerRecompute(Draft& draft, DraftSegment& segment, int layer)
      : draft_(draft), body_(segment.body), layer_(layer) {}

  void run() {
    const auto first = std::find_if(body_.begin(), body_.end(), [&](const DraftCall& c) {
      return c.pass == Pass::kBackward && c.call.layer == layer_;
    });
    if (first == body_.end()) return;
    find_made();
    find_wanted();
    std::vector<DraftCall> again = copy_calls();
    for (DraftCall& call : body_) {
      if (call.pass == Pass::kBackward && call.call.layer == layer_) rename(call.call.inputs);
    }
    body_.insert(first, std::make_move_iterator(again.begin()),
                 std::make_move_iterator(again.end()));
  }

 private:
  [[nodiscard]] bool is_forward_here(const DraftCall& c) const {
    return c.pass == Pass::kForward && c.call.layer == layer_;
  }

  // What the layer's forward makes and what of it leaves the layer: that is kept anyway.
  void find_made() {
    for (const DraftCall& c : body_) {
      if (!is_forward_here(c)) continue;
      for (const TensorId id : c.call.outputs) {
        if (id == kNoTensor) continue;
        made_.insert(id);
        made_in_[draft_.owner(id)].push_back(id);
      }
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
  std::set<TensorId> made_, leaving_, wanted_;
  std::map<TensorId, std::vector<TensorId>> made_in_;  // by the owner of the buffer
  std::map<TensorId, TensorId> clones_;
};

}  // namespace

void add_recompute(Draft& draft, const std::string& phase) {
  DraftSegment* segment = find_segment(draft.phase(phase), "micro-batches");
  for (size_t layer = 0; layer < draft.strategy->recompute.size(); ++layer) {
    switch (draft.strategy->recompute[layer]) {
      case Recompute::kNone:
        break;
      case Recompute::kFull:
        LayerRecompute(draft, *segment, static_cast<int>(layer)).run();
        break;
    }
  }
}

}  // namespace plimsoll::lowering
