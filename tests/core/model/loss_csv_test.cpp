#include "core/model/loss_csv.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/error.h"
#include "tests/core/base/thrown.h"

namespace ringscope {
namespace {

class LossCsvTest : public testing::Test {
 protected:
  LossCsvTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("ringscope_loss_csv_" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder_);
  }
  ~LossCsvTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ / "loss.csv"; }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  std::string text() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path folder_;
};

// Losses are f32: what is read is what was written, to the bit.
TEST_F(LossCsvTest, GivesBackWhatWasWritten) {
  const std::vector<StepLoss> losses{{1, 5.5f},
                                     {2, 1.0f / 3},
                                     {4, 1e-30f, ",0.1,c,\"train, \"\"x\"\"\",0,m,t"},
                                     {5, 123456.789f},
                                     {700, INFINITY}};
  write_loss_csv(path(), losses);
  EXPECT_EQ(read_loss_csv(path()), losses);
  const std::string header = "step,loss,version,commit,command,seed,machine,time\n";
  EXPECT_EQ(text(), header +
                        "1,5.5,,,,,,\n2,0.333333343,,,,,,\n"
                        "4,1e-30,0.1,c,\"train, \"\"x\"\"\",0,m,t\n"
                        "5,123456.789,,,,,,\n700,inf,,,,,,\n")
      << "spelled otherwise";
  write_loss_csv(path(), {});
  EXPECT_EQ(text(), header);
  EXPECT_TRUE(read_loss_csv(path()).empty());
  write_loss_csv(path(), {{1, NAN}});
  EXPECT_TRUE(std::isnan(read_loss_csv(path()).at(0).loss));
}

TEST_F(LossCsvTest, WhatIsNoTableOfLossesIsRefusedByLine) {
  const auto complaint = [&](const std::string& text) {
    write(text);
    const std::string what = input_error_of([&] { read_loss_csv(path()); });
    expect_contains(what, path());
    return what;
  };
  expect_contains(complaint("step;loss\n"), "line 1");
  expect_contains(complaint("my diary\n"), "line 1");
  for (const char* row :
       {"x,2\n", "3\n", "3,\n", "3,x\n", "3,2 \n", "2,1\n", "-1,1\n", "3,1", "\n"})
    expect_contains(complaint(std::string("step,loss\n2,1.5\n") + row), "line 3");
  for (const char* row : {"3,2\n", "3,2,,,,,\n", "3,2,,,,,,,\n", "3,2,\"a,,,,,,\n", "x,2,,,,,,\n"})
    expect_contains(
        complaint(std::string("step,loss,version,commit,command,seed,machine,time\n") + row),
        "line 2");
  // A table without the columns, as one may write it.
  write("step,loss\n2,1.5\n");
  EXPECT_EQ(read_loss_csv(path()), (std::vector<StepLoss>{{2, 1.5}}));
  std::filesystem::remove(path());
  EXPECT_THROW(read_loss_csv(path()), InputError);
}

}  // namespace
}  // namespace ringscope
