// A file appears whole or not at all, and what stood at its place stays as it was until then.
#include "core/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "tests/core/base/thrown.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

mode_t mode_of(const fs::path& path) {
  struct stat facts {};
  EXPECT_EQ(::stat(path.c_str(), &facts), 0);
  return facts.st_mode & 07777;
}

class AtomicFileTest : public testing::Test {
 protected:
  // Names in the folder, so that a temporary file left behind shows.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(folder_))
      result.push_back(entry.path().filename().string());
    std::sort(result.begin(), result.end());
    return result;
  }
  using Names = std::vector<std::string>;

  // How many of the folder's files have no name any more and are still there, because this process
  // holds them.
  int held_but_deleted() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      const std::string path = fs::read_symlink(entry.path(), gone).string();
      count += path.starts_with(folder_.string()) && path.ends_with(" (deleted)");
    }
    return count;
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(AtomicFileTest, AppearsOnCommit) {
  const fs::path path = folder_ / "a";
  AtomicFile file(path.string());
  file.write("one ");
  file.write(std::string("t\0o", 3));
  EXPECT_FALSE(fs::exists(path));
  file.sync();
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(contents_of(path), std::string("one t\0o", 7));
  EXPECT_EQ(names(), Names{"a"});
  EXPECT_THROW(file.write("x"), RunError);
  EXPECT_THROW(file.commit(), RunError);
  EXPECT_EQ(contents_of(path), std::string("one t\0o", 7));
}

// Of several files that are prepared, the renamings follow each other at once.
TEST_F(AtomicFileTest, OnceItIsPreparedOnlyItsNameIsMissing) {
  for (const char* name : {"a", "b", "c"}) std::ofstream(folder_ / name) << "old";
  {
    AtomicFile a((folder_ / "a").string()), b((folder_ / "b").string()),
        c((folder_ / "c").string());
    for (AtomicFile* file : {&a, &b, &c}) file->write("new");
    for (AtomicFile* file : {&a, &b, &c}) file->prepare();
    for (const char* name : {"a", "b", "c"}) EXPECT_EQ(contents_of(folder_ / name), "old");
    EXPECT_THROW(a.write("x"), RunError);
    EXPECT_THROW(a.prepare(), RunError);
    // Freeing what is replaced takes far longer than renaming, so it waits for both.
    a.commit();
    b.commit();
    EXPECT_EQ(held_but_deleted(), 2);
    EXPECT_THROW(a.commit(), RunError);
  }
  EXPECT_EQ(held_but_deleted(), 0);
  EXPECT_EQ(contents_of(folder_ / "a"), "new");
  EXPECT_EQ(contents_of(folder_ / "b"), "new");
  EXPECT_EQ(contents_of(folder_ / "c"), "old");
  EXPECT_EQ(names(), (Names{"a", "b", "c"}));
}

// Whoever replaces a file at the moment at which another one looks where it leads.
TEST_F(AtomicFileTest, ManyForOnePlaceAreWhole) {
  const std::string path = folder_ / "f";
  write_file(path, "0");
  std::atomic<int> writing = 3;
  const auto write = [&](char letter) {
    for (std::size_t n = 1; n <= 800; ++n) write_file(path, std::string(n % 7 + 1, letter));
    --writing;
  };
  std::vector<std::jthread> writers;
  for (const char letter : {'a', 'b', 'c'}) writers.emplace_back(write, letter);
  while (writing > 0) {
    const std::string found = read_file(path, "file");
    ASSERT_EQ(found, std::string(found.size(), found[0]));
    ASSERT_FALSE(found.empty());
  }
}

TEST_F(AtomicFileTest, RelativePathsWork) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file("a", "text");
  require_writable("b");
  fs::current_path(before);
  EXPECT_EQ(contents_of(folder_ / "a"), "text");
  EXPECT_EQ(names(), Names{"a"});
}

TEST_F(AtomicFileTest, ModeIsTheOldFilesOrTheUsual) {
  const mode_t mask = ::umask(027);
  write_file((folder_ / "new").string(), "x");
  ::umask(mask);
  EXPECT_EQ(mode_of(folder_ / "new"), 0640u);
  fs::permissions(folder_ / "new", static_cast<fs::perms>(0604));
  write_file((folder_ / "new").string(), "y");
  EXPECT_EQ(mode_of(folder_ / "new"), 0604u);
  EXPECT_EQ(contents_of(folder_ / "new"), "y");
}

TEST_F(AtomicFileTest, LinksAreFollowed) {
  fs::create_directory(folder_ / "far");
  std::ofstream(folder_ / "far" / "target") << "old";
  fs::create_symlink("far/target", folder_ / "link");
  fs::create_symlink("link", folder_ / "link2");
  write_file((folder_ / "link2").string(), "new");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link2"));
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(contents_of(folder_ / "far" / "target"), "new");

  fs::create_symlink("far/absent", folder_ / "dangling");
  write_file((folder_ / "dangling").string(), "made");
  EXPECT_TRUE(fs::is_symlink(folder_ / "dangling"));
  EXPECT_EQ(contents_of(folder_ / "far" / "absent"), "made");

  fs::create_symlink("loop2", folder_ / "loop1");
  fs::create_symlink("loop1", folder_ / "loop2");
  EXPECT_THROW(AtomicFile((folder_ / "loop1").string()), InputError);
  fs::create_symlink("nowhere/x", folder_ / "lost");
  EXPECT_THROW(AtomicFile((folder_ / "lost").string()), InputError);
}

