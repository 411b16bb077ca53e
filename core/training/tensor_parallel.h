// A model whose heads are split across a tensor group, as is the inside of its MLPs, while the sequence
// is split across a context group and a batch across data groups (rank_groups.h). A rank has the rows of
// its context index and, of a layer:
//
//   Q, K, V = x Wq, x Wk, x Wv         its heads: columns of the projections
//   O = attention(Q, K, V)             a ring over the context group, which has the same heads
//   y += sum over the group of O Wo    its heads: rows of the output projection
//
//   U = SiLU(x Wgate) * (x Wup)           its columns of both
//   y += sum over the group of U Wdown    the same rows of the last matrix
//
// So the first matrix of each part is split by columns and the last by rows: what is between them
// stays on the rank, and a group communicates once forward, to add up y, and once backward, to add
// up dx. Each sum has one row of the model's width for each of the rank's rows.
//
// Embedding, norms and head are on every rank of the group, which computes them to the same bits.
// The sum of gradients completes those of all weights, because the ranks that take part in it have
// the same part of them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "core/training/all_reduce.h"
#include "core/training/weights.h"

namespace ringscope {

// Return the rank's place in its tensor group; null: it has everything.
inline TensorPlace place_in(const Communicator* group) {
  return group == nullptr ? TensorPlace{} : TensorPlace{group->rank(), group->world_size()};
}

// One rank's seat in its tensor group.
class TensorGroup {
 public:
  // `comm` runs over the group, and may be null. Sums have `values` values.
  TensorGroup(Communicator* comm, Index values, MemoryMeter* meter)
      : group_(comm), place_(place_in(comm)), sum_(values, place_.size, meter) {
    if (place_.size > 1) comm_.emplace(*comm);
  }

  const TensorPlace& place() const { return place_; }
  Index bytes_sent() const { return comm_ ? comm_->sent().bytes : 0; }  // by add_up()

  // Start a sum with the residual: on one rank alone, so that it is counted once.
  void begin_sum(const Buffer<float>& residual, float* values) const {
    if (place_.rank == 0)
      std::copy(residual.begin(), residual.end(), values);
    else
      std::fill_n(values, residual.size(), 0.0f);
  }
  // Replace the values by the sums of all ranks', the same bits on each. This and what follows throw
  // RunError when a peer fails.
  void add_up(float* values) {
    if (comm_) sum_.add_up(*comm_, values);
  }
  // Return the sum of all ranks' numbers, the same bits on each.
  double sum_of(double number) {
    if (!comm_) return number;
    std::vector<float> all(2 * static_cast<std::size_t>(place_.size));
    std::memcpy(all.data() + 2 * place_.rank, &number, sizeof number);
    unite(all);
    double sum = 0;
    for (int rank = 0; rank < place_.size; ++rank) {
      std::memcpy(&number, all.data() + 2 * rank, sizeof number);
      sum += number;
    }
    return sum;
  }
  // Complete the values, of which every rank has some and zeros elsewhere, to the bit. Ranks that have the
  // same value agree on it.
  void unite(std::vector<float>& values) {
    if (!comm_) return;
    const Index size = std::ssize(values);
    std::vector<float> incoming(values_of_a_reduction_hop(size, place_.size));
    ring_all_reduce(*group_, Pass::backward, size, 1, values.data(), incoming.data(),
                    [](float* into, const float* other, Index count) {
                      for (Index i = 0; i < count; ++i)
                        into[i] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(into[i]) |
                                                       std::bit_cast<std::uint32_t>(other[i]));
                    });
  }

 private:
  Communicator* group_;
  TensorPlace place_;
  std::optional<WireCounter> comm_;
  RingAllReduce sum_;
};

}  // namespace ringscope
