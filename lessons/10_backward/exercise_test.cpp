// Two blocks of keys, one after the other, against nudging every number of q, k and v.
#include "lessons/book/exercise_test.h"

#include <cmath>
#include <utility>
#include <vector>

#include RINGSCOPE_EXERCISE

namespace {

constexpr int kDim = 3, kKeys = 5, kSplit = 2;  // keys 0 and 1 are the first block
constexpr double kScale = 0.7;

struct Problem {
  Vector q, dout;
  std::vector<Vector> k, v;
};

Problem problem() {
  int n = 0;
  const auto number = [&n] { return std::sin(1.7 * ++n) + 0.2; };
  const auto vector = [&] {
    Vector values(kDim);
    for (double& x : values) x = number();
    return values;
  };
  Problem p{vector(), vector(), {}, {}};
  for (int j = 0; j < kKeys; ++j) p.k.push_back(vector()), p.v.push_back(vector());
  return p;
}

struct Forward {
  double lse, delta;  // delta is dout * out, and so the loss too
};

Forward forward(const Problem& p) {
  double sum = 0, weighted = 0;
  for (int j = 0; j < kKeys; ++j) {
    double score = 0, agreement = 0;
    for (int x = 0; x < kDim; ++x) {
      score += kScale * p.q[x] * p.k[j][x];
      agreement += p.dout[x] * p.v[j][x];
    }
    sum += std::exp(score);
    weighted += std::exp(score) * agreement;
  }
  return {std::log(sum), weighted / sum};
}

}  // namespace

int main() {
  ringscope::lessons::Exercise exercise;
  Problem p = problem();
  const Forward state = forward(p);
  Vector dq(kDim, 0.0);
  std::vector<Vector> dk(kKeys, dq), dv(kKeys, dq);
  for (const auto& [first, last] : {std::pair{0, kSplit}, std::pair{kSplit, kKeys}}) {
    const auto part = [begin = first, end = last](const std::vector<Vector>& all) {
      return std::vector<Vector>(all.begin() + begin, all.begin() + end);
    };
    std::vector<Vector> dk_part = part(dk), dv_part = part(dv);
    backward(kScale, p.q, part(p.k), part(p.v), p.dout, state.lse, state.delta, dq, dk_part,
             dv_part);
    for (int j = first; j < last; ++j) dk[j] = dk_part[j - first], dv[j] = dv_part[j - first];
  }

  const auto nudged = [&](double& number) {
    const double before = number, step = 1e-5;
    number = before + step;
    const double up = forward(p).delta;
    number = before - step;
    const double down = forward(p).delta;
    number = before;
    return (up - down) / (2 * step);
  };
  double dq_error = 0, dk_error = 0, dv_error = 0;
  const auto larger = [](double error, double difference) {
    return std::abs(difference) <= error ? error : std::abs(difference);  // keeps a NaN
  };
  for (int x = 0; x < kDim; ++x) {
    dq_error = larger(dq_error, nudged(p.q[x]) - dq[x]);
    for (int j = 0; j < kKeys; ++j) {
      dk_error = larger(dk_error, nudged(p.k[j][x]) - dk[j][x]);
      dv_error = larger(dv_error, nudged(p.v[j][x]) - dv[j][x]);
    }
  }
  exercise.near("dq, against nudging: error", dq_error, 0, 1e-7);
  exercise.near("dk, against nudging: error", dk_error, 0, 1e-7);
  exercise.near("dv, against nudging: error", dv_error, 0, 1e-7);
  return exercise.finish();
}
