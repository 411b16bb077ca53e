#include "cuda/nccl/process_seat.h"

#include <fmt/format.h>

#include <optional>

#include "core/process/wire.h"
#include "cuda/base/check.h"

namespace ringscope::cuda {

std::string pack(const GpuReport& report) {
  wire::Packer packer;
  packer.text(report.gpus.machine).number(report.gpus.gpus.size());
  for (const std::string& gpu : report.gpus.gpus) packer.text(gpu);
  return packer.number(static_cast<std::uint64_t>(report.nccl_version)).text(report.why_not).take();
}

std::vector<GpuReport> reports_of(std::string_view bytes, int world_size) {
  constexpr std::uint64_t kMostGpus = 4096, kVersions = std::uint64_t{1} << 31;
  std::vector<GpuReport> reports(static_cast<std::size_t>(world_size));
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
  mine.seat = {line.rank(), mine.placement.devices.at(static_cast<std::size_t>(line.rank()))};
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
