#include "cuda/ring/gpu_engine.h"

#include "core/ring/rank.h"
#include "core/ring/recording.h"
#include "core/ring/schedule.h"
#include "cuda/ring/cuda_backend.h"
#include "cuda/ring/device_recording.h"
#include "cuda/ring/warm_up.h"

namespace ringscope::cuda {

namespace {

class GpuRankEngine : public RankEngine {
 public:
  GpuRankEngine(DeviceRing& ring, KernelTurns* turns, ActivityLog* activities,
                const RankKernels& kernels, Rank& rank, const Engine::Listener& listener)
      : ring_(ring),
        cuda_(rank.problem(), rank.rank(), rank.config().backward, kernels, rank.meter()),
        scratch_bytes_(
            CudaBackend::scratch_bytes(rank.problem(), rank.rank(), rank.config().backward)),
        device_(ring, rank.rank()),
        communicator_(device_, rank.recorder(), 4 * static_cast<std::size_t>(ring.world_size())),
        backend_(cuda_, rank.recorder(), rank.problem(), rank.rank(), ring.clock(), turns,
                 activities, listener) {}
  // After a failure there may be work left that uses this rank's memory: its own and its peers'.
  ~GpuRankEngine() override { static_cast<void>(cudaDeviceSynchronize()); }

  Communicator& communicator() override { return communicator_; }
  BlockBackend& backend() override { return backend_; }
  void finish() override {
    backend_.flush();
    communicator_.flush();
  }
  Index scratch_bytes() const override { return scratch_bytes_; }
  std::int64_t clock_error_ns() const override { return ring_.clock().error_ns(); }

 private:
  DeviceRing& ring_;
  CudaBackend cuda_;
  Index scratch_bytes_;
  DeviceCommunicator device_;
  RecordingCommunicator communicator_;
  DeviceRecordingBackend backend_;
};

// The tuned tile of each step of a rank.
template <class Kernel>
std::vector<int> tiles_of(const Kernel& kernel, const RingProblem& problem, int rank,
                          Autotuner& tuner) {
  const AttentionParams& params = problem.params;
  const RingSchedule ring{rank, problem.partition.world_size};
  std::vector<int> tiles;
  for (int step = 0; step < ring.steps(); ++step) {
    const Region region = problem.region(rank, ring.owner(step));
    const Index rows_q = region.queries.size(), rows_k = region.keys.size();
    const StepShape shape{static_cast<int>(params.batch),
                          static_cast<int>(params.num_heads),
                          static_cast<int>(params.num_heads_kv),
                          static_cast<int>(rows_q),
                          static_cast<int>(rows_k),
                          static_cast<int>(params.head_dim)};
    const Index pairs = region.pairs();
    const double all = static_cast<double>(rows_q) * static_cast<double>(rows_k);
    tiles.push_back(pairs == 0
                        ? 0
                        : tuner.choose(kernel, shape_class_of(shape, params.dtype,
                                                              static_cast<double>(pairs) / all)));
  }
  return tiles;
}

}  // namespace

std::unique_ptr<RankEngine> GpuEngine::make(Rank& rank, const Listener& listener) {
  RankKernels kernels{
      kernels_, tiles_of(*kernels_.forward, rank.problem(), rank.rank(), tuner_), {}};
  if (kernels_.backward != nullptr)
    kernels.backward_tiles = tiles_of(*kernels_.backward, rank.problem(), rank.rank(), tuner_);
  warm_up(kernels, rank.problem().params);
  return std::make_unique<GpuRankEngine>(ring_, take_turns_ ? &turns_ : nullptr, activities_,
                                         kernels, rank, listener);
}

std::string GpuEngine::notes() const {
  const std::string remark = tuner_.remark();
  return tuner_.text() + (remark.empty() ? "" : remark + "\n");
}

}  // namespace ringscope::cuda
