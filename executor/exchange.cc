#include "executor/exchange.h"

#include "base/checked.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

namespace plimsoll {

namespace {

constexpr std::array<std::string_view, 6> kOps = {"all_reduce", "all_gather", "reduce_scatter",
                                                  "slice",      "send",       "receive"};

}  // namespace

bool is_exchange(std::string_view op) {
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

OwnPart own_part(int64_t elements, int64_t shards, int place, int64_t buffer_size) {
  if (shards == 1) return {0, elements, 0};
  const int64_t shard = ceil_div(elements, shards);
  const int64_t first = std::min(elements, shard * place);
  const int64_t length = std::min(elements - first, shard);
  return {buffer_size == elements && length < elements ? first : 0, length, first};
}

Exchange::Exchange(const Instruction& instruction, std::span<const Operand> operands,
                   Communicator& communicator, const std::string& where)
    : communicator_(communicator) {
  kind_ = static_cast<Kind>(std::find(kOps.begin(), kOps.end(), instruction.op) - kOps.begin());
  try {
    in_place_ = instruction.inputs.empty();
    const size_t num_inputs = kind_ == Kind::kAllReduce || kind_ == Kind::kReceive ? 0 : 1;
    const size_t num_outputs = kind_ == Kind::kSend ? 0 : 1;
    const bool flat = instruction.attributes.get_int("flat", 0) != 0;
    const bool fits = instruction.outputs.size() == num_outputs &&
                      (instruction.inputs.size() == num_inputs || (flat && in_place_)) &&
                      std::all_of(operands.begin(), operands.end(), std::mem_fn(&Operand::present));
    if (!fits) throw bad_input("the operands are not those of docs/ops.md");
    if (kind_ == Kind::kSend || kind_ == Kind::kReceive) {
      const std::string& peer = instruction.attributes.get_string("peer");
      if (peer != "next" && peer != "previous") throw bad_input("no peer '" + peer + "'");
      peer_ = communicator.neighbour(communicator.find_group("pp"), peer == "next" ? 1 : -1);
      tag_ = instruction.attributes.get_int("tag", 0);
      if (kind_ == Kind::kSend) message_ = std::make_unique<Message>();
      return;
    }
    resolve_group(instruction);
    if (kind_ == Kind::kAllReduce) {
      resolve_range(instruction, operands.back());
    } else {
      resolve_parts(instruction, operands);
    }
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", where, error.what()), error.hint());
  }
}

void Exchange::resolve_group(const Instruction& instruction) {
  group_ = communicator_.find_group(instruction.attributes.get_string("group", "dp"),
                                    static_cast<int>(instruction.attributes.get_int("copies", 1)));
  const std::string reduction = instruction.attributes.get_string("reduction", "sum");
  if (reduction != "sum" && reduction != "max") throw bad_input("no reduction '" + reduction + "'");
  if (reduction == "max") reduction_ = Reduction::kMax;
}

// The elements [first, first + count) of a tensor of which the buffer may hold a shard alone.
void Exchange::resolve_range(const Instruction& instruction, const Operand& buffer) {
  const Attributes& attributes = instruction.attributes;
  count_ = buffer.size();
  if (!attributes.has("count")) return;
  const int64_t begin = attributes.get_int("first");
  const int64_t end = checked_add(begin, attributes.get_int("count"));
  const int64_t shards = attributes.get_int("shards", 1);
  const int64_t elements = attributes.get_int("elements", buffer.size());
  const OwnPart own = own_part(
      elements, shards, communicator_.place_in(communicator_.find_group("dp")), buffer.size());
  const bool holds_all = buffer.size() == elements;
  const int64_t held = holds_all ? 0 : own.first;
  const int64_t held_end = holds_all ? elements : own.first + own.length;
  first_ = std::max<int64_t>(0, begin - held);
  count_ = std::max<int64_t>(0, std::min(end, held_end) - held - first_);
  if (begin < 0 || end > elements) throw bad_input("a range outside the buffer");
}

void Exchange::resolve_parts(const Instruction& instruction, std::span<const Operand> operands) {
  const int ranks = communicator_.group_size(group_);
  const Operand& in = operands.front();
  const Operand& out = operands.back();
  const bool gathers = kind_ == Kind::kAllGather;
  const Operand& whole = gathers || in_place_ ? out : in;
  const Operand& part = gathers ? in : out;
  if (instruction.attributes.get_int("flat", 0) != 0) {
    parts_ = {1, ceil_div(whole.size(), ranks), whole.size()};
  } else {
    const auto dimension = static_cast<size_t>(instruction.attributes.get_int("dimension"));
    if (dimension >= whole.shape->size() || (*whole.shape)[dimension] % ranks != 0) {
      throw bad_input(fmt::format("{} cannot be shared out along dimension {} over {} ranks",
                                  shape_text(*whole.shape), dimension, ranks));
    }
    int64_t row = 1;
    for (size_t d = dimension; d < whole.shape->size(); ++d) row *= (*whole.shape)[d];
    parts_ = {whole.size() / row, row / ranks, row};
  }
  if (!in_place_ && (part.size() != parts_.outer * parts_.part || part.dtype != whole.dtype)) {
    throw bad_input(fmt::format("{} is no part of {} over {} ranks", shape_text(*part.shape),
                                shape_text(*whole.shape), ranks));
  }
}

void Exchange::run(std::span<const Operand> operands) {
  const Operand& in = operands.front();
  const Operand& out = operands.back();
  switch (kind_) {
    case Kind::kAllReduce:
      communicator_.all_reduce(group_, out.as<std::byte>() + first_ * dtype_bytes(out.dtype),
                               count_, out.dtype, reduction_);
      return;
    case Kind::kAllGather:
      communicator_.all_gather(group_, in_place_ ? nullptr : in.data, out.data, parts_, out.dtype);
      return;
    case Kind::kReduceScatter:
      communicator_.reduce_scatter(group_, in.data, in_place_ ? nullptr : out.data, parts_,
                                   out.dtype);
      return;
    case Kind::kSlice:
      slice(in, out);
      return;
    case Kind::kSend:
      message_->tag = tag_;
      message_->data = in.as<std::byte>();
      message_->bytes = in.size() * dtype_bytes(in.dtype);
      under_way_ = true;
      communicator_.send(peer_, *message_);
      return;
    case Kind::kReceive:
      communicator_.receive(peer_, tag_, out.data, out.size() * dtype_bytes(out.dtype));
      return;
  }
}

void Exchange::slice(const Operand& whole, const Operand& part) const {
  const int64_t width = dtype_bytes(whole.dtype);
  const int64_t begin = parts_.begin(communicator_.place_in(group_));
  for (int64_t o = 0; o < parts_.outer; ++o) {
    std::copy_n(whole.as<std::byte>() + (o * parts_.whole + begin) * width, parts_.part * width,
                part.as<std::byte>() + o * parts_.part * width);
  }
}

void Exchange::finish() {
  if (!under_way_) return;
  communicator_.finish(*message_, peer_);
  under_way_ = false;
}

bool Exchange::holds(const std::byte* data, int64_t bytes) const {
  return under_way_ && data < message_->data + message_->bytes && message_->data < data + bytes;
}

}  // namespace plimsoll
