// Ends a kernel whose wait does not end. A wait of 9 to 13 seconds becomes an error (%globaltimer_hi
// counts 4.3 s): the first thread that comes there writes a HangRecord (cuda/base/check.h), and the
// others give it time.
#pragma once

#include <cuda_runtime.h>

#include "cuda/base/check.h"

namespace ringscope::cuda::ptx {

#ifndef RINGSCOPE_MODEL
// Where this source file's kernels report a wait that does not end: memory of the host, or null.
// arm_hang_record sets it.
[[maybe_unused]] static __device__ HangRecord* hang_record = nullptr;

// Wait until TEST sets `done`. All of it is one statement, because a loop or a call that the compiler
// sees costs registers that a producer does not have. Its operands are %0, which the record calls the
// barrier, %1, the parity, and %2, the address of hang_record.
#define RINGSCOPE_WAIT(TEST)                 \
  "{\n"                                      \
  ".reg .pred done, goes_on;\n"              \
  ".reg .u32 began, value;\n"                \
  ".reg .u64 record;\n" TEST                 \
  "@done bra over;\n"                        \
  "mov.u32 began, %%globaltimer_hi;\n"       \
  "again:\n" TEST                            \
  "@done bra over;\n"                        \
  "mov.u32 value, %%globaltimer_hi;\n"       \
  "sub.u32 value, value, began;\n"           \
  "setp.le.u32 goes_on, value, 2;\n"         \
  "@goes_on bra again;\n"                    \
  "ld.global.u64 record, [%2];\n"            \
  "setp.eq.u64 done, record, 0;\n"           \
  "@done bra over_and_out;\n"                \
  "atom.exch.b32 value, [record], 1;\n"      \
  "setp.ne.u32 done, value, 0;\n"            \
  "@done bra another_writes;\n"              \
  "mov.u32 value, %%ctaid.x;\n"              \
  "st.u32 [record+8], value;\n"              \
  "mov.u32 value, %%ctaid.y;\n"              \
  "st.u32 [record+12], value;\n"             \
  "mov.u32 value, %%tid.x;\n"                \
  "st.u32 [record+16], value;\n"             \
  "st.u32 [record+20], %0;\n"                \
  "st.u32 [record+24], %1;\n"                \
  "fence.sc.sys;\n"                          \
  "mov.u32 value, 1;\n"                      \
  "st.u32 [record+4], value;\n"              \
  "fence.sc.sys;\n"                          \
  "bra over_and_out;\n"                      \
  "another_writes:\n"                        \
  "mov.u32 began, %%globaltimer_lo;\n"       \
  "sleeps:\n"                                \
  "nanosleep.u32 1000000;\n"                 \
  "mov.u32 value, %%globaltimer_lo;\n"       \
  "sub.u32 value, value, began;\n"           \
  "setp.le.u32 goes_on, value, 100000000;\n" \
  "@goes_on bra sleeps;\n"                   \
  "over_and_out:\n"                          \
  "trap;\n"                                  \
  "over:\n"                                  \
  "}"

#endif

// Let the kernels of the source file that includes this leave records under the name `kernel`. Call
// it before a launch; it acts once per device. Throw CudaError.
[[maybe_unused]] static void arm_hang_record([[maybe_unused]] const char* kernel) {
#ifndef RINGSCOPE_MODEL
  static bool armed[64];  // a rank's GPU is used by one thread, and arming twice does no harm
  int device = 0;
  RINGSCOPE_CUDA(cudaGetDevice(&device));
  if (device >= 64 || armed[device]) return;
  HangRecord* const record = hang_record_of(kernel);
  RINGSCOPE_CUDA(cudaMemcpyToSymbol(hang_record, &record, sizeof(record)));
  armed[device] = true;
#endif
}

}  // namespace ringscope::cuda::ptx
