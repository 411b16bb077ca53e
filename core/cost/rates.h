// The four numbers that a machine comes down to in the closed forms.
#pragma once

#include "core/cost/hardware.h"
#include "core/trace/event.h"

namespace ringscope {

struct Rates {
  double forward_flops = 0;  // FLOP/s that the attention kernel reaches: S0's F
  double backward_flops = 0;
  double bytes_per_s = 0;  // of a link, one way: S0's B
  double latency_s = 0;    // of a message, besides its bytes

  double flops(Pass pass) const { return pass == Pass::forward ? forward_flops : backward_flops; }
};

// Throws InputError when the table has no rate for `dtype`.
inline Rates rates_of(const Gpu& gpu, const Link& link, DType dtype) {
  const double peak = gpu.peak_flops(dtype);
  return {peak * gpu.forward_share, peak * gpu.backward_share, link.bytes_per_s, link.latency_s};
}

}  // namespace ringscope
