// Random small programs that keep every rule of verify but placement, for property tests.
//
// A program has persistent buffers, transient ones with up to four copies, several phases, segments
// that repeat, relative micro-batches, accumulation, absent operands, several streams with waits.
// Instructions are drawn one by one and kept only where they read what is defined.
#pragma once

#include "program/builder.h"
#include "program/expansion.h"
#include "program/program.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::testing {

struct RandomProgramOptions {
  bool streams = true;      // several streams, joined by waits
  int64_t max_repeat = 12;  // iterations of a segment
  int max_buffers = 12;
};

namespace internal {

inline int draw(int low, int high) { return *rc::gen::inRange(low, high + 1); }

// Makes an instruction wait for all earlier ones of other streams that touched one of its buffers
// in this body, whatever the copy: more order than needed, never less.
inline void add_waits(std::vector<Instruction>& body) {
  const auto touches = [](const Instruction& instruction, int buffer) {
    const auto in = [&](const std::vector<int>& list) {
      return std::find(list.begin(), list.end(), buffer) != list.end();
    };
    return in(instruction.inputs) || in(instruction.outputs);
  };
  Instruction& last = body.back();
  std::set<int> waits;
  for (size_t k = 0; k + 1 < body.size(); ++k) {
    if (body[k].stream == last.stream) continue;
    for (const std::vector<int>* list : {&last.inputs, &last.outputs}) {
      for (const int buffer : *list) {
        if (buffer != kNoBuffer && touches(body[k], buffer)) waits.insert(static_cast<int>(k));
      }
    }
  }
  last.waits.assign(waits.begin(), waits.end());
}

inline Buffer random_buffer(int index) {
  Buffer buffer;
  buffer.name = fmt::format("b{}", index);
  buffer.category = static_cast<Category>(draw(0, kNumCategories - 1));
  if (buffer.category == Category::kInput) buffer.category = Category::kActivations;
  buffer.dtype = static_cast<DType>(draw(0, 7));
  for (int d = draw(0, 2); d >= 0; --d) buffer.shape.push_back(draw(1, 40));
  buffer.copies = draw(0, 2) == 0 ? draw(2, 4) : 1;
  buffer.place = draw(0, 7) == 0 ? Place::kHost : Place::kDevice;
  buffer.layer = draw(-1, 3);
  buffer.op = draw(0, 1) == 0 ? "" : "mlp";
  return buffer;
}

inline void make_persistent(Buffer& buffer) {
  buffer.persistent = true;
  buffer.copies = 1;
  LogicalPart part;
  part.name = fmt::format("t.{}", buffer.name);
  part.global_shape = buffer.shape;
  part.box_start.assign(buffer.shape.size(), 0);
  part.box_extent = buffer.shape;
  buffer.logical = LogicalTensor{{part}, {Initialiser::Kind::kNormal, 0.02}, "parameter", "matrix"};
}

// An instruction over the buffers that are defined in every iteration, and one or two that it
// defines.
inline Instruction random_instruction(const std::vector<int>& all, const std::set<int>& defined) {
  Instruction out;
  out.op = fmt::format("op{}", draw(0, 5));
  for (int n = draw(0, 3); n > 0; --n) {
    const int buffer = all[static_cast<size_t>(draw(0, static_cast<int>(all.size()) - 1))];
    out.inputs.push_back(defined.count(buffer) != 0 ? buffer : kNoBuffer);
  }
  for (int n = draw(1, 2); n > 0; --n) {
    const int buffer = all[static_cast<size_t>(draw(0, static_cast<int>(all.size()) - 1))];
    if (std::find(out.outputs.begin(), out.outputs.end(), buffer) != out.outputs.end()) continue;
    if (defined.count(buffer) != 0 && draw(0, 2) == 0) out.accumulate |= 1U << out.outputs.size();
    out.outputs.push_back(buffer);
  }
  if (draw(0, 3) == 0) out.attributes.set("epsilon", AttributeValue{1e-5 * draw(1, 9)});
  if (draw(0, 3) == 0) out.attributes.set("heads", draw(1, 9));
  if (draw(0, 5) == 0) out.attributes.set("form", AttributeValue{std::string("fl\"ash \n")});
  out.pass = static_cast<Pass>(draw(0, 6));
  out.layer = draw(-1, 3);
  out.flops = draw(0, 1000) * 0.37;
  out.bytes_moved = draw(0, 1000);
  return out;
}

}  // namespace internal

// Must be called inside a RapidCheck property.
inline StepProgram random_program(const RandomProgramOptions& options = {}) {
  using internal::draw;
  ProgramBuilder builder;
  const int num_buffers = draw(1, options.max_buffers);
  std::vector<int> all;
  std::set<int> persistent;
  for (int b = 0; b < num_buffers; ++b) {
    Buffer buffer = internal::random_buffer(b);
    if (draw(0, 3) == 0) {
      internal::make_persistent(buffer);
      persistent.insert(b);
    }
    all.push_back(builder.add_buffer(std::move(buffer)));
  }
  builder.header().alignment = int64_t{1} << draw(0, 8);
  builder.header().model = "random";
  builder.header().hyperparameters.set("layers", draw(1, 9));
  builder.header().model_flops = draw(0, 1000) / 3.0;
  builder.header().outside_bytes = draw(0, 1000);
  builder.phase("initialise").segment("begin");
  for (const int b : persistent) builder.emit("initialise", {}, {b}).pass = Pass::kInitialise;

  for (int p = draw(1, 2); p > 0; --p) {
    builder.phase(p == 1 ? "step" : "evaluate").segment("begin");
    // Define every copy of some transient buffers, so that all later reads of these have a value.
    std::set<int> defined = persistent;
    for (const int b : all) {
      if (persistent.count(b) != 0 || draw(0, 1) == 0) continue;
      for (int copy = 0; copy < builder.buffer(b).copies; ++copy) {
        builder.emit("fill", {}, {b}).microbatch = copy;
      }
      defined.insert(b);
    }
    for (int s = draw(1, 3); s > 0; --s) {
      const int64_t repeat = draw(0, 2) == 0 ? 1 : draw(1, static_cast<int>(options.max_repeat));
      builder.segment(fmt::format("s{}", s), repeat, draw(0, 5), draw(0, 3));
      std::set<int> here = defined;  // and buffers with one copy that this body defines
      std::vector<Instruction> body;
      for (int k = draw(0, 8); k > 0; --k) {
        Instruction next = internal::random_instruction(all, here);
        if (next.inputs.size() > 0 && next.inputs[0] != kNoBuffer && draw(0, 3) == 0) {
          next.views = {{0, {1, num_elements(builder.buffer(next.inputs[0]).shape)}}};
        }
        next.microbatch = draw(0, 2);
        if (options.streams && draw(0, 1) == 0) next.stream = static_cast<Stream>(draw(0, 4));
        for (const int b : next.outputs) {
          if (builder.buffer(b).copies == 1) here.insert(b);
        }
        body.push_back(std::move(next));
        internal::add_waits(body);
      }
      for (Instruction& instruction : body) {
        builder.emit("", {}, {}) = std::move(instruction);
      }
    }
  }
  return std::move(builder).build();
}

}  // namespace plimsoll::testing
