// Reads what the programs of a gpu-check write.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/gpu_check/results.h"

namespace ringscope::gpu_check {

// "Suite.Test" and "Suite.Test/7" of --gtest_list_tests, in order.
std::vector<std::string> listed_tests(const std::string& text);

// A report of --gtest_output=json.
struct TestReport {
  bool readable = false;
  int passed = 0, failed = 0, skipped = 0;
  std::map<int, KernelTests> kernels;  // of tests that recorded the property "kernel"
  std::vector<std::string> failures;   // names
};
TestReport read_tests(const std::string& json);

// A report of Google Benchmark; one that was cut off gives what it had. Throws std::runtime_error
// when nothing of it can be read.
std::vector<Measurement> read_benchmarks(std::string json);

// What sdpa.py wrote.
struct LibraryReport {
  std::vector<Measurement> measurements;
  std::string versions;  // "PyTorch 2.11.0, cuDNN 91900"
  std::string why_not;   // why nothing was measured
};
LibraryReport read_library(const std::string& json);

// `ringscope run --json`.
struct RingReport {
  bool readable = false;
  bool verified = false;
  std::vector<std::vector<long long>> pairs;  // [rank][step]
};
RingReport read_ring(const std::string& json);

// The ratios within the run.
std::vector<Figure> figures_of(const std::vector<Measurement>& ours,
                               const std::vector<Measurement>& library);

}  // namespace ringscope::gpu_check
