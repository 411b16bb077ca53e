#include "core/threads/faulty_ring.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"

namespace ringscope {

namespace {

class DelayedBackend : public ForwardingBackend {
 public:
  DelayedBackend(BlockBackend& inner, const Problem& config, int rank)
      : ForwardingBackend(inner),
        injection_(*config.injection),
        world_size_(config.world_size),
        rank_(rank) {}

 private:
  Completion around(BlockOperation which, const StepInfo* step, const Completion& after,
                    const Start& start) override {
    if (which == BlockOperation::attend || which == BlockOperation::attend_backward) {
      wait_for(after);
      const double seconds = delay_before(injection_, world_size_, rank_, step->pass, step->step);
      if (seconds > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    return start(after);
  }

  const Injection& injection_;
  int world_size_, rank_;
};

bool is_delayed(const Injection& injection, int world_size, int rank) {
  if (!delays_computing(injection.fault)) return false;
  if (injection.rank >= 0) return injection.rank == rank;
  return injection.fault == Fault::jitter || rank == world_size - 1;
}

}  // namespace

double delay_before(const Injection& injection, int world_size, int rank, Pass pass, int step) {
  if (!is_delayed(injection, world_size, rank)) return 0;
  if (pass == Pass::forward && step < injection.step) return 0;
  if (injection.fault == Fault::straggler) return injection.delay_s;
  const std::uint64_t index =
      (static_cast<std::uint64_t>(step) << 32) | static_cast<std::uint64_t>(rank);
  return injection.delay_s * exponential(injection.seed, static_cast<std::uint64_t>(pass), index);
}

std::unique_ptr<BlockBackend> with_delays(BlockBackend& inner, const Problem& config, int rank) {
  if (!config.injection || !is_delayed(*config.injection, config.world_size, rank)) return nullptr;
  return std::make_unique<DelayedBackend>(inner, config, rank);
}

namespace {

// A hop whose halves are started apart: its send, and after that its receive, or never.
class HalvedHop : public PendingOperation {
 public:
  // `received` is null if the receive is never posted. Then the rank waits until `pulse` is stopped,
  // and for nobody but itself, `own`, once its block has left.
  HalvedHop(Completion sent, Completion received, const RankPulse& pulse, Awaited own)
      : sent_(std::move(sent)), received_(std::move(received)), pulse_(pulse), own_(own) {}

  bool done() const override { return received_ != nullptr && received_->done(); }
  void wait() override {
    if (received_ != nullptr) return received_->wait();
    while (!pulse_.is_stopped()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    throw RunError("waited for a receive that was never posted", own_.rank, own_.step);
  }
  TransferTimes times() const override { return times_so_far(); }
  TransferTimes times_so_far() const override {
    TransferTimes times = sent_->times_so_far();
    if (received_ == nullptr) return times;
    const TransferTimes received = received_->times_so_far();
    times.recv_begin = received.recv_begin;
    times.recv_end = received.recv_end;
    return times;
  }
  Awaited awaited() const override {
    if (!sent_->done()) return sent_->awaited();
    return received_ != nullptr ? received_->awaited() : own_;
  }

 private:
  Completion sent_, received_;
  const RankPulse& pulse_;
  Awaited own_;
};

// Commits the mistake of `injection` in a rank's hops.
class FaultyCommunicator : public ForwardingCommunicator {
 public:
  // `row_bytes` is the size of one row of a KV block (K and V of all heads), `block_bytes` that of
  // the largest block.
  FaultyCommunicator(std::unique_ptr<Communicator> inner, const Injection& injection,
                     Index row_bytes, Index block_bytes, RankLives lives, MemorySpace& space,
                     RankPulse* pulse)
      : ForwardingCommunicator(*inner),
        injection_(injection),
        row_bytes_(row_bytes),
        lives_(lives),
        pulse_(pulse),
        meter_(space),
        sent_instead_(&meter_, std::max(row_bytes, block_bytes)),
        owned_(std::move(inner)) {}

  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override {
    const bool is_forward = hop.pass == Pass::forward;
    if (injection_.fault == Fault::slow_rank && (!is_forward || hop.step >= injection_.step))
      std::this_thread::sleep_for(std::chrono::duration<double>(injection_.delay_s));
    if (injection_.fault == Fault::no_overlap) {
      const Completion moved = inner_.exchange(hop, after);
      const ShownWait shown(pulse_, moved, hop.sender(rank(), world_size()));
      wait_for(moved);
      return moved;
    }
    if (hop.receives() && hop.sender(rank(), world_size()) == unheard_)
      return in_halves(hop, after);
    if (!is_forward || hop.step != injection_.step) return inner_.exchange(hop, after);

    switch (injection_.fault) {
      case Fault::unposted_recv:
      case Fault::send_first:
        return in_halves(hop, after);
      case Fault::wrong_count:
        return inner_.exchange(with_wrong_count(hop), after);
      case Fault::early_reuse:
        return inner_.exchange(with_overwritten_block(hop, after), after);
      case Fault::killed_rank:
        die(hop.step);
      default:
        return inner_.exchange(hop, after);
    }
  }

