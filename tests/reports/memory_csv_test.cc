#include "reports/memory_csv.h"

#include "planner/lower/lower.h"
#include "planner/placement.h"
#include "program/builder.h"
#include "program/timeline.h"
#include "tests/planner/random_model.h"
#include "tests/program/random_program.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <sstream>

namespace plimsoll {
namespace {

// Rows as column name to value. Names in these tests hold no commas unless said.
std::vector<std::map<std::string, std::string>> parse(const std::string& csv) {
  std::stringstream lines(csv);
  std::string line;
  std::vector<std::string> columns;
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(lines, line)) {
    std::vector<std::string> cells;
    std::stringstream in(line + ",");
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    EXPECT_EQ(cells.size(), columns.size()) << line;
    std::map<std::string, std::string> row;
    for (size_t c = 0; c < columns.size(); ++c) row[columns[c]] = cells[c];
    rows.push_back(std::move(row));
  }
  return rows;
}

// Forward with two copies of x, of which one is live at the peak (the backward with its workspace).
StepProgram small_program() {
  ProgramBuilder builder;
  builder.header().outside_bytes = 1000;
  const int w = builder.add_buffer("w", Category::kParameters, DType::kF32, {100});
  builder.buffer(w).persistent = true;
  builder.buffer(w).layer = 3;
  builder.buffer(w).op = "linear";
  const int x = builder.add_buffer("x", Category::kActivations, DType::kF32, {64});
  builder.buffer(x).copies = 2;
  const int ws = builder.add_buffer("ws, \"scratch\"", Category::kWorkspace, DType::kU8, {700});
  const int stash = builder.add_buffer("stash", Category::kOptimizer, DType::kU8, {300});
  builder.buffer(stash).place = Place::kHost;
  builder.phase("initialise").segment("all");
  builder.emit("initialise", {}, {w});
  builder.phase("step").segment("micro-batches", 2);
  builder.emit("forward", {w}, {x});
  builder.emit("backward", {x, w}, {ws, stash});
  StepProgram program = std::move(builder).build();
  place_buffers(program);
  return program;
}

TEST(MemoryCsv, OneRowABufferThenPackingAndOutside) {
  StepProgram program = small_program();
  EXPECT_EQ(memory_csv({&program, 1}),
            "rank,stage,where,category,layer,op,tensor,count,bytes,persistent,at_peak\n"
            "0,0,device,parameters,3,linear,w,1,512,1,1\n"
            "0,0,device,activations,-1,,x,1,256,0,1\n"
            "0,0,device,activations,-1,,x,1,256,0,0\n"
            "0,0,device,workspace,-1,,\"ws, \"\"scratch\"\"\",1,768,0,1\n"
            "0,0,host,optimizer,-1,,stash,1,512,0,0\n"
            "0,0,device,framework,-1,outside,outside,1,1000,1,1\n");
}

TEST(MemoryCsv, SummaryHasOneRowAStage) {
  const StepProgram first = small_program();
  StepProgram second = first;
  second.header.coordinates.pp_size = 2;
  second.header.coordinates.pp = 1;
  StepProgram fuller = second;
  fuller.header.outside_bytes = 1500;
  const std::vector<StepProgram> programs = {second, fuller, first};
  EXPECT_EQ(
      memory_summary_csv(programs, 3000),
      "stage,parameters,gradients,optimizer,activations,input,workspace,communication,framework,"
      "peak,limit,headroom,host\n"
      "0,512,0,0,256,0,768,0,1000,2536,3000,464,512\n"
      "1,512,0,0,256,0,768,0,1500,3036,3000,-36,512\n");
}

// Both files against the program's peak; must be called inside a RapidCheck property.
void expect_rows_add_up(const StepProgram& program) {
  std::map<std::string, int64_t> by_category;
  int64_t sum = 0;
  int64_t device_copies = 0;
  for (const auto& row : parse(memory_csv({&program, 1}))) {
    if (row.at("tensor") != "packing" && row.at("tensor") != "outside" &&
        row.at("where") == "device") {
      device_copies += std::stoll(row.at("count"));
    }
    if (row.at("at_peak") != "1") continue;
    RC_ASSERT(row.at("where") == "device");
    sum += std::stoll(row.at("bytes"));
    by_category[row.at("category")] += std::stoll(row.at("bytes"));
  }
  RC_ASSERT(sum == program.peak_bytes());
  int64_t copies = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.place == Place::kDevice) copies += buffer.copies;
  }
  RC_ASSERT(device_copies == copies);

  const auto summary = parse(memory_summary_csv({&program, 1}, int64_t{1} << 40));
  RC_ASSERT(summary.size() == 1U);
  int64_t categories = 0;
  for (int c = 0; c < kNumCategories; ++c) {
    const std::string name(category_name(static_cast<Category>(c)));
    const int64_t bytes = std::stoll(summary[0].at(name));
    RC_ASSERT(bytes == by_category[name]);
    categories += bytes;
  }
  RC_ASSERT(categories == program.peak_bytes());
  RC_ASSERT(std::stoll(summary[0].at("peak")) == program.peak_bytes());
  RC_ASSERT(std::stoll(summary[0].at("host")) == compute_timeline(program).host_peak_bytes());
}

RC_GTEST_PROP(MemoryCsvProperty, RowsAtThePeakAddUpToThePeak, ()) {
  StepProgram program = testing::random_program();
  place_buffers(program);
  expect_rows_add_up(program);
}

RC_GTEST_PROP(MemoryCsvProperty, RowsOfLoweredProgramsAddUpToThePeak, ()) {
  const testing::RandomCase c = *testing::random_case();
  expect_rows_add_up(lower(c.model, c.job, c.strategy, {.outside_bytes = 12345}));
}

}  // namespace
}  // namespace plimsoll
