// The numbers of the figures that move in the lessons' pages. A page sends what its sliders say and
// draws what comes back; nothing is computed in the page itself.
#pragma once

#include <string>
#include <vector>

namespace ringscope::lessons {

// Return the numbers of figure `name` as a JSON object. Arguments are texts, as a page has them:
//
//   work     MASK PARTITION WORLD_SIZE SEQLEN    pairs by rank and step, imbalance, ceiling; and two runners, that
//                                                partition and zigzag: the wall time, and each rank's slices as lane,
//                                                step, begin and end in ns
//   overlap  TFLOP/S GB/S HARDWARE               seconds of computing and sending by rows of a rank, and the crossing;
//                                                HARDWARE is "GPU LINK" of the built-in table, or "" for the numbers
//   merge    SCORES SPLIT                        two parts of a row, (m, l, out) of each, merged, and all at once;
//                                                the value of key j is 10 (j + 1)
//   ring     WORLD_SIZE STEP forward|backward    the owner of the block that each rank holds
//   count    ONES                                their sum, kept in f32 and in bf16
//   deal     MASK RANKS WORLD_SIZE SEQLEN        the same for a deal of equal pieces: RANKS are those that hold them,
//                                                one after the other, and come back as `holders`
//   nodes    NICS GB/S ROWS SPEED                two runners, a flat ring and a two-level one, of 8 ranks on 2 nodes;
//                                                rank 5 computes at SPEED times the others' speed
//   decode   WORLD_SIZE PROMPT WRITTEN ring|tree US   rows of each shard; for one token in one layer the bytes and
//                                                seconds of sending K and V round, and of merging results
//
// What is refused comes back as {"error": "..."}.
std::string figure_numbers(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace ringscope::lessons
