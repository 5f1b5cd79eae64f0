// plimsoll models [MODEL]: the built-in models, or one model's shape and parameters.
#include "base/files.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/context.h"
#include "models/model.h"

#include <fmt/format.h>

namespace plimsoll::cli {

namespace {

nlohmann::ordered_json describe(const ModelSpec& model) {
  nlohmann::ordered_json json = {{"name", model.name},
                                 {"family", family_name(model.family)},
                                 {"objective", objective_name(model.objective)},
                                 {"parameters", count_parameters(model)},
                                 {"layers", model.layers}};
  const auto add = [&](const char* key, int64_t value) {
    if (value > 0) json[key] = value;
  };
  add("hidden", model.hidden);
  add("heads", model.heads);
  add("kv_heads", model.kv_heads);
  add("feed_forward", model.feed_forward);
  add("vocabulary", model.vocabulary);
  add("max_positions", model.max_positions);
  add("training_length", model.training_length);
  add("image_size", model.image_size);
  add("classes", model.classes);
  return json;
}

void print_one(const ModelSpec& model) {
  const nlohmann::ordered_json facts = describe(model);
  for (const auto& [key, value] : facts.items()) {
    const std::string text =
        value.is_number_integer() ? format_count(value.get<int64_t>()) : value.get<std::string>();
    fmt::print("{:>18}  {}\n", key, text);
  }
}

void print_all() {
  fmt::print("{:<16} {:<8} {:>16} {:>7} {:>7}\n", "model", "family", "parameters", "layers",
             "hidden");
  for (const ModelSpec& model : builtin_models()) {
    fmt::print("{:<16} {:<8} {:>16} {:>7} {:>7}\n", model.name, family_name(model.family),
               format_count(count_parameters(model)), model.layers,
               model.hidden > 0 ? std::to_string(model.hidden) : "");
  }
}

}  // namespace

void add_models(CLI::App& app, Context& context) {
  (void)context;
  CLI::App* command = app.add_subcommand("models", "list the built-in models, or show one");
  auto model = std::make_shared<std::string>();
  auto json = std::make_shared<std::string>();
  command->add_option("MODEL", *model, "a name, or a Hugging Face config.json");
  command->add_option("--json", *json, "write JSON to this file, - for stdout");
  command->footer("Example:\n  plimsoll models llama3-8b");
  command->callback([model, json] {
    nlohmann::ordered_json out;
    if (!model->empty()) {
      const ModelSpec spec = load_model(*model);
      if (json->empty()) return print_one(spec);
      out = describe(spec);
    } else {
      if (json->empty()) return print_all();
      for (const ModelSpec& spec : builtin_models()) out.push_back(describe(spec));
    }
    write_file(*json, json_text(out) + "\n");
  });
}

}  // namespace plimsoll::cli
