#include "viz/model/trace/trace_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "viz/model/trace/kineto.h"
#include "viz/model/trace/trace_reader.h"

namespace ringscope::viz {
namespace {

class FileText : public TraceText {
 public:
  FileText(const InputFile& file, LoadProgress* progress) : file_(file), progress_(progress) {
    if (progress_ == nullptr) return;
    bytes_before_ = progress_->bytes_done;
    slices_before_ = progress_->slices;
  }
  std::size_t read(char* to, std::size_t size) override {
    const Index count = std::min<Index>(static_cast<Index>(size), file_.size() - done_);
    file_.read(to, count, done_);
    done_ += count;
    if (progress_ != nullptr) {
      progress_->bytes_done = bytes_before_ + done_;
      if (progress_->cancel) throw InputError("loading was cancelled");
    }
    return static_cast<std::size_t>(count);
  }
  void rewind() override { done_ = 0; }
  std::uint64_t size() const override { return static_cast<std::uint64_t>(file_.size()); }
  void on_slices(std::uint64_t count) override {
    if (progress_ != nullptr) progress_->slices = slices_before_ + static_cast<std::int64_t>(count);
  }

 private:
  const InputFile& file_;
  LoadProgress* const progress_;
  Index done_ = 0;
  std::int64_t bytes_before_ = 0, slices_before_ = 0;
};

LoadedTrace read_named(TraceText& text, const std::string& path) try {
  LoadedTrace loaded = read_trace(text);
  loaded.trace.path = path;
  text.on_slices(loaded.trace.slice_count);
  return loaded;
} catch (const InputError& error) {
  throw InputError(about_file(path, error.what()));
}

InputFile opened(const std::string& path) try {
  return InputFile(path, "recorded trace");
} catch (const InputError& error) {
  throw InputError(about_file(path, error.what()));
}

void refuse_compressed(const InputFile& file, const std::string& path) {
  char magic[2] = {};
  if (file.size() < 2) return;
  file.read(magic, 2, 0);
  if (magic[0] == '\x1f' && magic[1] == '\x8b')
    throw InputError(about_file(path, "byte 0: compressed by gzip; an unpacked trace accepted"));
}

LoadedTrace load_file(const std::string& path, LoadProgress* progress) {
  const InputFile file = opened(path);
  refuse_compressed(file, path);
  FileText text(file, progress);
  return read_named(text, path);
}

void refuse_different_world_sizes(const std::vector<Trace>& traces) {
  const Trace* first = nullptr;
  for (const Trace& trace : traces) {
    if (!trace.run) continue;
    if (first == nullptr) first = &trace;
    if (trace.run->world_size != first->run->world_size)
      throw InputError(
          fmt::format("{}: world_size {} given, but {} in {}; recordings of one "
                      "world_size accepted",
                      trace.path, trace.run->world_size, first->run->world_size, first->path));
  }
}

}  // namespace

Trace load_trace(const std::string& path, LoadProgress* progress) {
  if (progress != nullptr) progress->bytes_total = opened(path).size();
  return load_file(path, progress).trace;
}

Trace parse_trace(std::string_view text, const std::string& path) {
  MemoryText memory(text);
  return read_named(memory, path).trace;
}

std::vector<Trace> load_traces(const std::vector<std::string>& paths, LoadProgress* progress) {
  if (progress != nullptr) {
    std::int64_t total = 0;
    for (const std::string& path : paths) total += opened(path).size();
    progress->bytes_total = total;
  }
  // Group the files that make one trace together, in the order of each group's first file.
  std::vector<std::vector<LoadedTrace>> groups;
  for (const std::string& path : paths) {
    LoadedTrace file = load_file(path, progress);
    const auto joins = [&](const std::vector<LoadedTrace>& group) {
      return std::all_of(group.begin(), group.end(),
                         [&](const LoadedTrace& other) { return of_one_job(file, other); });
    };
    auto group = std::find_if(groups.begin(), groups.end(), joins);
    if (group == groups.end()) group = groups.emplace(groups.end());
    group->push_back(std::move(file));
  }
  std::vector<Trace> traces;
  for (auto& group : groups) traces.push_back(merge_ranks(std::move(group)));
  refuse_different_world_sizes(traces);
  return traces;
}

}  // namespace ringscope::viz
