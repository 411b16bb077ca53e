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
#include "core/cost/hardware.h"
#include "core/cost/time.h"
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

std::vector<GpuPair> pairs_of(int gpus) {
  std::vector<GpuPair> pairs;
#ifndef RINGSCOPE_MODEL
  for (int from = 0; from < gpus; ++from)
    for (int to = from + 1; to < gpus; ++to) {
      int access = 0, atomics = 0;
      static_cast<void>(cudaDeviceCanAccessPeer(&access, from, to));
      static_cast<void>(
          cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
      static_cast<void>(cudaGetLastError());
      pairs.push_back({from, to, access != 0, atomics != 0});
    }
#else
  static_cast<void>(gpus);
#endif
  return pairs;
}

// Return the table's entry whose name the device's name contains: "NVIDIA H200" is an H200.
const Gpu* known_gpu(const std::string& name) {
  for (const Gpu& gpu : builtin_hardware().gpus)
    if (name.find(gpu.name) != std::string::npos) return &gpu;
  return nullptr;
}
const Link* known_link(const std::string& name) {
  for (const Link& link : builtin_hardware().links)
    if (link.name == name) return &link;
  return nullptr;
}

// Each generation of GPUs has one version of NVLink.
std::string nvlink_of(int architecture) {
  return architecture >= 100 ? "NVLink5" : architecture >= 90 ? "NVLink4" : "NVLink3";
}
std::string pcie_of(int architecture) { return architecture >= 90 ? "PCIe5" : "PCIe4"; }

std::string rows_text(const Gpu* gpu, const Link* link) {
  if (gpu == nullptr || link == nullptr) return "its rates are not in the table of `plan`";
  const Problem job{.shape = {1, 1, 1, 1, 128}, .dtype = DType::bf16};
  const Rates rates = rates_of(*gpu, *link, DType::bf16);
  return fmt::format(
      "a hop hides behind a step from c = F/B = {:.0f} rows a rank on (full), {:.0f} (causal, "
      "balanced)",
      threshold_rows(job, rates, Pass::forward, 1), threshold_rows(job, rates, Pass::forward, 0.5));
}

}  // namespace

std::string links_text(const std::string& gpu_name, int architecture,
                       const std::vector<GpuPair>& pairs) {
  const Gpu* const gpu = known_gpu(gpu_name);
  struct Kind {
    std::string name, way;
    const Link* link;
  };
  std::map<std::string, std::pair<Kind, std::string>> kinds;  // by way, with its pairs
  for (const GpuPair& pair : pairs) {
    Kind kind;
    if (pair.has_atomics) {
      kind = {nvlink_of(architecture), "NVLink", known_link(nvlink_of(architecture))};
    } else if (pair.can_access) {
      kind = {pcie_of(architecture), "PCIe, direct access", known_link(pcie_of(architecture))};
    } else {
      kind = {"", "no direct access: through the host's memory", known_link(pcie_of(architecture))};
    }
    auto& [known, all] = kinds[kind.way];
    known = kind;
    all += fmt::format("{}{}-{}", all.empty() ? "" : " ", pair.from, pair.to);
  }
  std::string text;
  for (const auto& [way, entry] : kinds) {
    const auto& [kind, all] = entry;
    text +=
        fmt::format("  {}{}: {}\n    {}{}\n", way, kind.name.empty() ? "" : " (" + kind.name + ")",
                    all, kind.name.empty() ? "at best: " : "", rows_text(gpu, kind.link));
  }
  return text;
}

std::string nccl_availability() {
  const NcclLibrary& library = nccl_library();
  if (library.api == nullptr) return "no: " + library.why_not;
  const DeviceQuery query = query_device();
  if (!query.device) return "no: " + query.why_not;
  const int gpus = count_gpus();
  return fmt::format("yes: NCCL {}, {} GPU{}", nccl_version_text(nccl_version()), gpus,
                     gpus == 1 ? "" : "s");
}

std::string nccl_details() {
  const int gpus = nccl_library().api == nullptr ? 0 : count_gpus();
  if (gpus == 0) return "";
  std::string text = "nccl links\n";
  for (int index = 0; index < gpus; ++index)
    if (const DeviceQuery query = query_device(index); query.device)
      text += fmt::format("  GPU {}: {}\n", index, to_string(*query.device));
  const DeviceInfo first = *query_device().device;
  if (gpus == 1) {
    text +=
        fmt::format("  no other GPU to be linked with; beside another one over {}:\n    {}\n",
                    nvlink_of(first.architecture),
                    rows_text(known_gpu(first.name), known_link(nvlink_of(first.architecture))));
    return text;
  }
  return text + links_text(first.name, first.architecture, pairs_of(gpus));
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
