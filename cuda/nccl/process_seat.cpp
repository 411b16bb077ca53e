#include "cuda/nccl/process_seat.h"

#include <optional>

#include "cuda/nccl/nccl_setup.h"
#include "cuda/nccl/rank_report.h"

namespace ringscope::cuda {
namespace {

// Return the reports of all ranks, in order of rank, on every rank.
std::vector<RankReport> exchange_reports(Lifeline& line) {
  RankReport mine;
  mine.gpus = visible_gpus(mine.why_not);
  if (nccl_library().api == nullptr) mine.why_not = nccl_library().why_not;
  mine.nccl_version = nccl_version();
  const std::vector<std::string> at_rank_0 = line.gather(to_line(mine));
  return reports_of(line.broadcast(joined(at_rank_0)));
}

}  // namespace

ProcessSeat take_process_seat(Lifeline& line) {
  const std::vector<RankReport> reports = exchange_reports(line);
  check_reports(reports);
  std::vector<RankGpus> gpus;
  for (const RankReport& report : reports) gpus.push_back(report.gpus);
  ProcessSeat mine;
  mine.placement = place_ranks(gpus);
  mine.seat = {line.rank(), mine.placement.devices.at(static_cast<std::size_t>(line.rank()))};
  apply(nccl_environment(mine.placement, reports.front().nccl_version, true, line.rank()));
  RINGSCOPE_CUDA(cudaSetDevice(mine.seat.device));
  return mine;
}

// If rank 0 has no id, the other ranks learn of it when the run ends.
ncclUniqueId share_nccl_id(Lifeline& line) {
  std::string text;
  if (line.rank() == 0) text = to_hex(new_nccl_id());
  return id_of_hex(line.broadcast(text));
}

GiveUp failure_of(Lifeline& line) {
  return [&line] {
    if (const std::optional<RunError> failure = line.failure()) throw *failure;
  };
}

}  // namespace ringscope::cuda
