// Checks a GPU by running the pack's programs on it, each with a time limit, and notes what they
// say.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ringscope::gpu_check {

// ---
// The results of a gpu-check and their file, one JSON object. The file is written anew after each
// part, so that an interrupted check leaves its results. bench/README.md describes the members.

enum class PartStatus { passed, failed, cut_off, not_run, not_measured };

struct Part {
  std::string name;
  PartStatus status = PartStatus::not_run;
  double seconds = 0;
  std::string detail;     // why, unless it passed
  bool is_check = false;  // must pass; other parts measure, as far as time allows
};

// The test counts of one kernel, or of a report. A kernel passes if a test passed and none failed.
struct TestCounts {
  int passed = 0, failed = 0, skipped = 0;
  bool pass() const { return passed > 0 && failed == 0; }
  void operator+=(const TestCounts& more) {
    passed += more.passed;
    failed += more.failed;
    skipped += more.skipped;
  }
};

// A benchmark's result, ours or a library's.
struct Measurement {
  std::string name;
  double ms = 0;
  std::map<std::string, double> figures;  // TFLOPs and other counters
  std::string problem;                    // why there are none
};

// A figure that counts: a ratio within this run, or TFLOP/s; and its goal.
struct Figure {
  std::string name;
  double value = 0;
  std::string goal;  // ">= 1.0"; empty without one
};

struct Results {
  std::string commit, date, time_utc, device_json;  // device_json: an object, as text
  bool complete = false;
  std::vector<Part> parts;
  std::map<int, TestCounts> kernels;
  std::vector<Measurement> ours, library;
  std::vector<Figure> figures;

  // Return whether every check passed and no part failed. Measuring parts may lack the time to run.
  bool passed() const;
};

std::string name_of(PartStatus status);

std::string to_json(const Results& results);

// Write a file beside `path` and rename it. Throw std::runtime_error.
void write_results(const Results& results, const std::string& path);

// Return a short table for people.
std::string to_text(const Results& results);

// ---
// Reads what the programs of a gpu-check write.

// Return "Suite.Test" and "Suite.Test/7" of --gtest_list_tests, in order.
std::vector<std::string> listed_tests(const std::string& text);

// A report of --gtest_output=json.
struct TestReport {
  bool readable = false;
  TestCounts counts;
  std::map<int, TestCounts> kernels;  // of tests that recorded the property "kernel"
  std::vector<std::string> failures;  // names
};
TestReport read_tests(const std::string& json);

// Read a report of Google Benchmark; of an incomplete report, return the complete benchmarks. Throw
// std::runtime_error when nothing of it can be read.
std::vector<Measurement> read_benchmarks(std::string json);

// The report of sdpa.py.
struct LibraryReport {
  std::vector<Measurement> measurements;
  std::string versions;  // "PyTorch 2.11.0, cuDNN 91900"
  std::string why_not;   // why nothing was measured
};
LibraryReport read_library(const std::string& json);

// The report of `ringscope run --json`.
struct RingReport {
  bool readable = false;
  bool verified = false;
  std::vector<std::vector<long long>> pairs;  // [rank][step]
};
RingReport read_ring(const std::string& json);

// Return the figures of this run: ratios, and TFLOP/s.
std::vector<Figure> figures_of(const std::vector<Measurement>& ours,
                               const std::vector<Measurement>& library);

// ---
// Runs programs with a time limit each. Processes that they leave running are killed.

using Environment = std::vector<std::pair<std::string, std::string>>;

struct Outcome {
  int status = -1;  // exit status; 128 + signal; 127 when it could not be started
  bool cut_off = false;
  bool left_behind = false;  // it does not end, even killed; a driver that hangs can hold it
  bool skipped = false;      // there was no time left to start it
  double seconds = 0;
};

// A program of the pack, or of the machine if arguments[0] has a slash. `log` names its files in
// Check::logs: log.log for stderr, log.out for stdout.
struct Program {
  std::string log;
  std::vector<std::string> arguments;
  double limit_s = 60;
  Environment environment;  // added to our own
};

// Return the whole file, or its last `bytes` bytes; "" if there is no file.
std::string text_of(const std::string& path);
std::string tail_of(const std::string& path, std::size_t bytes = 1500);

// Return the path of a program in PATH, or "" if it is not there.
std::string find_program(const std::string& name);

// ---
// The parts of a gpu-check, most important first. Each runs programs of the pack's bin folder, has
// a time limit of its own, and fails alone.

// The state that the parts share.
struct Check {
  std::string bin;     // folder of the programs
  std::string logs;    // folder for their output
  bool small = false;  // small problems, for a pack whose kernels run on the model of a GPU
  Results results;
  std::function<void()> save;  // write the results so far

  // Run a program within the time limits of the part and of the whole check.
  Outcome run_program(const std::string& log, std::vector<std::string> arguments, double limit_s,
                      Environment environment = {});
  // Run programs, `at_once` of them side by side, and call ended(index, outcome) after each.
  void run_programs(const std::vector<Program>& programs, int at_once,
                    const std::function<void(std::size_t, const Outcome&)>& ended);
  // Return the seconds that are left to the current part.
  double left() const;
  std::string file(const std::string& name) const { return logs + "/" + name; }

  std::function<double()> now;  // seconds since the check began
  double part_ends = 0;
};

// The result of a part, and its explanation.
struct Verdict {
  PartStatus status = PartStatus::passed;
  std::string detail;
};

struct PlannedPart {
  std::string name;
  double limit_s;
  std::function<Verdict(Check&)> run;
  bool is_check = false;
};

// Return text such as "exit status 3" or "cut off after 30 s".
std::string how_it_ended(const Outcome& outcome);

// Return compute-sanitizer's path, or "". kSanitizerFound is its exit status for a finding.
std::string find_sanitizer();
inline constexpr int kSanitizerFound = 86;

// Return all parts but the first, which finds the device.
std::vector<PlannedPart> planned_parts();

// Return not_run when there is no GPU; otherwise fill in results.device_json.
Verdict find_device(Check& check);

// ---
// The parts of a gpu-check about the ring over the real NCCL: its tests on one GPU or more, one of
// them under compute-sanitizer, and its speed. Without NCCL they are not measured. That is no
// failure, because most machines have none.

Verdict nccl_tests(Check& check);
Verdict nccl_memcheck(Check& check);
Verdict nccl_speed(Check& check);

}  // namespace ringscope::gpu_check
