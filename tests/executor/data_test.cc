#include "executor/data.h"

#include "base/error.h"
#include "executor/row_data.h"
#include "executor/sample_order.h"
#include "executor/token_data.h"
#include "tests/executor/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace plimsoll {
namespace {

using test::Scratch;
using testing::HasSubstr;

std::string ints(std::initializer_list<int32_t> values, size_t total_bytes = 0) {
  std::string bytes;
  for (const int32_t value : values) bytes.append(reinterpret_cast<const char*>(&value), 4);
  bytes.resize(std::max(bytes.size(), total_bytes), '\0');
  return bytes;
}

std::string u16(const std::vector<uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), 2 * tokens.size()};
}

std::string with_header(int32_t magic, int32_t version, int32_t count, const std::string& tokens) {
  return ints({magic, version, count}, 1024) + tokens;
}

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

DataSpec text_spec(int64_t seq, int64_t vocabulary, int64_t global_batch,
                   const std::string& objective = "next_token") {
  DataSpec spec;
  spec.objective = objective;
  spec.vocabulary = vocabulary;
  spec.global_batch = global_batch;
  spec.fields = {{"tokens", {seq}}, {"targets", {seq}}, {"segments", {seq}}};
  return spec;
}

std::vector<int32_t> fetch(const DataSource& data, const DataSpec& spec, std::string_view field,
                           Split split, int64_t batch, int64_t first, int64_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count * spec.elements(field)));
  const Shape shape{count, spec.elements(field)};
  data.fill(field, split, batch, first, count, {values.data(), DType::kI32, &shape});
  return values;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "nothing was thrown";
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

TEST(SampleOrder, AnEpochIsAPermutationOfTheTrainingSamples) {
  const SampleOrder order(100, 8, {.seed = 3, .validation_fraction = 0.1}, "x");
  EXPECT_EQ(order.num_samples(Split::kTrain), 90);
  EXPECT_EQ(order.num_samples(Split::kValidation), 10);
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t at = 0; at < 180; ++at) {
    epochs[static_cast<size_t>(at / 90)].push_back(*order.sample(Split::kTrain, at / 8, at % 8));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (std::vector<int64_t>& epoch : epochs) {
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
    std::sort(epoch.begin(), epoch.end());
    for (int64_t i = 0; i < 90; ++i) EXPECT_EQ(epoch[static_cast<size_t>(i)], i);
  }
}

TEST(SampleOrder, ValidationRunsThroughItsSamplesOnce) {
  const SampleOrder order(100, 8, {.validation_fraction = 0.1}, "x");
  for (int64_t at = 0; at < 10; ++at) {
    EXPECT_EQ(order.sample(Split::kValidation, at / 8, at % 8), 90 + at);
  }
  EXPECT_FALSE(order.sample(Split::kValidation, 1, 2).has_value());
  EXPECT_EQ(order.num_in_batch(Split::kValidation, 0), 8);
  EXPECT_EQ(order.num_in_batch(Split::kValidation, 1), 2);
  EXPECT_EQ(order.num_in_batch(Split::kValidation, 2), 0);
}

TEST(SampleOrder, Edges) {
  EXPECT_EQ(SampleOrder(1, 1, {}, "x").num_samples(Split::kTrain), 1);
  EXPECT_EQ(SampleOrder(2, 1, {}, "x").num_samples(Split::kValidation), 1);
  EXPECT_EQ(SampleOrder(9, 1, {.validation_fraction = 0}, "x").num_samples(Split::kValidation), 0);
  EXPECT_THAT(error_of([] { SampleOrder(0, 1, {}, "x"); }), HasSubstr("x: 0 samples"));
  for (const double fraction : {-0.1, 1.0, std::nan("")}) {
    EXPECT_THROW(SampleOrder(9, 1, {.validation_fraction = fraction}, "x"), Error);
  }
}

