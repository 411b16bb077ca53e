// Gives kernels on the model of a GPU a fault, so that a rehearsal of gpu-check meets what a first
// hour on a GPU may meet. RINGSCOPE_FAULTS="hangs=3 wrong=6 waits=7 crashes=9" says which: 03 never
// ends, 06 scales scores by too much, 07 ends as by the watchdog of its waits, and 09 is killed. The
// linker has programs ask here, instead of cuda/kernels/kernel_table.h, for the table.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cuda/base/check.h"
#include "cuda/kernels/kernel_table.h"

namespace ringscope::cuda {

#define RINGSCOPE_ALL_KERNELS "_ZN9ringscope4cuda11all_kernelsEv"
#define RINGSCOPE_KERNELS_OF "_ZN9ringscope4cuda10kernels_ofENS0_10KernelPassE"
std::span<const Kernel> all_true_kernels() asm("__real_" RINGSCOPE_ALL_KERNELS);
std::span<const Kernel> all_faulty_kernels() asm("__wrap_" RINGSCOPE_ALL_KERNELS);
std::span<const Kernel> faulty_kernels_of(KernelPass pass) asm("__wrap_" RINGSCOPE_KERNELS_OF);

namespace {

void hang(const ForwardStep&, DType, int, cudaStream_t) {
  while (true) pause();
}

// End as a wait of a Hopper kernel does that takes ten seconds (cuda/ptx/watchdog.h).
void wait_in_vain(const ForwardStep&, DType, int, cudaStream_t) {
  *hang_record_of("07_hopper_overlap") = {1, 1, 3, 0, 128, 1024, 1};
  check(cudaErrorLaunchFailure, "cudaDeviceSynchronize()", __FILE__, __LINE__);
}

void (*true_launch)(const ForwardStep&, DType, int tile, cudaStream_t);
void be_wrong(const ForwardStep& step, DType dtype, int tile, cudaStream_t stream) {
  ForwardStep changed = step;
  changed.softmax_scale *= 1.5f;
  true_launch(changed, dtype, tile, stream);
}

void crash(const BackwardStep&, DType, int, cudaStream_t) { raise(SIGSEGV); }

std::vector<Kernel> made_faulty() {
  const std::span<const Kernel> kernels = all_true_kernels();
  std::vector<Kernel> faulty(kernels.begin(), kernels.end());
  const char* const faults = std::getenv("RINGSCOPE_FAULTS");
  std::istringstream words(faults == nullptr ? "" : faults);
  for (std::string word; words >> word;) {
    const int number = std::stoi(word.substr(word.find('=') + 1));
    Kernel& kernel = *std::ranges::find(faulty, number, &Kernel::number);
    if (word.starts_with("hangs=")) kernel.launch_forward = hang;
    if (word.starts_with("waits=")) kernel.launch_forward = wait_in_vain;
    if (word.starts_with("wrong=")) true_launch = std::exchange(kernel.launch_forward, be_wrong);
    if (word.starts_with("crashes=")) kernel.launch_backward = crash;
  }
  return faulty;
}

}  // namespace

std::span<const Kernel> all_faulty_kernels() {
  static const std::vector<Kernel> kernels = made_faulty();
  return kernels;
}

std::span<const Kernel> faulty_kernels_of(KernelPass pass) {
  std::size_t forward = 0;  // forward kernels come first
  for (const Kernel& kernel : all_faulty_kernels()) forward += kernel.pass() == KernelPass::forward;
  return pass == KernelPass::forward ? all_faulty_kernels().first(forward)
                                     : all_faulty_kernels().subspan(forward);
}

}  // namespace ringscope::cuda
