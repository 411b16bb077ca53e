// The model's NCCL, seen from tests: ranks are threads of this process, and a group of sends and
// receives is one operation of a stream of the model's device (runtime.h).
//
// It is as strict as NCCL may be, and never as lenient as it often is:
//   - A group begins when its stream comes to it, and ends when each of its parts has met its peer's
//     part, begun as well. Nothing is buffered: a send whose receive comes behind the peer's own
//     send in its stream never ends, and neither do parts whose counts differ. Only an abort ends
//     what hangs.
//   - Communicators are nonblocking. A group is put into its stream only some polls of the
//     communicator's state later, and the first of two ranks' only when both have asked for it (they
//     connect). An event recorded before that is too early.
//   - From its beginning to its transfer, which comes as late as possible, a group's receive buffers
//     hold 0xff, and its send buffers may not change.
//
// What a correct program never does is a complaint, in words: using a communicator while its last
// call is in progress, or that has an error, is aborted or destroyed; a send buffer that changes, a
// receive buffer that is written to by others; destroying one with work under way, or with memory
// registered.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringscope::cuda::model {

// As at the program's start; after reset_device(). No communicator may be in use.
void reset_nccl();

// Not destroyed and not aborted.
std::size_t live_communicators();
std::size_t aborted_communicators();
std::vector<std::string> nccl_complaints();

// One ncclSend or ncclRecv.
struct NcclPart {
  bool is_send = false;
  int rank = 0, peer = 0;
  std::size_t bytes = 0;
  cudaStream_t stream = nullptr;
  int group = 0;  // counted by rank, from 0: parts of one group have the same
};
// All of them, each rank's in its order.
std::vector<NcclPart> nccl_parts();

// What ncclGetVersion says; at the start 2.30.3. Before that, and without
// NCCL_MULTI_RANK_GPU_ENABLE=1, several ranks on one GPU are refused.
void set_nccl_version(int version);
// Whether ncclCommRegister works; at the start it does.
void set_nccl_registration(bool works);
// At most so many polls until a call in progress goes on, drawn from the seed; at the start 3.
void set_nccl_delay(int polls, std::uint64_t seed);

// Lets the nth call of the function `name` from now on (1: the next) do nothing and return `status`.
void fail_nccl_call(const std::string& name, int nth, ncclResult_t status);
// Gives the communicator of `rank` an error once it has posted `groups` groups, as a lost peer does.
void fail_nccl_rank(int rank, int groups, ncclResult_t status);

}  // namespace ringscope::cuda::model
