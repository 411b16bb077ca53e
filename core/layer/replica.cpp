#include "core/layer/replica.h"

namespace ringscope {
namespace {

// What the summed loss is multiplied by.
double scale_of(LossKind kind, const RingProblem& problem) {
  return kind == LossKind::sum
             ? 1
             : 1 / static_cast<double>(problem.params.batch * problem.partition.seqlen);
}

}  // namespace

Replica::Replica(const ModelWeights& weights, const RingProblem& problem, Communicator& comm,
                 std::uint64_t seed, LossKind kind, WorkPulse* pulse)
    : comm_(comm),
      rank_(comm.rank()),
      ring_(problem, comm, Scheme::ring, pulse),
      store_(weights.layout, seed, &ring_.meter()),
      model_(weights, ring_),
      reduction_(store_.gradients_and_loss(), comm.world_size(), &ring_.meter()),
      scale_(scale_of(kind, problem)) {}

double Replica::loss_and_gradients(const std::uint8_t* windows) {
  const Partition& partition = ring_.problem().partition;
  const RankBytes bytes =
      take_rows(windows, ring_.problem().params.batch, partition.seqlen, ring_.local_rows());
  // [step
  store_.clear_gradients();
  const double loss = model_.loss_and_gradients(store_, bytes, scale_);
  store_.loss() = static_cast<float>(scale_ * loss);
  ring_.begins(ModelPart::reduction);
  // The shares add up, for either kind of loss: scale_ is over the rows of all ranks.
  reduction_.add_up(comm_, store_.gradients());
  // step]
  return store_.loss();
}

}  // namespace ringscope
