#include "app/run/run.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "app/command_line/flags.h"
#include "core/base/error.h"
#include "core/base/npy.h"
#include "core/trace/chrome_trace.h"

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

// An output while it is written. Its errors name its flag.
class Output {
 public:
  Output(const char* flag, const std::string& path)
      : flag_(flag), file_(for_flag(flag, [&] { return std::make_unique<AtomicFile>(path); })) {}

  template <class F>
  void write(F&& f) {
    for_flag(flag_, [&] { f(*file_); });
  }

 private:
  const char* flag_;
  std::unique_ptr<AtomicFile> file_;
};

}  // namespace

std::vector<OutputPlace> output_places(const RunOptions& options) {
  return {{"--out", options.out},
          {"--lse", options.lse},
          {"--dq", options.dq},
          {"--dk", options.dk},
          {"--dv", options.dv},
          {"--trace", options.trace, options.trace && options.trace->ends_with('/')},
          {"--write-partition", options.write_partition}};
}

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

namespace {

// Write the recording to a file, or to a folder with a file a rank.
void write_recording(std::vector<Output>& files, const std::string& path,
                     std::unique_ptr<AtomicFolder>& folder, const Recording& recording) {
  if (!path.ends_with('/')) {
    files.emplace_back("--trace", path).write([&](AtomicFile& file) {
      write_chrome_trace(file, recording);
    });
    return;
  }
  folder = for_flag("--trace", [&] { return std::make_unique<AtomicFolder>(path); });
  for_flag("--trace", [&] {
    folder->fill([&](const std::string& place) {
      for (int rank = 0; rank < recording.info.world_size; ++rank) {
        AtomicFile file(fmt::format("{}/rank{}.json", place, rank));
        write_chrome_trace_of_rank(file, recording, rank);
        file.commit();
      }
    });
  });
}

// Put all that was written in its place, once all of it is on the disk. The renamings follow each
// other at once: whoever is killed leaves old files or new ones, and hardly ever some of both.
void commit(std::vector<Output>& files, const std::unique_ptr<AtomicFolder>& folder) {
  for (Output& file : files) file.write([](AtomicFile& f) { f.sync(); });
  for (Output& file : files) file.write([](AtomicFile& f) { f.prepare(); });
  for (Output& file : files) file.write([](AtomicFile& f) { f.commit(); });
  if (folder != nullptr) for_flag("--trace", [&] { folder->commit(); });
}

}  // namespace

void write_outputs(const RunOptions& options, const Problem& config, const RingRun& run, bool f64) {
  const AttentionShape& shape = config.shape;
  std::vector<Output> files;
  const auto write_tensor = [&](const char* flag, const std::optional<std::string>& path,
                                const std::vector<Index>& sizes, const std::vector<float>& values) {
    if (!path) return;
    files.emplace_back(flag, *path).write([&](AtomicFile& file) {
      write_npy(file, sizes, values.data(), f64);
    });
  };
  // Rows go out in the layout in which they came in.
  const auto write_rows = [&](const char* flag, const std::optional<std::string>& path, Index heads,
                              const std::vector<float>& values) {
    if (!path) return;
    const std::array<Index, 4> sizes{shape.batch, heads, shape.seqlen, shape.head_dim};
    std::vector<Index> axes(sizes.begin(), sizes.end());
    if (options.layout != Layout::bhsd) std::swap(axes[1], axes[2]);
    if (options.layout == Layout::thd) axes.erase(axes.begin());
    if (options.layout == Layout::bhsd) return write_tensor(flag, path, axes, values);
    write_tensor(flag, path, axes, to_layout(options.layout, sizes, values));
  };
  write_rows("--out", options.out, shape.num_heads, run.outputs.out);
  write_tensor("--lse", options.lse, {shape.batch, shape.num_heads, shape.seqlen}, run.outputs.lse);
  write_rows("--dq", options.dq, shape.num_heads, run.outputs.dq);
  write_rows("--dk", options.dk, shape.num_heads_kv, run.outputs.dk);
  write_rows("--dv", options.dv, shape.num_heads_kv, run.outputs.dv);
  std::unique_ptr<AtomicFolder> folder;
  if (options.trace) write_recording(files, *options.trace, folder, run.recording);
  if (options.write_partition)
    files.emplace_back("--write-partition", *options.write_partition).write([&](AtomicFile& file) {
      write_partition(file, config.partition_of_sequence());
    });
  commit(files, folder);
}

void write_trace(const RunOptions& options, const Recording& recording) {
  if (!options.trace) return;
  Recording named = recording;
  named.info.command = options.command;
  std::vector<Output> files;
  std::unique_ptr<AtomicFolder> folder;
  write_recording(files, *options.trace, folder, named);
  commit(files, folder);
}

}  // namespace ringscope
