// The backward ladder on a GPU: TFLOP/s of every kernel and tile. A head counts as 10 x pairs x
// head_dim, the FLOPs of five products, although 08 computes seven.
#include "bench/gpu_ladder.h"

int main(int argc, char** argv) {
  return ringscope::cuda::ladder_main(argc, argv, ringscope::cuda::KernelPass::backward);
}