// A file of exactly B * T + 1 tokens in sequential order: every step sees the same batch.
TEST(TokenData, AFixedBatch) {
  Scratch scratch;
  std::vector<uint16_t> tokens;
  for (uint16_t i = 0; i < 13; ++i) tokens.push_back(static_cast<uint16_t>(10 + i));
  const std::string path = scratch.write("batch.bin", with_header(20240520, 1, 13, u16(tokens)));
  const DataSpec spec = text_spec(4, 256, 3);
  const auto data = open_data(path, spec, {.validation_fraction = 0, .shuffle = false});
  for (const int64_t step : {0, 1, 17}) {
    const std::vector<int32_t> x = fetch(*data, spec, "tokens", Split::kTrain, step, 0, 3);
    const std::vector<int32_t> y = fetch(*data, spec, "targets", Split::kTrain, step, 0, 3);
    for (int32_t i = 0; i < 12; ++i) {
      EXPECT_EQ(x[static_cast<size_t>(i)], 10 + i);
      EXPECT_EQ(y[static_cast<size_t>(i)], 11 + i);
    }
    EXPECT_EQ(data->valid_targets(Split::kTrain, step), 12);
  }
  EXPECT_EQ(data->num_samples(Split::kValidation), 0);
}

// How a batch is cut into micro-batches and ranks changes no sample.
TEST(TokenData, TheCutOfABatchChangesNothing) {
  for (const char* objective : {"next_token", "masked_token"}) {
    const DataSpec spec = text_spec(16, 64, 8, objective);
    const auto data = open_data("", spec, {.seed = 5});
    for (const std::string_view field : {"tokens", "targets"}) {
      const std::vector<int32_t> whole = fetch(*data, spec, field, Split::kTrain, 9, 0, 8);
      std::vector<int32_t> pieces;
      for (const int64_t first : {0, 2, 4, 6}) {
        const auto piece = fetch(*data, spec, field, Split::kTrain, 9, first, 2);
        pieces.insert(pieces.end(), piece.begin(), piece.end());
      }
      EXPECT_EQ(pieces, whole);
      EXPECT_NE(fetch(*data, spec, field, Split::kTrain, 8, 0, 8), whole);
      EXPECT_NE(fetch(*data, spec, field, Split::kValidation, 9, 0, 8), whole);
    }
  }
}

TEST(TokenData, MarkovTargetsFollowTokensAndTheEntropyIsAsStated) {
  const int64_t vocabulary = 50;
  const DataSpec spec = text_spec(64, vocabulary, 16);
  const auto data = open_data("", spec, {});
  std::map<int32_t, std::map<int32_t, int>> successors;
  int pairs = 0;
  for (int64_t batch = 0; batch < 60; ++batch) {
    const auto x = fetch(*data, spec, "tokens", Split::kTrain, batch, 0, 16);
    const auto y = fetch(*data, spec, "targets", Split::kTrain, batch, 0, 16);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(x[i] >= 0 && x[i] < vocabulary);
      if (i % 64 != 63) {
        ASSERT_EQ(y[i], x[i + 1]);
      }
      ++successors[x[i]][y[i]];
      ++pairs;
    }
  }
  double entropy = 0;
  for (const auto& [token, counts] : successors) {
    EXPECT_LE(counts.size(), 4U);
    int total = 0;
    for (const auto& [next, count] : counts) total += count;
    for (const auto& [next, count] : counts) {
      entropy -= static_cast<double>(count) / pairs * std::log(static_cast<double>(count) / total);
    }
  }
  EXPECT_NEAR(entropy, markov_entropy_rate(vocabulary), 0.01);
  EXPECT_LT(markov_entropy_rate(vocabulary), std::log(50.0) / 2);
  EXPECT_THAT(data->description(), HasSubstr("entropy rate"));
}

TEST(TokenData, MarkovOverTinyVocabularies) {
  for (const int64_t vocabulary : {1, 2, 3}) {
    const DataSpec spec = text_spec(8, vocabulary, 2);
    const auto data = open_data("", spec, {});
    for (const int32_t token : fetch(*data, spec, "tokens", Split::kTrain, 0, 0, 2)) {
      EXPECT_TRUE(token >= 0 && token < vocabulary);
    }
  }
  EXPECT_EQ(markov_entropy_rate(1), 0);
}

