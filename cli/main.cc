// The binary: parses, calls, prints. Errors go to stderr with what to do; exit codes are in D6 of
// the design (base/error.h).
#include "base/error.h"
#include "base/spelling.h"
#include "cli/context.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <new>

namespace {

std::atomic<int> received_signal{0};

extern "C" void remember_signal(int number) { received_signal.store(number); }

void install_handlers() {
  struct sigaction action {};
  action.sa_handler = remember_signal;
  // A second Ctrl-C ends the process at once.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

// The word that is no subcommand, when that is what is wrong.
std::string unknown_command_hint(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[1]) return "";
    names.push_back(command->get_name());
  }
  return plimsoll::did_you_mean(argv[1], names);
}

int fail(const std::string& message, const std::string& hint, plimsoll::ExitCode code) {
  fmt::print(stderr, "error: {}\n", message);
  if (!hint.empty()) fmt::print(stderr, "hint: {}\n", hint);
  return static_cast<int>(code);
}

}  // namespace

int main(int argc, char** argv) {
  using plimsoll::ExitCode;
  install_handlers();
  CLI::App app{
      "Plimsoll: will this training run fit, what is the best way to run it, and run it so."};
  app.set_version_flag("--version", "plimsoll 0.1.0");
  app.require_subcommand(1);
  app.footer("Example:\n  plimsoll plan gpt2 1xa100-40gb --global-batch 32");
  plimsoll::cli::Context context;
  context.signal = &received_signal;
  for (int i = 0; i < argc; ++i) context.command_line += (i > 0 ? " " : "") + std::string(argv[i]);
  plimsoll::cli::add_plan(app, context);
  plimsoll::cli::add_explain(app, context);
  plimsoll::cli::add_tradeoff(app, context);
  plimsoll::cli::add_simulate(app, context);
  plimsoll::cli::add_train(app, context);
  plimsoll::cli::add_models(app, context);
  plimsoll::cli::add_hardware(app, context);
  plimsoll::cli::add_profiles(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    std::string hint = unknown_command_hint(app, argc, argv);
    if (hint.empty()) hint = "see `plimsoll --help`, or `plimsoll COMMAND --help`";
    return fail(error.what(), hint, ExitCode::kBadInput);
  } catch (const plimsoll::Error& error) {
    return fail(error.what(), error.hint(), error.code());
  } catch (const std::bad_alloc&) {
    return fail("out of host memory", "use a smaller model or fewer devices", ExitCode::kRunFailed);
  } catch (const std::exception& error) {
    return fail(error.what(), "", ExitCode::kRunFailed);
  }
  return context.exit_code;
}
