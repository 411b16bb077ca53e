// Derives the rates of the machine that made a recording. fit_line fits seconds = per_unit[group] x
// amount + fixed by least squares, where each of several groups of measurements has its own slope.
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

// Fit the line. `fixed` is 0 unless it is at least three times its own standard error and at most
// `most_fixed`; more can't be a fixed time. Each group's total time is right whatever `fixed` is.
LineFit fit_line(const std::vector<Measured>& measured, double most_fixed);

// ---
// Says what a recording tells about its machine, in the terms of a simulation: how fast its ranks
// computed, how fast blocks moved, whether ranks shared cores, and which rank was slow.
//
//   compute   seconds = FLOPs / F + fixed, a line through all compute slices, with F per pass and
//             one fixed time. If ranks shared cores, seconds are processor time, because wall time
//             passes for other ranks as well.
//   hop       seconds = bytes / B + latency, a line through all hops, from when both ends are there
//   cores     while k ranks compute on c cores, min(k, c) of them get one: the c for which this
//             adds up to the processor time spent or, if that is unknown, the most ranks at once
//   speed     a rank's time per FLOP relative to the others' in the same steps. Nearly equal ranks
//             count as equal, because differences between blocks would pass for ones between ranks,
//             and these must not follow a rank into another partition.
//
// The fixed time is kept only if the slices tell it from the rest beyond doubt and it is no longer
// than launching or posting could be. Blocks at the mask's edge take longer for their pairs than
// whole ones, which looks the same but must not be added to every step of more ranks.

struct RunRates {
  std::string refusal;  // why nothing can be said; "" if all of this holds
  // It has no jitter, and the slow rank is as fast as the others.
  Scenario scenario;
  // [rank]: how many times as long as most links the one to the next rank takes; empty: all are alike.
  std::vector<double> link_slowness;
  int slow_rank = -1;  // the slowest one that is not nearly like the others; -1: none
  double slowdown = 1;
  std::vector<std::string> remarks;  // where the rates come from, if that is unusual
};

// Return the rates. Refuses a trace that is no whole recording of ours or computed in no time.
RunRates rates_of_run(const Trace& trace);

}  // namespace ringscope::viz
