#include "bench/gpu_check/parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace ringscope::gpu_check {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Seconds that a program has to end after SIGTERM, and to be gone after SIGKILL.
constexpr double kToEnd = 2, kToBeGone = 5;

// A program that has been started, with its time limit.
class Child {
 public:
  // Throw std::runtime_error when no process can be made.
  Child(const Program& program, const std::string& stem, double limit_s)
      : limit_s_(limit_s), begin_(Clock::now()) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("no process can be made");
    if (pid_ == 0) become(program, stem, parent);
    setpgid(pid_, pid_);  // both processes do this, because either may come first
  }

  // Enforce the limit. Return true once the program has ended, or will not be waited for.
  bool ended() {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    outcome_.seconds = seconds_since(begin_);
    if (ended != 0) {
      kill(-pid_, SIGKILL);  // what it started and left behind
      outcome_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      return true;
    }
    if (outcome_.seconds > limit_s_ && !outcome_.cut_off) {
      outcome_.cut_off = true;
      kill(-pid_, SIGTERM);
    }
    if (outcome_.seconds > limit_s_ + kToEnd) kill(-pid_, SIGKILL);
    outcome_.left_behind = outcome_.seconds > limit_s_ + kToEnd + kToBeGone;
    return outcome_.left_behind;
  }
  const Outcome& outcome() const { return outcome_; }

 private:
  [[noreturn]] static void become(const Program& program, const std::string& stem, pid_t parent) {
    setpgid(0, 0);
    // Die with the parent, because nobody would enforce the time limit after that.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // it had ended before
    const auto opened = [](const std::string& path) {
      return open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    };
    const int log = opened(stem + ".log"), out = opened(stem + ".out");
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (log < 0 || out < 0 || in < 0) _exit(127);
    dup2(in, 0);
    dup2(out, 1);
    dup2(log, 2);
    for (const auto& [name, value] : program.environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> arguments;
    for (const std::string& argument : program.arguments)
      arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }

  double limit_s_;
  Clock::time_point begin_;
  pid_t pid_;
  Outcome outcome_;
};

}  // namespace

std::string text_of(const std::string& path) {
  std::ostringstream text;
  std::ifstream file(path);
  if (file) text << file.rdbuf();
  return text.str();
}

std::string tail_of(const std::string& path, std::size_t bytes) {
  const std::string text = text_of(path);
  return text.size() <= bytes ? text : "... " + text.substr(text.size() - bytes);
}

std::string find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (const std::string file = folder + "/" + name; access(file.c_str(), X_OK) == 0) return file;
  return "";
}

