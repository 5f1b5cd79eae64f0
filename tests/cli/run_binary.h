// Runs the binary as a user would and keeps what it prints.
#pragma once

#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace plimsoll::testing {

struct Outcome {
  int exit_code = -1;
  std::string out, error;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A folder that is gone when the test ends.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "plimsoll.XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

// `arguments` is a shell command line after the binary's name.
inline Outcome plimsoll(const std::string& arguments) {
  const Folder folder;
  const std::string command = std::string(PLIMSOLL_BINARY) + " " + arguments + " >" +
                              (folder / "out") + " 2>" + (folder / "err") + " </dev/null";
  const int status = std::system(command.c_str());
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_text(folder / "out");
  outcome.error = read_text(folder / "err");
  return outcome;
}

// The cells of a CSV file by column name.
inline std::map<std::string, std::vector<std::string>> read_csv(const std::filesystem::path& path) {
  std::istringstream lines(read_text(path));
  std::string line;
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::string>> columns;
  for (bool head = true; std::getline(lines, line); head = false) {
    std::istringstream cells(line);
    std::string cell;
    for (size_t i = 0; std::getline(cells, cell, ',') || i < names.size(); ++i, cell.clear()) {
      if (head) {
        names.push_back(cell);
      } else if (i < names.size()) {
        columns[names[i]].push_back(cell);
      } else {
        break;
      }
    }
  }
  return columns;
}

inline std::vector<double> numbers(const std::vector<std::string>& cells) {
  std::vector<double> values;
  for (const std::string& cell : cells) {
    if (!cell.empty()) values.push_back(std::stod(cell));
  }
  return values;
}

}  // namespace plimsoll::testing
