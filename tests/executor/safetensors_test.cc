#include "executor/safetensors.h"

#include "base/error.h"
#include "base/files.h"
#include "tests/executor/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstring>

namespace plimsoll {
namespace {

using test::Scratch;
using testing::HasSubstr;

std::string file_of(const std::string& header, size_t data_bytes) {
  const auto length = static_cast<uint64_t>(header.size());
  std::string bytes(reinterpret_cast<const char*>(&length), 8);
  return bytes + header + std::string(data_bytes, '\1');
}

std::string open_error(const Scratch& scratch, const std::string& bytes) {
  try {
    SafetensorsFile file(scratch.write("x.safetensors", bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "nothing was thrown";
}

std::string entry(const std::string& name, const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, WritesWhatItReads) {
  Scratch scratch;
  std::vector<float> a{1, 2, 3, 4, 5, 6};
  std::vector<double> b{0.5};
  const std::string path = scratch.path("a.safetensors");
  const WrittenFile written = write_safetensors(
      path,
      {{"a", DType::kF32, {2, 3}, reinterpret_cast<const std::byte*>(a.data()), false},
       {"turned", DType::kF32, {3, 2}, reinterpret_cast<const std::byte*>(a.data()), true},
       {"b", DType::kF64, {}, reinterpret_cast<const std::byte*>(b.data()), false}},
      {{"format", "pt"}});
  const std::string bytes = read_file(path);
  EXPECT_EQ(written.bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(written.sha256, sha256_hex(bytes));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);

  const SafetensorsFile file(path);
  EXPECT_THAT(file.names(), testing::UnorderedElementsAre("a", "b", "turned"));
  EXPECT_EQ(file.find("a")->shape, (Shape{2, 3}));
  EXPECT_EQ(file.find("b")->dtype, DType::kF64);
  EXPECT_FALSE(file.find("c").has_value());
  std::vector<float> turned(6);
  std::memcpy(turned.data(), file.read("turned").data(), 24);
  EXPECT_THAT(turned, testing::ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(std::memcmp(file.read("a").data(), a.data(), 24), 0);
}

TEST(Safetensors, AFullDiskIsAFailedRun) {
  try {
    const float value = 1;
    write_safetensors("/dev/full",
                      {{"a", DType::kF32, {1}, reinterpret_cast<const std::byte*>(&value), false}},
                      {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRunFailed);
    EXPECT_THAT(error.what(), HasSubstr("/dev/full"));
  }
}

TEST(Safetensors, HostileHeaders) {
  Scratch scratch;
  const auto problem = [&](const std::string& header, size_t data_bytes) {
    return open_error(scratch, file_of(header, data_bytes));
  };
  EXPECT_EQ(problem("{" + entry("a", "[2]", "[0,8]") + "}   ", 8), "nothing was thrown");
  EXPECT_EQ(problem("{" + entry("a", "[0]", "[0,0]") + "," + entry("b", "[2]", "[0,8]") + "}", 8),
            "nothing was thrown");
  EXPECT_EQ(problem("{}", 0), "nothing was thrown");

  EXPECT_THAT(open_error(scratch, ""), HasSubstr("too few"));
  EXPECT_THAT(open_error(scratch, std::string(8, '\xff')),
              HasSubstr("header of 18446744073709551615"));
  EXPECT_THAT(open_error(scratch, file_of("{}", 0).substr(0, 9)), HasSubstr("offset 0"));
  EXPECT_THAT(problem("[]", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(problem(" {}", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(problem("{\"a\":", 0), HasSubstr("no JSON object"));
  EXPECT_THAT(problem("{\"a\":1}", 0), HasSubstr("'a': needs dtype"));
  EXPECT_THAT(problem("{" + entry("a", "[2]", "[0,8]", "F99") + "}", 8),
              HasSubstr("unknown dtype"));
  EXPECT_THAT(problem("{" + entry("a", "[-2]", "[0,8]") + "}", 8), HasSubstr("shape"));
  EXPECT_THAT(problem("{" + entry("a", "[2.0]", "[0,8]") + "}", 8), HasSubstr("shape"));
  EXPECT_THAT(problem("{" + entry("a", "2", "[0,8]") + "}", 8), HasSubstr("shape"));
  EXPECT_THAT(problem("{" + entry("a", "[18446744073709551615]", "[0,8]") + "}", 8),
              HasSubstr("shape"));
  EXPECT_THAT(problem("{" + entry("a", "[4611686018427387904,4]", "[0,8]") + "}", 8),
              HasSubstr("overflow"));
  EXPECT_THAT(problem("{" + entry("a", "[2]", "[0,8,9]") + "}", 8), HasSubstr("data_offsets"));
  EXPECT_THAT(problem("{" + entry("a", "[2]", "[8,0]") + "}", 8), HasSubstr("data_offsets"));
  EXPECT_THAT(problem("{" + entry("a", "[2]", "[0,4]") + "}", 8), HasSubstr("not the 8 bytes"));
  EXPECT_THAT(problem("{" + entry("a", "[2]", "[8,16]") + "}", 16), HasSubstr("leave a hole"));
  EXPECT_THAT(
      problem("{" + entry("a", "[2]", "[0,8]") + "," + entry("b", "[2]", "[4,12]") + "}", 12),
      HasSubstr("overlap"));
  EXPECT_THAT(problem("{" + entry("a", "[2]", "[0,8]") + "}", 7), HasSubstr("7 bytes of tensors"));
  EXPECT_THAT(problem("{" + entry("a", "[2]", "[0,8]") + "}", 9), HasSubstr("9 bytes of tensors"));
  EXPECT_THAT(problem("{" + entry("a", "[1]", "[0,4]") + "," + entry("a", "[1]", "[0,4]") + "}", 4),
              HasSubstr("two tensors are named 'a'"));
  EXPECT_THAT(problem(std::string(100000, '['), 0), HasSubstr("no JSON object"));
}

RC_GTEST_PROP(Safetensors, AnyBytesAreReadOrRefused, ()) {
  static const Scratch scratch;
  std::string bytes = file_of(
      "{" + entry("a", "[2]", "[0,8]") + "," + entry("b", "[3,1]", "[8,14]", "F16") + "}", 14);
  const auto changes = *rc::gen::inRange(0, 4);
  for (int i = 0; i < changes; ++i) {
    const auto at = *rc::gen::inRange<size_t>(0, bytes.size());
    bytes[at] = *rc::gen::arbitrary<char>();
  }
  if (*rc::gen::arbitrary<bool>()) bytes.resize(*rc::gen::inRange<size_t>(0, bytes.size() + 1));
  try {
    const SafetensorsFile file(scratch.write("any.safetensors", bytes));
    for (const std::string& name : file.names()) (void)file.read(name);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

}  // namespace
}  // namespace plimsoll
