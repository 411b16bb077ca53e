// Files and places that are wrong: exit status 2 (3 for memory and full disks), one line on stderr that
// names the flag or the file and what would be accepted, nothing on stdout, no file left behind.
// refusals.txt has what needs no file of its own.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>

#include "tests/app/call_table.h"

namespace ringscope {
namespace {

class BadInputTest : public ProgramTest {
 protected:
  // As expect_refused(), for a small random problem with further arguments.
  void expect_random_refused(const Strings& arguments, const Strings& named, int status = 2) const {
    const bool sized = std::find(arguments.begin(), arguments.end(), "--seqlen") != arguments.end();
    expect_refused("run --random" + arguments + (sized ? "" : "--seqlen 128"), named, status);
  }
  // The same for q.npy, k.npy and v.npy.
  void expect_files_refused(const Strings& named, const Strings& more = {}) const {
    expect_refused("run --q q.npy --k k.npy --v v.npy --out o.npy" + more, named);
  }
};

// tests/core/base has what is wrong inside of a file.
TEST_F(BadInputTest, NpyFiles) {
  write_good_files();
  const std::string good = contents_of(path("k.npy"));
  std::filesystem::remove(path("k.npy"));
  expect_files_refused("--k k.npy");
  std::filesystem::create_directory(path("k.npy"));
  expect_files_refused("--k k.npy directory");
  std::filesystem::remove(path("k.npy"));
  write_text("k.npy", good.substr(0, good.size() - 1));
  expect_files_refused("--k k.npy truncated");
  // What promises more than the file holds must not make anyone allocate it.
  write_text("k.npy", npy_header({1, 2, 99999999999, 3}, false));
  expect_files_refused("--k k.npy truncated");
}

TEST_F(BadInputTest, NpyShapesThatDoNotFit) {
  const auto zero = [](Index) { return 0.0; };
  write_good_files();
  for (const std::vector<Index>& shape :
       std::initializer_list<std::vector<Index>>{{2, 2, 5, 3}, {1, 2, 4, 3}, {1, 2, 5, 4}}) {
    write_tensor("k.npy", shape, zero);
    expect_files_refused({"--k", "--q", "(1, 2, 5, 3)", "accepted"});
  }
  write_tensor("k.npy", {1, 4, 5, 3}, zero);
  write_tensor("v.npy", {1, 4, 5, 3}, zero);
  expect_files_refused({"--k", "--q", "(1, 4, 5, 3)", "divides"});
  write_good_files();
  write_tensor("v.npy", {1, 1, 5, 3}, zero);
  expect_files_refused({"--v", "--k", "(1, 1, 5, 3)"});
  write_good_files();
  write_tensor("do.npy", {1, 2, 5, 4}, zero);
  expect_files_refused({"--dout", "--q", "(1, 2, 5, 4)"}, "--backward --dout do.npy");
  expect_files_refused("--mask 7 5", "--mask documents:3,4");
}

TEST_F(BadInputTest, QueriesSinksAndWidthsThatDoNotFit) {
  write_good_files();
  write_tensor("s.npy", {3}, [](Index) { return 0.0; });
  expect_files_refused("--q-offset 1 0", "--q-offset 1");
  expect_files_refused("--sink-logits s.npy 3 2", "--sink-logits s.npy");
  expect_files_refused("--sink-logits", "--dsink g.npy --backward");
}

TEST_F(BadInputTest, OutputPlaces) {
  std::filesystem::create_directory(path("folder"));
  write_text("file", "x");
  for (const char* flag : {"--out", "--lse", "--trace"}) {
    expect_random_refused({flag, "folder"}, {flag, "folder", "directory"});
    expect_random_refused({flag, "nowhere/o.npy"}, {flag, "nowhere/o.npy"});
    expect_random_refused({flag, "file/o.npy"}, {flag, "file/o.npy"});
    expect_random_refused({flag, ""}, {flag});
  }
  std::filesystem::create_symlink("a.npy", path("link.npy"));
  expect_random_refused("--out a.npy --trace link.npy", "--trace --out");
  // Folders are written whole, so nothing else has a place in them.
  expect_random_refused("--trace folder/ --out folder/o.npy", "--trace --out");
  expect_random_refused("--trace d/ --write-partition d", "--write-partition --trace");
  if (::geteuid() == 0) return;  // root may write anywhere
  std::filesystem::permissions(
      path("folder"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  expect_random_refused("--out folder/o.npy", "--out folder/o.npy");
}

// Whatever a command reads, by whatever flag and name, it does not write to.
TEST_F(BadInputTest, NoOutputReplacesAnInput) {
  write_good_files();
  for (const char* copy : {"do.npy", "q.png"})
    std::filesystem::copy_file(path("q.npy"), path(copy));
  write_text("r.txt", "0 16 0 16 full\n");
  write_text("t.txt", std::string(300, 'x'));
  write_text("gpu.txt", "gpu mine\ntflops_16bit 100\nmemory_gb 10\n");
  std::filesystem::create_directories(path("d/own_cores"));
  for (const char* copy : {"d/compare.png", "d/own_cores/fold.json"})
    std::filesystem::copy_file(path("t.txt"), path(copy));
  run_well("run --random --seqlen 16 --world-size 2 --write-partition p.npy --trace t.json");
  std::filesystem::copy_file(path("t.json"), path("t.png"));
  std::filesystem::create_symlink("r.txt", path("soft"));
  std::filesystem::create_hard_link(path("r.txt"), path("hard"));
  const int calls =
      for_each_call("tests/app/kept_inputs.txt", [&](const Strings& call, const Strings& input) {
        const std::string before = contents_of(path(input[0]));
        expect_refused(call, {"the same file as the input", "accepted: another file"});
        EXPECT_EQ(contents_of(path(input[0])), before);
      });
  EXPECT_GE(calls, 23);
}

// A small file that promises a large text ends at the limit, with memory of less than ten times that.
TEST_F(BadInputTest, PackedFilesEndAtTheLimit) {
  ASSERT_EQ(
      run_words({"/bin/sh", "-c",
                 "{ printf '['; yes '{\"ph\":\"X\",\"ts\":1,\"dur\":1},' | head -c 60000000; } | "
                 "gzip -1 > t.json.gz"})
          .status,
      0);
  EXPECT_LT(std::filesystem::file_size(path("t.json.gz")), 1'000'000u);
  for (const char* command : {"explain t.json.gz", "view t.json.gz --csv t.csv"})
    expect_ended(run_after("ulimit -v 700000", command + Strings("--unpack 0.05")), 2,
                 {"t.json.gz: unpacks to more than 0.05 GiB; accepted: less", "--unpack"});
  EXPECT_EQ(files(), std::set<std::string>{"t.json.gz"});
}

TEST_F(BadInputTest, SizesThatOverflow) {
  // Every tensor fits in 64 bits, but not all of them together.
  expect_random_refused("--seqlen 2147483648 --heads 1 --head-dim 536870911",
                        {"memory", "16.0 EiB needed"}, 3);
}

TEST_F(BadInputTest, MoreMemoryThanThereIs) {
  // 2^31 rows of 2^20 values: 8 PiB a tensor.
  for (const char* verify : {"--verify", "--backward"})
    expect_random_refused(
        {"--seqlen", "2147483648", "--head-dim", "1048576", verify, "--out", "o.npy"},
        "memory needed", 3);
  // One head, so long that what the ranks hold would overflow 64 bits.
  for (const char* verify : {"--verify", "--backward"})
    expect_random_refused(
        {"--seqlen", "2147483648", "--heads", "1", "--head-dim", "134217728", verify},
        "memory needed", 3);
  // The recording grows with the square of the ranks: of more bytes than 64 bits count.
  for (const char* world_size : {"100000", "2000000000", "2147483647"})
    for (const char* scheme : {"ring", "allgather", "bidirectional", "multi-ring:2", "pass-q"})
      expect_random_refused({"--world-size", world_size, "--scheme", scheme, "--verify"},
                            {"memory", "needed", "fewer ranks"}, 3);
}

// Before anything large is read or made: a machine that overcommits would kill the process later.
TEST_F(BadInputTest, EveryCommandAsksForMemoryFirst) {
  const std::string header = npy_header({1, 1, 1 << 20, 64}, false);
  for (const char* name : {"q.npy", "k.npy", "v.npy", "out.npy", "t.json"}) {
    write_text(name, name == std::string("t.json") ? "[" : header);
    std::filesystem::resize_file(path(name), header.size() + (std::size_t{4} << 26));  // of holes
  }
  for (const char* command :
       {"positions --seqlen 16000000 --world-size 8 --partition striped --json",
        "positions --seqlen 1000 --world-size 10000000 --mask documents:500,500 --convention "
        "transformer-engine --out p.npy",
        "check --q q.npy --k k.npy --v v.npy --out out.npy --rows 4",
        "simulate --gpu H100 --link NVLink4 --seqlen 131072 --world-size 1024 --backward",
        "simulate --gpu H100 --link NVLink4 --seqlen 131072 --sweep world-size=8,1024 --backward",
        "simulate --gpu H100 --link NVLink4 --seqlen 131072 --world-size 480 --backward --trace "
        "s.json --trace-ranks all",
        "plan --gpu H100 --link NVLink4 --seqlen 131072 --world-size 768 --scheme tree",
        "view t.json --csv t.csv"})
    expect_ended(run_after("ulimit -v 500000", command), 3,
                 {"memory:", "needed", "left of this process's address space limit; give"});
  EXPECT_EQ(files().size(), 5u);
}

TEST_F(BadInputTest, FullDisk) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const char* flag : {"--out", "--lse", "--trace"})
    expect_random_refused({flag, "/dev/full"}, {std::string(flag) + " /dev/full"}, 3);
  // The others must not appear either.
  expect_random_refused("--out o.npy --lse /dev/full", "/dev/full", 3);
  expect_random_refused("--lse /dev/full --trace t.json", "/dev/full", 3);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

// Which ends a program that does not expect it by a signal.
TEST_F(BadInputTest, FileSizeLimit) {
  for (const auto& [command, named] :
       {std::pair{"run --random --seqlen 128 --out o.npy --trace t.json", "--out o.npy"},
        {"simulate --gpu H100 --link NVLink4 --world-size 8 --seqlen 32768 --backward --trace "
         "s.json",
         "--trace s.json"}}) {
    expect_ended(run_after("ulimit -f 8", command), 3, {named});
    EXPECT_EQ(files(), std::set<std::string>{});
  }
}

// Numbers and JSON would be mixed, or the file with the JSON replaced.
TEST_F(BadInputTest, OutputsDoNotGoToTheStdoutOfJson) {
  if (!std::filesystem::exists("/dev/stdout")) GTEST_SKIP() << "no /dev/stdout";
  for (const char* flag : {"--out", "--lse", "--trace"})
    expect_random_refused({flag, "/dev/stdout", "--json"},
                          {flag, "'/dev/stdout'", "--json", "accepted: another file"});
  const ProgramResult result = run("run --random --seqlen 16 --out both --json", path("both"));
  EXPECT_EQ(result.status, 2);
  expect_one_line(result);
  EXPECT_EQ(contents_of(path("both")), "");
  EXPECT_EQ(run("run --random --seqlen 16 --out /dev/null --json", "/dev/null").status, 0);
}

TEST_F(BadInputTest, WhatGoesToStdoutReplacesNoFile) {
  const ProgramResult result =
      run_words({"/bin/sh", "-c",
                 "{ echo first; \"$0\" simulate --gpu H100 --link NVLink4 --world-size 2 "
                 "--sweep seqlen=64,128 --csv -; echo last; } >> all.csv",
                 RINGSCOPE_PROGRAM});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string all = contents_of(path("all.csv"));
  EXPECT_TRUE(all.starts_with("first\n")) << all;
  EXPECT_TRUE(all.ends_with("last\n")) << all;
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 5);
  EXPECT_EQ(files(), std::set<std::string>{"all.csv"});
}

// What is thrown away can't be overwritten.
TEST_F(BadInputTest, OneDeviceTakesSeveralOutputs) {
  const ProgramResult result =
      run("run --random --seqlen 16 --out /dev/null --lse /dev/null --trace /dev/null");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
}

TEST_F(BadInputTest, FullStdout) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ProgramResult result = run("run --random --seqlen 16 --json", "/dev/full");
  EXPECT_EQ(result.status, 3);
  expect_one_line(result);
}

// A file system of 64 KiB: the small output fits, the large one does not, and neither stays.
TEST_F(BadInputTest, FullFileSystem) {
  std::filesystem::create_directory(path("small"));
  if (::mount("tmpfs", path("small").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "can't mount";
  expect_random_refused("--lse small/lse.npy --out small/out.npy", "small/out.npy", 3);
  expect_random_refused("--lse small/lse.npy --trace small/t.json --world-size 32", "small/t.json",
                        3);
  expect_random_refused("--trace small/", "--trace small mounted");
  expect_random_refused("--trace small/d/ --world-size 32", "--trace small/d/rank", 3);
  EXPECT_EQ(::umount(path("small").c_str()), 0);
}

}  // namespace
}  // namespace ringscope
