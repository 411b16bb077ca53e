#include "core/training/context_ring.h"

#include <stdexcept>

#include "core/base/clock.h"
#include "core/ring/schemes.h"

namespace ringscope {
namespace {

const Problem& checked(const Problem& problem, const Communicator& comm) {
  if (problem.world_size != comm.world_size())
    throw std::invalid_argument("the problem is dealt out to another number of ranks");
  return problem;
}

}  // namespace

ContextRing::ContextRing(const Problem& problem, Communicator& comm, WorkPulse* pulse)
    : problem_(checked(problem, comm)),
      ring_problem_(problem_.ring_problem()),
      own_comm_(comm),
      pulse_(pulse),
      memory_(problem_, comm.rank()),
      backend_(ring_problem_.params, true, &memory_.meter(), pulse),
      comm_(&comm),
      block_backend_(&backend_) {}

void ContextRing::run_over(Communicator& comm, BlockBackend& backend) {
  comm_ = &comm;
  block_backend_ = &backend;
}

void ContextRing::run_over_own() { run_over(own_comm_, backend_); }

void ContextRing::forward() {
  begin_ns_ = monotonic_ns();
  run_forward(*comm_, *block_backend_, ring_problem_, memory_);
  end_ns_ = monotonic_ns();
  seconds_.forward += static_cast<double>(end_ns_ - begin_ns_) * 1e-9;
}

KvGradient ContextRing::backward() {
  begin_ns_ = monotonic_ns();
  const KvGradient home = run_backward(*comm_, *block_backend_, ring_problem_, memory_);
  end_ns_ = monotonic_ns();
  seconds_.backward += static_cast<double>(end_ns_ - begin_ns_) * 1e-9;
  return home;
}

}  // namespace ringscope
