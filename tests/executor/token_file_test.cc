#include "executor/token_file.h"

#include "base/error.h"
#include "tests/executor/scratch.h"
#include "tests/executor/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace plimsoll {
namespace {

using test::error_of;
using test::ints;
using test::Scratch;
using test::u16;
using test::with_header;
using testing::HasSubstr;

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), sizeof(T) * values.size()};
}

// Two sequences of 2 and 3 tokens, a document each.
std::string megatron_index(uint8_t type, int64_t token_bytes) {
  return std::string("MMIDIDX\0\0", 9) + raw<uint64_t>({1}) + raw<uint8_t>({type}) +
         raw<uint64_t>({2, 3}) + raw<int32_t>({2, 3}) + raw<int64_t>({0, 2 * token_bytes}) +
         raw<int64_t>({0, 1, 2});
}

std::string open_error(const std::string& path, int64_t vocabulary = 256) {
  return error_of([&] { TokenFile(path, vocabulary); });
}

TEST(TokenFile, ReadsEveryFormat) {
  Scratch scratch;
  const std::vector<uint16_t> tokens{7, 300, 50256, 0, 65};
  std::vector<std::string> paths = {
      scratch.write("header.bin", with_header(20240520, 1, 5, u16(tokens))),
      scratch.write("raw.bin", u16(tokens)),
      scratch.write("wide.bin", with_header(20240801, 7, 5, ints({7, 300, 50256, 0, 65})))};
  for (const std::string& path : paths) {
    const TokenFile file(path, 50257);
    ASSERT_EQ(file.size(), 5) << path;
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(file[i], tokens[static_cast<size_t>(i)]) << path;
  }
  const TokenFile bytes(scratch.write("text.txt", "a\xff\n"), 256);
  ASSERT_EQ(bytes.size(), 3);
  EXPECT_EQ(bytes[0], 'a');
  EXPECT_EQ(bytes[1], 255);
}

TEST(TokenFile, NamesWhatIsWrongAndWhere) {
  Scratch scratch;
  const std::string good = with_header(20240520, 1, 2, u16({1, 2}));
  EXPECT_THAT(open_error(scratch.path("none.bin")), HasSubstr("cannot read"));
  EXPECT_THAT(open_error(scratch.path("")), HasSubstr("cannot read"));
  EXPECT_THAT(open_error(scratch.write("a.bin", "")), HasSubstr("no tokens"));
  EXPECT_THAT(open_error(scratch.write("b.bin", "abc")), HasSubstr("offset 2: half a token"));
  EXPECT_THAT(open_error(scratch.write("c.bin", good.substr(0, 700))),
              HasSubstr("offset 700: ends inside its header"));
  EXPECT_THAT(open_error(scratch.write("d.bin", good.substr(0, 1026))),
              HasSubstr("offset 1026: the header promises 2 tokens, 1028 bytes"));
  EXPECT_THAT(open_error(scratch.write("e.bin", good + "xx")), HasSubstr("offset 1028"));
  EXPECT_THAT(open_error(scratch.write("f.bin", with_header(20240520, 9, 0, ""))),
              HasSubstr("offset 4: version 9"));
  EXPECT_THAT(open_error(scratch.write("g.bin", with_header(20240520, 1, -3, ""))),
              HasSubstr("offset 8: -3 tokens"));
  EXPECT_THAT(open_error(scratch.write("h.bin", with_header(20240326, 3, 0, ""))),
              HasSubstr("GPT-2 model"));
  EXPECT_THAT(open_error(scratch.write("i.bin", with_header(20240520, 1, 0, ""))),
              HasSubstr("no tokens"));
  EXPECT_THAT(open_error(scratch.write("j.bin", with_header(20240520, 1, 3, u16({1, 2, 256})))),
              HasSubstr("offset 1028: token 256 is outside the model's vocabulary of 256"));
  EXPECT_THAT(open_error(scratch.write("k.bin", with_header(20240801, 7, 2, ints({1, -1})))),
              HasSubstr("offset 1028: token 4294967295"));
  EXPECT_THAT(open_error(scratch.write("l.txt", "abc\xf0"), 128), HasSubstr("offset 3: token 240"));
}

TEST(TokenFile, ReadsMegatronsTypes) {
  Scratch scratch;
  const std::vector<int32_t> tokens{7, 200, 50, 0, 65};
  const std::map<uint8_t, std::string> files = {{1, raw<uint8_t>({7, 200, 50, 0, 65})},
                                                {4, raw<int32_t>({7, 200, 50, 0, 65})},
                                                {8, raw<uint16_t>({7, 200, 50, 0, 65})}};
  for (const auto& [type, bytes] : files) {
    const auto width = static_cast<int64_t>(bytes.size()) / 5;
    const std::string path = scratch.write("data.bin", bytes);
    for (const std::string& modes : {std::string(), std::string(2, '\0')}) {
      scratch.write("data.idx", megatron_index(type, width) + modes);
      const TokenFile file(path, 256);
      ASSERT_EQ(file.size(), 5) << int{type};
      for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(file[i], tokens[static_cast<size_t>(i)]);
    }
  }
}

