// Defines the communicator over NCCL, and computes how long a transfer took without the time in
// which one side waited for the other.
//
// A rank knows when its stream reached and left a hop; its kernel spins while a peer is late. The
// transfer from rank a to b cannot begin before both are there, nor outlast the first to leave:
//
//   begin = max(begin of a, begin of b)      end = min(end of a, end of b)
//
// After a run, both sides' slices on one clock give the transfer's. The wait lane shows how long
// kernels stood still.
#pragma once

#include "core/ring/seams.h"
#include "core/threads/run.h"
#include "core/trace/event.h"
#include "cuda/base/stream.h"
#include "cuda/nccl/nccl_world.h"
#include "cuda/ring/device_communicator.h"

namespace ringscope::cuda {

// Give every send slice, and the recv slice of the same flow, the transfer's times, which lie
// within both. Also set the peer that came last in every wait slice, if all hops go to the next
// rank. A slice whose other side was not recorded stays as it is. When clocks differ by more than a
// transfer, the transfer gets length 0.
void split_waiting_from_transfer(Recording& recording);

// Return run(), whose recording, also that of a RunFailure, gets the transfers' times.
template <class Run>
RingRun with_transfer_times(Run&& run) {
  try {
    RingRun done = run();
    split_waiting_from_transfer(done.recording);
    return done;
  } catch (const RunFailure& failure) {
    Recording recording = failure.recording();
    split_waiting_from_transfer(recording);
    throw RunFailure(failure, std::move(recording));
  }
}

// ---
// NcclCommunicator is a Communicator over NCCL. A hop is one group of a send to one rank and a
// receive from one, in a ring the next and the previous one. Hops run on a high-priority stream of
// their own, beside the kernels; those of different ways (scheme_seams.h) one after the other.
//
//   after    the stream waits for the events that the hop comes after: the block sent has
//            arrived, and the buffer that receives is consumed
//   begin    event: the rank is ready, but its peers may not be
//   group    one kernel, which ends when both halves are over
//   end      event: the block has arrived, and the block sent may be overwritten
//
// exchange() enqueues all of it before it returns, so before the kernel of the same step: a grid
// that fills the GPU would keep a later transfer from starting. (For the same reason a persistent
// grid leaves multiprocessors to the transfers; NcclEngine.)
//
// Both sides compute both sizes by formula, and only the blocks are sent, so NCCL cannot notice
// that ranks disagree. Parts of different sizes or in another order hang until a watchdog misses
// progress. So does a send that is not grouped with the receive that its peer waits for, once the
// block exceeds what NCCL buffers; in small runs it goes unnoticed.

// Used by its rank's thread, with the rank's GPU current.
class NcclCommunicator : public Communicator {
 public:
  // `clock` belongs to the rank's GPU. The three objects must outlive the communicator and its
  // completions. Makes the events of as many hops. Throws CudaError.
  NcclCommunicator(NcclWorld& world, int rank, const DeviceClock& clock, std::size_t hops);

  int rank() const override { return rank_; }
  int world_size() const override { return world_.world_size(); }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  NcclWorld& world_;
  NcclConnection& connection_;
  int rank_;
  const DeviceClock& clock_;
  std::vector<Event> events_;
  Stream stream_{StreamPriority::high};
};

}  // namespace ringscope::cuda
