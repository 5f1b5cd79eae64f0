#include "costmodel/toml_read.h"

#include "base/error.h"
#include "base/spelling.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::internal {

namespace {

Error not_a(const toml::node& node, std::string_view key, std::string_view what,
            std::string_view file) {
  return bad_input(fmt::format("{}: {} must be {}", toml_place(node, file), key, what));
}

void check_known(const toml::node& node, std::string_view key, const std::string& word,
                 const std::vector<std::string>& known, std::string_view file) {
  if (std::find(known.begin(), known.end(), word) == known.end()) {
    throw bad_input(fmt::format("{}: unknown {} '{}'", toml_place(node, file), key, word),
                    did_you_mean(word, known));
  }
}

template <typename T>
void add_once(std::vector<T>& list, const T& value, const toml::node& node, std::string_view key,
              std::string_view file) {
  if (std::find(list.begin(), list.end(), value) != list.end()) {
    throw bad_input(fmt::format("{}: {} has '{}' twice", toml_place(node, file), key, value));
  }
  list.push_back(value);
}

// toml++ bounds how deep values nest, but not the parts of a dotted key, and it destroys tables by
// recursion: a line of a hundred thousand parts would overflow the stack.
void check_key_depth(std::string_view text, std::string_view file) {
  constexpr int64_t kMostDots = 100;
  int64_t line = 1;
  int64_t dots = 0;
  for (const char c : text) {
    if (c == '.' && ++dots > kMostDots) {
      throw bad_input(fmt::format("{}:{}: more than {} dots in a line", file, line, kMostDots));
    }
    if (c != '\n') continue;
    ++line;
    dots = 0;
  }
}

}  // namespace

std::string toml_place(const toml::node& node, std::string_view file) {
  const toml::source_position begin = node.source().begin;
  if (!begin) return std::string(file);
  return fmt::format("{}:{}:{}", file, begin.line, begin.column);
}

toml::table parse_toml(std::string_view text, std::string_view file) {
  check_key_depth(text, file);
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    throw bad_input(fmt::format("{}:{}:{}: {}", file, error.source().begin.line,
                                error.source().begin.column, error.description()),
                    "the file must be valid TOML (https://toml.io)");
  }
}

double read_number(const toml::node& node, std::string_view key, std::string_view file) {
  const auto number = node.value<double>();
  if (!node.is_number() || !number || !std::isfinite(*number)) {
    throw not_a(node, key, "a number", file);
  }
  return *number;
}

double read_fraction(const toml::node& node, std::string_view key, std::string_view file) {
  const double value = read_number(node, key, file);
  if (value <= 0 || value > 1) throw not_a(node, key, "above 0 and at most 1", file);
  return value;
}

int64_t read_whole(const toml::node& node, std::string_view key, int64_t least, int64_t most,
                   std::string_view file) {
  const auto value = node.value_exact<int64_t>();
  if (!value || *value < least || *value > most) {
    throw not_a(node, key, fmt::format("a whole number from {} to {}", least, most), file);
  }
  return *value;
}

std::string read_word(const toml::node& node, std::string_view key, std::string_view file) {
  const auto value = node.value_exact<std::string>();
  if (!value) throw not_a(node, key, "a string", file);
  return *value;
}

bool read_flag(const toml::node& node, std::string_view key, std::string_view file) {
  const auto value = node.value_exact<bool>();
  if (!value) throw not_a(node, key, "true or false", file);
  return *value;
}

TomlTable::TomlTable(const toml::table& table, std::string path, std::string_view file,
                     const std::vector<std::string>& keys)
    : table_(&table), path_(std::move(path)), file_(file) {
  for (const auto& [key, node] : table) {
    check_known(node, "key", std::string(key.str()), keys, file_);
  }
}

const toml::node& TomlTable::required(std::string_view key) const {
  if (const toml::node* node = table_->get(key)) return *node;
  if (path_.empty()) throw bad_input(fmt::format("{}: lacks {}", file_, key));
  throw bad_input(fmt::format("{}: [{}] lacks {}", toml_place(*table_, file_), path_, key));
}

TomlTable TomlTable::table(std::string_view key, const std::vector<std::string>& keys) const {
  const toml::node& node = required(key);
  const toml::table* inner = node.as_table();
  if (inner == nullptr) throw not_a(node, key, "a table", file_);
  return {*inner, path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key), file_, keys};
}

std::string TomlTable::word(std::string_view key) const {
  return read_word(required(key), key, file_);
}

std::string TomlTable::word(std::string_view key, const std::vector<std::string>& known) const {
  std::string value = word(key);
  check_known(required(key), key, value, known, file_);
  return value;
}

const toml::array& TomlTable::list(std::string_view key) const {
  const toml::node& node = required(key);
  const toml::array* array = node.as_array();
  if (array == nullptr) throw not_a(node, key, "a list", file_);
  return *array;
}

std::vector<std::string> TomlTable::words(std::string_view key,
                                          const std::vector<std::string>& known) const {
  std::vector<std::string> values;
  for (const toml::node& node : list(key)) {
    const std::string value = read_word(node, key, file_);
    check_known(node, key, value, known, file_);
    add_once(values, value, node, key, file_);
  }
  return values;
}

bool TomlTable::flag(std::string_view key) const { return read_flag(required(key), key, file_); }

int64_t TomlTable::whole(std::string_view key, int64_t least, int64_t most) const {
  return read_whole(required(key), key, least, most, file_);
}

std::vector<int64_t> TomlTable::wholes(std::string_view key, int64_t least, int64_t most) const {
  std::vector<int64_t> values;
  for (const toml::node& node : list(key)) {
    add_once(values, read_whole(node, key, least, most, file_), node, key, file_);
  }
  return values;
}

}  // namespace plimsoll::internal
