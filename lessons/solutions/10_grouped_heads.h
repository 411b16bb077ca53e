// Exercise 10, solved.
#pragma once

#include <vector>

struct Heads {
  int first, last;  // [first, last)
};

// The last query head decides where the last group ends.
inline Heads kv_heads_of(Heads mine, int heads, int heads_kv) {
  const int group = heads / heads_kv;
  return {mine.first / group, (mine.last - 1) / group + 1};
}

inline std::vector<double> gradients(const std::vector<double>& copies, Heads mine, int heads,
                                     int heads_kv) {
  const Heads kv = kv_heads_of(mine, heads, heads_kv);
  std::vector<double> sums(static_cast<std::size_t>(kv.last - kv.first));
  for (int h = mine.first; h < mine.last; ++h)
    sums[static_cast<std::size_t>(h * heads_kv / heads - kv.first)] +=
        copies[static_cast<std::size_t>(h - mine.first)];
  return sums;
}
