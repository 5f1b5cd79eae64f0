#include "base/error.h"
#include "program/text.h"
#include "program/text_words.h"

#include <limits>
#include <set>
#include <unordered_map>

namespace plimsoll {

namespace {

using text::LineScanner;

template <typename Enum, typename NameOf>
Enum parse_enum(LineScanner& line, std::string_view what, Enum last, NameOf name_of) {
  const std::string word = line.word(what);
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  }
  line.fail(fmt::format("unknown {} '{}'", what, word));
}

std::vector<int> to_ints(LineScanner& line, std::string_view what) {
  std::vector<int> out = {line.small_integer(what)};
  while (line.accept(",")) out.push_back(line.small_integer(what));
  return out;
}

Attributes parse_attributes(LineScanner& line) {
  Attributes out;
  line.expect("{");
  while (!line.accept("}")) {
    const std::string key = line.name("an attribute's name or '}'");
    if (out.has(key)) line.fail(fmt::format("attribute {} is given twice", text::quoted(key)));
    line.expect("=");
    out.set(key, line.value("an attribute's value"));
  }
  return out;
}

// Reads "key=" fields in any order, each at most once, until the line ends.
template <typename Take>
void parse_fields(LineScanner& line, Take take) {
  std::set<std::string> seen;
  while (!line.at_end()) {
    const std::string key = line.word("a field");
    if (!seen.insert(key).second) line.fail(fmt::format("'{}' is given twice", key));
    if (!take(key)) line.fail(fmt::format("unknown field '{}'", key));
  }
}

// "dp=0/2"
void parse_coordinate(LineScanner& line, int& at, int& size) {
  line.expect("=");
  at = line.small_integer("a coordinate");
  line.expect("/");
  size = line.small_integer("a dimension's size");
}

class Parser {
 public:
  Parser(std::string_view source, std::string_view file_name)
      : source_(source), file_name_(file_name) {}

  StepProgram run() && {
    bool first = true;
    for (size_t begin = 0; begin < source_.size();) {
      size_t end = source_.find('\n', begin);
      if (end == std::string_view::npos) end = source_.size();
      ++line_number_;
      LineScanner line(source_.substr(begin, end - begin), file_name_, line_number_);
      begin = end + 1;
      if (line.at_end() || line.peek() == '#') continue;
      if (first) {
        parse_magic(line);
      } else {
        parse_line(line);
      }
      first = false;
    }
    if (first) LineScanner("", file_name_, 1).expected(fmt::format("'{} 1'", text::kMagic));
    return std::move(program_);
  }

 private:
  void parse_magic(LineScanner& line) {
    line.expect(text::kMagic);
    program_.header.version = line.small_integer("the version");
    line.expect_end();
    if (program_.header.version != 1) {
      line.fail(fmt::format("version {} is not known; this is version 1", program_.header.version));
    }
  }

  void parse_line(LineScanner& line) {
    const char next = line.peek();
    if (next >= '0' && next <= '9') return parse_instruction(line);
    const std::string keyword = line.word("a line's first word");
    if (keyword == "buffer") return parse_buffer(line);
    if (keyword == "logical") return parse_logical(line);
    if (keyword == "part") return parse_part(line);
    if (keyword == "phase") return parse_phase(line);
    if (keyword == "segment") return parse_segment(line);
    if (!parse_header_line(keyword, line)) {
      line.fail(fmt::format("unknown kind of line '{}'", keyword));
    }
    if (!header_lines_.insert(keyword).second) {
      line.fail(fmt::format("'{}' is given twice", keyword));
    }
    line.expect_end();
  }

  bool parse_header_line(const std::string& keyword, LineScanner& line) {
    Header& h = program_.header;
    if (keyword == "model") {
      h.model = line.name("the model's name");
    } else if (keyword == "hyperparameters") {
      if (!line.at_end()) h.hyperparameters = parse_attributes(line);
    } else if (keyword == "rank") {
      h.rank = line.small_integer("the rank");
      parse_coordinates(line);
    } else if (keyword == "samples") {
      parse_samples(line);
    } else if (keyword == "memory") {
      parse_fields(line, [&](const std::string& key) {
        return parse_int(line, key, "alignment", h.alignment) ||
               parse_int(line, key, "arena_bytes", h.arena_bytes) ||
               parse_int(line, key, "outside_bytes", h.outside_bytes);
      });
    } else if (keyword == "compute") {
      parse_fields(line, [&](const std::string& key) {
        return parse_real(line, key, "model_flops", h.model_flops) ||
               parse_real(line, key, "hardware_flops", h.hardware_flops) ||
               parse_real(line, key, "peak_flops_per_second", h.peak_flops_per_second) ||
               parse_real(line, key, "predicted_step_seconds", h.predicted_step_seconds);
      });
    } else if (keyword == "flops_convention") {
      h.flops_convention = line.name("the convention");
    } else {
      return false;
    }
    return true;
  }

