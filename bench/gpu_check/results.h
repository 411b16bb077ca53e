// What a gpu-check found, and its file: one JSON object, written anew after each part, so that a
// check that is cut off leaves what it had. bench/README.md describes the members.
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
  bool is_check = false;  // whether all depends on it; the others measure, as far as time allows
};

// What the tests of one kernel came to. Passes with a test passed and none failed.
struct KernelTests {
  int passed = 0, failed = 0, skipped = 0;
  bool pass() const { return passed > 0 && failed == 0; }
};

// A benchmark, ours or a library's.
struct Measurement {
  std::string name;
  double ms = 0;
  std::map<std::string, double> figures;  // TFLOPs and what else it counted
  std::string problem;                    // why there are none
};

// A ratio within this run, and what it is wished to be.
struct Figure {
  std::string name;
  double value = 0;
  std::string goal;  // ">= 1.0"; empty without one
};

struct Results {
  std::string commit, date, time_utc, device_json;  // device_json: an object, as text
  bool complete = false;
  std::vector<Part> parts;
  std::map<int, KernelTests> kernels;
  std::vector<Measurement> ours, library;
  std::vector<Figure> figures;

  // Every check passed, and nothing else failed. What measures need not have had the time.
  bool passed() const;
};

std::string name_of(PartStatus status);

std::string to_json(const Results& results);

// Writes beside `path` and renames. Throws std::runtime_error.
void write_results(const Results& results, const std::string& path);

// The short table for people.
std::string to_text(const Results& results);

}  // namespace ringscope::gpu_check
