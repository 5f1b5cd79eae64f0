#include "executor/thread_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

namespace plimsoll {

ThreadGroup::ThreadGroup(ThreadWorld& world, std::string name_of_group, std::vector<int> members)
    : name(std::move(name_of_group)),
      ranks(std::move(members)),
      data(ranks.size()),
      bytes(ranks.size()),
      world_(world),
      here_(ranks.size()) {}

void ThreadGroup::meet(int place) {
  if (size() == 1) return world_.throw_if_aborted();
  std::unique_lock lock(mutex_);
  world_.throw_if_aborted();
  if (++arrived_ == size()) {
    arrived_ = 0;
    here_.assign(here_.size(), false);
    ++generation_;
    changed_.notify_all();
    return;
  }
  here_[static_cast<size_t>(place)] = true;
  const ThreadWorld::Waiting waiting(world_, ranks[static_cast<size_t>(place)]);
  const uint64_t generation = generation_;
  const bool in_time = changed_.wait_for(
      lock, world_.watchdog(), [&] { return generation_ != generation || world_.aborted(); });
  if (generation_ != generation) return;  // all had arrived before anything failed
  if (in_time) world_.throw_if_aborted();
  std::vector<int> missing;
  for (size_t i = 0; i < here_.size(); ++i) {
    if (!here_[i]) missing.push_back(ranks[i]);
  }
  const std::string message =
      fmt::format("waited {:g} s for the other ranks of group '{}': {}", world_.watchdog().count(),
                  name, world_.who_holds_up(missing));
  lock.unlock();  // abort takes the locks of all groups
  throw run_failed(message);
}

void ThreadGroup::wake() {
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
}

ThreadWorld::ThreadWorld(std::vector<Coordinates> ranks, double watchdog_seconds)
    : coordinates_(std::move(ranks)),
      watchdog_(watchdog_seconds),
      places_(coordinates_.size()),
      waiting_(coordinates_.size()) {
  for (size_t rank = 0; rank < coordinates_.size(); ++rank) {
    inboxes_.push_back(std::make_unique<Inbox>());
    places_[rank] = nullptr;
  }
}

std::vector<int> ThreadWorld::members(int rank, std::string_view name, int copies) const {
  int Coordinates::*coordinate = nullptr;
  if (name == "dp") coordinate = &Coordinates::dp;
  if (name == "tp") coordinate = &Coordinates::tp;
  if (name == "pp" || name == "embedding") coordinate = &Coordinates::pp;
  if (coordinate == nullptr && name != "world") {
    throw bad_input(
        fmt::format("group '{}': planned but cannot be run by the cpu backend yet", name));
  }
  std::vector<int> found;
  Coordinates own = coordinates_[static_cast<size_t>(rank)];
  for (int other = 0; other < size(); ++other) {
    const Coordinates& at = coordinates_[static_cast<size_t>(other)];
    if (coordinate != nullptr) own.*coordinate = at.*coordinate;
    if (coordinate == nullptr || at == own) found.push_back(other);
  }
  if (coordinate != nullptr) {
    std::sort(found.begin(), found.end(), [&](int a, int b) {
      return coordinates_[static_cast<size_t>(a)].*coordinate <
             coordinates_[static_cast<size_t>(b)].*coordinate;
    });
  }
  if (name == "embedding" && found.size() > 2) found = {found.front(), found.back()};
  const auto place = std::find(found.begin(), found.end(), rank) - found.begin();
  if (place == static_cast<std::ptrdiff_t>(found.size())) {
    throw bad_input(fmt::format("rank {} is not of the group '{}', which is ranks {}", rank, name,
                                fmt::join(found, ", ")));
  }
  if (copies == 1) return found;
  if (copies < 1 || found.size() % static_cast<size_t>(copies) != 0) {
    throw bad_input(
        fmt::format("group '{}' of {} ranks has no {} copies", name, found.size(), copies));
  }
  const auto first = found.begin() + place / copies * copies;
  return {first, first + copies};
}

std::shared_ptr<ThreadGroup> ThreadWorld::group_of(int rank, std::string_view name, int copies) {
  std::vector<int> ranks = members(rank, name, copies);
  const std::scoped_lock lock(mutex_);
  auto& group = groups_[{std::string(name), ranks}];
  if (group == nullptr) {
    group = std::make_shared<ThreadGroup>(*this, std::string(name), std::move(ranks));
  }
  return group;
}

void ThreadWorld::send(int to, Message& message) {
  Inbox& inbox = *inboxes_[static_cast<size_t>(to)];
  const std::scoped_lock lock(inbox.mutex);
  throw_if_aborted();
  message.arrived = false;
  message.next = nullptr;
  Message** last = &inbox.first;
  while (*last != nullptr) last = &(*last)->next;
  *last = &message;
  inbox.changed.notify_all();
}

void ThreadWorld::finish(Message& message, int to) {
  Inbox& inbox = *inboxes_[static_cast<size_t>(to)];
  std::unique_lock lock(inbox.mutex);
  const bool in_time =
      inbox.changed.wait_for(lock, watchdog_, [&] { return message.arrived || aborted_.load(); });
  if (message.arrived) return;
  lock.unlock();
  if (in_time) throw_if_aborted();
  throw run_failed(fmt::format("waited {:g} s for rank {} to take a message of {} bytes: {}",
                               watchdog_.count(), to, message.bytes, who_holds_up({to})));
}

void ThreadWorld::receive(int from, int to, int64_t tag, std::byte* data, int64_t bytes) {
  Inbox& inbox = *inboxes_[static_cast<size_t>(to)];
  std::unique_lock lock(inbox.mutex);
  Message** found = nullptr;
  const auto has_come = [&] {
    if (aborted_) return true;
    for (found = &inbox.first; *found != nullptr; found = &(*found)->next) {
      if ((*found)->source == from && (*found)->tag == tag) return true;
    }
    return false;
  };
  bool in_time = false;
  {
    const Waiting waiting(*this, to);
    in_time = inbox.changed.wait_for(lock, watchdog_, has_come);
  }
  if (!in_time || aborted_) {
    lock.unlock();
    throw_if_aborted();
    throw run_failed(fmt::format("waited {:g} s for a message of rank {}: {}", watchdog_.count(),
                                 from, who_holds_up({from})));
  }
  Message& message = **found;
  *found = message.next;
  if (message.bytes != bytes) {
    const int64_t sent = message.bytes;
    lock.unlock();
    throw run_failed(
        fmt::format("rank {} sent {} bytes where {} were expected", from, sent, bytes));
  }
  lock.unlock();  // the sender keeps the bytes until `arrived`
  std::memcpy(data, message.data, static_cast<size_t>(bytes));
  lock.lock();
  message.arrived = true;
  inbox.changed.notify_all();
}

std::string ThreadWorld::who_holds_up(const std::vector<int>& missing) const {
  std::vector<std::string> places;
  for (int rank = 0; rank < size(); ++rank) {
    if (!waiting_[static_cast<size_t>(rank)]) places.push_back(place_of(rank));
  }
  if (places.empty()) {
    for (const int rank : missing) places.push_back(place_of(rank));
  }
  return fmt::format("{}", fmt::join(places, "; "));
}

std::string ThreadWorld::place_of(int rank) const {
  const std::string* place = places_[static_cast<size_t>(rank)];
  return place == nullptr ? fmt::format("rank {} is not in its program", rank)
                          : fmt::format("rank {} is at {}", rank, *place);
}

void ThreadWorld::abort(const std::string& reason) {
  std::vector<std::shared_ptr<ThreadGroup>> groups;
  {
    const std::scoped_lock lock(mutex_);
    if (!aborted_) reason_ = reason;
    aborted_ = true;
    for (const auto& [key, group] : groups_) groups.push_back(group);
  }
  for (const auto& group : groups) group->wake();
  for (const auto& inbox : inboxes_) {
    const std::scoped_lock lock(inbox->mutex);
    inbox->changed.notify_all();
  }
}

void ThreadWorld::throw_if_aborted() const {
  if (!aborted_) return;
  const std::scoped_lock lock(mutex_);
  throw Aborted(reason_);
}

}  // namespace plimsoll
