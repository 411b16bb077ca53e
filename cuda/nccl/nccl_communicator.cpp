#include "cuda/nccl/nccl_communicator.h"

#include "core/ring/at_step.h"
#include "core/ring/schedule.h"
#include "cuda/base/range.h"
#include "cuda/ring/device_completion.h"

namespace ringscope::cuda {

namespace {

// Completed when its block has arrived and its own has been read.
class NcclHop : public DeviceCompletion {
 public:
  NcclHop(NcclWorld& world, const RingSchedule& ring, int step, const DeviceClock& clock)
      : world_(world), ring_(ring), step_(step), clock_(clock) {}

  bool done() const override {
    // What is aborted ends as well.
    return end.done() && clock_.monotonic_ns(end) < world_.failed_at_ns();
  }
  void wait() override {
    at_step(ring_.rank, step_, [&] { end.wait(); });
    if (!done()) world_.throw_if_failed();
  }
  void hold(cudaStream_t stream) override { end.hold(stream); }
  // As one side sees them, so with the time in which it waited for the other; see transfer_split.h.
  TransferTimes times() const override {
    TransferTimes times;
    at_step(ring_.rank, step_, [&] {
      const std::int64_t begin_ns = clock_.monotonic_ns(begin), end_ns = clock_.monotonic_ns(end);
      times = {begin_ns, end_ns, begin_ns, end_ns, ring_.recv_rank()};
    });
    return times;
  }

  Event begin{EventKind::timed};
  Event end{EventKind::timed};

 private:
  NcclWorld& world_;
  RingSchedule ring_;
  int step_;
  const DeviceClock& clock_;
};

}  // namespace

NcclCommunicator::NcclCommunicator(NcclWorld& world, int rank, const DeviceClock& clock,
                                   bool remembers_buffers)
    : world_(world),
      connection_(world.connection(rank)),
      rank_(rank),
      clock_(clock),
      remembers_buffers_(remembers_buffers) {}

NcclCommunicator::~NcclCommunicator() { connection_.forget(); }

Completion NcclCommunicator::exchange(const Exchange& hop,
                                      std::initializer_list<Completion> after) {
  const Range range("exchange");
  world_.throw_if_failed();
  const RingSchedule ring{rank_, world_size()};
  auto started = std::make_shared<NcclHop>(world_, ring, hop.step, clock_);
  at_step(rank_, hop.step, [&] {
    const cudaStream_t stream = stream_.get();
    for (const Completion& earlier : after) wait_on(stream, earlier);
    if (remembers_buffers_) {
      connection_.remember(const_cast<void*>(hop.send), hop.send_bytes);
      connection_.remember(hop.recv, hop.recv_bytes);
    }
    started->begin.record(stream);
    if (hop.unposted_recv) {
      connection_.send(hop.send, hop.send_bytes, stream);
    } else if (hop.send_first) {
      connection_.send(hop.send, hop.send_bytes, stream);
      connection_.receive(hop.recv, hop.recv_bytes, stream);
    } else {
      connection_.send_and_receive(hop.send, hop.send_bytes, hop.recv, hop.recv_bytes, stream);
    }
    started->end.record(stream);
  });
  return started;
}

}  // namespace ringscope::cuda
