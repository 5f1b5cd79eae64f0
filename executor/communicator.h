// Collectives and messages between the ranks of a run.
//
// Ranks are told apart by their coordinates; a group is named as programs name it ("dp", "tp",
// "pp", "embedding") and means the ranks that differ from this one in that coordinate alone.
// Results are the same bits on every rank and from run to run: sums are taken in rank order. A rank
// that fails calls `abort`, which wakes every rank that waits; a rank that waits for longer than
// the watchdog allows gives up for all. Nothing here allocates once the groups are found.
#pragma once

#include "base/dtype.h"
#include "base/error.h"
#include "program/program.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class Reduction : uint8_t { kSum, kMax };

// How a whole array is shared out over a group: `outer` rows of `whole` elements, of which rank r
// has [r * part, min((r + 1) * part, whole)), possibly none.
struct Parts {
  int64_t outer = 1;
  int64_t part = 0;
  int64_t whole = 0;

  [[nodiscard]] int64_t begin(int rank) const { return std::min(whole, part * rank); }
  [[nodiscard]] int64_t length(int rank) const { return begin(rank + 1) - begin(rank); }
};

// What another rank's failure is to those that it wakes.
class Aborted : public Error {
 public:
  explicit Aborted(const std::string& reason) : Error(ExitCode::kRunFailed, reason) {}
};

// A message under way; it and its bytes stay where they are until it is finished.
struct Message {
  int source = 0;
  int64_t tag = 0;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
  bool arrived = true;
  Message* next = nullptr;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // The number of a group, for the calls below. `copies` > 1: of each so many neighbours in the
  // group, those that this rank is one of. Throws Error (exit 2) for a name that means nothing.
  // "embedding" is the first and the last of "pp"; "world" is everybody.
  [[nodiscard]] virtual int find_group(std::string_view name, int copies = 1) = 0;
  [[nodiscard]] virtual int group_size(int group) const = 0;
  [[nodiscard]] virtual int place_in(int group) const = 0;
  // The rank `steps` further in the group, going round.
  [[nodiscard]] virtual int neighbour(int group, int steps) const = 0;

  // All ranks of the group call these with equal sizes and types. They throw Error (exit 4) when
  // the run was aborted or the watchdog expired, and for a type that the backend does not reduce
  // (it does f32, f64 and i32; exit 2).
  virtual void all_reduce(int group, void* data, int64_t count, DType dtype,
                          Reduction reduction) = 0;
  // `part` is null for a gather in place: each rank's part is in its own `whole` already.
  virtual void all_gather(int group, const void* part, void* whole, const Parts& parts,
                          DType dtype) = 0;
  // `part` is null for a sum that stays where the part lies in `whole`, the rest of which is left
  // as it is; else the part has room for parts.part elements a row, zeros behind its own.
  virtual void reduce_scatter(int group, const void* whole, void* part, const Parts& parts,
                              DType dtype) = 0;
  virtual void barrier() = 0;

  // Sets the message off to a rank and returns; `finish` waits until it has arrived. Messages of
  // one source and tag arrive in the order in which they were sent.
  virtual void send(int to, Message& message) = 0;
  virtual void finish(Message& message, int to) = 0;
  virtual void receive(int from, int64_t tag, void* data, int64_t bytes) = 0;

  // What this rank does, for the message of a rank that waits for it in vain; null for nothing.
  virtual void set_place(const std::string* place) = 0;

  // Makes every call of every rank throw, now and later. The first reason stays.
  virtual void abort(const std::string& reason) = 0;
};

// One communicator for each thread that is a rank of this process, by coordinates. A wait of more
// than `watchdog_seconds` for another rank fails the run.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    std::span<const Coordinates> ranks, double watchdog_seconds);

// Ranks that differ in their data-parallel place alone.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, double watchdog_seconds);

}  // namespace plimsoll
