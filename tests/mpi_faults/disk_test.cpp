// The disk is full when rank 0 writes: the others have long left, and nothing half-written stays.
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>

#include "tests/mpi_faults/job.h"

namespace ringscope {
namespace {

const Strings kSmall{"--random", "--seqlen", "300", "--head-dim", "16", "--backward"};

using FullDisk = FaultTest;

TEST_F(FullDisk, AtTheFirstByte) {
  const auto job =
      start(ranks(2, kSmall + Strings{"--lse", "l.npy", "--out", "/dev/full", "--dq", "dq.npy"}));
  expect_failed(job->end(), kStartSeconds + kEndSeconds,
                {"--out /dev/full", "No space left on device"});
  EXPECT_EQ(job->files(), std::set<std::string>{});
}

TEST_F(FullDisk, InTheMidstOfAFile) {
  // Seen by this process and its children alone, and gone with them.
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
    GTEST_SKIP() << "no small disk to be had: " << std::strerror(errno);
  std::filesystem::create_directory(path("disk"));
  // Room for one of the two, which are 75 KiB each.
  if (::mount("tmpfs", path("disk").c_str(), "tmpfs", 0, "size=100k") != 0)
    GTEST_SKIP() << "no small disk to be had: " << std::strerror(errno);
  const auto job =
      start(ranks(2, kSmall + Strings{"--out", path("disk/o.npy"), "--dk", path("disk/dk.npy"),
                                      "--trace", path("disk/t.json")}));
  expect_failed(job->end(), kStartSeconds + kEndSeconds,
                {path("disk") + "/", "No space left on device"});
  EXPECT_TRUE(std::filesystem::is_empty(path("disk")));
  ::umount(path("disk").c_str());
}

TEST_F(FullDisk, ForTheRecordingOfAFailure) {
  const auto job =
      start(ranks(3, kSmall + Strings{"--inject", "killed-rank@1", "--trace", "/dev/full"}));
  expect_failed(
      job->end(), kStartSeconds + kEndSeconds,
      {"rank 1, step 0: its process ended", "no trace of it: --trace /dev/full", "No space left"});
}

}  // namespace
}  // namespace ringscope