TEST(TokenData, MaskedPositionsAreTheTargets) {
  Scratch scratch;
  std::string text;
  for (int i = 0; i < 400; ++i) text += static_cast<char>('a' + i % 26);
  const DataSpec spec = text_spec(40, 256, 4, "masked_token");
  const auto data = open_data(scratch.write("a.txt", text), spec, {.shuffle = false});
  const auto x = fetch(*data, spec, "tokens", Split::kTrain, 0, 0, 4);
  const auto y = fetch(*data, spec, "targets", Split::kTrain, 0, 0, 4);
  int64_t masked = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (y[i] == -100) {
      EXPECT_EQ(x[i], text[i]);
    } else {
      EXPECT_EQ(x[i], 255);
      EXPECT_EQ(y[i], text[i]);
      ++masked;
    }
  }
  EXPECT_EQ(masked, 4 * 6);
  EXPECT_EQ(data->valid_targets(Split::kTrain, 0), 4 * 6);
  EXPECT_THAT(fetch(*data, spec, "segments", Split::kTrain, 0, 0, 4), testing::Each(0));
}

// The count that the loss is divided by is the number of targets that are not ignored.
TEST(TokenData, ValidTargetsAreCountedRightPastTheEndOfTheValidationSet) {
  Scratch scratch;
  const std::string path = scratch.write("a.txt", std::string(1001, 'x'));
  for (const char* objective : {"next_token", "masked_token"}) {
    const DataSpec spec = text_spec(10, 256, 4, objective);
    const auto data = open_data(path, spec, {});
    EXPECT_EQ(data->num_samples(Split::kValidation), 10);
    for (const int64_t batch : {0, 1, 2, 3}) {
      const auto y = fetch(*data, spec, "targets", Split::kValidation, batch, 0, 4);
      const auto valid =
          std::count_if(y.begin(), y.end(), [](int32_t target) { return target != -100; });
      EXPECT_EQ(valid, data->valid_targets(Split::kValidation, batch)) << batch;
    }
  }
}

TEST(TokenData, TooShortAFile) {
  Scratch scratch;
  const std::string path = scratch.write("a.txt", "abcd");
  EXPECT_THAT(error_of([&] { (void)open_data(path, text_spec(4, 256, 1), {}); }),
              HasSubstr("4 tokens are too few for a window of 4"));
  EXPECT_NO_THROW((void)open_data(path, text_spec(3, 256, 1), {}));
}

DataSpec class_spec(int64_t pixels, int64_t classes, int64_t global_batch) {
  DataSpec spec;
  spec.objective = "classes";
  spec.vocabulary = classes;
  spec.global_batch = global_batch;
  spec.fields = {{"images", {1, pixels}}, {"labels", {}}};
  return spec;
}

TEST(RowData, ImagesAreScaledByTheirMaximum) {
  Scratch scratch;
  const std::string path = scratch.write("a.csv", "p1,p2,label\n0,16, 1\r\n4,8,0\n\n16,2,2\n");
  const DataSpec spec = class_spec(2, 3, 3);
  const auto data = open_data(path, spec, {.validation_fraction = 0, .shuffle = false});
  std::vector<float> images(6);
  const Shape image_shape{3, 1, 1, 2};
  data->fill("images", Split::kTrain, 0, 0, 3, {images.data(), DType::kF32, &image_shape});
  EXPECT_THAT(images, testing::ElementsAre(0, 1, 0.25F, 0.5F, 1, 0.125F));
  std::vector<int32_t> labels(3);
  const Shape label_shape{3};
  data->fill("labels", Split::kTrain, 0, 0, 3, {labels.data(), DType::kI32, &label_shape});
  EXPECT_THAT(labels, testing::ElementsAre(1, 0, 2));
  EXPECT_EQ(data->valid_targets(Split::kTrain, 0), 3);
}