namespace {

PartStatus worst(PartStatus a, PartStatus b) {
  if (a == PartStatus::failed || b == PartStatus::failed) return PartStatus::failed;
  return a == PartStatus::passed ? b : a;
}

std::string with_remarks(const std::string& text, const std::vector<std::string>& remarks) {
  return fmt::format("{}{}{}", text, remarks.empty() ? "" : "; ", fmt::join(remarks, "; "));
}

std::string to_text(const TestCounts& counts, const std::vector<std::string>& failures) {
  return with_remarks(
      fmt::format("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.skipped),
      failures);
}

// Return the path of a report that a program is to write, without one that is there.
std::string fresh_report(const Check& check, const std::string& name) {
  const std::string path = check.file(name + ".json");
  std::filesystem::remove(path);
  return path;
}

// Run a program of Google Benchmark, and add what its report holds to the results, with `suffix` on
// the names. Return how it ended, and what the report says of its own: problems, or that there is
// none.
struct BenchmarkRun {
  Outcome outcome;
  bool has_report = false;
  std::vector<std::string> problems;
};
BenchmarkRun run_benchmarks(Check& check, const std::string& name,
                            std::vector<std::string> arguments, const std::string& suffix,
                            const Environment& environment) {
  const std::string report = fresh_report(check, name);
  arguments.insert(arguments.begin() + 1,
                   {"--benchmark_out=" + report, "--benchmark_out_format=json"});
  BenchmarkRun run{check.run_program(name, arguments, check.left(), environment), false, {}};
  try {
    for (Measurement& m : read_benchmarks(text_of(report))) {
      m.name += suffix;
      if (!m.problem.empty() && !m.problem.starts_with("skipped"))
        run.problems.push_back(m.name + ": " + m.problem);
      check.results.ours.push_back(std::move(m));
    }
    run.has_report = true;
  } catch (const std::exception& error) {
    run.problems.push_back(error.what());
  }
  return run;
}

// --- kernel tests ---

constexpr const char* kLadderTests = "Ladder/EveryKernel.";
constexpr const char* kNoKernelTests = "no kernel tests found";
const Environment kSmall = {{"RINGSCOPE_SMALL_TESTS", "1"}};

// Return groups of tests that run as separate programs, because a device error breaks everything
// after it: first each kernel's test on every shape class, then the other suites.
std::vector<std::string> test_groups(const std::string& list) {
  std::vector<std::string> kernels, suites;
  for (const std::string& test : listed_tests(list)) {
    if (test.starts_with(kLadderTests)) {
      kernels.push_back(test);
    } else if (const std::string suite = test.substr(0, test.find('.')) + ".*";
               std::find(suites.begin(), suites.end(), suite) == suites.end()) {
      suites.push_back(suite);
    }
  }
  kernels.insert(kernels.end(), suites.begin(), suites.end());
  return kernels;
}

// Return the number in "Ladder/EveryKernel.IsRightOnEveryShapeClass/05", or 0 for another group.
int kernel_of(const std::string& group) {
  if (!group.starts_with(kLadderTests)) return 0;
  return std::atoi(group.c_str() + group.rfind('/') + 1);
}

// Run groups of tests side by side, as separate programs. Where they are small, a kernel that fails
// is known to be wrong, but none counts as tested.
Verdict run_groups(Check& check, const std::string& stem, const std::vector<std::string>& groups,
                   int at_once, double limit_s, bool are_small) {
  std::vector<Program> programs;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::string log = fmt::format("{}-{:03}", stem, i);
    programs.push_back({log,
                        {"cuda_tests", "--gtest_filter=" + groups[i],
                         "--gtest_output=json:" + fresh_report(check, log)},
                        limit_s,
                        are_small || check.small ? kSmall : Environment{}});
  }
  Verdict verdict;
  TestCounts counts;
  std::vector<std::string> bad;
  check.run_programs(programs, at_once, [&](std::size_t i, const Outcome& outcome) {
    if (outcome.skipped) {
      verdict.status = worst(verdict.status, PartStatus::cut_off);
      bad.push_back("no time for " + groups[i]);
      return;
    }
    const TestReport report = read_tests(text_of(check.file(programs[i].log + ".json")));
    counts += report.counts;
    for (const auto& [number, tests] : report.kernels)
      check.results.kernels[number] += are_small ? TestCounts{0, tests.failed, 0} : tests;
    if (outcome.status == 0 && report.readable) return;
    verdict.status =
        worst(verdict.status, outcome.cut_off ? PartStatus::cut_off : PartStatus::failed);
    for (const std::string& name : report.failures) bad.push_back(name);
    if (report.readable) return;
    // The group ended before its report, so no kernel that it may test has passed. A suite that
    // only lacked time says nothing against a kernel.
    if (!outcome.cut_off) ++counts.failed;
    bad.push_back(groups[i] + " " + how_it_ended(outcome) + ": " +
                  tail_of(check.file(programs[i].log + ".log"), 300));
    if (const int number = kernel_of(groups[i]); number > 0) {
      ++check.results.kernels[number].failed;
    } else if (!outcome.cut_off) {
      for (auto& [any, tests] : check.results.kernels) ++tests.failed;
    }
  });
  verdict.detail = to_text(counts, bad);
  return verdict;
}

// Return the groups that the pack's tests have. Their list is made once.
std::vector<std::string> listed_groups(Check& check) {
  if (text_of(check.file("tests-list.out")).empty())
    check.run_program("tests-list", {"cuda_tests", "--gtest_list_tests"}, 20);
  return test_groups(text_of(check.file("tests-list.out")));
}

// Run each kernel on a few small problems, all kernels at once: what hangs or crashes is known
// within seconds.
Verdict smoke(Check& check) {
  std::vector<std::string> groups = listed_groups(check);
  std::erase_if(groups, [](const std::string& group) { return kernel_of(group) == 0; });
  if (groups.empty()) return {PartStatus::failed, kNoKernelTests};
  return run_groups(check, "smoke", groups, static_cast<int>(groups.size()), 15, true);
}

Verdict kernel_tests(Check& check) {
  const std::vector<std::string> groups = listed_groups(check);
  if (groups.empty()) return {PartStatus::failed, "cuda_tests lists no tests"};
  Verdict verdict = run_groups(check, "tests", groups, 8, check.small ? 60 : 20, false);
  if (std::none_of(groups.begin(), groups.end(), [](const auto& g) { return kernel_of(g) > 0; })) {
    verdict.status = PartStatus::failed;
    verdict.detail += std::string("; ") + kNoKernelTests;
  }
  return verdict;
}

// Compare the kernels with each other on the problems that the benchmarks time, which are too large
// for the tests' oracle.
Verdict agreement(Check& check) {
  std::vector<std::string> bad;
  PartStatus status = PartStatus::passed;
  int compared = 0;
  for (const char* const program : {"gpu_forward", "gpu_backward"}) {
    const std::size_t before = check.results.ours.size();
    const BenchmarkRun run = run_benchmarks(check, std::string(program) + "-agreement",
                                            {program, "--benchmark_filter=^agreement/"}, "", {});
    for (std::size_t i = before; i < check.results.ours.size(); ++i) {
      const Measurement& m = check.results.ours[i];
      if (m.problem.starts_with("skipped")) continue;
      ++compared;
      constexpr std::string_view kPrefix = "agreement/";
      if (!m.problem.empty() && m.name.starts_with(kPrefix))
        ++check.results.kernels[std::atoi(m.name.c_str() + kPrefix.size())].failed;
    }
    bad.insert(bad.end(), run.problems.begin(), run.problems.end());
    if (run.outcome.cut_off) {
      status = worst(status, PartStatus::cut_off);
    } else if (run.outcome.status != 0 || !run.problems.empty()) {
      status = PartStatus::failed;
      if (run.outcome.status != 0) bad.push_back(how_it_ended(run.outcome));
    }
  }
  return {status, with_remarks(fmt::format("{} comparisons", compared), bad)};
}

// --- the ring ---

struct RingCase {
  const char *partition, *mask, *dtype;
  int world_size, seqlen, head_dim;
  int kernel = 0, backward_kernel = 0;  // by number; 0: the best that takes the problem
};

Verdict ring(Check& check) {
  constexpr RingCase kCases[] = {{"contiguous", "causal", "bf16", 4, 2048, 128},
                                 {"zigzag", "causal", "bf16", 8, 2048, 128},
                                 {"contiguous", "causal", "bf16", 1, 4096, 128},
                                 {"striped", "causal+window:300", "f16", 3, 1001, 64},
                                 {"fold", "full", "bf16", 5, 777, 128},
                                 {"zigzag", "causal", "f32", 4, 1000, 80},
                                 {"contiguous", "prefix:100", "f32", 7, 500, 64},
                                 {"striped", "documents:300,13,187", "bf16", 8, 500, 64},
                                 {"zigzag", "causal", "bf16", 4, 2048, 128, 5, 9}};
  std::vector<std::string> bad;
  PartStatus status = PartStatus::passed;
  int number = 0, done = 0;  // small problems take every third case, whose masks take any length
  for (const RingCase& c : kCases) {
    if (check.small && number++ % 3 != 0) continue;
    const int seqlen = check.small ? c.seqlen / 32 : c.seqlen;
    const std::string what =
        fmt::format("{} {} {} x{}{}", c.partition, c.mask, c.dtype, c.world_size,
                    c.kernel == 0 ? "" : fmt::format(" by {} and {}", c.kernel, c.backward_kernel));
    const auto run_with = [&](const std::string& backend, const std::string& log,
                              const std::string& more) {
      std::istringstream words(fmt::format(
          "ringscope run --random --backend {} --heads 4 --heads-kv 2 --seqlen {} --head-dim {} "
          "--world-size {} --partition {} --mask {} --dtype {} --backward --json {}",
          backend, seqlen, c.head_dim, c.world_size, c.partition, c.mask, c.dtype, more));
      const std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
      return check.run_program(log, arguments, 30);
    };
    const std::string log = fmt::format("ring-{}", done++);
    const std::string kernels = c.kernel == 0 ? ""
                                              : fmt::format("--kernel {} --backward-kernel {}",
                                                            c.kernel, c.backward_kernel);
    const Outcome on_gpu = run_with("cuda", log, "--verify " + kernels);
    if (on_gpu.cut_off) status = worst(status, PartStatus::cut_off);
    const RingReport gpu = read_ring(text_of(check.file(log + ".out")));
    if (on_gpu.status != 0 || !gpu.verified) {
      if (!on_gpu.cut_off) status = PartStatus::failed;
      bad.push_back(what + ": " + how_it_ended(on_gpu) + ": " +
                    tail_of(check.file(log + ".log"), 200));
      continue;
    }
    run_with("cpu", log + "-cpu", "");
    const RingReport cpu = read_ring(text_of(check.file(log + "-cpu.out")));
    if (!cpu.readable || gpu.pairs != cpu.pairs || gpu.pairs.empty()) {
      status = PartStatus::failed;
      bad.push_back(what + ": its pairs are not those of the CPU's ring");
    }
  }
  return {status, with_remarks(fmt::format("{} cases", done), bad)};
}

// --- benchmarks ---

Verdict library(Check& check) {
  const std::string python = find_program("python3");
  if (python.empty()) return {PartStatus::not_measured, "there is no python3"};
  const std::string report = fresh_report(check, "sdpa");
  const Outcome outcome = check.run_program(
      "sdpa", {python, check.bin + "/sdpa.py", "--out", report}, 90, {{"PYTHONUNBUFFERED", "1"}});
  LibraryReport found = read_library(text_of(report));
  const bool any = !found.measurements.empty();
  std::move(found.measurements.begin(), found.measurements.end(),
            std::back_inserter(check.results.library));
  if (outcome.cut_off) return {PartStatus::cut_off, how_it_ended(outcome)};
  if (any) return {PartStatus::passed, found.versions};
  return {PartStatus::not_measured,
          outcome.status == 0 ? found.why_not : tail_of(check.file("sdpa.log"), 300)};
}

// Run the benchmarks whose names begin with `filter`, a regular expression. Programs that fail count
// as failures; shapes that a kernel does not take don't.
std::function<Verdict(Check&)> benchmarks(const std::string& program, const std::string& filter) {
  return [=](Check& check) -> Verdict {
    std::string name = program + "-" + filter;
    std::erase_if(name, [](unsigned char c) { return c != '-' && c != '_' && !std::isalnum(c); });
    BenchmarkRun run =
        run_benchmarks(check, name, {program, "--benchmark_filter=^" + filter}, "", {});
    if (!run.outcome.cut_off && run.outcome.status != 0)
      run.problems.push_back(how_it_ended(run.outcome));
    const PartStatus status = run.outcome.cut_off    ? PartStatus::cut_off
                              : run.problems.empty() ? PartStatus::passed
                                                     : PartStatus::failed;
    return {status, fmt::format("{}", fmt::join(run.problems, "; "))};
  };
}

// --- compute-sanitizer ---

// Kernels whose shared memory is written by the tensor memory accelerator, and waited for at
// barriers in memory. racecheck does not know them, so it only advises there.
bool racecheck_knows(int kernel) { return kernel != 6 && kernel != 7 && kernel < 10; }

// Run each kernel separately, so that findings have a name. Among the ways to fail, only a finding
// counts against the kernel.
std::function<Verdict(Check&)> sanitizer(const std::string& tool) {
  return [=](Check& check) -> Verdict {
    const std::string program = find_sanitizer();
    if (program.empty()) return {PartStatus::not_measured, "there is no compute-sanitizer"};
    Verdict verdict;
    std::vector<std::string> bad;
    int done = 0;
    for (const std::string& group : listed_groups(check)) {
      const int number = kernel_of(group);
      if (number == 0) continue;
      if (check.left() < 1) {
        verdict.status = worst(verdict.status, PartStatus::cut_off);
        bad.push_back(fmt::format("no time for kernel {:02}", number));
        continue;
      }
      const std::string log = fmt::format("{}-{:02}", tool, number);
      const Outcome outcome = check.run_program(
          log,
          {program, "--tool", tool, "--error-exitcode", std::to_string(kSanitizerFound),
           check.bin + "/cuda_tests", "--gtest_filter=" + group},
          check.left(), kSmall);
      ++done;
      if (outcome.status == 0 && !outcome.cut_off) continue;
      const std::string said = tail_of(check.file(log + ".out"), 400);
      if (said.find("Device not supported") != std::string::npos)
        return {PartStatus::not_measured, "compute-sanitizer does not support this machine"};
      const bool advises = tool == "racecheck" && !racecheck_knows(number);
      if (!advises)
        verdict.status =
            worst(verdict.status, outcome.cut_off ? PartStatus::cut_off : PartStatus::failed);
      const bool found = !outcome.cut_off && outcome.status == kSanitizerFound;
      bad.push_back(fmt::format("kernel {:02} {}{}{}: {}", number, advises ? "(advice) " : "",
                                found || outcome.cut_off ? "" : "tool failed, ",
                                how_it_ended(outcome), said));
      if (found && !advises) ++check.results.kernels[number].failed;
    }
    if (done == 0 && bad.empty()) return {PartStatus::failed, kNoKernelTests};
    verdict.detail = with_remarks(fmt::format("{} kernels", done), bad);
    return verdict;
  };
}

}  // namespace

