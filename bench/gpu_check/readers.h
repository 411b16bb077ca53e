// Reads what the programs of a gpu-check write.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/gpu_check/results.h"

namespace ringscope::gpu_check {

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
