// Row by row against the naive function, and two cases that can be done in the head.
#include <vector>

#include "core/attention/naive.h"
#include "core/attention/views.h"
#include "core/base/random.h"
#include "tests/lessons/exercises/exercise_test.h"

using namespace ringscope;

void check(Exercise& exercise) {
  const std::vector<double> equal = attend({1}, {5, 5}, {10, 30});
  exercise.holds("the output has D numbers", equal.size() == 1);
  if (equal.size() != 1) return;
  exercise.near("two equal keys: the average of 10 and 30", equal[0], 20, 1e-12);
  // Scores 0 and log(3): weights 1/4 and 3/4.
  exercise.near("scores 0 and log 3: weights 1/4 and 3/4",
                attend({1}, {0, std::log(3.0)}, {0, 100})[0], 75, 1e-9);

  const Index seqlen = 5, head_dim = 4;
  std::vector<double> q, k, v;
  for (Index i = 0; i < seqlen * head_dim; ++i) {
    q.push_back(normal(1, RandomTensor::q, i));
    k.push_back(normal(1, RandomTensor::k, i));
    v.push_back(normal(1, RandomTensor::v, i));
  }
  const auto expected = naive_attention<double>(
      {.seqlen = seqlen, .head_dim = head_dim}, Mask{.seqlen = seqlen},
      default_softmax_scale(head_dim), q.data(), k.data(), v.data(), nullptr);
  double largest = 0;
  for (Index i = 0; i < seqlen; ++i) {
    const std::vector<double> row =
        attend({q.begin() + i * head_dim, q.begin() + (i + 1) * head_dim}, k, v);
    if (row.size() != static_cast<std::size_t>(head_dim)) return;
    for (Index x = 0; x < head_dim; ++x) {
      const double off = std::abs(row[static_cast<std::size_t>(x)] -
                                  expected.out[static_cast<std::size_t>(i * head_dim + x)]);
      largest = off <= largest ? largest : off;  // a NaN stays
    }
  }
  exercise.near("five tokens, D = 4: largest difference from naive_attention", largest, 0, 1e-9);
}
