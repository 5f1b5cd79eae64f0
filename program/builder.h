// Writes programs instruction by instruction: a convenience, it checks nothing (verify does).
#pragma once

#include "program/program.h"

#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

class ProgramBuilder {
 public:
  [[nodiscard]] Header& header() { return program_.header; }
  [[nodiscard]] Buffer& buffer(int index) { return program_.buffers[static_cast<size_t>(index)]; }

  // Adds a buffer and returns its index.
  int add_buffer(Buffer buffer) {
    program_.buffers.push_back(std::move(buffer));
    return static_cast<int>(program_.buffers.size()) - 1;
  }
  int add_buffer(std::string name, Category category, DType dtype, Shape shape) {
    Buffer buffer;
    buffer.name = std::move(name);
    buffer.category = category;
    buffer.dtype = dtype;
    buffer.shape = std::move(shape);
    return add_buffer(std::move(buffer));
  }

  // Starts a phase; what follows goes into it.
  ProgramBuilder& phase(std::string name) {
    program_.phases.push_back({std::move(name), {}});
    return *this;
  }
  // Starts a segment of the newest phase.
  ProgramBuilder& segment(std::string name, int64_t repeat = 1, int64_t first_microbatch = 0,
                          int64_t microbatch_stride = 1) {
    program_.phases.back().segments.push_back(
        {std::move(name), repeat, first_microbatch, microbatch_stride, {}});
    return *this;
  }
  // Appends an instruction to the newest segment; the reference is valid until the next emit.
  Instruction& emit(std::string op, std::vector<int> inputs, std::vector<int> outputs,
                    Attributes attributes = {}) {
    Instruction instruction;
    instruction.op = std::move(op);
    instruction.inputs = std::move(inputs);
    instruction.outputs = std::move(outputs);
    instruction.attributes = std::move(attributes);
    std::vector<Instruction>& body = program_.phases.back().segments.back().body;
    body.push_back(std::move(instruction));
    return body.back();
  }
  // Index of the newest instruction in its body, for `waits`.
  [[nodiscard]] int last() const {
    return static_cast<int>(program_.phases.back().segments.back().body.size()) - 1;
  }

  [[nodiscard]] const StepProgram& program() const { return program_; }
  [[nodiscard]] StepProgram build() && { return std::move(program_); }

 private:
  StepProgram program_;
};

}  // namespace plimsoll
