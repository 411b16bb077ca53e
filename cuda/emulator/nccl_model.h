// The interface to the model's NCCL for tests. Ranks are threads of this process, and a group of
// sends and receives is one operation of a stream of the model's device (runtime.h).
//
// The model is as strict as NCCL may be, and never as lenient as it often is:
//   - A group begins when its stream reaches it, and ends when each of its parts has met its peer's
//     part, which must have begun as well. Nothing is buffered. So a send whose receive comes after
//     the peer's own send in its stream never ends, and neither do parts whose counts differ. Only
//     an abort ends what hangs.
//   - Communicators are nonblocking. A group enters its stream only some polls of the state later.
//     The first group of two ranks enters only when both have asked for it, because they connect
//     first. An event recorded before that is too early.
//   - From its beginning to its transfer, which comes as late as possible, a group's receive
//     buffers hold 0xff, and its send buffers may not change.
//
// The model complains in words about what a correct program never does: use a communicator while
// its last call is in progress, or one that has an error, is aborted or destroyed; change a send
// buffer, or let others write a receive buffer; destroy one with unfinished work.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ringscope::cuda::model {

// Restore the initial state. Call it after reset_device(), with no communicator in use.
void reset_nccl();

// Count the communicators that are neither destroyed nor aborted.
std::size_t live_communicators();
std::size_t aborted_communicators();
std::vector<std::string> nccl_complaints();

// One ncclSend or ncclRecv.
struct NcclPart {
  bool is_send = false;
  int rank = 0, peer = 0;
  std::size_t bytes = 0;
  cudaStream_t stream = nullptr;
  int group = 0;  // per rank, from 0; all parts of one group have the same
};
// Return all parts, those of each rank in its order.
std::vector<NcclPart> nccl_parts();

// Set what ncclGetVersion returns, 2.30.3 at the start. Before that version, or without
// NCCL_MULTI_RANK_GPU_ENABLE=1, the model refuses several ranks on one GPU.
void set_nccl_version(int version);
// Set the most polls, drawn from the seed, until a call in progress goes on. At the start it is 3.
void set_nccl_delay(int polls, std::uint64_t seed);

// Make the nth next call of the function `name` (1: the next) do nothing and return `status`.
void fail_nccl_call(const std::string& name, int nth, ncclResult_t status);
// Give the communicator of `rank` an error once it has posted `groups` groups, like a lost peer.
void fail_nccl_rank(int rank, int groups, ncclResult_t status);

}  // namespace ringscope::cuda::model
