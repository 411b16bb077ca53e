// gpu_check checks and measures everything on a GPU within ten minutes, from a pack (a folder with
// the programs in bin/). The most important parts come first.
//
//   gpu_check --bin DIR [--out FILE-OR-FOLDER] [--logs DIR] [--seconds N] [--commit ID] [--small]
//
// The programs' output becomes one archive beside the results. --small rehearses a check with the
// model of a GPU.
//
// Exit status: 0 all checks passed and nothing failed, 1 otherwise, 2 bad usage, 3 no GPU or
// nothing can be written.
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <filesystem>

#include <rapidjson/document.h>
#include <CLI/CLI.hpp>

#include "bench/gpu_check/parts.h"

namespace ringscope::gpu_check {
namespace {

namespace fs = std::filesystem;

constexpr double kLeftForTheLast = 10;  // seconds, to write and to let programs end

struct Options {
  std::string bin, out = ".", logs, commit = "unknown";
  double seconds = 570;
  bool small = false;
};

// Throw CLI::ParseError.
Options read_options(int argc, char** argv) {
  Options options;
  CLI::App app;
  app.set_help_flag();
  app.add_option("--bin", options.bin)->required();
  app.add_option("--out", options.out);
  app.add_option("--logs", options.logs);
  app.add_option("--seconds", options.seconds)->check(CLI::Range(1.0, 1e9));
  app.add_option("--commit", options.commit);
  app.add_flag("--small", options.small);
  app.parse(argc, argv);
  options.bin = fs::absolute(options.bin).string();
  return options;
}

// Return text such as "nvidia-h200".
std::string file_name_of(const std::string& device_json) {
  rapidjson::Document device;
  device.Parse(device_json.c_str());
  std::string name = "gpu";
  if (!device.HasParseError() && device.IsObject() && device.HasMember("name") &&
      device["name"].IsString())
    name = device["name"].GetString();
  for (char& c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? static_cast<char>(std::tolower(c)) : '-';
  return name;
}

// Return `out`, or a new file <gpu>-<date>.json in it if it is a folder.
std::string place_for(const std::string& out, const Results& results) {
  if (!fs::is_directory(out)) return out;
  const std::string stem =
      (fs::path(out) / (file_name_of(results.device_json) + "-" + results.date)).string();
  std::string path = stem + ".json";
  for (int n = 2; fs::exists(path); ++n) path = fmt::format("{}-{}.json", stem, n);
  return path;
}

// Put the programs' output into FILE.logs.tar.gz beside FILE.json. Return its path, or the folder's
// where there is no tar.
std::string archive_logs(Check& check, const std::string& results) {
  const std::string archive = fs::path(results).replace_extension(".logs.tar.gz").string();
  const std::string tar = find_program("tar");
  if (tar.empty()) return check.logs;
  check.part_ends = check.now() + 20;
  const Outcome outcome = check.run_program(
      "tar",
      {tar, "--exclude=./tar.*", "-czf", fs::absolute(archive).string(), "-C", check.logs, "."},
      20);
  return outcome.status == 0 ? archive : check.logs;
}

int check(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  Check check;
  check.now = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  check.bin = options.bin;
  check.small = options.small;
  check.logs = options.logs.empty()
                   ? (fs::temp_directory_path() / fmt::format("gpu-check-{}", getpid())).string()
                   : options.logs;
  fs::create_directories(check.logs);
  Results& results = check.results;
  results.commit = options.commit;
  const std::time_t now = std::time(nullptr);
  results.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
  results.time_utc = fmt::format("{:%H:%M:%S}", fmt::gmtime(now));

  const double ends = options.seconds - std::min(kLeftForTheLast, options.seconds / 4);
  check.part_ends = std::min(30.0, ends);
  const Verdict device = find_device(check);
  if (device.status != PartStatus::passed) {
    fmt::print(stderr, "gpu-check: no GPU: {}\n", device.detail);
    return 3;
  }
  const std::string path = place_for(options.out, results);
  const std::vector<PlannedPart> plan = planned_parts();
  check.save = [&] { write_results(results, path); };
  for (const PlannedPart& planned : plan)
    results.parts.push_back(
        {planned.name, PartStatus::not_run, 0, "no time was left", planned.is_check});
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const double began = check.now();
    if (ends - began < 2) break;
    check.part_ends = std::min(began + plan[i].limit_s, ends);
    fmt::print(stderr, "gpu-check: {}\n", plan[i].name);
    results.parts[i].status = PartStatus::cut_off;
    results.parts[i].detail = "was running when the check ended";
    check.save();
    Verdict verdict;
    try {
      verdict = plan[i].run(check);
    } catch (const std::exception& error) {
      verdict = {PartStatus::failed, error.what()};
    }
    results.parts[i] = {plan[i].name, verdict.status, check.now() - began, verdict.detail,
                        plan[i].is_check};
    results.figures = figures_of(results.ours, results.library);
    results.complete = i + 1 == plan.size();
    check.save();
  }
  check.save();
  fmt::print("{}{}\n{} (logs: {})\n", to_text(results),
             results.passed() ? "all passed" : "not all passed", path, archive_logs(check, path));
  return results.passed() ? 0 : 1;
}

}  // namespace
}  // namespace ringscope::gpu_check

int main(int argc, char** argv) {
  using namespace ringscope::gpu_check;
  try {
    return check(read_options(argc, argv));
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "gpu-check: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu-check: {}\n", error.what());
    return 3;
  }
}