  void parse_coordinates(LineScanner& line) {
    Coordinates& c = program_.header.coordinates;
    parse_fields(line, [&](const std::string& key) {
      if (key == "dp") return parse_coordinate(line, c.dp, c.dp_size), true;
      if (key == "tp") return parse_coordinate(line, c.tp, c.tp_size), true;
      if (key == "pp") return parse_coordinate(line, c.pp, c.pp_size), true;
      if (key == "cp") return parse_coordinate(line, c.cp, c.cp_size), true;
      if (key == "ep") return parse_coordinate(line, c.ep, c.ep_size), true;
      return false;
    });
  }

  void parse_samples(LineScanner& line) {
    SampleIndex& s = program_.header.samples;
    parse_fields(line, [&](const std::string& key) {
      return parse_int(line, key, "global_batch", s.global_batch) ||
             parse_int(line, key, "micro_batch", s.micro_batch) ||
             parse_int(line, key, "first", s.first) ||
             parse_int(line, key, "per_microbatch", s.per_microbatch) ||
             parse_int(line, key, "num_microbatches", s.num_microbatches);
    });
  }

  static bool parse_int(LineScanner& line, const std::string& key, std::string_view wanted,
                        int64_t& out) {
    if (key != wanted) return false;
    line.expect("=");
    out = line.integer(wanted);
    return true;
  }
  static bool parse_int(LineScanner& line, const std::string& key, std::string_view wanted,
                        int& out) {
    if (key != wanted) return false;
    line.expect("=");
    out = line.small_integer(wanted);
    return true;
  }
  static bool parse_real(LineScanner& line, const std::string& key, std::string_view wanted,
                         double& out) {
    if (key != wanted) return false;
    line.expect("=");
    out = line.real(wanted);
    return true;
  }
  static bool parse_name(LineScanner& line, const std::string& key, std::string_view wanted,
                         std::string& out) {
    if (key != wanted) return false;
    line.expect("=");
    out = line.name(wanted);
    return true;
  }

  void parse_buffer(LineScanner& line) {
    if (!program_.phases.empty()) line.fail("a buffer after the first phase");
    Buffer buffer;
    buffer.name = line.name("the buffer's name");
    const std::string category = line.word("a category");
    const std::optional<Category> known = parse_category(category);
    if (!known) line.fail(fmt::format("unknown category '{}'", category));
    buffer.category = *known;
    buffer.dtype = parse_enum(line, "dtype", DType::kU8, dtype_name);
    buffer.shape = line.list("an extent");
    parse_fields(line, [&](const std::string& key) {
      if (key == "persistent") return buffer.persistent = true;
      if (key == "host") return buffer.place = Place::kHost, true;
      if (key == "at") {
        line.expect("=");
        buffer.offsets = line.row("an offset");
        return true;
      }
      return parse_int(line, key, "copies", buffer.copies) ||
             parse_int(line, key, "layer", buffer.layer) || parse_name(line, key, "op", buffer.op);
    });
    indices_.emplace(buffer.name, static_cast<int>(program_.buffers.size()));
    program_.buffers.push_back(std::move(buffer));
  }

  void parse_logical(LineScanner& line) {
    if (program_.buffers.empty() || !program_.phases.empty() || program_.buffers.back().logical) {
      line.fail("'logical' does not follow a buffer");
    }
    LogicalTensor logical;
    logical.initialiser.kind =
        parse_enum(line, "initialiser", Initialiser::Kind::kRunning, text::initialiser_name);
    parse_fields(line, [&](const std::string& key) {
      return parse_real(line, key, "scale", logical.initialiser.scale) ||
             parse_name(line, key, "role", logical.role) ||
             parse_name(line, key, "group", logical.optimizer_group) ||
             parse_int(line, key, "shards", logical.shards) ||
             parse_int(line, key, "padding", logical.padding);
    });
    program_.buffers.back().logical = std::move(logical);
  }