std::string how_it_ended(const Outcome& outcome) {
  if (outcome.left_behind)
    return fmt::format("does not end, left behind after {:.0f} s", outcome.seconds);
  if (outcome.cut_off) return fmt::format("cut off after {:.0f} s", outcome.seconds);
  if (outcome.status > 128) return fmt::format("ended by signal {}", outcome.status - 128);
  return fmt::format("exit status {}", outcome.status);
}

std::string find_sanitizer() {
  const std::string usual = "/usr/local/cuda/bin/compute-sanitizer";
  const std::string program = find_program("compute-sanitizer");
  return program.empty() && std::filesystem::exists(usual) ? usual : program;
}

double Check::left() const { return part_ends - now(); }

Outcome Check::run_program(const std::string& log, std::vector<std::string> arguments,
                           double limit_s, Environment environment) {
  Outcome result;
  run_programs({{log, std::move(arguments), limit_s, std::move(environment)}}, 1,
               [&](std::size_t, const Outcome& outcome) { result = outcome; });
  return result;
}

void Check::run_programs(const std::vector<Program>& programs, int at_once,
                         const std::function<void(std::size_t, const Outcome&)>& ended) {
  std::vector<std::pair<std::size_t, Child>> running;
  double ask_again = 0.002;
  for (std::size_t next = 0; next < programs.size() || !running.empty();) {
    if (next < programs.size() && std::ssize(running) < at_once) {
      if (programs.size() > 1 && left() < 1) {
        Outcome outcome;
        outcome.skipped = true;
        ended(next++, outcome);
        continue;
      }
      Program program = programs[next];
      if (program.arguments[0].find('/') == std::string::npos)
        program.arguments[0] = bin + "/" + program.arguments[0];
      const double limit_s = std::max(0.0, std::min(program.limit_s, left()));
      running.emplace_back(next, Child(program, file(program.log), limit_s));
      ++next;
      ask_again = 0.002;
      continue;
    }
    const bool waits = std::erase_if(running, [&](auto& one) {
                         if (!one.second.ended()) return false;
                         ended(one.first, one.second.outcome());
                         if (programs.size() > 1) save();
                         return true;
                       }) == 0;
    if (!waits) continue;
    std::this_thread::sleep_for(std::chrono::duration<double>(ask_again));
    ask_again = std::min(ask_again * 1.5, 0.05);
  }
}

