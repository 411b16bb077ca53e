// The results of a gpu-check and their file, one JSON object. The file is written anew after each
// part, so that an interrupted check leaves its results. bench/README.md describes the members.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ringscope::gpu_check {

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

}  // namespace ringscope::gpu_check