TEST(RowData, NamesWhatIsWrongAndWhere) {
  Scratch scratch;
  const auto problem = [&](const std::string& text) {
    return error_of(
        [&] { (void)open_data(scratch.write("a.csv", text), class_spec(2, 3, 1), {}); });
  };
  EXPECT_THAT(problem(""), HasSubstr("no rows"));
  EXPECT_THAT(problem("heading\n"), HasSubstr("no rows"));
  EXPECT_THAT(problem("1,2,0\n1,x,0\n"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(problem("1,2,0\n1,2\n"), HasSubstr("line 2: 2 numbers"));
  EXPECT_THAT(problem("1,2,0\n1;2,0\n"), HasSubstr("line 2, column 1: expected a comma"));
  EXPECT_THAT(problem("1,2,0\n1,,0\n"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(problem("1,2,0\n1,nan,0\n"), HasSubstr("line 2, column 2"));
  EXPECT_THAT(problem("1,2,3,0\n"), HasSubstr("rows of 4 numbers"));
  EXPECT_THAT(problem("1,2,0\n1,2,3\n"), HasSubstr("row 2, column 3: 3 is not a class below 3"));
  EXPECT_THAT(problem("1,2,0.5\n"), HasSubstr("not a class"));
  EXPECT_THAT(problem("1,2,-1\n"), HasSubstr("not a class"));
}

RC_GTEST_PROP(RowData, AnyBytesAreReadOrRefused, (const std::string& bytes)) {
  static const Scratch scratch;
  const std::string path = scratch.write("any.csv", bytes);
  try {
    const NumberTable table = read_number_table(path);
    RC_ASSERT(static_cast<int64_t>(table.values.size()) == table.rows * table.columns);
  } catch (const Error& error) {
    RC_ASSERT(error.code() == ExitCode::kBadInput);
  }
}

// The nearest class mean of synthetic images is right far more often than chance.
TEST(RowData, SyntheticImagesCanBeToldApart) {
  const int64_t pixels = 64;
  const DataSpec spec = class_spec(pixels, 5, 200);
  const auto data = open_data("", spec, {});
  std::vector<float> images(200 * pixels);
  std::vector<int32_t> labels(200);
  const Shape image_shape{200, pixels};
  const Shape label_shape{200};
  const auto fill = [&](Split split) {
    data->fill("images", split, 0, 0, 200, {images.data(), DType::kF32, &image_shape});
    data->fill("labels", split, 0, 0, 200, {labels.data(), DType::kI32, &label_shape});
  };
  fill(Split::kTrain);
  std::vector<std::vector<double>> means(5, std::vector<double>(pixels, 0.0));
  std::vector<int> counts(5, 0);
  for (size_t i = 0; i < 200; ++i) ++counts[static_cast<size_t>(labels[i])];
  for (size_t i = 0; i < 200; ++i) {
    const auto label = static_cast<size_t>(labels[i]);
    for (size_t p = 0; p < pixels; ++p) {
      means[label][p] += static_cast<double>(images[i * pixels + p]) / counts[label];
    }
  }
  fill(Split::kValidation);
  int right = 0;
  for (size_t i = 0; i < 200; ++i) {
    size_t best = 0;
    double best_distance = 1e300;
    for (size_t c = 0; c < 5; ++c) {
      double distance = 0;
      for (size_t p = 0; p < pixels; ++p) {
        distance += std::pow(images[i * pixels + p] - means[c][p], 2);
      }
      if (distance < best_distance) {
        best_distance = distance;
        best = c;
      }
    }
    right += static_cast<int>(best) == labels[i] ? 1 : 0;
  }
  EXPECT_GT(right, 180);
}

TEST(RowData, RegressionWrapsItsValidationSet) {
  Scratch scratch;
  std::string text;
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{}\n", i, 2 * i);
  DataSpec spec;
  spec.objective = "regression";
  spec.global_batch = 3;
  spec.fields = {{"features", {1}}, {"values", {1}}};
  const auto data = open_data(scratch.write("a.csv", text), spec, {});
  EXPECT_EQ(data->num_samples(Split::kValidation), 2);
  std::vector<float> values(3);
  const Shape shape{3, 1};
  data->fill("values", Split::kValidation, 0, 0, 3, {values.data(), DType::kF32, &shape});
  EXPECT_THAT(values, testing::ElementsAre(36, 38, 36));
  EXPECT_EQ(data->valid_targets(Split::kValidation, 0), 3);
}

}  // namespace
}  // namespace plimsoll
