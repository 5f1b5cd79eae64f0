// What every subcommand shares: where it prints, its exit code, and interruption.
#pragma once

#include <CLI/CLI.hpp>

#include <atomic>
#include <functional>
#include <string>

namespace plimsoll::cli {

struct Context {
  int exit_code = 0;
  // Set by SIGINT or SIGTERM; long work looks at it and stops in order.
  std::atomic<int>* signal = nullptr;
  std::string command_line;
};

// Each adds its subcommand to the app.
void add_plan(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_simulate(CLI::App& app, Context& context);
void add_train(CLI::App& app, Context& context);
void add_tradeoff(CLI::App& app, Context& context);
void add_models(CLI::App& app, Context& context);
void add_hardware(CLI::App& app, Context& context);
void add_profiles(CLI::App& app, Context& context);

}  // namespace plimsoll::cli
