// Puts numbers, steps and lists into the words that the viewer shows. Figures have three digits and
// one unit. Panels keep the zeros at the end of a fraction, so that figures that change keep their
// width ("1.50 ms"); sentences drop them ("1.5 ms").
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/event.h"

namespace ringscope::viz {

// A NumberFormat writes a number in the largest of its units of which it is at least one.
struct NumberFormat {
  struct Unit {
    double size;
    const char* name;
  };
  std::span<const Unit> units;  // ascending
  bool drops_zeros = false;

  std::string operator()(double value) const;
  template <std::integral Integer>
  std::string operator()(Integer value) const {
    return (*this)(static_cast<double>(value));
  }
};

inline constexpr double kKi = 1024;
inline constexpr NumberFormat::Unit kTimes[] = {{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}, {1e9, "s"}};
inline constexpr NumberFormat::Unit kBytes[] = {{1, "B"},
                                                {kKi, "KiB"},
                                                {kKi * kKi, "MiB"},
                                                {kKi * kKi * kKi, "GiB"},
                                                {kKi * kKi * kKi * kKi, "TiB"}};
inline constexpr NumberFormat::Unit kRates[] = {{1, "B/s"},
                                                {kKi, "KiB/s"},
                                                {kKi * kKi, "MiB/s"},
                                                {kKi * kKi * kKi, "GiB/s"},
                                                {kKi * kKi * kKi * kKi, "TiB/s"}};
inline constexpr NumberFormat::Unit kCounts[] = {{1, ""},    {1e3, "k"},  {1e6, "M"},
                                                 {1e9, "G"}, {1e12, "T"}, {1e15, "P"}};
inline constexpr NumberFormat::Unit kFlops[] = {{1, "FLOP"},    {1e3, "kFLOP"},  {1e6, "MFLOP"},
                                                {1e9, "GFLOP"}, {1e12, "TFLOP"}, {1e15, "PFLOP"}};

inline constexpr NumberFormat time_text{kTimes};       // of nanoseconds: "1.25 ms"
inline constexpr NumberFormat bytes_text{kBytes};      // "4.20 MiB"
inline constexpr NumberFormat bandwidth_text{kRates};  // of bytes per second: "1.90 GiB/s"
inline constexpr NumberFormat count_text{kCounts};     // "134 M"
inline constexpr NumberFormat flops_text{kFlops};      // "34.4 GFLOP"
inline constexpr NumberFormat words_of_time{kTimes, true}, words_of_bytes{kBytes, true};

std::string percent_text(double share);      // "12.5 %"
std::string words_of_share(double share);    // "97 %"; "0.4 %" below one
std::string words_of_factor(double factor);  // "1.75", "7", "13"

// Return what is known about a run besides its times, as names and values: "sequence", "4096". A
// value that was not recorded is left out.
std::vector<std::pair<std::string, std::string>> facts_of(const RunInfo& run, bool backward);

// Return "step 2", "backward step 2", and of a wait behind a pass's last attention "the last step".
std::string words_of_step(Pass pass, int step);
// Return "1 rank", "8 ranks".
template <std::integral Integer>
std::string counted(Integer count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}
// Return "a, b and c", for `last_word` " and ".
std::string listed(const std::vector<std::string>& items, const std::string& last_word);
std::string capitalized(std::string text);  // ASCII letters only
// Return "rank 3", "ranks 1, 2 and 5", or how many there are where those are too many to name.
std::string words_of_ranks(const std::vector<int>& ranks);

}  // namespace ringscope::viz
