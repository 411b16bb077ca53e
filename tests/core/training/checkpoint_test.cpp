#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <tuple>

#include "core/base/random.h"
#include "core/training/checkpoint.h"
#include "tests/core/base/thrown.h"
#include "tests/core/training/train_case.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() {
    checkpoint_.settings = small_settings();
    checkpoint_.step = 12;
    const auto size = static_cast<std::size_t>(ModelWeights(small_settings().shape).layout.size());
    for (std::size_t i = 0; i < 3 * size; ++i)
      (i < size ? checkpoint_.values : checkpoint_.moments)
          .push_back(static_cast<float>(unit_interval(random_bits(1, 1, i)) - 0.5));
  }

  std::string path() const { return folder_.path("model.ckpt"); }
  std::string bytes() const { return contents_of(path()); }
  void write(const std::string& bytes) const { folder_.write("model.ckpt", bytes); }

  TemporaryFolder folder_;
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
  EXPECT_THROW(save_checkpoint(folder_.path("none/model.ckpt"), checkpoint_), InputError);
}

// ---
// Training that is killed by SIGKILL again and again while it saves a checkpoint, and taken up
// again from what is on the disk, ends with the bits of training that nobody disturbed.

// RINGSCOPE_KILLS asks for another number, 100 say.
int kills_asked_for() {
  const char* const given = std::getenv("RINGSCOPE_KILLS");
  return given == nullptr ? 25 : std::max(1, std::atoi(given));
}

// What the process that trains lets its killer see.
struct Shared {
  std::atomic<bool> saving{false};
  std::atomic<Index> saved{0};
};

Shared& shared_memory() {
  void* const memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return *new (memory) Shared;
}

// Goes on from the checkpoint at `path`, saving after every step, until it is killed.
[[noreturn]] void train_until_killed(const std::string& path, const Deal& deal, Shared& shared) {
  try {
    const Checkpoint start = load_checkpoint(path);
    train_on_threads({small_settings(), deal, &start, Index{1} << 40}, small_text(),
                     [&](const StepReport&, const TrainingRank& rank_0) {
                       const Checkpoint now = rank_0.checkpoint();
                       shared.saving = true;
                       save_checkpoint(path, now);
                       shared.saving = false;
                       shared.saved = now.step;
                     });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(1);
}

// Two ranks are two threads: the kill finds one of them saving, the other one in its next step.
TEST(KilledWhileSaving, LeavesACheckpointFromWhichTrainingGoesOnBitForBit) {
  const Deal deal{PartitionKind::zigzag, 2};
  const TemporaryFolder folder;
  const std::string path = folder.path("model.ckpt");
  Shared& shared = shared_memory();

  save_checkpoint(path, train_on_threads({small_settings(), deal}, small_text()).end);
  const int kills = kills_asked_for();
  int while_saving = 0;
  Index last = 0;
  for (unsigned attempt = 0; while_saving < kills; ++attempt) {
    ASSERT_LT(attempt, 100u + 20u * static_cast<unsigned>(kills)) << "hardly ever saving";
    shared.saving = false;
    shared.saved = last;
    const pid_t child = ::fork();
    if (child == 0) train_until_killed(path, deal, shared);
    ASSERT_GT(child, 0);
    // Somewhere in the second save, so that every attempt gets a step further.
    for (int i = 0; i < 20'000 && !(shared.saved > last && shared.saving); ++i) ::usleep(50);
    ::usleep(static_cast<useconds_t>(random_bits(3, 1, attempt) % 1500));
    ::kill(child, SIGSTOP);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
    ASSERT_TRUE(WIFSTOPPED(status)) << "training ended by itself";
    const bool saving = shared.saving;
    const Index saved = shared.saved;
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));

    const Checkpoint loaded = load_checkpoint(path);  // throws for anything but a whole one
    ASSERT_GE(loaded.step, saved);
    ASSERT_LE(loaded.step, saved + 1);
    last = loaded.step;
    while_saving += saving ? 1 : 0;
  }
  const Checkpoint disturbed = load_checkpoint(path);
  const Checkpoint undisturbed =
      train_on_threads({small_settings(), deal, nullptr, disturbed.step}, small_text()).end;
  EXPECT_GE(disturbed.step, kills);
  EXPECT_EQ(disturbed.values, undisturbed.values);
  EXPECT_EQ(disturbed.moments, undisturbed.moments);

  ::munmap(&shared, sizeof shared);
}

}  // namespace
}  // namespace ringscope
