// How long a transfer took, without the time in which one side waited for the other.
//
// A rank sees of a hop when its own stream came to it and when it left it again, and its kernel spins
// in between while a peer is late. But the transfer from rank a to rank b cannot begin before both
// are there, nor last longer than until one of them has left:
//
//   begin = max(begin of a, begin of b)      end = min(end of a, end of b)
//
// So after a run the slices of both sides, on one clock, give the transfer's. What a rank waited is
// on its wait lane, as far as its kernels stood still for it.
#pragma once

#include "core/ring/seams.h"
#include "core/trace/event.h"
#include "cuda/base/stream.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/ring/device_clock.h"

namespace ringscope::cuda {

// Gives every send slice and the recv slice of the same flow the transfer's times, which lie within
// each of the two, and lets every wait slice name the peer that came last. A slice whose other side
// was not recorded stays as it is. Clocks that are apart by more than a transfer leave it with no
// length.
void split_waiting_from_transfer(Recording& recording);

// ---
// Communicator over NCCL: a hop is one group of a send to the next rank and a receive from the
// previous one, on a high-priority stream of its own, so that transfers run beside kernels.
//
//   after    the stream waits for the events of what the hop comes after: the block sent has
//            arrived, the buffer that is received into is consumed
//   begin    event; the rank is ready, but its peers may not be
//   group    one kernel, at its end when both halves are over
//   end      event: arrived, and the block sent may be overwritten
//
// All of it is enqueued before the hop's exchange() returns, so before the kernel of the same step:
// a grid that fills the GPU would keep a transfer behind it from starting. (For the same reason a
// persistent grid leaves multiprocessors to the transfers; nccl_setup.h.)
//
// Both sides know both sizes by formula, and nothing but the blocks is sent. So NCCL has no means to
// notice that ranks disagree: parts of different sizes or in another order hang, until somebody
// misses progress. The same holds for a send that is not grouped with the receive that its peer
// waits for, as soon as the block is larger than what NCCL buffers; in small runs it goes unnoticed.

// Used by its rank's thread, with the rank's GPU current.
class NcclCommunicator : public Communicator {
 public:
  // `clock` is the rank's GPU's; all three must outlive it and its completions. `remembers_buffers`:
  // lets NCCL register them. Throws CudaError.
  NcclCommunicator(NcclWorld& world, int rank, const DeviceClock& clock, bool remembers_buffers);
  // The memory of all hops must still be there.
  ~NcclCommunicator() override;

  int rank() const override { return rank_; }
  int world_size() const override { return world_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  NcclWorld& world_;
  NcclConnection& connection_;
  int rank_;
  const DeviceClock& clock_;
  bool remembers_buffers_;
  Stream stream_{StreamPriority::high};
};

}  // namespace ringscope::cuda
