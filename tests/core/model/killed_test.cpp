// Training that is killed by SIGKILL again and again while it saves a checkpoint, and taken up
// again from what is on the disk, ends with the bits of training that nobody disturbed.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "core/base/random.h"
#include "tests/core/model/train_case.h"

namespace ringscope {
namespace {

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
  const auto folder =
      std::filesystem::temp_directory_path() / ("ringscope_killed_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string path = folder / "model.ckpt";
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
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ringscope