Verdict find_device(Check& check) {
  const Outcome outcome = check.run_program("device", {"gpu_device"}, 30);
  if (outcome.status == 0) {
    check.results.device_json = text_of(check.file("device.out"));
    return {};
  }
  const std::string said = text_of(check.file("device.log"));
  if (outcome.status == 3) return {PartStatus::not_run, said.substr(0, said.find('\n'))};
  return {PartStatus::failed, how_it_ended(outcome) + ": " + said};
}

// What may hang or be wrong comes first, then what the day is for, then what takes long.
std::vector<PlannedPart> planned_parts() {
  return {{"smoke", 40, smoke, true},
          {"agreement", 60, agreement, true},
          {"best forward", 40, benchmarks("gpu_forward", "main/07")},
          {"best backward", 40, benchmarks("gpu_backward", "main/1")},
          {"library", 90, library},
          {"forward ladder", 60, benchmarks("gpu_forward", "main/0[1-6]")},
          {"backward ladder", 40, benchmarks("gpu_backward", "main/0")},
          {"forward ideas", 40, benchmarks("gpu_forward", "idea")},
          {"backward ideas", 20, benchmarks("gpu_backward", "idea")},
          {"kernel tests", 120, kernel_tests, true},
          {"ring", 60, ring, true},
          {"memcheck", 45, sanitizer("memcheck")},
          {"racecheck", 45, sanitizer("racecheck")},
          {"NCCL ring", 90, nccl_tests},
          {"NCCL speed", 60, nccl_speed},
          {"carried state", 40, benchmarks("gpu_carried_state", "carried_state")},
          {"ring balance", 40, benchmarks("gpu_ring_balance", "ring_balance")},
          {"NCCL memcheck", 60, nccl_memcheck},
          {"more forward", 40, benchmarks("gpu_forward", "more")},
          {"more backward", 40, benchmarks("gpu_backward", "more")}};
}

