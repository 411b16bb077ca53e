// The forward ladder on a GPU: TFLOP/s of every kernel and tile, 4 x pairs x head_dim per head.
#include "bench/gpu_ladder.h"

int main(int argc, char** argv) {
  return ringscope::cuda::ladder_main(argc, argv, ringscope::cuda::KernelPass::forward);
}