TEST_F(AtomicFileTest, BadPlacesAreNamedOnOneLine) {
  std::ofstream(folder_ / "file") << "old";
  const std::string bad[] = {folder_.string(), (folder_ / "absent" / "x").string(),
                             (folder_ / "file" / "x").string(), (folder_ / "absent").string() + "/",
                             "/proc/ringscope-test"};
  for (const std::string& path : bad) {
    SCOPED_TRACE(path);
    for (const auto& message : {input_error_of([&] { AtomicFile file(path); }),
                                input_error_of([&] { require_writable(path); })}) {
      EXPECT_EQ(message.find(path + ": "), 0u) << message;
      expect_contains(message, "; accepted: ");
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
  EXPECT_THROW(AtomicFile(""), InputError);
  EXPECT_EQ(names(), Names{"file"});
}

// Root may write anywhere, so the question is asked in a child process that is not root.
TEST_F(AtomicFileTest, PermissionsAreRespected) {
  fs::permissions(folder_, fs::perms::all);
  std::ofstream(folder_ / "read_only") << "old";
  fs::create_directory(folder_ / "closed");
  std::ofstream(folder_ / "closed" / "open") << "old";
  fs::permissions(folder_ / "closed" / "open", static_cast<fs::perms>(0666));
  fs::permissions(folder_ / "closed", static_cast<fs::perms>(0555));
  const int open_read_only = ::open((folder_ / "read_only").c_str(), O_WRONLY);
  fs::permissions(folder_ / "read_only", static_cast<fs::perms>(0444));
  const auto ask = [&] {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) std::_Exit(3);
    const auto refuses = [&](const char* name) {
      return input_error_of([&] {
               require_writable((folder_ / name).string());
             }).find("Permission denied") != std::string::npos;
    };
    if (!refuses("read_only") || !refuses("closed/new") || !refuses("closed/open")) std::_Exit(2);
    require_writable((folder_ / "new").string());
    // Stdout is open already, whoever opened it.
    if (::dup2(open_read_only, STDOUT_FILENO) < 0) std::_Exit(4);
    require_writable("/dev/stdout");
    AtomicFile out("/dev/stdout");
    out.write("new");
    out.commit();
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(ask(), testing::ExitedWithCode(0), "");
  fs::permissions(folder_ / "closed", fs::perms::all);
  EXPECT_EQ(names(), (Names{"closed", "read_only"}));
  EXPECT_EQ(contents_of(folder_ / "read_only"), "new");
  ::close(open_read_only);
}

TEST_F(AtomicFileTest, RequireWritableTouchesNothing) {
  std::ofstream(folder_ / "file") << "old";
  const auto time = fs::last_write_time(folder_ / "file");
  require_writable((folder_ / "file").string());
  require_writable((folder_ / "other").string());
  require_writable("/dev/full");
  ASSERT_EQ(::mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  require_writable((folder_ / "fifo").string());  // opening it would wait for a reader
  EXPECT_EQ(contents_of(folder_ / "file"), "old");
  EXPECT_EQ(fs::last_write_time(folder_ / "file"), time);
  EXPECT_EQ(names(), (Names{"fifo", "file"}));
}

TEST_F(AtomicFileTest, FullDeviceIsARunError) {
  const auto fill = [](std::size_t bytes) {
    AtomicFile file("/dev/full");
    file.write(std::string(bytes, 'x'));
    file.commit();
  };
  for (const std::size_t bytes : {1u, 1u << 20}) {  // noticed by the flush, noticed by the write
    const std::string message = run_error_of([&] { fill(bytes); });
    expect_contains(message, "/dev/full: writing failed: No space left");
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(AtomicFileTest, FailedWritesLeaveNothing) {
  const fs::path path = folder_ / "a";
  std::ofstream(path) << "old";
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  AtomicFile first(path.string()), second(path.string());
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string while_writing = run_error_of([&] { first.write(std::string(1 << 20, 'x')); });
  const Names after_first = names();
  second.write(std::string(5000, 'x'));
  const std::string while_syncing = run_error_of([&] {
    second.write(std::string(100, 'x'));
    second.commit();
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  expect_contains(while_writing, ": " + path.string() + ": writing failed: ");
  expect_contains(while_syncing, ": " + path.string() + ": writing failed: ");
  EXPECT_LE(after_first.size(), 2u);  // the old file and, where it needs a name, the second's
  EXPECT_EQ(names(), Names{"a"});
  EXPECT_EQ(contents_of(path), "old");
}

TEST_F(AtomicFileTest, NothingStaysBehindWhenKilledWhileWriting) {
  const int unnamed = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY, 0600);
  if (unnamed < 0) GTEST_SKIP() << "this file system has no files without a name";
  ::close(unnamed);
  int written[2];
  ASSERT_EQ(::pipe(written), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file((folder_ / "a").string());
    file.write(std::string(1 << 20, 'x'));
    [[maybe_unused]] const auto told = ::write(written[1], "x", 1);
    ::pause();
  }
  char told = 0;
  ASSERT_EQ(::read(written[0], &told, 1), 1);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(written[0]);
  ::close(written[1]);
  EXPECT_EQ(names(), Names{});
}

TEST_F(AtomicFileTest, FifosAreWrittenTo) {
  const fs::path path = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string received;
  std::thread reader([&] { received = contents_of(path); });
  write_file(path.string(), "through the pipe");
  reader.join();
  EXPECT_EQ(received, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(AtomicFileTest, TheFolderVanishing) {
  fs::create_directory(folder_ / "b");
  AtomicFile file((folder_ / "b" / "x").string());
  file.write("text");
  fs::remove_all(folder_ / "b");
  EXPECT_THROW(file.commit(), RunError);
}

}  // namespace
}  // namespace ringscope
