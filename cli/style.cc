#include "cli/style.h"

#include <cstdlib>
#include <string_view>

namespace plimsoll::cli {

ReportStyle report_style() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view locale = value;
    const bool utf8 = locale.find("UTF-8") != std::string_view::npos ||
                      locale.find("utf8") != std::string_view::npos;
    return {.unicode = utf8};
  }
  return {.unicode = true};
}

}  // namespace plimsoll::cli
