// Collectives between the ranks of one group.
//
// Results are the same bits on every rank and from run to run: sums are taken in rank order. A rank
// that fails calls `abort`, which wakes every rank that waits; a rank that waits for longer than
// the watchdog allows gives up for all. Nothing here allocates after construction.
#pragma once

#include "base/dtype.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plimsoll {

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // Sums `count` elements over the ranks, in place. All ranks call it with equal count and dtype
  // (f32, f64 or i32; anything else is an Error, exit 2). Throws Error (exit 4) when the group was
  // aborted or the watchdog expired.
  virtual void all_reduce(void* data, int64_t count, DType dtype) = 0;
  virtual void barrier() = 0;

  // Makes every call of every rank throw, now and later. The first reason stays.
  virtual void abort(const std::string& reason) = 0;
};

// The group of one: everything is done already.
class SingleCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void all_reduce(void* data, int64_t count, DType dtype) override;
  void barrier() override;
  void abort(const std::string& reason) override { reason_ = reason; }

 private:
  std::string reason_;
};

// One communicator for each of `size` threads of this process. A wait of more than
// `watchdog_seconds` for another rank fails the group.
[[nodiscard]] std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int size, double watchdog_seconds);

}  // namespace plimsoll
