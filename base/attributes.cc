#include "base/attributes.h"

#include "base/error.h"

#include <algorithm>

namespace plimsoll {

void Attributes::set(const std::string& name, AttributeValue value) {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const auto& entry, const std::string& key) { return entry.first < key; });
  if (at != entries_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    entries_.insert(at, {name, std::move(value)});
  }
}

const AttributeValue* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key == name) return &value;
  }
  return nullptr;
}

int64_t Attributes::get_int(std::string_view name) const {
  const AttributeValue* value = find(name);
  PLIMSOLL_CHECK(value != nullptr && std::holds_alternative<int64_t>(*value),
                 "attribute {} missing or not an integer", name);
  return std::get<int64_t>(*value);
}

double Attributes::get_double(std::string_view name) const {
  const AttributeValue* value = find(name);
  PLIMSOLL_CHECK(value != nullptr && !std::holds_alternative<std::string>(*value),
                 "attribute {} missing or not a number", name);
  if (const auto* integer = std::get_if<int64_t>(value)) return static_cast<double>(*integer);
  return std::get<double>(*value);
}

const std::string& Attributes::get_string(std::string_view name) const {
  const AttributeValue* value = find(name);
  PLIMSOLL_CHECK(value != nullptr && std::holds_alternative<std::string>(*value),
                 "attribute {} missing or not a word", name);
  return std::get<std::string>(*value);
}

}  // namespace plimsoll
