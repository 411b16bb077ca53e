#include "cuda/nccl/nccl_engine.h"

#include "core/run/rank.h"
#include "core/run/recording.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/ring/cuda_backend.h"
#include "cuda/ring/device_recording.h"
#include "cuda/ring/tuned_kernels.h"

namespace ringscope::cuda {

namespace {

class NcclRankEngine : public RankEngine {
 public:
  NcclRankEngine(NcclWorld& world, ActivityLog* activities, bool register_buffers, RankLives lives,
                 const RankKernels& kernels, Rank& rank, const Engine::Listener& listener)
      : device_(world.device_of(rank.rank())),
        cuda_(rank.ring_problem(), rank.rank(), rank.config().backward, kernels, rank.meter()),
        scratch_bytes_(
            CudaBackend::scratch_bytes(rank.ring_problem(), rank.rank(), rank.config().backward)),
        nccl_(with_faults(
            std::make_unique<NcclCommunicator>(world, rank.rank(), clock_, register_buffers),
            rank.config(), lives, world.memory_of(rank.rank()))),
        communicator_(*nccl_, rank.recorder(), 4 * static_cast<std::size_t>(world.world_size()),
                      &rank.pulse()),
        backend_(cuda_, rank.recorder(), rank.ring_problem(), rank.rank(), clock_, nullptr,
                 activities, listener, &rank.pulse()) {}
  // After a failure, unfinished work may still use this rank's memory.
  ~NcclRankEngine() override { synchronize_device(device_); }

  // The rank's own thread calls this; the rank's GPU is its current device from here on.
  Communicator& communicator() override {
    RINGSCOPE_CUDA(cudaSetDevice(device_));
    return communicator_;
  }
  BlockBackend& backend() override {
    RINGSCOPE_CUDA(cudaSetDevice(device_));
    return backend_;
  }
  void finish() override {
    backend_.flush();
    communicator_.flush();
  }
  void finish_failed() override {
    RINGSCOPE_CUDA(cudaSetDevice(device_));
    communicator_.flush_what_happened();
  }
  Index scratch_bytes() const override { return scratch_bytes_; }
  // A GPU that no longer answers after a failure has no clock, so its error counts as 0.
  std::int64_t clock_error_ns() const override try {
    const CurrentDevice current(device_);
    return clock_.error_ns();
  } catch (const CudaError&) {
    return 0;
  }

 private:
  int device_;
  DeviceClock clock_;
  CudaBackend cuda_;
  Index scratch_bytes_;
  std::unique_ptr<Communicator> nccl_;
  RecordingCommunicator communicator_;
  DeviceRecordingBackend backend_;
};

}  // namespace

std::unique_ptr<RankEngine> NcclEngine::make(Rank& rank, const Listener& listener) {
  const CurrentDevice current(world_.device_of(rank.rank()));
  const RankKernels kernels = tuned_kernels(kernels_, rank.ring_problem(), rank.rank(), tuner_);
  warm_up(kernels, rank.ring_problem().params);
  return std::make_unique<NcclRankEngine>(world_, activities_, register_buffers_, lives_, kernels,
                                          rank, listener);
}

std::string NcclEngine::notes() const {
  const std::string remark = tuner_.remark();
  return "NCCL " + nccl_version_text(nccl_version()) + "\n" + tuner_.text() +
         (remark.empty() ? "" : remark + "\n");
}

}  // namespace ringscope::cuda
