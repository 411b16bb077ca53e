// The activation of the MLP, value by value: one projection gates the other,
//
//   y = gate s * up,    s = sigmoid(gate) = 1 / (1 + e^-gate)
//
// and backward
//
//   dup = dy gate s        dgate = dy up s (1 + gate (1 - s))
#pragma once

#include "core/base/math.h"

namespace ringscope {

void gate_forward(Index values, const float* gate, const float* up, float* y);
// Overwrites dgate and dup; each may be where dy, gate or up is.
void gate_backward(Index values, const float* gate, const float* up, const float* dy, float* dgate,
                   float* dup);

}  // namespace ringscope
