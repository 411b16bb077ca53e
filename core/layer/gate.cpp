#include "core/layer/gate.h"

#include <type_traits>

#include "core/attention/vector.h"

namespace ringscope {
namespace {

Vector sigmoid(Vector x) {
  const Vector most = broadcast(87.0f);  // exp_of goes no further; the sigmoid is 1e-38 there
  const Vector minus = -x;
  return 1.0f / (1.0f + exp_of(minus < most ? minus : most));
}

// Calls f(index, lanes) for a vector of values at a time; a whole one's lanes are a constant.
template <class F>
void for_vectors(Index values, F&& f) {
  Index i = 0;
  for (; i + kVectorWidth <= values; i += kVectorWidth)
    f(i, std::integral_constant<Index, kVectorWidth>());
  if (i < values) f(i, values - i);
}

}  // namespace

void gate_forward(Index values, const float* gate, const float* up, float* y) {
  for_vectors(values, [&](Index i, auto lanes) {
    const Vector g = load_first(gate + i, lanes);
    store_first(y + i, g * sigmoid(g) * load_first(up + i, lanes), lanes);
  });
}

void gate_backward(Index values, const float* gate, const float* up, const float* dy, float* dgate,
                   float* dup) {
  for_vectors(values, [&](Index i, auto lanes) {
    const Vector g = load_first(gate + i, lanes), u = load_first(up + i, lanes);
    const Vector d = load_first(dy + i, lanes), s = sigmoid(g);
    store_first(dup + i, d * g * s, lanes);
    store_first(dgate + i, d * u * s * (1.0f + g * (1.0f - s)), lanes);
  });
}

}  // namespace ringscope
