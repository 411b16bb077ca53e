// How surprised the model is at the byte that follows: for a row of logits z and its target t,
//
//   loss = log(sum of e^z) - z_t,    dz = scale (softmax(z) - [t])
//
// A rank knows the losses of its own rows. Their sum over the ranks is the summed loss; the mean is
// that over the number of all rows of the batch, which every rank knows. So `scale` is 1 for a
// summed loss and 1 over that number for a mean, and in both cases the ranks' gradients add up to
// the right one, however unequal their shares are. (A mean of the ranks' own means is right for
// equal shares only: claim C44.)
#pragma once

#include <cstdint>

#include "core/base/math.h"

namespace ringscope {

// Returns the sum of the rows' losses, in nats. logits: [rows, columns]; with a `scale` other than
// 0 they become their gradient.
double cross_entropy(Index rows, Index columns, const std::uint8_t* targets, double scale,
                     float* logits);

}  // namespace ringscope
