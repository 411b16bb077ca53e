#include "bench/gpu_check/nccl_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "bench/gpu_check/readers.h"

namespace ringscope::gpu_check {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Return why `program` can't be run at all, or none if it can.
std::optional<Verdict> absent(const Check& check, const std::string& program) {
  if (std::filesystem::exists(check.bin + "/" + program)) return std::nullopt;
  return Verdict{PartStatus::not_measured, "the pack was built without NCCL"};
}

// Return the NCCL among Python's packages, unless another one was chosen. Machines with PyTorch
// have it there, and often nowhere else.
Environment with_nccl(Check& check) {
  if (std::getenv("RINGSCOPE_NCCL_LIBRARY") != nullptr) return {};
  const std::string python = find_program("python3");
  if (python.empty()) return {};
  constexpr const char* kFind =
      "import importlib.util as u\n"
      "s = u.find_spec('nvidia.nccl')\n"
      "print(list(s.submodule_search_locations)[0] + '/lib/libnccl.so.2' if s else '')";
  check.run_program("nccl-library", {python, "-c", kFind}, 10);
  std::string path = text_of(check.file("nccl-library.out"));
  while (!path.empty() && path.back() == '\n') path.pop_back();
  if (path.empty() || !std::filesystem::exists(path)) return {};
  return {{"RINGSCOPE_NCCL_LIBRARY", path}};
}

// Return why tests were skipped: the line after "Skipped" in their output.
std::string why_skipped(const std::string& said) {
  const std::string mark = "Skipped\n";
  const std::size_t at = said.find(mark);
  if (at == std::string::npos) return "its tests were skipped";
  const std::size_t begin = at + mark.size();
  return said.substr(begin, said.find('\n', begin) - begin);
}

}  // namespace

Verdict nccl_tests(Check& check) {
  if (const auto verdict = absent(check, "nccl_tests")) return *verdict;
  const std::string report_file = check.file("nccl-tests.json");
  std::filesystem::remove(report_file);
  const Outcome outcome =
      check.run_program("nccl-tests", {"nccl_tests", "--gtest_output=json:" + report_file},
                        check.left(), with_nccl(check));
  const TestReport report = read_tests(text_of(report_file));
  if (outcome.cut_off) return {PartStatus::cut_off, how_it_ended(outcome)};
  if (!report.readable)
    return {PartStatus::failed,
            how_it_ended(outcome) + ": " + tail_of(check.file("nccl-tests.log"), 300)};
  if (report.passed + report.failed == 0)
    return {PartStatus::not_measured, why_skipped(text_of(check.file("nccl-tests.out")))};
  const bool passed = outcome.status == 0 && report.failed == 0;
  return {passed ? PartStatus::passed : PartStatus::failed,
          fmt::format("{} passed, {} failed, {} skipped{}{}", report.passed, report.failed,
                      report.skipped, report.failures.empty() ? "" : "; ",
                      fmt::join(report.failures, "; "))};
}

Verdict nccl_memcheck(Check& check) {
  if (const auto verdict = absent(check, "nccl_tests")) return *verdict;
  const std::string program = find_sanitizer();
  if (program.empty()) return {PartStatus::not_measured, "there is no compute-sanitizer"};
  Environment environment = with_nccl(check);
  environment.emplace_back("RINGSCOPE_SMALL_TESTS", "1");
  const Outcome outcome =
      check.run_program("nccl-memcheck",
                        {program, "--tool", "memcheck", "--target-processes", "all",
                         "--error-exitcode", std::to_string(kSanitizerFound),
                         check.bin + "/nccl_tests", "--gtest_filter=NcclRing.OfTwoProcesses"},
                        check.left(), environment);
  const std::string said = text_of(check.file("nccl-memcheck.out"));
  if (outcome.cut_off) return {PartStatus::cut_off, how_it_ended(outcome)};
  if (said.find("Device not supported") != std::string::npos)
    return {PartStatus::not_measured, "compute-sanitizer does not support this machine"};
  // Ranks are processes that the program forks, so findings in them appear only in the output.
  const std::string none = "ERROR SUMMARY: 0 errors";
  bool found = outcome.status == kSanitizerFound;
  for (std::size_t at = 0; (at = said.find("ERROR SUMMARY: ", at)) != std::string::npos; ++at)
    found = found || said.compare(at, none.size(), none) != 0;
  if (found || outcome.status != 0)
    return {PartStatus::failed,
            fmt::format("{}{}: {}", found ? "" : "tool failed, ", how_it_ended(outcome),
                        tail_of(check.file("nccl-memcheck.out"), 400))};
  if (said.find("  PASSED  ] 1 test") == std::string::npos)
    return {PartStatus::not_measured, why_skipped(said)};
  return {};
}

// Measure with one rank per GPU, and with two ranks, which share a GPU if there is only one.
Verdict nccl_speed(Check& check) {
  if (const auto verdict = absent(check, "nccl_ring")) return *verdict;
  const Environment environment = with_nccl(check);
  std::vector<std::string> remarks;
  PartStatus status = PartStatus::not_measured;
  for (const bool two : {false, true}) {
    const std::string name = two ? "nccl-ring-2" : "nccl-ring", report = check.file(name + ".json");
    std::filesystem::remove(report);
    std::vector<std::string> arguments = {"nccl_ring", "--benchmark_out=" + report,
                                          "--benchmark_out_format=json"};
    if (two) arguments.insert(arguments.end(), {"--world-size", "2", "--rows", "2048"});
    const Outcome outcome = check.run_program(name, arguments, check.left(), environment);
    const std::string said = text_of(check.file(name + ".out"));
    try {
      for (Measurement& m : read_benchmarks(text_of(report))) {
        if (two) m.name += "/two_ranks";
        if (!m.problem.empty()) remarks.push_back(m.name + ": " + m.problem);
        check.results.ours.push_back(std::move(m));
      }
      if (status == PartStatus::not_measured) status = PartStatus::passed;
    } catch (const std::exception&) {  // it was skipped, or did not get so far
    }
    if (outcome.cut_off) return {PartStatus::cut_off, how_it_ended(outcome)};
    if (outcome.status != 0) {
      status = PartStatus::failed;
      remarks.push_back(how_it_ended(outcome) + ": " + tail_of(check.file(name + ".log"), 200));
    }
    for (std::size_t at = 0; at < said.size();) {
      const std::size_t end = std::min(said.find('\n', at), said.size());
      const std::string line = said.substr(at, end - at);
      if (line.starts_with("skipped: ") || line.starts_with("not measured: "))
        remarks.push_back(line);
      at = end + 1;
    }
  }
  return {status, fmt::format("{}", fmt::join(remarks, "; "))};
}

}  // namespace ringscope::gpu_check
