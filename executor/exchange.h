// Instructions that move data between ranks: collectives and messages, bound to a communicator.
#pragma once

#include "executor/bind.h"
#include "executor/communicator.h"
#include "program/program.h"

#include <memory>
#include <span>
#include <string>

namespace plimsoll {

// Whether the instruction is one of these.
[[nodiscard]] bool is_exchange(std::string_view op);

// One instruction, its operands decoded (docs/ops.md) but for addresses, which change with the
// micro-batch.
class Exchange {
 public:
  // `operands`: inputs, then outputs. Throws Error (exit 2), beginning with `where`, for what the
  // communicator cannot do.
  Exchange(const Instruction& instruction, std::span<const Operand> operands,
           Communicator& communicator, const std::string& where);

  [[nodiscard]] bool sends() const { return kind_ == Kind::kSend; }
  [[nodiscard]] bool receives() const { return kind_ == Kind::kReceive; }
  void run(std::span<const Operand> operands);

  // Of a send that was run: waits until its message has arrived.
  void finish();
  // Whether the bytes belong to a message of this send that has not been waited for.
  [[nodiscard]] bool holds(const std::byte* data, int64_t bytes) const;

 private:
  enum class Kind : uint8_t { kAllReduce, kAllGather, kReduceScatter, kSlice, kSend, kReceive };

  void resolve_group(const Instruction& instruction);
  void resolve_parts(const Instruction& instruction, std::span<const Operand> operands);
  void resolve_range(const Instruction& instruction, const Operand& buffer);
  void slice(const Operand& whole, const Operand& part) const;

  Kind kind_ = Kind::kAllReduce;
  Communicator& communicator_;
  int group_ = 0;
  Reduction reduction_ = Reduction::kSum;
  Parts parts_;
  int64_t first_ = 0, count_ = 0;  // elements of an all-reduce
  bool in_place_ = false;
  int peer_ = 0;
  int64_t tag_ = 0;
  std::unique_ptr<Message> message_;  // of a send; where it is does not change
  bool under_way_ = false;
};

// This rank's elements of a flat list in `shards` shards (docs/ops.md), where a buffer holds all of
// them or the shard alone: where they begin there, how many they are, and which they are in the
// list.
struct OwnPart {
  int64_t offset = 0, length = 0, first = 0;
};
[[nodiscard]] OwnPart own_part(int64_t elements, int64_t shards, int place, int64_t buffer_size);

}  // namespace plimsoll
