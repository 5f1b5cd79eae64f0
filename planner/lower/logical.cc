#include "planner/lower/logical.h"

#include "models/shard.h"

#include <string>
#include <string_view>

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

void count_experts_from(LogicalTensor& logical, int64_t first) {
  static constexpr std::string_view kBefore = ".experts.";
  for (LogicalPart& part : logical.parts) {
    const size_t begin = part.name.find(kBefore) + kBefore.size();
    const size_t end = part.name.find('.', begin);
    const int64_t number = std::stoll(part.name.substr(begin, end - begin));
    part.name.replace(begin, end - begin, std::to_string(first + number));
  }
}

}  // namespace plimsoll::lowering
