// Plays a hop of all ranks. In each round every send whose receiver is ready for it takes place.
#include <string>
#include <vector>

#include "lessons/book/exercise_test.h"

#include RINGSCOPE_EXERCISE

namespace {

// Rounds until all are done; -1 when somebody waits for ever.
int rounds_of(int n) {
  enum class Doing { sending, receiving, nothing };
  struct Rank {
    bool sends_first;
    int done = 0;  // of the two
    Doing now() const {
      if (done == 2) return Doing::nothing;
      return (done == 0) == sends_first ? Doing::sending : Doing::receiving;
    }
  };
  std::vector<Rank> ranks;
  for (int r = 0; r < n; ++r) ranks.push_back({sends_first(r, n)});
  for (int round = 0;; ++round) {
    std::vector<int> movers;
    bool all_done = true;
    for (int r = 0; r < n; ++r) {
      all_done &= ranks[r].now() == Doing::nothing;
      if (ranks[r].now() == Doing::sending && ranks[(r + 1) % n].now() == Doing::receiving) {
        movers.push_back(r);
        movers.push_back((r + 1) % n);
      }
    }
    if (all_done) return round;
    if (movers.empty()) return -1;
    for (const int r : movers) ++ranks[r].done;
  }
}

}  // namespace

int main() {
  ringscope::lessons::Exercise exercise;
  for (int n = 2; n <= 16; ++n) {
    const int rounds = rounds_of(n);
    const std::string ranks = std::to_string(n) + " ranks: ";
    exercise.holds(ranks + "nobody waits for ever", rounds >= 0);
    if (rounds >= 0)
      exercise.holds(ranks + std::to_string(rounds) + " sends one after another", rounds <= 3);
  }
  return exercise.finish();
}
