#include "cuda/nccl/process_seat.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <sstream>

#include "cuda/nccl/nccl_setup.h"

namespace ringscope::cuda {

namespace {

constexpr char kField = '\t', kItem = ',';

// Replace the characters that separate fields and items.
std::string plain(std::string text) {
  for (char& c : text)
    if (c == kField || c == kItem || c == '\n') c = ' ';
  return text;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace

std::string to_line(const RankReport& report) {
  std::string gpus;
  for (const std::string& gpu : report.gpus.gpus)
    gpus += (gpus.empty() ? "" : std::string(1, kItem)) + plain(gpu);
  std::string why_not = report.why_not;
  for (char& c : why_not)
    if (c == kField || c == '\n') c = ' ';
  return fmt::format("{}{}{}{}{}{}{}{}", plain(report.gpus.machine), kField, report.nccl_version,
                     kField, gpus, kField, why_not, kField);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<RankReport> reports_of(const std::string& text) {
  std::vector<RankReport> reports;
  for (const std::string& line : split(text, '\n')) {
    const std::vector<std::string> fields = split(line, kField);
    if (fields.size() < 3 || fields.size() > 4)
      throw RunError("a rank says what is not understood: " + line,
                     static_cast<int>(reports.size()));
    RankReport report;
    report.gpus = {fields[0], split(fields[2], kItem)};
    std::from_chars(fields[1].data(), fields[1].data() + fields[1].size(), report.nccl_version);
    if (fields.size() == 4) report.why_not = fields[3];
    reports.push_back(std::move(report));
  }
  return reports;
}

void check_reports(const std::vector<RankReport>& reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    const RankReport& its = reports[rank];
    if (!its.why_not.empty())
      throw RunError("backend nccl: " + its.why_not, static_cast<int>(rank));
    if (its.nccl_version != reports[0].nccl_version)
      throw RunError(fmt::format("rank {} has NCCL {}, rank 0 has NCCL {}", rank,
                                 nccl_version_text(its.nccl_version),
                                 nccl_version_text(reports[0].nccl_version)),
                     static_cast<int>(rank));
  }
}

std::string to_hex(const ncclUniqueId& id) {
  std::string hex;
  for (const char byte : id.internal)
    hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

ncclUniqueId id_of_hex(std::string_view hex) {
  ncclUniqueId id{};
  if (hex.size() != 2 * sizeof(id.internal)) throw RunError("an id of NCCL has another length");
  for (std::size_t i = 0; i < sizeof(id.internal); ++i) {
    unsigned value = 0;
    const char* const digits = hex.data() + 2 * i;
    if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2)
      throw RunError("an id of NCCL has something other than digits");
    id.internal[i] = static_cast<char>(value);
  }
  return id;
}

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
