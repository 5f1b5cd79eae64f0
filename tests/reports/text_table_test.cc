// Columns are counted in characters, and long lines are broken at spaces.
#include "reports/text_table.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(TextTable, WidthIsInCharacters) {
  EXPECT_EQ(display_width("4 × 8"), 5U);
  EXPECT_EQ(pad_left("±0", 4), "  ±0");
  EXPECT_EQ(pad_right("×", 3) + "|", "×  |");
  EXPECT_EQ(pad_left("12345", 3), "12345");
}

TEST(TextTable, SignsHaveAsciiForms) {
  EXPECT_EQ(to_ascii("dp 1 · micro-batch 4 × 8 ±0 █"), "dp 1 | micro-batch 4 x 8 ~0 #");
  EXPECT_EQ(to_ascii("naïve 日"), "na?ve ?");
}

TEST(TextTable, RowsAreAligned) {
  const TextTable table({{6, false}, {5, true}, {4, false}}, 2);
  EXPECT_EQ(table.row({"×", "1.5", "end"}), "  ×        1.5 end\n");
  EXPECT_EQ(table.row({"longer than six", "2"}), "  longer than six     2\n");
}

TEST(TextTable, LongLinesHang) {
  EXPECT_EQ(wrap_lines("  one two three\nfour\n", 10), "  one two\n    three\nfour\n");
  EXPECT_EQ(wrap_lines("     Cluster  aa bb cc dd\n", 20),
            "     Cluster  aa bb\n              cc dd\n");
  EXPECT_EQ(wrap_lines("unbreakablelongword\n", 8), "unbreakablelongword\n");
  EXPECT_EQ(wrap_lines("× × × ×\n", 7), "× × × ×\n");
}

}  // namespace
}  // namespace plimsoll
