#include "core/model/context_ring.h"

#include <stdexcept>

#include "core/ring/schemes.h"
#include "core/trace/recorder.h"

namespace ringscope {
namespace {

constexpr int kKvBuffers = 2;  // current and incoming

const RingProblem& checked(const RingProblem& problem, const Communicator& comm) {
  if (problem.partition.world_size != comm.world_size())
    throw std::invalid_argument("the problem is dealt out to another number of ranks");
  if (problem.params.dtype != DType::f32) throw std::invalid_argument("a model computes in f32");
  return problem;
}

// Adds its lifetime to `seconds`.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds), begin_ns_(monotonic_ns()) {}
  ~Timed() { seconds_ += static_cast<double>(monotonic_ns() - begin_ns_) * 1e-9; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& seconds_;
  std::int64_t begin_ns_;
};

}  // namespace

ContextRing::ContextRing(const RingProblem& problem, Communicator& comm, Scheme scheme,
                         WorkPulse* pulse)
    : problem_(checked(problem, comm)),
      own_comm_(comm),
      scheme_(scheme),
      pulse_(pulse),
      memory_(problem_, comm.rank(), scheme, true, kKvBuffers),
      backend_(problem_.params, true, &memory_.meter(), pulse),
      comm_(&comm),
      block_backend_(&backend_) {}

void ContextRing::run_over(Communicator& comm, BlockBackend& backend) {
  comm_ = &comm;
  block_backend_ = &backend;
}

void ContextRing::run_over_own() { run_over(own_comm_, backend_); }

void ContextRing::forward() {
  const Timed timed(seconds_.forward);
  run_forward(scheme_, *comm_, *block_backend_, problem_, memory_);
}

KvGradient ContextRing::backward() {
  const Timed timed(seconds_.backward);
  return run_backward(scheme_, *comm_, *block_backend_, problem_, memory_);
}

}  // namespace ringscope
