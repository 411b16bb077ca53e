#include "cuda/nccl/placement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>

#include "core/base/error.h"
#include "core/process/wire.h"
#include "cuda/base/check.h"
#include "cuda/base/device_info.h"
#include "cuda/nccl/nccl_world.h"

namespace ringscope::cuda {
namespace {

// Containers may share a host name, and machines a boot id, so use both.
std::string machine_name() {
  std::array<char, 256> host{};
  static_cast<void>(gethostname(host.data(), host.size() - 1));
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return std::string(host.data()) + " " + boot;
}

// Return a name that is the same for one GPU (or part of one) in all processes.
std::string gpu_name(int device) {
#ifdef RINGSCOPE_MODEL
  return fmt::format("model {}", device);
#else
  cudaDeviceProp properties{};
  RINGSCOPE_CUDA(cudaGetDeviceProperties(&properties, device));
  std::string name;
  for (const char byte : properties.uuid.bytes)
    name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name;
#endif
}

}  // namespace

RankGpus visible_gpus(std::string& why_not) {
  RankGpus seen{machine_name(), {}};
  const DeviceQuery first = query_device();
  why_not = first.why_not;
  int devices = 0;
  if (!first.device || cudaGetDeviceCount(&devices) != cudaSuccess) return seen;
  for (int device = 0; device < devices; ++device) seen.gpus.push_back(gpu_name(device));
  return seen;
}

Placement place_ranks(std::span<const RankGpus> ranks) {
  Placement placement;
  std::map<std::pair<std::string, std::string>, int> users;  // number of ranks by (machine, GPU)
  std::map<std::string, std::set<std::string>> gpus;         // by machine
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankGpus& its = ranks[rank];
    if (its.gpus.empty()) throw RunError("sees no GPU", static_cast<int>(rank));
    const auto used = [&](const std::string& gpu) { return users[{its.machine, gpu}]; };
    const auto best =
        std::min_element(its.gpus.begin(), its.gpus.end(),
                         [&](const auto& a, const auto& b) { return used(a) < used(b); });
    placement.devices.push_back(static_cast<int>(best - its.gpus.begin()));
    placement.shares_gpus = ++users[{its.machine, *best}] > 1 || placement.shares_gpus;
    gpus[its.machine].insert(its.gpus.begin(), its.gpus.end());
  }
  placement.machines = static_cast<int>(gpus.size());
  for (const auto& [machine, all] : gpus) {
    const int count = static_cast<int>(all.size());
    placement.fewest_gpus =
        placement.fewest_gpus == 0 ? count : std::min(placement.fewest_gpus, count);
  }
  return placement;
}

Environment nccl_environment(const Placement& placement, int version, bool are_processes,
                             int rank) {
  if (!placement.shares_gpus) return {};
  constexpr int kSharesGpus = 23003;  // NCCL_VERSION(2, 30, 3)
  if (version >= kSharesGpus) return {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}};
  if (are_processes) {
    Environment environment = {{"NCCL_HOSTID", fmt::format("ringscope-rank-{}", rank)},
                               {"NCCL_NET", "Socket"}};
    if (placement.machines == 1) environment.emplace_back("NCCL_SOCKET_IFNAME", "lo");
    return environment;
  }
  const std::size_t n = placement.devices.size();
  throw RunError(fmt::format(
      "backend nccl: {} ranks on {} GPU{}: NCCL {} takes one rank a GPU within a process; give "
      "--world-size {}, or NCCL 2.30.3 or later, or a process a rank (mpirun -np {}), or virtual "
      "ranks (--backend cuda)",
      n, placement.fewest_gpus, placement.fewest_gpus == 1 ? "" : "s", nccl_version_text(version),
      placement.fewest_gpus, n));
}

void apply(const Environment& environment) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 0);
}

namespace {

int count_gpus() {
  int count = 0;
  if (!query_device().device || cudaGetDeviceCount(&count) != cudaSuccess) return 0;
  return count;
}

}  // namespace

