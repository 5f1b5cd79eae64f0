#include "executor/trainer.h"

#include "base/error.h"
#include "base/units.h"
#include "executor/rank_runner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

namespace plimsoll {

namespace {

void check_programs(std::span<const StepProgram> programs, int64_t device_memory_bytes) {
  if (programs.empty()) throw bad_input("no programs to train with");
  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const StepProgram& program = programs[rank];
    const Coordinates& at = program.header.coordinates;
    if (at.cp_size * at.ep_size != 1) {
      throw bad_input(
          "context or expert parallel: planned but cannot be run by the cpu backend yet");
    }
    if (program.header.rank != static_cast<int>(rank) ||
        int64_t{at.dp_size} * at.tp_size * at.pp_size != static_cast<int64_t>(programs.size())) {
      throw bad_input(fmt::format("program {} of {} is of rank {} of {} × {} × {}", rank,
                                  programs.size(), program.header.rank, at.dp_size, at.tp_size,
                                  at.pp_size));
    }
    if (program.peak_bytes() > device_memory_bytes) {
      throw Error(
          ExitCode::kInfeasible,
          fmt::format("rank {} needs {} bytes ({}), a device has {} ({})", rank,
                      format_count(program.peak_bytes()), format_bytes(program.peak_bytes()),
                      format_count(device_memory_bytes), format_bytes(device_memory_bytes)),
          "raise --device-memory, or leave out --plan so that a plan is made for this limit");
    }
  }
}

int threads_for_each_rank(const TrainOptions& options, size_t num_ranks) {
  if (options.threads_per_rank > 0) return options.threads_per_rank;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / static_cast<int>(num_ranks));
}

// The ranks' threads, and the first error of any of them.
class RankThreads {
 public:
  RankThreads(std::vector<std::unique_ptr<RankRunner>>& runners,
              std::vector<std::unique_ptr<Communicator>>& communicators)
      : running_(runners.size()) {
    for (size_t rank = 0; rank < runners.size(); ++rank) {
      threads_.emplace_back([this, &runner = *runners[rank], &communicator = *communicators[rank]] {
        try {
          runner.run();
        } catch (const Aborted&) {
          keep_first(std::current_exception(), true);
        } catch (const std::exception& error) {
          keep_first(std::current_exception(), false);
          communicator.abort(error.what());
        }
        const std::scoped_lock lock(mutex_);
        --running_;
        changed_.notify_all();
      });
    }
  }

  // Waits for all threads. Once one has failed, the others have `grace_seconds` to end; if they do
  // not, calls `on_stuck` with the error.
  void join(double grace_seconds, const std::function<void(const std::string&)>& on_stuck) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0 || error_ != nullptr; });
    const std::chrono::duration<double> grace(grace_seconds);
    if (!changed_.wait_for(lock, grace, [&] { return running_ == 0; })) {
      const std::string message =
          fmt::format("{}; {} of {} ranks do not end", text_of(error_), running_, threads_.size());
      lock.unlock();
      on_stuck(message);
    } else {
      lock.unlock();
    }
    for (std::thread& thread : threads_) thread.join();
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  // What a rank threw itself comes before what the others heard of it.
  void keep_first(std::exception_ptr error, bool hearsay) {
    const std::scoped_lock lock(mutex_);
    if (error_ == nullptr || (is_hearsay_ && !hearsay)) {
      error_ = std::move(error);
      is_hearsay_ = hearsay;
    }
    changed_.notify_all();
  }
  static std::string text_of(const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& caught) {
      return caught.what();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t running_;
  std::exception_ptr error_;
  bool is_hearsay_ = false;
};

void end_process(const std::string& message) {
  fmt::print(stderr, "error: {}\n", message);
  std::fflush(stderr);
  std::_Exit(static_cast<int>(ExitCode::kRunFailed));
}

// What to go on from. Throws Error (exit 2) when the folder holds a run that would be overwritten.
std::optional<Checkpoint> find_start(const TrainOptions& options, const TrainCallbacks& callbacks) {
  if (options.out_dir.empty()) return std::nullopt;
  FoundCheckpoint found = find_newest_checkpoint(options.out_dir + "/checkpoints");
  const auto say = [&](const std::string& message) {
    if (callbacks.on_message) callbacks.on_message(message);
  };
  if (!options.resume) {
    if (!found.checkpoint) return std::nullopt;
    throw bad_input(fmt::format("{} already holds a run with the checkpoint {}", options.out_dir,
                                found.checkpoint->path),
                    "go on from it with --resume, or give another --out");
  }
  for (const std::string& warning : found.warnings) say("warning: " + warning);
  if (!found.checkpoint) {
    say(fmt::format("warning: no complete checkpoint in {}; starting at step 0", options.out_dir));
    return std::nullopt;
  }
  if (found.checkpoint->state.seed != options.seed) {
    throw bad_input(fmt::format("{} was made with seed {}, not {}", found.checkpoint->path,
                                found.checkpoint->state.seed, options.seed),
                    "resume with the seed of the run");
  }
  return std::move(found.checkpoint);
}

}  // namespace

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::kSteps:
      return "steps";
    case StopReason::kTargetLoss:
      return "target loss";
    case StopReason::kConverged:
      return "converged";
    case StopReason::kInterrupted:
      return "interrupted";
  }
  return "?";
}

TrainResult train(std::span<const StepProgram> rank_programs, const DataSource& data,
                  const TrainOptions& options, const TrainCallbacks& callbacks) {
  check_programs(rank_programs, options.device_memory_bytes);
  if (!options.out_dir.empty()) {
    std::error_code error;
    std::filesystem::create_directories(options.out_dir, error);
    if (error) {
      throw run_failed(fmt::format("cannot make {}: {}", options.out_dir, error.message()));
    }
  }
  SharedRun shared{data,      options,
                   callbacks, find_start(options, callbacks),
                   0,         std::vector<std::vector<PersistentPart>>(rank_programs.size())};
  std::vector<Coordinates> ranks;
  for (const StepProgram& program : rank_programs) ranks.push_back(program.header.coordinates);
  std::vector<std::unique_ptr<Communicator>> communicators =
      make_thread_communicators(ranks, options.watchdog_seconds);
  const int num_threads = threads_for_each_rank(options, rank_programs.size());

  ResidentGrowth resident;
  resident.data_set_bytes = data.resident_bytes();
  resident.before_bytes = process_resident_bytes();
  std::vector<std::unique_ptr<RankRunner>> runners;
  for (size_t rank = 0; rank < rank_programs.size(); ++rank) {
    runners.push_back(std::make_unique<RankRunner>(rank_programs[rank], *communicators[rank],
                                                   shared, num_threads));
  }
  RankThreads(runners, communicators)
      .join(options.watchdog_seconds, callbacks.on_stuck ? callbacks.on_stuck : end_process);
  resident.after_bytes = process_resident_bytes();

  TrainResult result = runners.front()->result();
  result.predicted_step_seconds = rank_programs.front().header.predicted_step_seconds;
  for (const auto& runner : runners) {
    result.ranks.push_back(runner->report());
    resident.arenas_bytes += runner->report().predicted_arena_bytes + kArenaGuardBytes;
    resident.stacks_bytes += runner->stack_bytes();
  }
  result.resident = resident;
  for (const RankReport& rank : result.ranks) {
    if (!rank.guard_intact) {
      throw run_failed(fmt::format("rank {}: something wrote behind the arena of {} bytes",
                                   rank.rank, format_count(rank.predicted_arena_bytes)),
                       "this is a mistake in a kernel or in the program");
    }
  }
  return result;
}

}  // namespace plimsoll