 private:
  // Start the receive after the send, or never, nor any later one from there, which would take the block
  // of this one. Streams of a device keep that order by themselves.
  Completion in_halves(const Exchange& hop, std::initializer_list<Completion> after) {
    Exchange sending = hop, receiving = hop;
    sending.from = receiving.to = Exchange::kNobody;
    const Completion sent = inner_.exchange(sending, after);
    Completion received;
    if (injection_.fault == Fault::unposted_recv) unheard_ = hop.sender(rank(), world_size());
    if (injection_.fault == Fault::send_first) received = inner_.exchange(receiving, {sent});
    if (pulse_ == nullptr) return received != nullptr ? received : sent;
    return std::make_shared<HalvedHop>(sent, received, *pulse_, Awaited{rank(), hop.step});
  }

  // Send one row less, or one row more if the block is empty.
  Exchange with_wrong_count(Exchange hop) {
    if (hop.send_bytes >= row_bytes_) {
      hop.send_bytes -= row_bytes_;
    } else {
      hop.send = sent_instead_.data();
      hop.send_bytes = row_bytes_;
    }
    return hop;
  }

  // Send something of the block's size and kind instead: the block with K and V swapped. (What a
  // real early reuse would send depends on timing.)
  Exchange with_overwritten_block(Exchange hop, std::initializer_list<Completion> after) {
    for (const Completion& earlier : after) wait_for(earlier);
    std::vector<std::byte> block(hop.send_bytes);
    MemorySpace& space = meter_.space();
    space.copy_out(block.data(), hop.send, hop.send_bytes);
    std::rotate(block.begin(), block.begin() + hop.send_bytes / 2, block.end());
    space.copy_in(sent_instead_.data(), block.data(), hop.send_bytes);
    hop.send = sent_instead_.data();
    return hop;
  }

  [[noreturn]] void die(int step) const {
    if (lives_ == RankLives::in_a_process) {
      // The sleep gives a sign of life from this step, so that the others can say where it was.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ::raise(SIGKILL);
    }
    throw RunError("its thread was ended by --inject " + std::string(name_of(Fault::killed_rank)),
                   rank(), step);
  }

  Injection injection_;
  int unheard_ = -1;  // the rank of whom nothing is received any more
  Index row_bytes_;
  RankLives lives_;
  RankPulse* pulse_;
  MemoryMeter meter_;
  // Allocated beforehand, because a device must not allocate while transfers wait for each other.
  Buffer<std::byte> sent_instead_;
  std::unique_ptr<Communicator> owned_;  // destroyed first, while the buffer can still be read
};

}  // namespace

std::unique_ptr<Communicator> with_faults(std::unique_ptr<Communicator> inner,
                                          const Problem& config, RankLives lives,
                                          MemorySpace& space, RankPulse* pulse) {
  if (!config.injection || delays_computing(config.injection->fault)) return inner;
  Injection injection = *config.injection;
  if (injection.rank < 0) injection.rank = config.world_size - 1;
  // A rank alone in sending first would only be late, because its peer takes the block anyway.
  const bool strikes_all =
      injection.fault == Fault::send_first || injection.fault == Fault::no_overlap;
  if (injection.rank != inner->rank() && !strikes_all) return inner;
  const RingProblem problem = config.ring_problem();
  const Index row_bytes = 2 * kv_values(problem.params, 1) * bytes_of(config.dtype);
  return std::make_unique<FaultyCommunicator>(std::move(inner), injection, row_bytes,
                                              row_bytes * problem.partition.max_rows(), lives,
                                              space, pulse);
}

}  // namespace ringscope
