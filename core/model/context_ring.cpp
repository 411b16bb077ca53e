#include "core/model/context_ring.h"

#include <stdexcept>

#include "core/base/clock.h"
#include "core/ring/schemes.h"

namespace ringscope {
namespace {

const Problem& checked(const Problem& problem, const Communicator& comm) {
  if (problem.world_size != comm.world_size())
    throw std::invalid_argument("the problem is dealt out to another number of ranks");
  if (problem.dtype != DType::f32) throw std::invalid_argument("a model computes in f32");
  return problem;
}

// Adds its lifetime to `seconds`.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds), begin_ns_(monotonic_ns()) {}
  ~Timed() { seconds_ += seconds_since(begin_ns_); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& seconds_;
  std::int64_t begin_ns_;
};

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
  const Timed timed(seconds_.forward);
  run_forward(problem_.scheme, *comm_, *block_backend_, ring_problem_, memory_);
}

KvGradient ContextRing::backward() {
  const Timed timed(seconds_.backward);
  return run_backward(problem_.scheme, *comm_, *block_backend_, ring_problem_, memory_);
}

}  // namespace ringscope
