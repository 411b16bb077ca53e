#include "app/command_line/option_groups.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "app/command_line/flags.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/problem/partition.h"
#include "core/tools/sim/work.h"
#include "core/trace/json_reader.h"

namespace ringscope {

namespace {

namespace fs = std::filesystem;

// Return the real folder and name of a file made at `path`, through links that dangle too.
fs::path real_place(const std::string& path) {
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(place, error)); ++links)
    place = place.parent_path() / fs::read_symlink(place, error);
  place = fs::weakly_canonical(place, error);
  return place.has_filename() ? place : place.parent_path();  // "d/" is d
}

// Return whether writing one file or folder would replace the other. Devices and fifos are not
// replaced.
bool same_place(const std::string& a, const std::string& b) {
  std::error_code error;
  const fs::file_status status = fs::status(a, error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status)) return false;
  return fs::equivalent(a, b, error) || real_place(a) == real_place(b);
}

bool is_inside(const OutputPlace& folder, const std::string& path) {
  if (!folder.is_folder || !folder.path) return false;
  const fs::path outer = real_place(*folder.path), inner = real_place(path);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

// Return whether writing to `path` would mix with stdout or replace its file. Nothing mixes in
// /dev/null.
bool is_stdout(const std::string& path) {
  const auto equal = [](const struct stat& a, const struct stat& b) {
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
  };
  struct stat out {
  }, file{}, null{};
  return ::fstat(STDOUT_FILENO, &out) == 0 && ::stat(path.c_str(), &file) == 0 &&
         equal(out, file) && !(::stat("/dev/null", &null) == 0 && equal(out, null));
}

}  // namespace

void add_files_in(const std::vector<std::string>& names, std::vector<std::string>& files) {
  for (const std::string& name : names)
    for (const std::string before : {"ranges:", "file:"})
      if (const std::size_t at = name.find(before); at != name.npos)
        files.push_back(name.substr(at + before.size()));
}

void check_output_places(const std::vector<OutputPlace>& places,
                         const std::vector<std::string>& inputs, bool json) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const char* const flag = places[i].flag;
    if (!places[i].path) continue;
    const std::string& path = *places[i].path;
    for (std::size_t j = 0; j < i; ++j) {
      if (!places[j].path) continue;
      const bool same = same_place(path, *places[j].path);
      if (same || is_inside(places[i], *places[j].path) || is_inside(places[j], path))
        throw InputError(fmt::format("{} '{}': {} {}; accepted: a {} for each output", flag, path,
                                     same ? "the same file as" : "one holds the other, of",
                                     places[j].flag, same ? "file" : "place"));
    }
    for (const std::string& input : inputs)
      if (same_place(path, input))
        throw InputError(fmt::format(
            "{} '{}': the same file as the input '{}'; accepted: another file", flag, path, input));
    if (path.ends_with(".gz"))
      throw InputError(
          fmt::format("{} '{}': is written unpacked; accepted: a name without .gz", flag, path));
    if (json && is_stdout(path))
      throw InputError(fmt::format(
          "{} '{}': is stdout, where --json prints; accepted: another file, or no --json", flag,
          path));
    for_flag(flag, [&] {
      if (places[i].is_folder)
        AtomicFolder probe(path);
      else
        require_writable(path);
    });
  }
}

void check_speeds(const Problem& job) {
  if (!job.speeds.empty() && std::ssize(job.speeds) != job.world_size)
    contradiction(
        "--speeds",
        fmt::format("{} given for {}", job.speeds.size(), count_text(job.world_size, "rank")),
        "a speed a rank");
}

void deal_out_as_given(Problem& job, Granularity tile) {
  check_speeds(job);
  for_flag("--mask '" + job.mask.name() + "':", [&] { job.mask.for_seqlen(job.shape.seqlen); });
  for_flag("--partition '" + job.partition.name() + "':", [&] { deal_out(job, tile); });
}

void add_world_size(CommandFlags& flags, std::optional<int>& world_size, int otherwise) {
  flags.integer("--world-size", world_size,
                fmt::format("ranks ({}; a process per rank: as many as were started)", otherwise));
}

void add_unpack(CommandFlags& flags) {
  static constexpr Range kGiB = {0, 1024, false, "a number above 0, up to 1024"};
  flags.value("--unpack", "GIB", "unpack at most so much of a file that gzip packed (1)",
              [](const std::string& text) {
                FileSource::most_unpacked() = static_cast<std::uint64_t>(
                    for_flag("--unpack:", [&] { return number_in(text, kGiB); }) * 0x1p30);
              });
}

void add_timeout(CommandFlags& flags, double& timeout_s, const std::string& help) {
  constexpr Range kSeconds = {0, 1e9, false,
                              "seconds, more than 0, at most 1e+09, as in 60 or 0.5"};
  flags.number("--timeout", timeout_s, kSeconds, help, 1, "SECONDS");
}

Problem planned_problem() {
  Problem job;
  job.shape = {.batch = 1, .num_heads = 32, .num_heads_kv = 0, .seqlen = 0, .head_dim = 128};
  job.world_size = 0;
  job.dtype = DType::bf16;
  job.hops = Hops::needed;
  return job;
}

void complete_problem(const std::string& command, Problem& job) {
  if (job.shape.seqlen == 0)
    throw InputError(fmt::format("{}: no --seqlen given; accepted: --seqlen N", command));
  if (job.world_size == 0)
    throw InputError(fmt::format("{}: no --world-size given; accepted: --world-size N", command));
  if (job.shape.num_heads_kv == 0) job.shape.num_heads_kv = job.shape.num_heads;
  validate(job.shape);
  job.shape = plainest(job.shape);
  for_flag("--mask '" + job.mask.name() + "':", [&] { job.mask.for_seqlen(job.shape.seqlen); });
}

void add_ranks(CommandFlags& flags, RankOptions& ranks, int otherwise, const std::string& dealt) {
  flags.name("--backend", ranks.backend, "cpu|mpi",
             "a thread per rank, or a process per rank (cpu)", [](const std::string& text) {
               const Backend backend = parse_backend(text);
               if (!is_on_gpus(backend)) return backend;
               throw InputError(fmt::format("'{}' given; accepted: cpu, mpi", text));
             });
  add_world_size(flags, ranks.world_size, otherwise);
  flags.name("--partition", ranks.partition, "contiguous|striped|zigzag|fold",
             "which rank holds which " + dealt + " (zigzag)", parse_partition);
}

void add_timeout(CommandFlags& flags, RankOptions& ranks, const std::string& backends) {
  add_timeout(flags, ranks.timeout_s,
              "of --backend " + backends +
                  ": end when a rank gives no sign of life, or nothing moves, for so long (60)");
}

}  // namespace ringscope
