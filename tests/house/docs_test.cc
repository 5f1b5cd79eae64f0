// Links between the documents lead somewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// Targets of [text](target) that name a file: neither addresses nor anchors of the same page.
std::vector<std::string> linked_files(const std::string& text) {
  std::vector<std::string> files;
  for (size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 2)) {
    const size_t end = text.find(')', at);
    if (end == std::string::npos) break;
    std::string target = text.substr(at + 2, end - at - 2);
    target = target.substr(0, target.find('#'));
    if (!target.empty() && target.find("://") == std::string::npos) files.push_back(target);
  }
  return files;
}

std::vector<fs::path> documents() {
  const fs::path root = PLIMSOLL_SOURCE_DIR;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / "docs")) {
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  }
  return found;
}

TEST(Documents, LinksLeadSomewhere) {
  int links = 0;
  for (const fs::path& document : documents()) {
    std::ifstream file(document);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (const std::string& target : linked_files(text)) {
      ++links;
      EXPECT_TRUE(fs::exists(document.parent_path() / target))
          << document.string() << " links to " << target;
    }
  }
  EXPECT_GT(links, 10);
}

TEST(Documents, LinksAreFound) {
  EXPECT_EQ(linked_files("see [a](b.md), [c](d/e.md#f), [g](https://h.i) and [j](#k)"),
            (std::vector<std::string>{"b.md", "d/e.md"}));
}

}  // namespace
}  // namespace plimsoll