namespace {

// Return why `program` can't be run at all, or none if it can.
std::optional<Verdict> absent(const Check& check, const std::string& program) {
  if (std::filesystem::exists(check.bin + "/" + program)) return std::nullopt;
  return Verdict{PartStatus::not_measured, "the pack was built without NCCL"};
}

// Return the NCCL among Python's packages, unless another one was chosen. Machines with PyTorch
// have it there, and often nowhere else.
Environment with_nccl(Check& check) {
  if (std::getenv("RINGSCOPE_NCCL_LIBRARY") != nullptr) return {};
  const std::string python = find_program("python3");
  if (python.empty()) return {};
  constexpr const char* kFind =
      "import importlib.util as u\n"
      "s = u.find_spec('nvidia.nccl')\n"
      "print(list(s.submodule_search_locations)[0] + '/lib/libnccl.so.2' if s else '')";
  check.run_program("nccl-library", {python, "-c", kFind}, 10);
  std::string path = text_of(check.file("nccl-library.out"));
  while (!path.empty() && path.back() == '\n') path.pop_back();
  if (path.empty() || !std::filesystem::exists(path)) return {};
  return {{"RINGSCOPE_NCCL_LIBRARY", path}};
}

// Return why tests were skipped: the line after "Skipped" in their output.
std::string why_skipped(const std::string& said) {
  const std::string mark = "Skipped\n";
  const std::size_t at = said.find(mark);
  if (at == std::string::npos) return "its tests were skipped";
  const std::size_t begin = at + mark.size();
  return said.substr(begin, said.find('\n', begin) - begin);
}

}  // namespace

