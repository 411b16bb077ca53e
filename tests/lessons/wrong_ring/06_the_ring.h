// Our ring, unless RINGSCOPE_MISTAKE in the environment names a mistake that a learner's may have.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <string_view>

#define ring_forward right_ring_forward
#include "lessons/solutions/06_the_ring.h"
#undef ring_forward

namespace my_ring {

inline bool is_mistaken(std::string_view mistake) {
  const char* const wanted = std::getenv("RINGSCOPE_MISTAKE");
  return wanted != nullptr && wanted == mistake;
}

inline std::vector<State> ring_forward(Rank& rank, const Queries& mine, const Block& held,
                                       const Attend& attend) {
  if (is_mistaken("throws")) throw 7;
  if (is_mistaken("receives first")) (void)rank.finish_hop();
  if (is_mistaken("sends nothing")) rank.start_hop({});
  while (is_mistaken("hangs") && rank.number == 1) ::sleep(1);
  std::vector<State> states = right_ring_forward(rank, mine, held, attend);
  if (is_mistaken("a row less")) states.pop_back();
  if (is_mistaken("a value more")) states[0].out.push_back(0);
  return states;
}

}  // namespace my_ring
