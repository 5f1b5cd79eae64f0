#include "program/text.h"

#include "program/text_words.h"

#include <algorithm>
#include <unordered_map>

namespace plimsoll {

namespace {

// Pads with blanks to `width` bytes; wider text stays as it is.
std::string pad(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

void append_line(std::string& out, std::string line) {
  while (!line.empty() && line.back() == ' ') line.pop_back();
  out += line;
  out += '\n';
}

// {epsilon=1e-05 form="flash"}, or nothing.
std::string attributes_text(const Attributes& attributes) {
  if (attributes.empty()) return "";
  std::string out;
  for (const auto& [key, value] : attributes.entries()) {
    out += out.empty() ? "{" : " ";
    out += text::name(key);
    out += '=';
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      out += std::to_string(*integer);
    } else if (const auto* number = std::get_if<double>(&value)) {
      out += text::real(*number);
    } else {
      out += text::quoted(std::get<std::string>(value));
    }
  }
  return out + "}";
}

void print_header(const Header& h, std::string& out) {
  const Coordinates& c = h.coordinates;
  const SampleIndex& s = h.samples;
  out += fmt::format("{} {}\n", text::kMagic, h.version);
  out += fmt::format("model {}\n", text::name(h.model));
  append_line(out, fmt::format("hyperparameters {}", attributes_text(h.hyperparameters)));
  out += fmt::format("rank {} dp={}/{} tp={}/{} pp={}/{} cp={}/{} ep={}/{}\n", h.rank, c.dp,
                     c.dp_size, c.tp, c.tp_size, c.pp, c.pp_size, c.cp, c.cp_size, c.ep, c.ep_size);
  out += fmt::format(
      "samples global_batch={} micro_batch={} first={} per_microbatch={} num_microbatches={}\n",
      s.global_batch, s.micro_batch, s.first, s.per_microbatch, s.num_microbatches);
  out += fmt::format("memory alignment={} arena_bytes={} outside_bytes={}\n", h.alignment,
                     h.arena_bytes, h.outside_bytes);
  out += fmt::format(
      "compute model_flops={} hardware_flops={} peak_flops_per_second={} "
      "predicted_step_seconds={}\n",
      text::real(h.model_flops), text::real(h.hardware_flops), text::real(h.peak_flops_per_second),
      text::real(h.predicted_step_seconds));
  out += fmt::format("flops_convention {}\n", text::quoted(h.flops_convention));
}

void print_logical(const LogicalTensor& logical, std::string& out) {
  out += fmt::format("  logical {} scale={} role={} group={}{}{}\n",
                     text::initialiser_name(logical.initialiser.kind),
                     text::real(logical.initialiser.scale), text::name(logical.role),
                     text::name(logical.optimizer_group),
                     logical.shards == 1 ? "" : fmt::format(" shards={}", logical.shards),
                     logical.padding == 0 ? "" : fmt::format(" padding={}", logical.padding));
  for (const LogicalPart& part : logical.parts) {
    out += fmt::format("  part {} of {} start={} extent={}{}\n", text::name(part.name),
                       text::list(part.global_shape), text::list(part.box_start),
                       text::list(part.box_extent), part.transposed ? " transposed" : "");
  }
}

void print_buffers(const std::vector<Buffer>& buffers, std::string& out) {
  constexpr size_t kWidest = 40;  // a column never grows past this for one long entry
  size_t name_width = 0;
  size_t shape_width = 0;
  for (const Buffer& buffer : buffers) {
    name_width = std::max(name_width, std::min(kWidest, text::name(buffer.name).size()));
    shape_width = std::max(shape_width, std::min(kWidest, text::list(buffer.shape).size()));
  }
  for (const Buffer& buffer : buffers) {
    std::string line =
        fmt::format("buffer {} {:<13} {:<4} {}", pad(text::name(buffer.name), name_width),
                    category_name(buffer.category), dtype_name(buffer.dtype),
                    pad(text::list(buffer.shape), shape_width));
    if (buffer.persistent) line += " persistent";
    if (buffer.place == Place::kHost) line += " host";
    if (buffer.copies != 1) line += fmt::format(" copies={}", buffer.copies);
    if (buffer.layer != -1) line += fmt::format(" layer={}", buffer.layer);
    if (!buffer.op.empty()) line += fmt::format(" op={}", text::name(buffer.op));
    if (!buffer.offsets.empty()) line += fmt::format(" at={}", fmt::join(buffer.offsets, ","));
    append_line(out, std::move(line));
    if (buffer.logical) print_logical(*buffer.logical, out);
  }
}

// How instructions name buffers: by name where that is unambiguous, else by "#index".
class OperandNames {
 public:
  explicit OperandNames(const std::vector<Buffer>& buffers) {
    names_.reserve(buffers.size());
    std::unordered_map<std::string_view, size_t> first;
    for (size_t b = 0; b < buffers.size(); ++b) {
      const bool is_first = first.emplace(buffers[b].name, b).second;
      names_.push_back(is_first ? text::name(buffers[b].name) : fmt::format("#{}", b));
    }
  }
  [[nodiscard]] std::string operator()(int buffer) const {
    if (buffer == kNoBuffer) return "-";
    const bool known = buffer >= 0 && static_cast<size_t>(buffer) < names_.size();
    return known ? names_[static_cast<size_t>(buffer)] : fmt::format("#{}", buffer);
  }

