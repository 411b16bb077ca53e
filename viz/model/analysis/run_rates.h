// seconds = per_unit[group] x amount + fixed, through what was measured: the least squares' line for
// several groups of measurements with slopes of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/sim/scenario.h"
#include "viz/model/trace/trace.h"

namespace ringscope::viz {

struct Measured {
  double amount = 0;   // above 0
  double seconds = 0;  // at least 0
  int group = 0;       // 0 or 1
};

struct LineFit {
  double per_unit[2] = {};  // seconds; 0 for a group without measurements
  double fixed = 0;         // seconds, at least 0
};

// `fixed` is 0 unless it is at least three times as large as its own standard error, and at most
// `most_fixed`: what is more than that is no line's. The groups' times come out right in sum, whatever
// is fixed.
LineFit fit_line(const std::vector<Measured>& measured, double most_fixed);

// ---
// What a recording tells of the machine that made it, in the terms of a simulation: how fast its
// ranks computed, how fast blocks moved, whether ranks shared cores, and which rank was slow.
//
//   compute   seconds = FLOPs / F + fixed, a line through all compute slices: F for each pass, what
//             is fixed for both. By processor time where ranks shared cores, since time passes
//             there for others as well
//   hop       seconds = bytes / B + latency, a line through all hops, from when both ends were there
//   cores     while k ranks compute on c cores, min(k, c) of them get one: the c at which this adds
//             up to the processor time that was spent; or, where nothing tells of that, as many as
//             ever computed at once
//   speed     of a rank, as its time for a FLOP stands to the others' in the same steps. Ranks that
//             are nearly alike count as equal: differences between blocks would pass for ones
//             between ranks, and these must not follow a rank into another partition
//
// What is fixed is kept only where the slices tell it apart from the rest beyond doubt, and where it is
// no longer than launching or posting could be: blocks at the mask's edge take longer for their pairs
// than whole ones, which looks the same and must not be added to every step of more ranks.

struct RunRates {
  std::string refusal;  // why nothing can be said; "" where all of this holds
  // Without jitter, and with the slow rank as fast as the others.
  Scenario scenario;
  int slow_rank = -1;  // the slowest one that is not nearly like the others; -1: none
  double slowdown = 1;
  std::vector<std::string> remarks;  // where the rates are from, if not from what is usual
};

// Of any trace; refused when it is not a whole recording of ours with computations that took time.
RunRates rates_of_run(const Trace& trace);

}  // namespace ringscope::viz
