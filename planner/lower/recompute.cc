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
      for (const TensorId id : c.call.outputs) made_.insert(id);
    }
    for (const DraftCall& c : body_) {
      if (c.call.layer == layer_) continue;
      for (const TensorId id : c.call.inputs) {
        if (id != kNoTensor && made_.count(id) != 0) leaving_.insert(id);
      }
    }
  }

  [[nodiscard]] bool inside(TensorId id) const {
    return id != kNoTensor && made_.count(id) != 0 && leaving_.count(id) == 0;
  }

  void find_wanted() {
    for (const DraftCall& c : body_) {
      if (c.pass != Pass::kBackward || c.call.layer != layer_) continue;
      for (const TensorId id : c.call.inputs) {
        if (inside(id)) wanted_.insert(id);
      }
    }
    for (auto c = body_.rbegin(); c != body_.rend(); ++c) {
      if (!is_forward_here(*c) || c->call.side_effect) continue;
      const bool needed = std::any_of(c->call.outputs.begin(), c->call.outputs.end(),
                                      [&](TensorId id) { return wanted_.count(id) != 0; });
      if (!needed) continue;
      for (const TensorId id : c->call.inputs) {
        if (inside(id)) wanted_.insert(id);
      }
    }
  }

  std::vector<DraftCall> copy_calls() {
    std::vector<DraftCall> again;
    for (const DraftCall& c : body_) {
      if (!is_forward_here(c) || c.call.side_effect) continue;
      const bool needed = std::any_of(c.call.outputs.begin(), c.call.outputs.end(),
                                      [&](TensorId id) { return wanted_.count(id) != 0; });
      if (!needed) continue;
      DraftCall copy = c;
      copy.pass = Pass::kRecompute;
      rename(copy.call.inputs);
      for (TensorId& id : copy.call.outputs) {
        if (id != kNoTensor) id = clone(id);
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

  void rename(std::vector<TensorId>& ids) const {
    for (TensorId& id : ids) {
      if (const auto at = clones_.find(id); at != clones_.end()) id = at->second;
    }
  }

  Draft& draft_;
  std::vector<DraftCall>& body_;
  int layer_;
  std::set<TensorId> made_, leaving_, wanted_;
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
