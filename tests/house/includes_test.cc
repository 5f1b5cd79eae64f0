// House rules that a compiler does not see: which folder may include which, and how long a file is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// A product folder may include itself and these. docs/architecture.md gives the reasons; the
// executor above all runs any program, also one from a file, so it knows neither planner nor
// models.
const std::map<std::string, std::set<std::string>>& allowed_includes() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"base", {}},
      {"program", {"base"}},
      {"models", {"base"}},
      {"costmodel", {"base", "program", "models"}},
      {"planner", {"base", "program", "models", "costmodel"}},
      {"kernels", {"base"}},
      {"executor", {"base", "program", "kernels"}},
      {"reports", {"base", "program", "costmodel", "planner"}},
      {"cli",
       {"base", "program", "models", "costmodel", "planner", "kernels", "executor", "reports"}},
  };
  return table;
}

constexpr int kMostLines = 450;

struct Source {
  fs::path path;       // relative to the source folder
  std::string folder;  // its first part
  std::vector<std::string> lines;
};

// Included path of a line, empty when the line includes nothing. Both forms count: <base/error.h>
// would reach the folder just as well.
std::string included_path(const std::string& line) {
  std::istringstream words(line);
  char hash = 0;
  std::string directive;
  char quote = 0;
  if (!(words >> hash) || hash != '#') return "";
  // The directive may touch its operand: #include"x.h".
  while (std::isspace(words.peek()) != 0) words.get();
  while (std::isalpha(words.peek()) != 0) directive += static_cast<char>(words.get());
  if (directive != "include" || !(words >> quote) || (quote != '"' && quote != '<')) return "";
  std::string path;
  std::getline(words, path, quote == '"' ? '"' : '>');
  return path;
}

// What is wrong with the includes of a source of `folder`.
std::vector<std::string> include_violations(const std::string& folder,
                                            const std::vector<std::string>& lines) {
  std::vector<std::string> violations;
  const std::set<std::string>& allowed = allowed_includes().at(folder);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string path = included_path(lines[i]);
    if (path.empty()) continue;
    const fs::path normal = fs::path(path).lexically_normal();
    const std::string target = normal.begin()->string();
    const std::string place = std::to_string(i + 1) + ": ";
    if (target == ".." || path.find("../") != std::string::npos) {
      violations.push_back(place + "relative include of " + path);
    } else if (target == "tests" || target == "bench") {
      violations.push_back(place + folder + " includes " + target);
    } else if (allowed_includes().count(target) != 0 && target != folder &&
               allowed.count(target) == 0) {
      violations.push_back(place + folder + " includes " + path);
    }
  }
  return violations;
}

std::vector<Source> product_sources() {
  std::vector<Source> sources;
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  const std::set<std::string> extensions = {".h", ".cc", ".cu", ".cuh", ".in"};
  for (const auto& [folder, allowed] : allowed_includes()) {
    if (!fs::exists(root / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file() || extensions.count(entry.path().extension().string()) == 0) {
        continue;
      }
      Source source{entry.path().lexically_relative(root), folder, {}};
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) source.lines.push_back(line);
      sources.push_back(std::move(source));
    }
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

TEST(House, FoldersIncludeOnlyWhatTheyMay) {
  const std::vector<Source> sources = product_sources();
  ASSERT_GT(sources.size(), 20U) << "no sources under " << PLIMSOLL_SOURCE_DIR;
  for (const Source& source : sources) {
    for (const std::string& violation : include_violations(source.folder, source.lines)) {
      ADD_FAILURE() << source.path.string() << ":" << violation;
    }
  }
}

TEST(House, TheIncludeRuleSeesViolations) {
  const auto count = [](const std::string& folder, const std::string& line) {
    return include_violations(folder, {"// first", line}).size();
  };
  EXPECT_EQ(count("executor", "#include \"planner/search.h\""), 1U);
  EXPECT_EQ(count("executor", "  #  include <models/graph.h>"), 1U);
  EXPECT_EQ(count("executor", "#include\"costmodel/simulator.h\""), 1U);
  EXPECT_EQ(count("executor", "#include \"kernels/../planner/search.h\""), 1U);
  EXPECT_EQ(count("base", "#include \"program/program.h\""), 1U);
  EXPECT_EQ(count("kernels", "#include \"program/program.h\""), 1U);
  EXPECT_EQ(count("reports", "#include \"models/graph.h\""), 1U);
  EXPECT_EQ(count("cli", "#include \"tests/support.h\""), 1U);
  EXPECT_EQ(count("executor", "#include \"executor/bind.h\""), 0U);
  EXPECT_EQ(count("executor", "#include \"program/program.h\""), 0U);
  EXPECT_EQ(count("base", "#include <vector>"), 0U);
  EXPECT_EQ(count("base", "// #include \"planner/search.h\""), 0U);
}

TEST(House, FilesAreShort) {
  for (const Source& source : product_sources()) {
    EXPECT_LE(source.lines.size(), static_cast<size_t>(kMostLines))
        << source.path.string() << ": split it, a file is one idea";
  }
}

TEST(House, HeadersAreGuarded) {
  for (const Source& source : product_sources()) {
    const std::string extension = source.path.extension().string();
    if (extension != ".h" && extension != ".cuh") continue;
    EXPECT_NE(std::find(source.lines.begin(), source.lines.end(), "#pragma once"),
              source.lines.end())
        << source.path.string() << " lacks #pragma once";
  }
}

TEST(House, HeadersOpenWithWhatTheyAre) {
  for (const Source& source : product_sources()) {
    if (source.path.extension() != ".h" || source.lines.empty()) continue;
    EXPECT_EQ(source.lines.front().substr(0, 3), "// ")
        << source.path.string() << " does not say what it is for";
  }
}

}  // namespace
}  // namespace plimsoll
