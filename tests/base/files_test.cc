#include "base/files.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>

namespace plimsoll {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "plimsoll_files_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  [[nodiscard]] size_t num_files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
};

ExitCode write_code(const std::string& path, std::string_view contents) {
  try {
    write_file(path, contents);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(path));
    return error.code();
  }
  return ExitCode::kDone;
}

TEST_F(Files, WhatIsWrittenIsRead) {
  const std::string bytes("line\n\0\xff more", 12);
  write_file(path("a"), bytes);
  EXPECT_EQ(read_file(path("a")), bytes);
  write_file(path("a"), "");
  EXPECT_EQ(read_file(path("a")), "");
  EXPECT_EQ(num_files(), 1U);
}

TEST_F(Files, UnreadableInputIsBadInput) {
  for (const std::string& name : {path("missing"), folder_.string()}) {
    try {
      (void)read_file(name);
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_THAT(error.what(), testing::HasSubstr(name));
    }
  }
  write_file(path("large"), std::string(100, 'x'));
  EXPECT_THROW((void)read_file(path("large"), 99), Error);
  EXPECT_EQ(read_file(path("large"), 100).size(), 100U);
}

TEST_F(Files, AFullDeviceIsARunThatFailed) {
  EXPECT_EQ(write_code("/dev/full", "text"), ExitCode::kRunFailed);
  struct stat device {};
  ASSERT_EQ(::stat("/dev/full", &device), 0);
  EXPECT_TRUE(S_ISCHR(device.st_mode)) << "the device was replaced by a file";
}

// A limit on the size of files stands for a disk that fills up half-way.
TEST_F(Files, AFailedWriteLeavesTheOldFile) {
  write_file(path("a"), "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const ExitCode code = write_code(path("a"), std::string(10'000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, old_handler);

  EXPECT_EQ(code, ExitCode::kRunFailed);
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(num_files(), 1U) << "a temporary file was left behind";
}

TEST_F(Files, AMissingFolderIsARunThatFailed) {
  EXPECT_EQ(write_code(path("no/such/folder"), "x"), ExitCode::kRunFailed);
  std::filesystem::create_directory(path("folder"));
  EXPECT_EQ(write_code(path("folder"), "x"), ExitCode::kRunFailed);
  EXPECT_EQ(num_files(), 1U);
}

// Vectors of FIPS 180-2.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace plimsoll
