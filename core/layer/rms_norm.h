// Root-mean-square normalisation, row by row:
//
//   y = gain * x * r,    r = 1 / sqrt(mean of x^2 + epsilon)
//
// and backward, with r's own derivative, dr/dx = -r^3 x / width:
//
//   dx = r gain * dy - x r^3 sum(gain * dy * x) / width        dgain += sum over rows of dy * x r
//
// Sums are taken in f64.
#pragma once

#include "core/base/math.h"

namespace ringscope {

// x, y [rows, width], apart; gain [width]; inverse_rms [rows]: r, for the backward.
void rms_norm_forward(Index rows, Index width, double epsilon, const float* x, const float* gain,
                      float* y, float* inverse_rms);

// Adds to dx [rows, width] (the residual's gradient is there already) and to dgain [width].
void rms_norm_backward(Index rows, Index width, const float* x, const float* gain,
                       const float* inverse_rms, const float* dy, float* dx, float* dgain);

}  // namespace ringscope
