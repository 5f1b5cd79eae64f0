#include "cli/version.h"

namespace plimsoll::cli {

const char* const kCommit = PLIMSOLL_COMMIT;
const char* const kCompiler = PLIMSOLL_COMPILER;

}  // namespace plimsoll::cli
