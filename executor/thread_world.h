// What the ranks of one process share: groups that meet, and messages on their way.
#pragma once

#include "executor/communicator.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

class ThreadWorld;

// Ranks that meet at a barrier, and where their data are.
class ThreadGroup {
 public:
  ThreadGroup(ThreadWorld& world, std::string name, std::vector<int> ranks);

  // Waits for the others. Throws Aborted when the run has failed, Error when it fails here.
  void meet(int place);
  void wake();

  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }

  const std::string name;
  const std::vector<int> ranks;
  // Of the collective that is running, by place: what is read, what is written, and its bytes.
  std::vector<const std::byte*> data;
  std::vector<int64_t> bytes;

 private:
  ThreadWorld& world_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> here_;
  int arrived_ = 0;
  uint64_t generation_ = 0;
};

class ThreadWorld {
 public:
  // While it lives, the rank waits for another.
  class Waiting {
   public:
    Waiting(ThreadWorld& world, int rank) : flag_(world.waiting_[static_cast<size_t>(rank)]) {
      flag_ = true;
    }
    ~Waiting() { flag_ = false; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    std::atomic<bool>& flag_;
  };

  ThreadWorld(std::vector<Coordinates> ranks, double watchdog_seconds);

  [[nodiscard]] int size() const { return static_cast<int>(coordinates_.size()); }
  [[nodiscard]] std::chrono::duration<double> watchdog() const { return watchdog_; }

  // The group that `rank` is in; made when nobody has asked for it before.
  [[nodiscard]] std::shared_ptr<ThreadGroup> group_of(int rank, std::string_view name, int copies);

  void send(int to, Message& message);
  void finish(Message& message, int to);
  void receive(int from, int to, int64_t tag, std::byte* data, int64_t bytes);

  void set_place(int rank, const std::string* place) { places_[static_cast<size_t>(rank)] = place; }
  // "rank 1 is at phase 'step', …": the ranks that wait for nobody, from among all, since one that
  // hangs keeps others waiting who keep others waiting; `missing` when there is none.
  [[nodiscard]] std::string who_holds_up(const std::vector<int>& missing) const;

  // The first reason stays; all that waits wakes up.
  void abort(const std::string& reason);
  [[nodiscard]] bool aborted() const { return aborted_; }
  void throw_if_aborted() const;

 private:
  // Messages to one rank, oldest first.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable changed;
    Message* first = nullptr;
  };

  [[nodiscard]] std::string place_of(int rank) const;
  [[nodiscard]] std::vector<int> members(int rank, std::string_view name, int copies) const;

  std::vector<Coordinates> coordinates_;
  std::chrono::duration<double> watchdog_;
  std::map<std::pair<std::string, std::vector<int>>, std::shared_ptr<ThreadGroup>> groups_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
  std::vector<std::atomic<const std::string*>> places_;
  std::vector<std::atomic<bool>> waiting_;
  mutable std::mutex mutex_;  // of groups_ and reason_
  std::atomic<bool> aborted_ = false;
  std::string reason_;
};

}  // namespace plimsoll
