// Files of tokens, as .bin and as text; and tables of numbers. The first byte sets the vocabulary.
#include "executor/row_data.h"
#include "executor/token_file.h"
#include "tests/fuzz/fuzz_target.h"

#include <filesystem>

namespace {

// TokenFile goes by the name's ending, so a link with such a name leads to the bytes.
const std::string& bin_link(const std::string& target) {
  static const std::string link = (std::filesystem::temp_directory_path() /
                                   ("plimsoll_fuzz_" + std::to_string(::getpid()) + ".bin"))
                                      .string();
  std::filesystem::remove(link);
  std::filesystem::create_symlink(target, link);
  return link;
}

void read(const std::string& path, int64_t vocabulary) {
  using namespace plimsoll;
  fuzz::accept_errors([&] {
    const TokenFile tokens(path, vocabulary);
    for (int64_t i = 0; i < tokens.size(); ++i) {
      fuzz::require(tokens[i] >= 0 && tokens[i] < vocabulary, "tokens lie in the vocabulary");
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  if (size == 0) return 0;
  const int64_t vocabulary = int64_t{1} << (data[0] % 33);
  const fuzz::InputFile input(data + 1, size - 1);
  read(input.path(), vocabulary);
  const std::string& link = bin_link(input.path());
  read(link, vocabulary);
  std::filesystem::remove(link);
  fuzz::accept_errors([&] {
    const NumberTable table = read_number_table(input.path());
    fuzz::require(table.rows * table.columns == static_cast<int64_t>(table.values.size()),
                  "a table is rectangular");
  });
  return 0;
}