 private:
  std::vector<std::string> names_;
};

// "0:[16,4],3:[64]"
std::string views_text(const std::vector<OperandShape>& views) {
  std::vector<std::string> parts;
  parts.reserve(views.size());
  for (const OperandShape& view : views) {
    parts.push_back(fmt::format("{}:{}", view.operand, text::list(view.shape)));
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

// "x w - -> y +g"
std::string operands_text(const Instruction& instruction, const OperandNames& names) {
  std::string out;
  for (const int buffer : instruction.inputs) {
    out += names(buffer);
    out += ' ';
  }
  out += "->";
  for (size_t k = 0; k < instruction.outputs.size(); ++k) {
    out += accumulates(instruction, k) ? " +" : " ";
    out += names(instruction.outputs[k]);
  }
  return out;
}

void print_body(const std::vector<Instruction>& body, const OperandNames& names, std::string& out) {
  constexpr size_t kWidest = 60;
  std::vector<std::string> operands;
  operands.reserve(body.size());
  size_t op_width = 0;
  size_t operands_width = 0;
  for (const Instruction& instruction : body) {
    operands.push_back(operands_text(instruction, names));
    op_width = std::max(op_width, std::min(kWidest, text::name(instruction.op).size()));
    operands_width = std::max(operands_width, std::min(kWidest, operands.back().size()));
  }
  for (size_t k = 0; k < body.size(); ++k) {
    const Instruction& i = body[k];
    std::string line =
        fmt::format("    {:>3} {:<8} {:<10} {} {}", k, stream_name(i.stream), pass_name(i.pass),
                    pad(text::name(i.op), op_width), pad(operands[k], operands_width));
    if (!i.attributes.empty()) line += fmt::format(" {}", attributes_text(i.attributes));
    if (!i.views.empty()) line += fmt::format(" views={}", views_text(i.views));
    if (i.layer != -1) line += fmt::format(" layer={}", i.layer);
    if (i.microbatch != 0) line += fmt::format(" microbatch={}", i.microbatch);
    if (!i.waits.empty()) line += fmt::format(" waits={}", fmt::join(i.waits, ","));
    if (i.flops != 0) line += fmt::format(" flops={}", text::real(i.flops));
    if (i.bytes_moved != 0) line += fmt::format(" bytes={}", text::real(i.bytes_moved));
    // Bits without an output have no '+' to stand at; only an unsound program has them.
    const uint64_t beyond = (uint64_t{i.accumulate} >> std::min<size_t>(32, i.outputs.size()));
    if (beyond != 0) line += fmt::format(" accumulate={}", i.accumulate);
    append_line(out, std::move(line));
  }
}

}  // namespace

std::string to_text(const StepProgram& program) {
  std::string out;
  print_header(program.header, out);
  out += '\n';
  print_buffers(program.buffers, out);
  const OperandNames names(program.buffers);
  for (const Phase& phase : program.phases) {
    out += fmt::format("\nphase {}\n", text::name(phase.name));
    for (const Segment& segment : phase.segments) {
      out += fmt::format("  segment {} repeat={} first={} stride={}\n", text::name(segment.name),
                         segment.repeat, segment.first_microbatch, segment.microbatch_stride);
      print_body(segment.body, names, out);
    }
  }
  return out;
}

}  // namespace plimsoll
