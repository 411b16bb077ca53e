#include "cuda/nccl/placement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/text.h"
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

std::string to_lines(const GpuReport& report) {
  std::string lines =
      fmt::format("{}\n{}\n{}\n", report.nccl_version, report.why_not, report.gpus.machine);
  for (const std::string& gpu : report.gpus.gpus) lines += gpu + "\n";
  return lines;
}

GpuReport report_from(const std::string& lines) {
  GpuReport report;
  int at = 0;
  for_each_line(lines, [&](std::string_view line) {
    if (at == 0) report.nccl_version = parse_number<int>(line).value_or(0);
    if (at == 1) report.why_not = line;
    if (at == 2) report.gpus.machine = line;
    if (at > 2) report.gpus.gpus.emplace_back(line);
    ++at;
  });
  return report;
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

ProcessSeat take_process_seat(int rank, const AllGather& all_gather) {
  GpuReport mine;
  mine.gpus = visible_gpus(mine.why_not);
  if (nccl_library().api == nullptr) mine.why_not = nccl_library().why_not;
  mine.nccl_version = nccl_version();
  std::vector<GpuReport> reports;
  std::vector<RankGpus> gpus;
  for (const std::string& lines : all_gather(to_lines(mine))) {
    reports.push_back(report_from(lines));
    gpus.push_back(reports.back().gpus);
  }
  check_reports(reports);
  ProcessSeat seat;
  seat.placement = place_ranks(gpus);
  seat.seat = {rank, seat.placement.devices.at(rank)};
  apply(nccl_environment(seat.placement, reports.front().nccl_version, true, rank));
  RINGSCOPE_CUDA(cudaSetDevice(seat.seat.device));
  return seat;
}

ncclUniqueId share_nccl_id(int rank, const AllGather& all_gather) {
  ncclUniqueId id{};
  if (rank == 0) id = new_nccl_id();
  const std::string shared = all_gather(std::string(id.internal, sizeof id.internal)).front();
  if (shared.size() != sizeof id.internal) throw RunError("an id of NCCL has another length");
  shared.copy(id.internal, sizeof id.internal);
  return id;
}

}  // namespace ringscope::cuda
