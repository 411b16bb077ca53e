// How values lie along a chart's axis, and which of them are written there: round ones.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace ringscope::viz {

struct Tick {
  double at = 0;  // a value
  std::string label;
};

using ValueText = std::function<std::string(double)>;

struct ChartScale {
  bool logarithmic = false;
  double low = 0, high = 1;
  std::vector<Tick> ticks;

  // Where a value lies: 0 at low, 1 at high.
  double share(double value) const;
};

// From 0, or below the lowest value, to a round number above the highest: 1, 2 or 5 times a power
// of ten apart, about `count` of them.
ChartScale linear_scale(double low, double high, int count, const ValueText& text);
// A little more than positive values take, and the round numbers there: 1, 2, 5 of every decade, or
// powers of ten where these would be many. For values that are far apart, or one.
ChartScale log_scale(double low, double high, int count, const ValueText& text);
// The values themselves, ascending, as far as at most `count` of them; by logarithm where they lie
// more evenly so.
ChartScale scale_at(const std::vector<double>& values, int count, const ValueText& text);
// Names, at 0, 1, 2, ...
ChartScale named_scale(const std::vector<std::string>& names, int count);

// "50 µs", "1 s": no more digits than there are.
std::string tick_time_text(double seconds);
// "8k" for 8192, "1M" for 1048576, "1000" for 1000.
std::string tokens_text(double count);

}  // namespace ringscope::viz
