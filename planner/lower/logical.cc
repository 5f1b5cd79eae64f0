#include "planner/lower/logical.h"

#include "models/shard.h"

namespace plimsoll::lowering {

void set_parts(LogicalTensor& logical, const Tensor& parameter, int tp_place,
               const std::string& suffix) {
  logical.parts.clear();
  logical.padding = parameter.type.elements();
  for (const ParameterBox& box : parameter_boxes(parameter, tp_place)) {
    logical.parts.push_back({.name = box.name + suffix,
                             .global_shape = box.global_shape,
                             .box_start = box.start,
                             .box_extent = box.extent,
                             .transposed = box.transposed});
    logical.padding -= num_elements(box.extent);
  }
}

}  // namespace plimsoll::lowering
