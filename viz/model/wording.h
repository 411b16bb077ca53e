// Numbers in the sentences and tables that the model writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringscope::viz {

std::string words_of_time(double ns);        // "312 ms", "1.25 s": three digits, one unit
std::string words_of_count(double count);    // "134 M"
std::string words_of_bytes(double bytes);    // "4.25 MiB"
std::string words_of_share(double share);    // "97 %"; "0.4 %" below one
std::string words_of_factor(double factor);  // "1.75", "7", "13"

}  // namespace ringscope::viz
