// The parts of a gpu-check, most important first. Each runs programs of the pack's bin folder, has
// a time limit of its own, and fails alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/gpu_check/child.h"
#include "bench/gpu_check/results.h"

namespace ringscope::gpu_check {

// What parts share.
struct Check {
  std::string bin;   // folder of the programs
  std::string logs;  // folder for what they say
  Results results;

  // Runs a program of the pack, or of the machine when its name has a slash, within the limit of
  // the part and of the whole; `log` names its files in `logs`.
  Outcome run_program(const std::string& log, std::vector<std::string> arguments, double limit_s,
                      std::vector<std::pair<std::string, std::string>> environment = {});
  // Seconds that are left to the present part.
  double left() const;
  std::string file(const std::string& name) const { return logs + "/" + name; }

  std::function<double()> now;  // seconds since the check began
  double part_ends = 0;
};

// A part's end, with what is to be said of it.
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

// "exit status 3", "cut off after 30 s"
std::string how_it_ended(const Outcome& outcome);

// compute-sanitizer's program; empty when there is none. Its exit status when it found something.
std::string find_sanitizer();
inline constexpr int kSanitizerFound = 86;

// Without the first, which finds the device.
std::vector<PlannedPart> planned_parts();

// Verdict not_run when there is no GPU; fills results.device_json otherwise.
Verdict find_device(Check& check);

}  // namespace ringscope::gpu_check
