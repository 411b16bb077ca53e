#include "cuda/ring/gpu_engine.h"

#include "core/run/rank.h"
#include "core/run/recording.h"
#include "cuda/ring/cuda_backend.h"
#include "cuda/ring/device_recording.h"
#include "cuda/ring/tuned_kernels.h"

namespace ringscope::cuda {

namespace {

class GpuRankEngine : public RankEngine {
 public:
  GpuRankEngine(DeviceRing& ring, KernelTurns* turns, ActivityLog* activities,
                const RankKernels& kernels, Rank& rank, const Engine::Listener& listener)
      : device_(ring.device_of(rank.rank())),
        clock_(ring.clock(rank.rank())),
        cuda_(rank.ring_problem(), rank.rank(), rank.config().backward, kernels, rank.meter()),
        scratch_bytes_(
            CudaBackend::scratch_bytes(rank.ring_problem(), rank.rank(), rank.config().backward)),
        copies_(ring, rank.rank()),
        communicator_(copies_, rank.recorder(), 4 * static_cast<std::size_t>(ring.world_size()),
                      &rank.pulse()),
        backend_(cuda_, rank.recorder(), rank.ring_problem(), rank.rank(), clock_, turns,
                 activities, listener, &rank.pulse()) {}
  // After a failure, work of this rank or its peers may still use this rank's memory.
  ~GpuRankEngine() override { synchronize_device(device_); }

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
  const DeviceClock& clock_;
  CudaBackend cuda_;
  Index scratch_bytes_;
  DeviceCommunicator copies_;
  RecordingCommunicator communicator_;
  DeviceRecordingBackend backend_;
};

}  // namespace

std::unique_ptr<RankEngine> GpuEngine::make(Rank& rank, const Listener& listener) {
  const int device = ring_.device_of(rank.rank());
  const CurrentDevice current(device);
  const RankKernels kernels = tuned_kernels(kernels_, rank.ring_problem(), rank.rank(), tuner_);
  warm_up(kernels, rank.ring_problem().params);
  return std::make_unique<GpuRankEngine>(
      ring_, take_turns_ ? &turns_[static_cast<std::size_t>(device)] : nullptr, activities_,
      kernels, rank, listener);
}

std::string GpuEngine::notes() const {
  const std::string remark = tuner_.remark();
  return tuner_.text() + (remark.empty() ? "" : remark + "\n");
}

}  // namespace ringscope::cuda
