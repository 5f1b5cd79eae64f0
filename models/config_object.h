// Typed access to the JSON object of a model's config file: every error names file and key.
#pragma once

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace plimsoll {

class ConfigObject {
 public:
  using Json = nlohmann::json;
  static constexpr int64_t kMaxSize = int64_t{1} << 40;
  static constexpr int64_t kMaxLayers = 100000;

  // Both outlive this.
  ConfigObject(const Json& object, const std::string& path, std::string prefix = "")
      : object_(object), path_(path), prefix_(std::move(prefix)) {}

  [[nodiscard]] Error error(const std::string& key, const std::string& message,
                            const std::string& hint = "") const {
    return bad_input(fmt::format("{}: key '{}{}' {}", path_, prefix_, key, message), hint);
  }

  // Present and not null.
  [[nodiscard]] bool has(const std::string& key) const {
    const auto at = object_.find(key);
    return at != object_.end() && !at->is_null();
  }
  [[nodiscard]] const Json& at(const std::string& key) const {
    if (!has(key)) throw error(key, "is missing");
    return *object_.find(key);
  }

  [[nodiscard]] int64_t size(const std::string& key, int64_t otherwise) const {
    return has(key) ? size(key) : otherwise;
  }
  // Like a size, but 0 and null mean none.
  [[nodiscard]] int64_t count(const std::string& key, int64_t otherwise) const {
    if (is_null(key)) return 0;
    if (!has(key)) return otherwise;
    return at(key) == 0 ? 0 : size(key);
  }
  // Layers are looped over, so their bound is far lower.
  [[nodiscard]] int64_t num_layers(const std::string& key) const {
    const int64_t layers = size(key);
    if (layers > kMaxLayers) {
      throw error(key, fmt::format("must be in [1, {}], not {}", kMaxLayers, layers));
    }
    return layers;
  }
  [[nodiscard]] int64_t size(const std::string& key) const {
    const Json& value = at(key);
    if (!value.is_number_integer()) {
      throw error(key, fmt::format("must be an integer, not {}", text(value)));
    }
    // Unsigned values beyond int64_t would wrap.
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kMaxSize};
    if (huge || value.get<int64_t>() <= 0 || value.get<int64_t>() > kMaxSize) {
      throw error(key, fmt::format("must be in [1, {}], not {}", kMaxSize, text(value)));
    }
    return value.get<int64_t>();
  }
  [[nodiscard]] double positive(const std::string& key, double otherwise) const {
    if (!has(key)) return otherwise;
    return positive(key);
  }
  [[nodiscard]] double positive(const std::string& key) const {
    const Json& value = at(key);
    if (!value.is_number()) throw error(key, fmt::format("must be a number, not {}", text(value)));
    const double number = value.get<double>();
    if (!(number > 0) || number > 1e300) {
      throw error(key, fmt::format("must be positive and finite, not {}", text(value)));
    }
    return number;
  }
  [[nodiscard]] bool flag(const std::string& key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_boolean()) {
      throw error(key, fmt::format("must be true or false, not {}", text(at(key))));
    }
    return at(key).get<bool>();
  }
  [[nodiscard]] std::string word(const std::string& key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!at(key).is_string())
      throw error(key, fmt::format("must be a string, not {}", text(at(key))));
    return at(key).get<std::string>();
  }
  [[nodiscard]] ConfigObject object(const std::string& key) const {
    if (!at(key).is_object()) {
      throw error(key, fmt::format("must be an object, not {}", text(at(key))));
    }
    return {at(key), path_, prefix_ + key + "."};
  }

  // Written as null, which differs from absent where the class has a default.
  [[nodiscard]] bool is_null(const std::string& key) const {
    const auto at = object_.find(key);
    return at != object_.end() && at->is_null();
  }
  void require_zero(const std::string& key, const std::string& why) const {
    if (has(key) && !(at(key).is_number() && at(key).get<double>() == 0)) {
      throw error(key, fmt::format("is {}: {}", text(at(key)), why), "set it to 0");
    }
  }

  // Refuses any value of a flag but the one that Plimsoll implements.
  void require_flag(const std::string& key, bool value, const std::string& why) const {
    if (flag(key, value) != value) {
      throw error(key, fmt::format("is {}: {}", value ? "false" : "true", why),
                  fmt::format("set it to {} to plan without it", value));
    }
  }
  void require_word(const std::string& key, const std::string& fallback,
                    std::initializer_list<std::string_view> known, const std::string& why) const {
    const std::string value = word(key, fallback);
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      throw error(key, fmt::format("is '{}': {}", clip(value), why));
    }
  }

 private:
  static std::string clip(std::string value) {
    if (value.size() > 60) value = value.substr(0, 60) + "…";
    return value;
  }
  static std::string text(const Json& value) {
    return clip(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  }

  const Json& object_;
  const std::string& path_;
  std::string prefix_;
};

}  // namespace plimsoll