TEST(TokenFile, NamesWhatIsWrongInAMegatronIndex) {
  Scratch scratch;
  const std::string path = scratch.write("data.bin", u16({1, 2, 3, 4, 256}));
  const std::string good = megatron_index(8, 2);
  const auto error_with = [&](size_t offset, const std::string& bytes) {
    std::string index = good;
    index.replace(offset, bytes.size(), bytes);
    scratch.write("data.idx", index);
    return open_error(path);
  };
  const auto error_of_index = [&](const std::string& index) {
    scratch.write("data.idx", index);
    return open_error(path);
  };
  EXPECT_THAT(error_of_index(good), HasSubstr("data.bin: offset 8: token 256 is outside"));
  EXPECT_THAT(error_of_index(""), HasSubstr("data.idx: offset 0: no index"));
  EXPECT_THAT(error_of_index(good.substr(0, 33)), HasSubstr("offset 33: ends inside its header"));
  EXPECT_THAT(error_of_index(good.substr(0, good.size() - 1)), HasSubstr("do not fill"));
  EXPECT_THAT(error_of_index(good + "x"), HasSubstr("offset 18: 2 sequences and 3 entries"));
  EXPECT_THAT(error_with(9, raw<uint64_t>({2})), HasSubstr("offset 9: version 2"));
  EXPECT_THAT(error_with(17, raw<uint8_t>({7})), HasSubstr("offset 17: tokens of type 7"));
  // 12 S + 8 D that wraps around to the right size must not pass.
  EXPECT_THAT(error_with(18, raw<uint64_t>({2 + (uint64_t{1} << 62)})), HasSubstr("do not fill"));
  EXPECT_THAT(error_with(26, raw<uint64_t>({3 + (uint64_t{1} << 61)})), HasSubstr("do not fill"));
  EXPECT_THAT(error_with(38, raw<int32_t>({-3})), HasSubstr("offset 38: sequence 1 has -3"));
  EXPECT_THAT(error_with(50, raw<int64_t>({6})), HasSubstr("offset 50: sequence 1 begins at byte"));
  EXPECT_THAT(error_with(58, raw<int64_t>({1})), HasSubstr("offset 58: entry 0 of 3"));
  EXPECT_THAT(error_with(66, raw<int64_t>({5})), HasSubstr("offset 66: entry 1 of 3"));
  EXPECT_THAT(error_with(74, raw<int64_t>({1})), HasSubstr("offset 74: entry 2 of 3"));
  EXPECT_THAT(error_with(38, raw<int32_t>({2})), HasSubstr("8 bytes of tokens, the .bin has 10"));
  EXPECT_THAT(error_with(38, raw<int32_t>({4})),
              HasSubstr("ends at byte 12 of the tokens, the .bin has 10"));
}

// Any change of the index gives a file of legal tokens or an Error.
RC_GTEST_PROP(TokenFile, AnyMegatronIndexIsReadOrRefused, ()) {
  static const Scratch scratch;
  static const std::string path = scratch.write("data.bin", u16({1, 2, 3, 4, 5}));
  std::string index = megatron_index(8, 2);
  const auto changes = *rc::gen::inRange(0, 4);
  for (int k = 0; k < changes; ++k) {
    index[static_cast<size_t>(*rc::gen::inRange(9, static_cast<int>(index.size())))] =
        *rc::gen::arbitrary<char>();
  }
  if (*rc::gen::arbitrary<bool>()) {
    index.resize(static_cast<size_t>(*rc::gen::inRange(0, static_cast<int>(index.size()) + 1)));
  }
  scratch.write("data.idx", index);
  try {
    const TokenFile file(path, 1000);
    for (int64_t i = 0; i < file.size(); ++i) RC_ASSERT(file[i] >= 0 && file[i] < 1000);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

// Whatever the bytes, there is a file of legal tokens or an Error.
RC_GTEST_PROP(TokenFile, AnyBytesAreReadOrRefused, ()) {
  static const Scratch scratch;
  std::string bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
  if (*rc::gen::arbitrary<bool>()) {
    bytes = with_header(*rc::gen::element(20240520, 20240801, 20240326), *rc::gen::element(1, 7, 0),
                        *rc::gen::arbitrary<int32_t>(), bytes);
    bytes.resize(
        static_cast<size_t>(*rc::gen::inRange<int>(0, static_cast<int>(bytes.size()) + 1)));
  }
  const std::string path = scratch.write("any.bin", bytes);
  try {
    const TokenFile file(path, 1000);
    for (int64_t i = 0; i < file.size(); ++i) RC_ASSERT(file[i] >= 0 && file[i] < 1000);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

}  // namespace
}  // namespace plimsoll
