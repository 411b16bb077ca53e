#include "core/training/rank_threads.h"

namespace ringscope {
namespace {

// A hop whose wait is shown while the rank's thread is in it. A copy engine's is not the rank's.
class ShownHop : public PendingOperation {
 public:
  ShownHop(Completion hop, int sender, RankPulse& pulse)
      : hop_(std::move(hop)), sender_(sender), pulse_(pulse) {}

  bool done() const override { return hop_->done(); }
  void wait() override {
    std::optional<ShownWait> shown;
    if (std::this_thread::get_id() == rank_thread_) shown.emplace(&pulse_, hop_, sender_);
    hop_->wait();
  }
  TransferTimes times() const override { return hop_->times(); }
  TransferTimes times_so_far() const override { return hop_->times_so_far(); }
  Awaited awaited() const override { return hop_->awaited(); }

 private:
  Completion hop_;
  int sender_;
  RankPulse& pulse_;
  std::thread::id rank_thread_ = std::this_thread::get_id();
};

}  // namespace

Completion ShowingCommunicator::exchange(const Exchange& hop,
                                         std::initializer_list<Completion> after) {
  return std::make_shared<ShownHop>(ForwardingCommunicator::exchange(hop, after),
                                    hop.sender(rank(), world_size()), pulse_);
}

}  // namespace ringscope
