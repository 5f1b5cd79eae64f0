#include "kernels/cpu/blas_info.h"

#include <cblas.h>

#include <sstream>

namespace plimsoll {

std::string blas_description() {
  std::istringstream config(openblas_get_config());  // "OpenBLAS 0.3.21 NO_AFFINITY …"
  std::string name;
  std::string version;
  config >> name >> version;
  return name + " " + version + " (" + openblas_get_corename() + ")";
}

}  // namespace plimsoll
