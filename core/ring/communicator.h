// The first seam: who moves blocks. Threads implement it (thread_communicator.h); its terms also
// fit MPI processes, virtual ranks on one GPU and NCCL, which order work by events and never block
// here.
#pragma once

#include <initializer_list>

#include "core/base/math.h"
#include "core/ring/completion.h"
#include "core/trace/event.h"

namespace ringscope {

// One hop: send a block to the next rank while receiving one from the previous rank. Pointers as
// the communicator expects them (host or device); sizes in bytes, 0 allowed.
struct Exchange {
  Pass pass = Pass::forward;
  Payload payload = Payload::kv;
  int step = 0;
  int send_owner = 0;
  const void* send = nullptr;
  Index send_bytes = 0;
  int recv_owner = 0;
  void* recv = nullptr;
  Index recv_bytes = 0;
  // Mistakes on purpose (faults.h): the receive is never posted; it is posted only after the block
  // sent has been taken.
  bool unposted_recv = false;
  bool send_first = false;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Starts `hop` once every one of `after` has happened, and returns at once. Hops of one rank run
  // in the order in which they were started; all ranks start the same ones. The result has happened
  // when the received block has arrived and the sent one may be overwritten. Throws RunError when a
  // peer failed.
  virtual Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) = 0;
};

}  // namespace ringscope
