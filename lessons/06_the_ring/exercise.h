// Exercise 6: a ring by hand.
//
// N ranks start with one number each, own[r], and pass the numbers round as if they were KV blocks.
// At every step 0, 1, ..., N-1 each rank adds the number that it holds to its sum, times weight(step),
// so that a wrong order shows: sums[r] is the sum of own[owner] * weight(step) over all steps.
//
// A rank has two buffers. Read one while the other is written: the loop over ranks below stands for
// all ranks at once, so no rank may see in a step what another wrote in the same step.
#pragma once

#include <array>
#include <vector>

inline double weight(int step) { return 1.0 + step; }

inline std::vector<double> ring_sums(const std::vector<double>& own) {
  const int n = static_cast<int>(own.size());
  std::vector<std::array<double, 2>> buffers(own.size());
  std::vector<double> sums(own.size(), 0);
  for (int r = 0; r < n; ++r) buffers[r][0] = own[r];
  for (int step = 0; step < n; ++step)
    for (int r = 0; r < n; ++r)
      sums[r] += buffers[r][0] * weight(step);  // not yet right: nobody passes anything on
  return sums;
}
