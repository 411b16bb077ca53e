#include "tests/mpi_faults/job.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/mpi_settings.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

// They end a hang.
constexpr double kPatienceSeconds = 120, kGoneSeconds = 20;
// A look takes 50 ms on a machine with many other programs. A launcher that is well and ended too soon
// has said its status.
constexpr int kLooksOfHungLauncher = 200;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Lines that the program said, of whatever rank; a launcher says more, and Open MPI 5 ends its words with a zero byte.
Strings lines_of_ours(const std::string& err) {
  std::istringstream text(err);
  Strings lines;
  for (std::string line; std::getline(text, line);) {
    line.erase(0, line.find_first_not_of('\0'));
    if (line.starts_with("ringscope: ")) lines.push_back(line);
  }
  return lines;
}

void pause_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// The entry NAME=value of a process's environment, "" without.
std::string in_environment(const std::string& environment, const std::string& name) {
  const std::string text = '\0' + environment, entry = '\0' + name + '=';
  const std::size_t at = text.find(entry);
  return at == std::string::npos ? "" : std::string(text.c_str() + at + entry.size());
}

std::string environment_of(pid_t process) {
  return contents_of("/proc/" + std::to_string(process) + "/environ");
}

pid_t parent_of(pid_t process) {
  const std::string text = contents_of("/proc/" + std::to_string(process) + "/stat");
  const std::size_t at = text.rfind(") ");  // "1234 (name) S 1233 ..."
  return at == std::string::npos ? 0 : std::atoi(text.c_str() + at + 4);
}

// What launchers tell a process of its rank; -1: nothing.
int rank_of(pid_t process) {
  const std::string environment = environment_of(process);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const std::string value = in_environment(environment, name); !value.empty())
      return std::atoi(value.c_str());
  return -1;
}