  void parse_part(LineScanner& line) {
    if (program_.buffers.empty() || !program_.phases.empty() || !program_.buffers.back().logical) {
      line.fail("'part' does not follow a buffer's 'logical' line");
    }
    LogicalPart part;
    part.name = line.name("the tensor's name");
    line.expect("of");
    part.global_shape = line.list("an extent");
    line.expect("start");
    line.expect("=");
    part.box_start = line.list("a start");
    line.expect("extent");
    line.expect("=");
    part.box_extent = line.list("an extent");
    part.transposed = line.accept("transposed");
    line.expect_end();
    program_.buffers.back().logical->parts.push_back(std::move(part));
  }

  void parse_phase(LineScanner& line) {
    Phase phase;
    phase.name = line.name("the phase's name");
    line.expect_end();
    program_.phases.push_back(std::move(phase));
  }

  void parse_segment(LineScanner& line) {
    if (program_.phases.empty()) line.fail("a segment before the first phase");
    Segment segment;
    segment.name = line.name("the segment's name");
    parse_fields(line, [&](const std::string& key) {
      return parse_int(line, key, "repeat", segment.repeat) ||
             parse_int(line, key, "first", segment.first_microbatch) ||
             parse_int(line, key, "stride", segment.microbatch_stride);
    });
    program_.phases.back().segments.push_back(std::move(segment));
  }

  void parse_instruction(LineScanner& line) {
    if (program_.phases.empty() || program_.phases.back().segments.empty()) {
      line.fail("an instruction before the first segment");
    }
    std::vector<Instruction>& body = program_.phases.back().segments.back().body;
    const int64_t index = line.integer("the instruction's number");
    if (index != static_cast<int64_t>(body.size())) {
      line.fail(fmt::format("instruction {} stands where {} is expected", index, body.size()));
    }
    Instruction out;
    out.stream = parse_enum(line, "stream", Stream::kCopy, stream_name);
    out.pass = parse_enum(line, "pass", Pass::kInitialise, pass_name);
    out.op = line.name("the operation's name");
    while (!line.accept("->")) out.inputs.push_back(parse_operand(line));
    parse_outputs(line, out);
    if (line.peek() == '{') out.attributes = parse_attributes(line);
    parse_fields(line, [&](const std::string& key) {
      if (key == "waits") {
        line.expect("=");
        out.waits = to_ints(line, "an instruction's number");
        return true;
      }
      if (key == "views") {
        line.expect("=");
        do {
          OperandShape view;
          view.operand = line.small_integer("an operand's number");
          line.expect(":");
          view.shape = line.list("an extent");
          out.views.push_back(std::move(view));
        } while (line.accept(","));
        return true;
      }
      if (key == "accumulate") {
        line.expect("=");
        const int64_t bits = line.integer("accumulate");
        if (bits < 0 || bits > std::numeric_limits<uint32_t>::max())
          line.fail("accumulate has 32 bits");
        out.accumulate = static_cast<uint32_t>(bits);
        return true;
      }
      return parse_int(line, key, "layer", out.layer) ||
             parse_int(line, key, "microbatch", out.microbatch) ||
             parse_real(line, key, "flops", out.flops) ||
             parse_real(line, key, "bytes", out.bytes_moved);
    });
    body.push_back(std::move(out));
  }

  // Outputs end where the attributes, a "key=" field or the line's end comes.
  void parse_outputs(LineScanner& line, Instruction& out) {
    while (!line.at_end() && line.peek() != '{') {
      const LineScanner before = line;
      const bool plus = line.accept("+");
      const bool quoted = line.peek() == '"';
      const bool bare = !quoted && line.peek() != '-' && line.peek() != '#';
      if (bare && !plus) {
        (void)line.word("an output");
        const bool is_field = line.peek() == '=';
        line = before;
        if (is_field) return;
      }
      if (plus && out.outputs.size() >= 32) line.fail("only the first 32 outputs can accumulate");
      if (plus) out.accumulate |= uint32_t{1} << out.outputs.size();
      out.outputs.push_back(parse_operand(line));
    }
  }

  int parse_operand(LineScanner& line) {
    if (line.peek() == '-') {
      line.expect("-");
      return kNoBuffer;
    }
    if (line.accept("#")) return line.small_integer("a buffer's number");
    const std::string name = line.name("a buffer's name");
    const auto found = indices_.find(name);
    if (found == indices_.end())
      line.fail(fmt::format("no buffer is named {}", text::quoted(name)));
    return found->second;
  }

  std::string_view source_;
  std::string_view file_name_;
  int64_t line_number_ = 0;
  StepProgram program_;
  std::unordered_map<std::string, int> indices_;
  std::set<std::string> header_lines_;
};

}  // namespace

StepProgram parse_text(std::string_view source, std::string_view file_name) {
  return Parser(source, file_name).run();
}

}  // namespace plimsoll