std::string nccl_availability() {
  const NcclLibrary& library = nccl_library();
  if (library.api == nullptr) return "no: " + library.why_not;
  const DeviceQuery query = query_device();
  if (!query.device) return "no: " + query.why_not;
  const int gpus = count_gpus();
  return fmt::format("yes: NCCL {}, {} GPU{}", nccl_version_text(nccl_version()), gpus,
                     gpus == 1 ? "" : "s");
}

std::string pack(const GpuReport& report) {
  wire::Packer packer;
  packer.text(report.gpus.machine).number(report.gpus.gpus.size());
  for (const std::string& gpu : report.gpus.gpus) packer.text(gpu);
  return packer.number(static_cast<std::uint64_t>(report.nccl_version)).text(report.why_not).take();
}

std::vector<GpuReport> reports_of(std::string_view bytes, int world_size) {
  constexpr std::uint64_t kMostGpus = 4096, kVersions = std::uint64_t{1} << 31;
  std::vector<GpuReport> reports(world_size);
  wire::Unpacker unpacker(bytes);
  for (GpuReport& report : reports) try {
      report.gpus.machine = unpacker.text();
      report.gpus.gpus.resize(unpacker.number_below(kMostGpus));
      for (std::string& gpu : report.gpus.gpus) gpu = unpacker.text();
      report.nccl_version = static_cast<int>(unpacker.number_below(kVersions));
      report.why_not = unpacker.text();
      if (&report == &reports.back()) unpacker.end();
    } catch (const wire::Malformed&) {
      throw RunError("a rank says what is not understood",
                     static_cast<int>(&report - reports.data()));
    }
  return reports;
}

void check_reports(const std::vector<GpuReport>& reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const GpuReport& its = reports[rank];
    if (!its.why_not.empty())
      throw RunError("backend nccl: " + its.why_not, static_cast<int>(rank));
    if (its.nccl_version != reports[0].nccl_version)
      throw RunError(fmt::format("rank {} has NCCL {}, rank 0 has NCCL {}", rank,
                                 nccl_version_text(its.nccl_version),
                                 nccl_version_text(reports[0].nccl_version)),
                     static_cast<int>(rank));
  }
}

namespace {

// Return the reports of all ranks, in order of rank, on every rank.
std::vector<GpuReport> exchange_reports(Lifeline& line) {
  GpuReport mine;
  mine.gpus = visible_gpus(mine.why_not);
  if (nccl_library().api == nullptr) mine.why_not = nccl_library().why_not;
  mine.nccl_version = nccl_version();
  std::string all;
  for (const std::string& packed : line.gather(pack(mine))) all += packed;
  return reports_of(line.broadcast(all), line.world_size());
}

}  // namespace

ProcessSeat take_process_seat(Lifeline& line) {
  const std::vector<GpuReport> reports = exchange_reports(line);
  check_reports(reports);
  std::vector<RankGpus> gpus;
  for (const GpuReport& report : reports) gpus.push_back(report.gpus);
  ProcessSeat mine;
  mine.placement = place_ranks(gpus);
  mine.seat = {line.rank(), mine.placement.devices.at(line.rank())};
  apply(nccl_environment(mine.placement, reports.front().nccl_version, true, line.rank()));
  RINGSCOPE_CUDA(cudaSetDevice(mine.seat.device));
  return mine;
}

// If rank 0 has no id, the other ranks learn of it when the run ends.
ncclUniqueId share_nccl_id(Lifeline& line) {
  ncclUniqueId id{};
  if (line.rank() == 0) id = new_nccl_id();
  const std::string shared = line.broadcast(std::string(id.internal, sizeof id.internal));
  if (shared.size() != sizeof id.internal) throw RunError("an id of NCCL has another length");
  shared.copy(id.internal, sizeof id.internal);
  return id;
}

GiveUp failure_of(Lifeline& line) {
  return [&line] {
    if (const std::optional<RunError> failure = line.failure()) throw *failure;
  };
}

}  // namespace ringscope::cuda
