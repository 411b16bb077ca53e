#include "app/run/run.h"

#include <fmt/format.h>

#include <utility>

#include "app/command_line/flags.h"
#include "app/report/fields.h"
#include "core/base/error.h"
#include "core/base/npy.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {

namespace {

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
          {"--dsink", options.dsink},
          {"--trace", options.trace, options.trace && options.trace->ends_with('/')},
          {"--write-partition", options.write_partition}};
}

namespace {

// Write the recording to a file, or to a folder with a file per rank.
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
  const auto write_rows = [&](const char* flag, const std::optional<std::string>& path,
                              Tensor tensor) {
    if (!path) return;
    const std::vector<float>& values = values_of(run.outputs, tensor);
    const std::array<Index, 4> sizes{shape.batch, heads_of(shape, tensor) / shape.batch,
                                     seqlen_of(shape, tensor), width_of(shape, tensor)};
    const auto in_file = shape_in_file(options.layout, sizes);
    write_tensor(flag, path, {in_file.begin() + (options.layout == Layout::thd), in_file.end()},
                 to_layout(options.layout, sizes, values));
  };
  write_rows("--out", options.out, Tensor::out);
  write_tensor("--lse", options.lse, {shape.batch, shape.num_heads, shape.queries()},
               run.outputs.lse);
  write_rows("--dq", options.dq, Tensor::dq);
  write_rows("--dk", options.dk, Tensor::dk);
  write_rows("--dv", options.dv, Tensor::dv);
  write_tensor("--dsink", options.dsink, {shape.num_heads}, run.outputs.dsink);
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
  named.info.command = recorded_words();
  std::vector<Output> files;
  std::unique_ptr<AtomicFolder> folder;
  write_recording(files, *options.trace, folder, named);
  commit(files, folder);
}

}  // namespace ringscope
