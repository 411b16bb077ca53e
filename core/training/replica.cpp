#include "core/training/replica.h"

#include <cmath>

#include "core/base/error.h"
#include "core/problem/partition.h"

namespace ringscope {

Replica::Replica(const ModelWeights& weights, const Problem& problem, Communicator& comm,
                 std::uint64_t seed, LossKind kind, WorkPulse* pulse, Index chunks,
                 const OtherGroups& others)
    : layout_(weights.layout),
      reduction_comm_(others.gradients == nullptr ? comm : *others.gradients),
      ring_(problem, comm, pulse),
      store_(layout_, seed, &ring_.meter(), place_in(others.tensor)),
      model_(weights, ring_, chunks, others.tensor),
      reduction_(store_.gradients_and_loss(), reduction_comm_.world_size(), &ring_.meter()),
      scale_(kind == LossKind::sum
                 ? 1
                 : 1 / static_cast<double>(problem.shape.batch * problem.shape.seqlen *
                                           (reduction_comm_.world_size() / comm.world_size()))) {}

double Replica::loss_and_gradients(const std::uint8_t* windows) {
  const AttentionShape& shape = ring_.ring_problem().params;
  const RankBytes bytes = take_rows(windows, shape.batch, shape.seqlen, ring_.local_rows());
  store_.clear_gradients();
  const double loss = model_.loss_and_gradients(store_, bytes, scale_);
  store_.loss() = static_cast<float>(scale_ * loss);
  ring_.begins(ModelPart::reduction);
  // The shares add up for either kind of loss, because scale_ is over the rows of all ranks, those of
  // other sequences included.
  reduction_.add_up(reduction_comm_, store_.gradients());
  return store_.loss();
}

// The squares are added up chunk by chunk, as the gradients were. Of a tensor group only the first rank
// counts the weights that all have.
double Replica::gradient_length() {
  double squares = 0;
  const int n = reduction_comm_.world_size();
  for (int k = 0; k < n; ++k) {
    Run chunk = balanced_chunk(store_.gradients_and_loss(), n, k);
    chunk.count = clamp(store_.size() - chunk.first, 0, chunk.count);  // without the loss
    squares += store_.squares(chunk);
  }
  if (model_.tensor().place().rank > 0)
    for (const NamedParameter& weight : layout_.all())
      if (weight.split == Split::none)
        squares -= store_.squares({weight.place.offset, 1, weight.place.size()});
  return std::sqrt(model_.tensor().sum_of(squares));
}

}  // namespace ringscope