Verdict nccl_tests(Check& check) {
  if (const auto verdict = absent(check, "nccl_tests")) return *verdict;
  const std::string report_file = fresh_report(check, "nccl-tests");
  const Outcome outcome =
      check.run_program("nccl-tests", {"nccl_tests", "--gtest_output=json:" + report_file},
                        check.left(), with_nccl(check));
  const TestReport report = read_tests(text_of(report_file));
  if (outcome.cut_off) return {PartStatus::cut_off, how_it_ended(outcome)};
  if (!report.readable)
    return {PartStatus::failed,
            how_it_ended(outcome) + ": " + tail_of(check.file("nccl-tests.log"), 300)};
  if (report.counts.passed + report.counts.failed == 0)
    return {PartStatus::not_measured, why_skipped(text_of(check.file("nccl-tests.out")))};
  const bool passed = outcome.status == 0 && report.counts.failed == 0;
  return {passed ? PartStatus::passed : PartStatus::failed,
          to_text(report.counts, report.failures)};
}

Verdict nccl_memcheck(Check& check) {
  if (const auto verdict = absent(check, "nccl_tests")) return *verdict;
  const std::string program = find_sanitizer();
  if (program.empty()) return {PartStatus::not_measured, "there is no compute-sanitizer"};
  Environment environment = with_nccl(check);
  environment.insert(environment.end(), kSmall.begin(), kSmall.end());
  const Outcome outcome =
      check.run_program("nccl-memcheck",
                        {program, "--tool", "memcheck", "--target-processes", "all",
                         "--error-exitcode", std::to_string(kSanitizerFound),
                         check.bin + "/nccl_tests", "--gtest_filter=NcclRing.OfTwoProcesses"},
                        check.left(), environment);
  const std::string said = text_of(check.file("nccl-memcheck.out"));
  if (outcome.cut_off) return {PartStatus::cut_off, how_it_ended(outcome)};
  if (said.find("Device not supported") != std::string::npos)
    return {PartStatus::not_measured, "compute-sanitizer does not support this machine"};
  // Ranks are processes that the program forks, so findings in them appear only in the output.
  const std::string none = "ERROR SUMMARY: 0 errors";
  bool found = outcome.status == kSanitizerFound;
  for (std::size_t at = 0; (at = said.find("ERROR SUMMARY: ", at)) != std::string::npos; ++at)
    found = found || said.compare(at, none.size(), none) != 0;
  if (found || outcome.status != 0)
    return {PartStatus::failed,
            fmt::format("{}{}: {}", found ? "" : "tool failed, ", how_it_ended(outcome),
                        tail_of(check.file("nccl-memcheck.out"), 400))};
  if (said.find("  PASSED  ] 1 test") == std::string::npos)
    return {PartStatus::not_measured, why_skipped(said)};
  return {};
}

