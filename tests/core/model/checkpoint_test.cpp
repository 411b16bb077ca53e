#include "core/model/checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <tuple>

#include "core/base/random.h"
#include "tests/core/base/thrown.h"
#include "tests/core/model/train_case.h"

namespace ringscope {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest()
      : folder_(std::filesystem::temp_directory_path() /
                ("ringscope_checkpoint_" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder_);
    checkpoint_.settings = small_settings();
    checkpoint_.step = 12;
    const auto size = static_cast<std::size_t>(ModelWeights(small_settings().shape).layout.size());
    for (std::size_t i = 0; i < 3 * size; ++i)
      (i < size ? checkpoint_.values : checkpoint_.moments)
          .push_back(static_cast<float>(unit_interval(random_bits(1, 1, i)) - 0.5));
  }
  ~CheckpointTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ / "model.ckpt"; }

  std::string bytes() const {
    std::ifstream file(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }

  std::filesystem::path folder_;
  Checkpoint checkpoint_;
};

// Every setting is in the file: none of them may come back as its default.
TEST_F(CheckpointTest, KeepsEverySetting) {
  checkpoint_.settings = {.shape = {2, 6, 4, 2, 6, 7, 99, false, 500, 1e-3},
                          .adam = {.rate = 0.5,
                                   .beta1 = 0.25,
                                   .beta2 = 0.125,
                                   .epsilon = 0.5,
                                   .decay = 2,
                                   .longest_gradient = 3,
                                   .warmup_steps = 77},
                          .batch = 3,
                          .seqlen = 5,
                          .mask = "causal+documents:2,3",
                          .seed = ~std::uint64_t{0}};
  const auto size =
      static_cast<std::size_t>(ModelWeights(checkpoint_.settings.shape).layout.size());
  checkpoint_.values.resize(size);
  checkpoint_.moments.resize(2 * size);
  save_checkpoint(path(), checkpoint_);
  const Checkpoint loaded = load_checkpoint(path());
  EXPECT_EQ(loaded.settings, checkpoint_.settings);
  EXPECT_EQ(loaded.step, 12);
  EXPECT_TRUE(std::tie(loaded.values, loaded.moments) ==
              std::tie(checkpoint_.values, checkpoint_.moments));
}

TEST_F(CheckpointTest, MustHaveAsManyNumbersAsItsModelHasWeights) {
  const Checkpoint whole = checkpoint_;
  checkpoint_.moments.pop_back();
  EXPECT_THROW(to_bytes(checkpoint_), std::invalid_argument);
  checkpoint_.values.pop_back();
  EXPECT_THROW(to_bytes(checkpoint_), std::invalid_argument);
  checkpoint_.moments = whole.moments;
  EXPECT_THROW(save_checkpoint(path(), checkpoint_), std::invalid_argument);
  checkpoint_.values = whole.values;
  EXPECT_NO_THROW(to_bytes(checkpoint_));
  checkpoint_.settings.shape.hidden += 1;
  EXPECT_THROW(to_bytes(checkpoint_), std::invalid_argument);
}

TEST_F(CheckpointTest, CutShortAnywhereIsRefused) {
  save_checkpoint(path(), checkpoint_);
  const std::string whole = bytes();
  for (std::size_t size = 0; size < whole.size(); size += size < 300 ? 1 : 997) {
    write(whole.substr(0, size));
    EXPECT_THROW(load_checkpoint(path()), InputError) << size << " bytes";
  }
  write(whole + '\0');
  EXPECT_THROW(load_checkpoint(path()), InputError);
}

TEST_F(CheckpointTest, AFlippedBitAnywhereIsRefused) {
  save_checkpoint(path(), checkpoint_);
  const std::string whole = bytes();
  for (std::size_t at = 0; at < whole.size(); at += at < 300 || at + 20 > whole.size() ? 1 : 211) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    write(damaged);
    EXPECT_THROW(load_checkpoint(path()), InputError) << "byte " << at;
  }
}

TEST_F(CheckpointTest, WhatIsNoneIsRefusedByName) {
  const auto complaint = [&] { return input_error_of([&] { load_checkpoint(path()); }); };
  expect_contains(complaint(), path());
  write(std::string(1000, 'x'));
  expect_contains(complaint(), "not a checkpoint");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  expect_contains(complaint(), "directory");
  EXPECT_THROW(save_checkpoint(path(), checkpoint_), InputError);
  EXPECT_THROW(save_checkpoint(folder_ / "none" / "model.ckpt", checkpoint_), InputError);
}

}  // namespace
}  // namespace ringscope
