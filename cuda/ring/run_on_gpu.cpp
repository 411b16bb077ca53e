#include "cuda/ring/run_on_gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "core/ring/rank_memory.h"
#include "core/threads/rank.h"
#include "core/threads/recording.h"
#include "cuda/base/check.h"
#include "cuda/base/device_info.h"
#include "cuda/ring/cuda_backend.h"

namespace ringscope::cuda {
namespace {

// Kernels count rows in int.
constexpr Index kMaxRows = Index{1} << 30;

// Room for rounded-up allocations, code, and what kernels need while they run.
constexpr Index kSpareBytes = Index{64} << 20;

void check_sizes(const Problem& config) {
  if (config.softcap > 0)
    throw InputError("softcap: no kernel of a GPU caps scores; use --backend cpu");
  const Partitions deal = config.partitions();
  const Index rows = max_of(deal.max_rows(), deal.queries.max_rows());
  if (rows > kMaxRows)
    throw InputError(fmt::format(
        "seqlen: {} on {} ranks is {} rows a rank, at most {} accepted on a GPU; give a larger "
        "--world-size or use --backend cpu",
        config.shape.seqlen, config.world_size, rows, kMaxRows));
  for (const Index size : {config.shape.batch, config.shape.num_heads})
    if (size > 65535)  // limit of a grid's second and third dimensions
      throw InputError(
          fmt::format("batch or heads: {} given, at most 65535 accepted on a GPU", size));
}

// Throw RunError when `ranks` together need more memory than `device`, the current one, has free.
void check_memory(const Problem& config, const std::vector<int>& ranks,
                  const ChosenKernels& kernels, const DeviceInfo& device) {
  Index needed = kSpareBytes;
  for (const int rank : ranks)
    needed += predicted_gpu_rank_bytes(config, rank) +
              kernels.stamped_passes() *
                  StampLog::bytes(config.ring_problem().blocks_attended(), kernels.stamped);
  std::size_t free = 0, total = 0;
  RINGSCOPE_CUDA(cudaMemGetInfo(&free, &total));
  const auto gib = [](auto bytes) { return static_cast<double>(bytes) / (1 << 30); };
  if (gib(needed) > gib(free))
    throw RunError(fmt::format(
        "out of device memory: {} ranks need {:.3f} GiB, {} has {:.3f} GiB free of {:.3f}; give a "
        "smaller --seqlen or use --backend cpu",
        ranks.size(), gib(needed), device.name, gib(free), gib(total)));
}

}  // namespace

DeviceSetup::DeviceSetup(const std::string& backend, const Problem& config,
                         const std::vector<RankSeat>& seats, const KernelWish& wish) {
  check_sizes(config);
  std::map<int, std::vector<int>> ranks_of;  // by device
  for (const RankSeat& seat : seats) ranks_of[seat.device].push_back(seat.rank);
  for (const auto& [device, ranks] : ranks_of) {
    const DeviceQuery query = query_device(device);
    if (!query.device)
      throw RunError(fmt::format("backend {}: {}", backend, query.why_not), ranks.front());
    const CurrentDevice current(device);
    if (kernels.forward == nullptr)
      kernels = choose_kernels(wish, *query.device, config.dtype,
                               {config.shape.head_dim, config.shape.value_dim()}, config.backward);
    check_memory(config, ranks, kernels, *query.device);
  }
}

Index predicted_gpu_rank_bytes(const Problem& config, int rank) {
  return RankMemory::predicted_bytes(config, rank) + CudaBackend::scratch_bytes(config, rank);
}

class DeviceEngine::OfRank : public RankEngine {
 public:
  OfRank(int device, Link link, const ChosenKernels& kernels, Rank& rank, const Listener& listener)
      : device_(device),
        rank_(rank),
        cuda_(rank.config(), rank.ring_problem(), rank.rank(), kernels, rank.meter()),
        link_(std::move(link)),
        communicator_(*link_.communicator, rank.recorder(),
                      4 * static_cast<std::size_t>(link_.communicator->world_size()),
                      &rank.pulse()),
        backend_(cuda_, rank, link_.clock, link_.turns, listener) {}
  // After a failure, unfinished work of this rank or its peers may still use this rank's memory.
  ~OfRank() override { synchronize_device(device_); }

  // The rank's GPU is its thread's current device from here on.
  void begin() override { RINGSCOPE_CUDA(cudaSetDevice(device_)); }
  Communicator& communicator() override { return communicator_; }
  BlockBackend& backend() override { return backend_; }
  void finish() override {
    backend_.finish_all();
    communicator_.wait();
  }
  void record() override {
    backend_.flush();
    communicator_.flush_what_happened();
  }
  void finish_failed() override {
    if (!link_.ends_by_abort) return;
    RINGSCOPE_CUDA(cudaSetDevice(device_));
    communicator_.flush_what_happened();
  }
  Index scratch_bytes() const override {
    return CudaBackend::scratch_bytes(rank_.config(), rank_.rank());
  }
  // A GPU that no longer answers after a failure has no clock, so its error counts as 0.
  std::int64_t clock_error_ns() const override try {
    const CurrentDevice current(device_);
    return link_.clock.error_ns();
  } catch (const CudaError&) {
    return 0;
  }

 private:
  int device_;
  Rank& rank_;
  CudaBackend cuda_;
  Link link_;
  RecordingCommunicator communicator_;
  DeviceRecordingBackend backend_;
};

std::unique_ptr<RankEngine> DeviceEngine::make(Rank& rank, const Listener& listener) {
  const int device = device_of(rank.rank());
  const CurrentDevice current(device);
  warm_up(setup_.kernels, rank.ring_problem().params);
  return std::make_unique<OfRank>(device, link(rank), setup_.kernels, rank, listener);
}

DeviceEngine::Link GpuEngine::link(Rank& rank) {
  const int number = rank.rank();
  return {.clock = ring_.clock(number),
          .communicator = std::make_unique<DeviceCommunicator>(ring_, number, rank.counts().hops),
          .turns = take_turns_ ? &turns_[device_of(number)] : nullptr};
}

namespace {

// Return how many of the `wanted` GPUs get ranks.
int check_gpus(int wanted, int world_size) {
  if (const DeviceQuery query = query_device(0); !query.device)
    throw RunError("backend cuda: " + query.why_not);
  int there = 0;
  RINGSCOPE_CUDA(cudaGetDeviceCount(&there));
  if (wanted < 1 || wanted > there)
    throw InputError(
        fmt::format("--gpus: {} given; accepted: 1 to {}, as many as there are", wanted, there));
  return std::min(wanted, world_size);
}

}  // namespace

void allow_many_streams() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

RingRun run_on_gpu(const Problem& config, RowSource& rows, const Progress& progress,
                   const GpuOptions& options) {
  check_config(config);
  allow_many_streams();
  const int gpus = check_gpus(options.gpus, config.world_size);
  std::vector<RankSeat> seats;
  for (int rank = 0; rank < config.world_size; ++rank) seats.push_back({rank, rank % gpus});
  DeviceSetup setup("cuda", config, seats, options.kernels);
  GpuEngine engine(setup, config.world_size, options.take_turns, gpus);
  return run_ranks(config, rows, engine, progress);
}

}  // namespace ringscope::cuda