// Measure with one rank per GPU, and with two ranks, which share a GPU if there is only one.
Verdict nccl_speed(Check& check) {
  if (const auto verdict = absent(check, "nccl_ring")) return *verdict;
  const Environment environment = with_nccl(check);
  std::vector<std::string> remarks;
  PartStatus status = PartStatus::not_measured;
  for (const bool two : {false, true}) {
    const std::string name = two ? "nccl-ring-2" : "nccl-ring";
    std::vector<std::string> arguments = {"nccl_ring"};
    if (two) arguments.insert(arguments.end(), {"--world-size", "2", "--rows", "2048"});
    const auto [outcome, has_report, problems] =
        run_benchmarks(check, name, arguments, two ? "/two_ranks" : "", environment);
    const std::string said = text_of(check.file(name + ".out"));
    if (has_report) {  // otherwise it was skipped, or did not get so far
      remarks.insert(remarks.end(), problems.begin(), problems.end());
      if (status == PartStatus::not_measured) status = PartStatus::passed;
    }
    if (outcome.cut_off) return {PartStatus::cut_off, how_it_ended(outcome)};
    if (outcome.status != 0) {
      status = PartStatus::failed;
      remarks.push_back(how_it_ended(outcome) + ": " + tail_of(check.file(name + ".log"), 200));
    }
    for (std::size_t at = 0; at < said.size();) {
      const std::size_t end = std::min(said.find('\n', at), said.size());
      const std::string line = said.substr(at, end - at);
      if (line.starts_with("skipped: ") || line.starts_with("not measured: "))
        remarks.push_back(line);
      at = end + 1;
    }
  }
  return {status, fmt::format("{}", fmt::join(remarks, "; "))};
}

}  // namespace ringscope::gpu_check
