// Two answers merged, against all keys at once; then trees of up to 17 ranks, round by round.
#include "lessons/book/exercise_test.h"

#include <cmath>
#include <string>
#include <vector>

#include RINGSCOPE_EXERCISE

namespace {

struct Key {
  double score;
  std::vector<double> value;
};

Partial answer_from(const std::vector<Key>& keys) {
  Partial answer{-INFINITY, {0, 0}};
  double largest = -INFINITY, sum = 0;
  for (const Key& key : keys) largest = std::fmax(largest, key.score);
  for (const Key& key : keys) {
    const double weight = std::exp(key.score - largest);
    sum += weight;
    for (int x = 0; x < 2; ++x) answer.out[x] += weight * key.value[x];
  }
  if (keys.empty()) return answer;
  for (double& x : answer.out) x /= sum;
  answer.lse = largest + std::log(sum);
  return answer;
}

// Some ranks have many keys, every fourth none.
std::vector<Key> keys_of(int rank) {
  std::vector<Key> keys;
  for (int j = 0; j < (rank + 3) % 4; ++j)
    keys.push_back({3 * std::sin(5.0 * rank + j), {std::cos(rank + 2.0 * j), 1.0 * rank}});
  return keys;
}

bool close(double yours, double expected) {
  return yours == expected || std::abs(yours - expected) <= 1e-9;
}

bool close(const Partial& yours, const Partial& expected) {
  return yours.out.size() == 2 && close(yours.lse, expected.lse) &&
         close(yours.out[0], expected.out[0]) && close(yours.out[1], expected.out[1]);
}

void compare(ringscope::lessons::Exercise& exercise, const std::string& what, const Partial& yours,
             const Partial& expected) {
  exercise.near(what + ": lse", yours.lse, expected.lse, 1e-9);
  exercise.holds(what + ": lse and out", close(yours, expected));
}

void play(ringscope::lessons::Exercise& exercise, int n) {
  const std::string ranks = std::to_string(n) + " ranks: ";
  std::vector<Partial> answers;
  std::vector<Key> all;
  for (int r = 0; r < n; ++r) {
    const std::vector<Key> keys = keys_of(r);
    answers.push_back(answer_from(keys));
    all.insert(all.end(), keys.begin(), keys.end());
  }
  std::vector<bool> done(answers.size(), false);
  bool rules = true;
  int rounds = 0;
  for (; (1 << rounds) < n; ++rounds) {
    std::vector<int> busy(answers.size(), 0), to(answers.size(), -1);
    for (int r = 0; r < n; ++r) {
      to[r] = receiver(r, rounds, n);
      if (to[r] == -1) continue;
      if (to[r] < 0 || to[r] >= n) return exercise.holds(ranks + "only ranks receive", false);
      ++busy[r];
      ++busy[to[r]];
      rules = rules && !done[r] && !done[to[r]];
    }
    for (int r = 0; r < n; ++r) {
      rules = rules && busy[r] <= 1;
      if (to[r] == -1) continue;
      answers[to[r]] = merge(answers[to[r]], answers[r]);
      done[r] = true;
    }
  }
  exercise.holds(ranks + "one thing a round, nothing after handing on", rules);
  exercise.holds(ranks + "rank 0 has the answer after " + std::to_string(rounds) + " rounds",
                 close(answers[0], answer_from(all)));
}

}  // namespace

int main() {
  ringscope::lessons::Exercise exercise;
  const std::vector<Key> a = {{1, {4, 1}}, {-2, {1, 0}}}, b = {{3, {-2, 5}}}, none;
  const std::vector<Key> both = {a[0], a[1], b[0]};
  const auto merged = [](const std::vector<Key>& x, const std::vector<Key>& y) {
    return merge(answer_from(x), answer_from(y));
  };
  compare(exercise, "three keys", merged(a, b), answer_from(both));
  compare(exercise, "the other way round", merged(b, a), answer_from(both));
  compare(exercise, "with an empty shard", merged(a, none), answer_from(a));
  compare(exercise, "an empty one first", merged(none, a), answer_from(a));
  compare(exercise, "two empty ones", merged(none, none), answer_from(none));
  compare(exercise, "scores of 1,000", merged({{1000, {1, 2}}}, {{1001, {3, 4}}}),
          answer_from({{1000, {1, 2}}, {1001, {3, 4}}}));
  compare(exercise, "scores of -1,000", merged({{-1000, {1, 2}}}, {{-1001, {3, 4}}}),
          answer_from({{-1000, {1, 2}}, {-1001, {3, 4}}}));
  for (int n = 1; n <= 17; ++n) play(exercise, n);
  return exercise.finish();
}
