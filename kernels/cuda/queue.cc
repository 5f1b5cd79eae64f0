#include "kernels/cuda/queue.h"

#include "base/error.h"

namespace plimsoll::cuda {

void launch_failed(std::string_view kernel, const char* reason) {
  throw run_failed(fmt::format("the launch of {} failed: {}", kernel, reason));
}

}  // namespace plimsoll::cuda
