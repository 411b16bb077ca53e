// Formats numbers for people, in panels and tooltips.
#pragma once

#include <cstdint>
#include <string>

namespace ringscope::viz {

std::string time_text(double ns);      // "1.25 ms"; three significant digits, one unit
std::string bytes_text(double bytes);  // "4.2 MiB"
std::string bandwidth_text(double bytes_per_second);  // "1.9 GiB/s"
std::string count_text(double count);                 // "134.2 M"
std::string flops_text(double flops);                 // "34.4 GFLOP"
std::string percent_text(double share);               // "12.5 %"

}  // namespace ringscope::viz
