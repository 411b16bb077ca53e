// Two states by hand, in both orders; one of them empty, both of them; and scores far beyond what
// exp can take.
#include "lessons/book/exercise_test.h"

#include <limits>
#include <string>
#include <vector>

#include RINGSCOPE_EXERCISE

namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

// The state of keys with these scores; the values are 10, 20, ... and their negatives.
State state_of(const std::vector<double>& scores, double first_value) {
  State state{kNone, 0, {0, 0}};
  for (const double score : scores) state.m = std::fmax(state.m, score);
  for (const double score : scores) {
    const double weight = std::exp(score - state.m);
    state.l += weight;
    state.out[0] += weight * first_value;
    state.out[1] -= weight * first_value;
    first_value += 10;
  }
  return state;
}

// One line: the first field that is wrong.
void compare(ringscope::lessons::Exercise& exercise, const std::string& what, const State& yours,
             const State& expected) {
  if (yours.m != expected.m) return exercise.equal(what + ": m", yours.m, expected.m);
  if (!(std::abs(yours.l - expected.l) <= 1e-12))
    return exercise.near(what + ": l", yours.l, expected.l, 1e-12);
  for (std::size_t x = 0; x < 2; ++x)
    if (!(std::abs(yours.out.at(x) - expected.out[x]) <= 1e-10))
      return exercise.near(what + ": out", yours.out[x], expected.out[x], 1e-10);
  exercise.holds(what, true);
}

}  // namespace

int main() {
  ringscope::lessons::Exercise exercise;
  const State none = state_of({}, 0);
  for (const double shift : {0.0, 1000.0, -1000.0}) {
    const std::string at = shift == 0 ? "" : " at scores near " + std::to_string(int(shift));
    const State early = state_of({shift + 1, shift + 3}, 10);
    const State late = state_of({shift + 2, shift + 5}, 30);
    const State all = state_of({shift + 1, shift + 3, shift + 2, shift + 5}, 10);
    compare(exercise, "early with late" + at, merge(early, late), all);
    compare(exercise, "late with early" + at, merge(late, early), all);
    compare(exercise, "with no keys" + at, merge(early, none), early);
    compare(exercise, "no keys with some" + at, merge(none, early), early);
  }
  compare(exercise, "no keys with no keys", merge(none, none), none);
  return exercise.finish();
}
