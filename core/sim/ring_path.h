// The critical path of a ring with K buffers (ring_times.h). While times are computed, two bytes
// per (rank, step) note what each computation, hop and sum waited for last. Following these notes
// from the run's end to its beginning gives the path.
#pragma once

#include <cstdint>
#include <vector>

#include "core/sim/account.h"

namespace ringscope {

// The two ranks of a hop: the one that it comes from and the one that it comes into.
enum class HopSide : std::uint8_t { sender = 0, receiver = 1 };

// The event that gave a rank its block or made it ready for the next one.
enum class ReadyBy : std::uint8_t { hop_in = 0, hop_out = 1, attended = 2 };

// The notes of one pass.
class RingCauses {
 public:
  RingCauses() = default;
  explicit RingCauses(int world_size)
      : n_(static_cast<std::size_t>(world_size)), notes_(n_ * n_, 0) {}

  bool empty() const { return notes_.empty(); }

  // Note that the computation of a step began after the rank's earlier work, or with its block.
  void attend_after_work(int rank, int step) { set(rank, step, kAttend, 0); }
  void attend_after_hop(int rank, int step, ReadyBy by) { set(rank, step, kAttend, 1 + as(by)); }
  // Note what the hop waited for that brings `receiver` the block of `step`.
  void block_after_side(int receiver, int step, HopSide side, ReadyBy by) {
    set(receiver, step, kBlock, 1 + 3 * static_cast<int>(side) + as(by));
  }
  void block_after_link(int receiver, int step) { set(receiver, step, kBlock, 0); }
  // Note that the gradient sum of a step was ready after its computation, or with the last sum.
  void sum_after_work(int rank, int step) { set(rank, step, kSum, 0); }
  void sum_after_hop(int rank, int step, ReadyBy by) { set(rank, step, kSum, 1 + as(by)); }
  // Note what the hop waited for that takes the sum of `step` from the rank before `receiver`.
  void gradient_after_side(int receiver, int step, HopSide side) {
    set(receiver, step, kGradient, 1 + static_cast<int>(side));
  }
  void gradient_after_link(int receiver, int step) { set(receiver, step, kGradient, 0); }

  // Return a note as a number: 0 for work or link, or 1 + its kind.
  int attend(int rank, int step) const { return get(rank, step, kAttend); }
  int block(int receiver, int step) const { return get(receiver, step, kBlock); }
  int sum(int rank, int step) const { return get(rank, step, kSum); }
  int gradient(int receiver, int step) const { return get(receiver, step, kGradient); }

 private:
  struct Field {
    int shift, bits;
  };
  static constexpr Field kAttend{0, 2}, kSum{2, 2}, kGradient{4, 2}, kBlock{6, 3};

  static int as(ReadyBy by) { return static_cast<int>(by); }
  std::size_t at(int rank, int step) const {
    return static_cast<std::size_t>(step) * n_ + static_cast<std::size_t>(rank);
  }
  void set(int rank, int step, Field field, int value) {
    notes_[at(rank, step)] |= static_cast<std::uint16_t>(value << field.shift);
  }
  int get(int rank, int step, Field field) const {
    return (notes_[at(rank, step)] >> field.shift) & ((1 << field.bits) - 1);
  }

  std::size_t n_ = 0;
  std::vector<std::uint16_t> notes_;
};

// Follow the notes back from the last event: rank `last`'s last computation or, backward, the
// gradient hop into `last`. `backward` may be empty. Leave `account` in its forward pass.
CriticalPath follow_ring(Account& account, const RingCauses& forward, const RingCauses& backward,
                         int last);

}  // namespace ringscope