bool has_thread(pid_t process, const std::string& name) {
  std::error_code gone;
  for (const auto& task :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/task", gone))
    if (contents_of(task.path().string() + "/comm") == name + "\n") return true;
  return false;
}

void redirect(const std::string& to, int descriptor) {
  const int file = ::open(to.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(127);
}

}  // namespace

std::string JobEnd::text() const { return "status " + std::to_string(status) + "\n" + err; }

Job::Job(std::string folder, const Strings& arguments, const Strings& settings)
    : folder_(std::move(folder)), mark_("RINGSCOPE_TESTED_JOB=" + folder_) {
  fs::create_directories(folder_);
  Strings words =
      Strings{
          "/usr/bin/env",
          mark_,
          // What sanitizers find inside of MPI is not ours; mpi_driver looks for leaks.
          "LSAN_OPTIONS=detect_leaks=0",
          "TSAN_OPTIONS=print_suppressions=0:suppressions=" RINGSCOPE_SOURCE_DIR
          "/tests/core/processes/mpi/tsan.supp",
      } +
      mpi_settings() + settings + mpirun_words() + arguments;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out = folder_ + ".stdout", err = folder_ + ".stderr";
  launcher_ = ::fork();
  if (launcher_ == 0) {
    if (::chdir(folder_.c_str()) != 0) ::_exit(127);
    redirect("/dev/null", STDIN_FILENO);
    redirect(out, STDOUT_FILENO);
    redirect(err, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
}

Job::~Job() {
  for (const pid_t process : processes()) ::kill(process, SIGKILL);
  while (!has_launcher_ended()) pause_a_little();
}

std::set<std::string> Job::files() const {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    names.insert(fs::relative(entry.path(), folder_).string());
  return names;
}

bool Job::wait_for_start(int rank) {
  const double until = now_s() + kPatienceSeconds;
  for (; working(rank) == 0; pause_a_little())
    if (now_s() > until || has_launcher_ended()) return false;
  return true;
}

bool Job::wait_for_ring(int world_size) {
  const double until = now_s() + kPatienceSeconds;
  for (int rank = 0; rank < world_size; pause_a_little()) {
    // As core/processes/mpi names the thread that moves a rank's blocks.
    if (has_thread(working(rank), "ring-progress")) ++rank;
    if (now_s() > until || has_launcher_ended()) return false;
  }
  // Until the others have heard of it.
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  return true;
}

void Job::strike(pid_t process, int signal) {
  ASSERT_GT(process, 0);
  EXPECT_EQ(::kill(process, signal), 0);
}

JobEnd Job::end() {
  const double until = now_s() + kPatienceSeconds;
  while (!has_launcher_ended() && now_s() < until) {
    release_hung_launcher();
    pause_a_little();
  }
  JobEnd end;
  const double gone_by = now_s() + kGoneSeconds;
  while (!processes().empty() && now_s() < gone_by) pause_a_little();
  for (const pid_t process : processes()) {
    std::string line = contents_of("/proc/" + std::to_string(process) + "/cmdline");
    std::replace(line.begin(), line.end(), '\0', ' ');
    if (!line.empty()) end.left_over.push_back(std::to_string(process) + " " + line);
  }
  end.status = launcher_status_;
  end.out = contents_of(folder_ + ".stdout");
  end.err = contents_of(folder_ + ".stderr");
  end.lines = lines_of_ours(end.err);
  EXPECT_EQ(end.err.find("Sanitizer"), std::string::npos) << end.err;
  return end;
}

bool Job::has_launcher_ended() {
  if (launcher_ <= 0) return true;
  int status = 0;
  if (::waitpid(launcher_, &status, WNOHANG) != launcher_) return false;
  launcher_ = -1;
  launcher_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : exit_code_said_by_launcher();
  return true;
}

// Return the exit code that mpirun says it ends with, or -1.
int Job::exit_code_said_by_launcher() const {
  const std::string err = contents_of(folder_ + ".stderr"), code = "Exit code:";
  const std::size_t at = err.find(code);
  return at == std::string::npos ? -1 : std::atoi(err.c_str() + at + code.size());
}

// The PMIx server of Open MPI 4.1 locks itself out, or crashes, in PMIx_server_finalize when a rank dies
// while it shakes hands with it, at its start or its end. By then mpirun has said how the job ended, and
// no rank is left. One that is well ends within a few looks.
void Job::release_hung_launcher() {
  const bool is_alone =
      exit_code_said_by_launcher() >= 0 && processes() == std::vector<pid_t>{launcher_};
  looks_alone_ = is_alone ? looks_alone_ + 1 : 0;
  if (looks_alone_ < kLooksOfHungLauncher) return;
  ::kill(launcher_, SIGKILL);
  while (!has_launcher_ended()) pause_a_little();
}

std::vector<pid_t> Job::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const pid_t process = std::atoi(entry.path().filename().c_str());
    if (process <= 0) continue;
    if (('\0' + environment_of(process)).find('\0' + mark_ + '\0') != std::string::npos)
      found.push_back(process);
  }
  return found;
}

Job::Pair Job::processes_of(int rank) const {
  std::vector<pid_t> of_rank = processes();
  std::erase_if(of_rank, [&](pid_t process) { return rank_of(process) != rank; });
  for (const pid_t process : of_rank) {
    const pid_t parent = parent_of(process);
    if (std::find(of_rank.begin(), of_rank.end(), parent) != of_rank.end())
      return {process, parent};
  }
  return {};
}

Strings ranks(int world_size, const Strings& arguments) {
  return Strings{"-np", std::to_string(world_size), RINGSCOPE_PROGRAM, "run", "--backend", "mpi"} +
         arguments;
}

void FaultTest::SetUp() {
  if (const std::string why_not = why_no_mpi(); !why_not.empty()) GTEST_SKIP() << why_not;
}

void FaultTest::for_each(std::size_t count, std::size_t at_once,
                         const std::function<void(std::size_t)>& f) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < std::min(count, at_once); ++i)
    threads.emplace_back([&] {
      for (std::size_t mine = next++; mine < count; mine = next++) f(mine);
    });
  for (std::thread& thread : threads) thread.join();
}

std::unique_ptr<Job> FaultTest::start(const Strings& arguments, const Strings& settings) {
  return std::make_unique<Job>(path("job" + std::to_string(jobs_++)), arguments, settings);
}

void expect_failed(const Job& job, const JobEnd& end, const Strings& parts) {
  SCOPED_TRACE(end.text());
  EXPECT_EQ(end.status, 3);
  EXPECT_EQ(end.out, "");
  EXPECT_EQ(end.left_over, Strings{});
  EXPECT_EQ(job.files(), std::set<std::string>{});
  ASSERT_EQ(end.lines.size(), 1u);
  for (const std::string& part : parts)
    EXPECT_NE(end.lines[0].find(part), std::string::npos) << "missing: " << part;
}

}  // namespace ringscope
