// The numbers of the figures that move in the lessons' pages. A page sends what its sliders say and draws what comes
// back; nothing is computed in the page itself.
#pragma once

#include <string>
#include <vector>

namespace ringscope::viz {

// Return the numbers of figure `name` as a JSON object. Arguments are texts, as a page has them:
//
//   work     MASK PARTITION WORLD_SIZE SEQLEN    pairs by rank and step, imbalance, ceiling
//   overlap  TFLOP/S GB/S                        seconds of computing and sending by rows of a rank, and the crossing
//   merge    SCORES SPLIT                        two parts of a row, (m, l, out) of each, merged, and all at once;
//                                                the value of key j is 10 (j + 1)
//   ring     WORLD_SIZE STEP forward|backward    the owner of the block that each rank holds
//   count    ONES                                their sum, kept in f32 and in bf16
//
// What is refused comes back as {"error": "..."}.
std::string figure_numbers(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace ringscope::viz
