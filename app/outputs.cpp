#include "app/outputs.h"

#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <utility>

#include "app/for_flag.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/npy.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

struct Place {
  const char* flag;
  const std::string* path;
};

std::vector<Place> places_of(const RunOptions& options) {
  std::vector<Place> places;
  for (const auto& [flag, path] : {std::pair{"--out", &options.out},
                                   {"--lse", &options.lse},
                                   {"--dq", &options.dq},
                                   {"--dk", &options.dk},
                                   {"--dv", &options.dv},
                                   {"--trace", &options.trace}})
    if (path->has_value()) places.push_back({flag, &**path});
  return places;
}

// Where a file named `path` would be made: its real folder and name, links to nothing yet included.
fs::path real_place(const std::string& path) {
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(place, error)); ++links)
    place = place.parent_path() / fs::read_symlink(place, error);
  return fs::weakly_canonical(place, error);
}

// Whether one file would take the place of the other. Devices and fifos are not replaced.
bool same_place(const std::string& a, const std::string& b) {
  std::error_code error;
  const fs::file_status status = fs::status(a, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) return false;
  return fs::equivalent(a, b, error) || real_place(a) == real_place(b);
}

}  // namespace

void check_output_places(const RunOptions& options, const std::vector<std::string>& inputs) {
  const std::vector<Place> places = places_of(options);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto& [flag, path] = places[i];
    for (std::size_t j = 0; j < i; ++j)
      if (same_place(*path, *places[j].path))
        throw InputError(
            fmt::format("{} '{}': the same file as {}; accepted: a file for each output", flag,
                        *path, places[j].flag));
    for (const std::string& input : inputs)
      if (same_place(*path, input))
        throw InputError(
            fmt::format("{} '{}': the same file as the input '{}'; accepted: another file", flag,
                        *path, input));
    for_flag(flag, [&path = *path] { require_writable(path); });
  }
}

void write_outputs(const RunOptions& options, const AttentionShape& shape, const RingRun& run,
                   bool f64) {
  std::deque<AtomicFile> files;  // which neither copy nor move
  const auto write_tensor = [&](const std::optional<std::string>& path,
                                const std::vector<Index>& sizes, const std::vector<float>& values) {
    if (path) write_npy(files.emplace_back(*path), sizes, values.data(), f64);
  };
  const std::vector<Index> query{shape.batch, shape.num_heads, shape.seqlen, shape.head_dim};
  const std::vector<Index> kv{shape.batch, shape.num_heads_kv, shape.seqlen, shape.head_dim};
  write_tensor(options.out, query, run.outputs.out);
  write_tensor(options.lse, {shape.batch, shape.num_heads, shape.seqlen}, run.outputs.lse);
  write_tensor(options.dq, query, run.outputs.dq);
  write_tensor(options.dk, kv, run.outputs.dk);
  write_tensor(options.dv, kv, run.outputs.dv);
  if (options.trace) write_chrome_trace(files.emplace_back(*options.trace), run.recording);
  for (AtomicFile& file : files) file.sync();
  for (AtomicFile& file : files) file.commit();
}

}  // namespace ringscope
