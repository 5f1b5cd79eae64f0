#include "executor/data.h"

#include "base/error.h"
#include "executor/row_data.h"
#include "executor/sample_order.h"
#include "executor/token_data.h"
#include "tests/executor/scratch.h"
#include "tests/executor/token_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace plimsoll {
namespace {

using test::error_of;
using test::ints;
using test::Scratch;
using test::u16;
using test::with_header;
using testing::HasSubstr;

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
