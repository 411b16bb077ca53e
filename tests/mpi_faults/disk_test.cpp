// The disk is full when rank 0 writes: all end, and nothing half-written stays.
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
  expect_failed(*job, job->end(), {"--out /dev/full", "No space left on device"});
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
                                      "--trace", path("disk/t/")}));
  expect_failed(*job, job->end(), {path("disk") + "/", "No space left on device"});
  EXPECT_TRUE(std::filesystem::is_empty(path("disk")));

  // A folder is written under another name, which is nobody's business.
  write_text("disk/other", std::string(96 << 10, 'x'));
  const auto folder = start(ranks(2, kSmall + Strings{"--trace", path("disk/t/")}));
  expect_failed(*folder, folder->end(),
                {"--trace " + path("disk/t") + "/rank0.json", "No space left on device"});
  EXPECT_FALSE(std::filesystem::exists(path("disk/t")));
  ::umount(path("disk").c_str());
}

}  // namespace
}  // namespace ringscope
