#include "base/attributes.h"

#include "base/dtype.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

TEST(Attributes, EqualSetsCompareEqualInAnyOrder) {
  Attributes a;
  a.set("heads", 12);
  a.set("epsilon", 1e-5);
  Attributes b;
  b.set("epsilon", 1e-5);
  b.set("heads", 7);
  EXPECT_NE(a, b);
  b.set("heads", 12);  // replaces
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.entries().size(), 2U);
  EXPECT_EQ(a.entries().front().first, "epsilon");
}

TEST(Attributes, NumbersKeepTheirKind) {
  Attributes a;
  a.set("p", 0.1);
  a.set("half", 0.5F);
  a.set("heads", 12);
  a.set("bytes", int64_t{1} << 40);
  a.set("form", "flash");
  EXPECT_EQ(a.get_double("p"), 0.1);
  EXPECT_EQ(a.get_double("half"), 0.5);
  EXPECT_EQ(a.get_int("heads"), 12);
  EXPECT_EQ(a.get_int("bytes"), int64_t{1} << 40);
  EXPECT_EQ(a.get_string("form"), "flash");
}

TEST(Attributes, ReadsTypesAndDefaults) {
  const Attributes a{{"heads", int64_t{12}}, {"p", 0.1}, {"form", std::string("flash")}};
  EXPECT_EQ(a.get_int("heads"), 12);
  EXPECT_EQ(a.get_double("heads"), 12.0);
  EXPECT_EQ(a.get_double("p"), 0.1);
  EXPECT_EQ(a.get_string("form"), "flash");
  EXPECT_EQ(a.get_int("missing", 3), 3);
  EXPECT_EQ(a.get_double("missing", 0.5), 0.5);
  EXPECT_EQ(a.get_string("missing", "none"), "none");
  EXPECT_TRUE(a.has("p"));
  EXPECT_FALSE(a.has("q"));
}

TEST(AttributesDeathTest, AMissingOneAbortsWithItsName) {
  const Attributes a{{"form", std::string("flash")}};
  EXPECT_DEATH((void)a.get_int("heads"), "heads");
  EXPECT_DEATH((void)a.get_double("form"), "form");
}

TEST(DType, NamesReadBack) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64,
                            DType::kI32, DType::kU16, DType::kU8}) {
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
    EXPECT_GT(dtype_bytes(dtype), 0);
  }
  EXPECT_EQ(parse_dtype("fp32"), DType::kF32);
  EXPECT_EQ(parse_dtype("fp16"), DType::kF16);
  EXPECT_FALSE(parse_dtype("f33").has_value());
  EXPECT_FALSE(parse_dtype("").has_value());
}

}  // namespace
}  // namespace plimsoll
