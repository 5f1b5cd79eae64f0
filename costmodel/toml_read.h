// Strict reading of TOML: every key is known, every value has its type and range, and an Error
// (exit 2) names file, line and column. Only costmodel/ includes this, and cli/ for job files.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::internal {

// "cluster.toml:3:5", or the file alone for a node without a place.
[[nodiscard]] std::string toml_place(const toml::node& node, std::string_view file);

// Parses TOML bytes; a syntax error is an Error (exit 2) that says where.
[[nodiscard]] toml::table parse_toml(std::string_view text, std::string_view file);

// A finite number, whole or not.
[[nodiscard]] double read_number(const toml::node& node, std::string_view key,
                                 std::string_view file);
// A number above 0 and at most 1.
[[nodiscard]] double read_fraction(const toml::node& node, std::string_view key,
                                   std::string_view file);
[[nodiscard]] int64_t read_whole(const toml::node& node, std::string_view key, int64_t least,
                                 int64_t most, std::string_view file);
[[nodiscard]] std::string read_word(const toml::node& node, std::string_view key,
                                    std::string_view file);
[[nodiscard]] bool read_flag(const toml::node& node, std::string_view key, std::string_view file);

// A table whose keys are all required unless they are asked for as optional.
class TomlTable {
 public:
  // Throws when the table has a key that is not in `keys`. `path` is "states.half", or empty for
  // the whole file. The table must outlive this.
  TomlTable(const toml::table& table, std::string path, std::string_view file,
            const std::vector<std::string>& keys);

  [[nodiscard]] TomlTable table(std::string_view key, const std::vector<std::string>& keys) const;
  [[nodiscard]] std::string word(std::string_view key) const;
  // One of `known`.
  [[nodiscard]] std::string word(std::string_view key, const std::vector<std::string>& known) const;
  // A list of words of `known`, none twice.
  [[nodiscard]] std::vector<std::string> words(std::string_view key,
                                               const std::vector<std::string>& known) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  [[nodiscard]] int64_t whole(std::string_view key, int64_t least, int64_t most) const;
  // A list of whole numbers, none twice.
  [[nodiscard]] std::vector<int64_t> wholes(std::string_view key, int64_t least,
                                            int64_t most) const;
  // The entry, or null.
  [[nodiscard]] const toml::node* find(std::string_view key) const { return table_->get(key); }
  [[nodiscard]] std::string_view file() const { return file_; }

 private:
  [[nodiscard]] const toml::node& required(std::string_view key) const;
  [[nodiscard]] const toml::array& list(std::string_view key) const;

  const toml::table* table_;
  std::string path_;
  std::string file_;
};

}  // namespace plimsoll::internal
