// Small sorted map from names to numbers or words: the attributes of an operation.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll {

using AttributeValue = std::variant<int64_t, double, std::string>;

// Kept sorted by name so that equal sets compare equal and print alike.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, AttributeValue>> entries) {
    for (const auto& [name, value] : entries) set(name, value);
  }

  void set(const std::string& name, AttributeValue value);
  // Numbers of any width keep their kind: an integer stays one, and 0.1 never becomes 0.
  template <std::integral Integer>
  void set(const std::string& name, Integer value) {
    set(name, AttributeValue(static_cast<int64_t>(value)));
  }
  template <std::floating_point Float>
  void set(const std::string& name, Float value) {
    set(name, AttributeValue(static_cast<double>(value)));
  }
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  // A missing or differently typed attribute is a programmer's error: a program from a file is
  // verified before it runs. An integer may be read as a double.
  [[nodiscard]] int64_t get_int(std::string_view name) const;
  [[nodiscard]] double get_double(std::string_view name) const;
  [[nodiscard]] const std::string& get_string(std::string_view name) const;
  [[nodiscard]] int64_t get_int(std::string_view name, int64_t otherwise) const {
    return has(name) ? get_int(name) : otherwise;
  }
  [[nodiscard]] double get_double(std::string_view name, double otherwise) const {
    return has(name) ? get_double(name) : otherwise;
  }
  [[nodiscard]] std::string get_string(std::string_view name, const std::string& otherwise) const {
    return has(name) ? get_string(name) : otherwise;
  }

  [[nodiscard]] const std::vector<std::pair<std::string, AttributeValue>>& entries() const {
    return entries_;
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  [[nodiscard]] const AttributeValue* find(std::string_view name) const;
  std::vector<std::pair<std::string, AttributeValue>> entries_;
};

}  // namespace plimsoll
