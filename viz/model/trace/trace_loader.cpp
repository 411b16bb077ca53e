#include "viz/model/trace/trace_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/trace/chrome_trace_reader.h"
#include "viz/model/trace/kineto.h"
#include "viz/model/trace/ring_trace.h"
#include "viz/model/trace/trace_foreign.h"

namespace ringscope::viz {
namespace {

// Reads the events of one file: of a recording of ours (RingEvents) or of any other trace.
class FileEvents final : public RingEvents {
 public:
  void begin(const RunInfo& run, const std::vector<std::int64_t>& dropped) override {
    foreign_ = {};
    RingEvents::begin(run, dropped);
  }
  void other(const TraceFields& fields) override { foreign_.add(fields); }
  std::size_t slices() const { return RingEvents::slices() + foreign_.slices(); }

  LoadedTrace finish(TraceHead head) {
    LoadedTrace loaded;
    if (head.run) {
      loaded.trace = RingEvents::finish();
      loaded.trace.story = std::move(head.story);
      notice_lost_steps(loaded.trace);
    } else {
      loaded.profiler = foreign_.from_profiler();
      loaded.rank = loaded.profiler ? head.rank : std::nullopt;
      loaded.world_size = head.world_size;
      loaded.base_time_ns = head.base_time_ns;
      loaded.trace = foreign_.finish(loaded.rank, head.end);
    }
    if (head.cut_short)
      loaded.trace.notices.push_back("the array of events has no end: the file may be cut short");
    return loaded;
  }

 private:
  // Say so if the story points at steps that were not recorded.
  static void notice_lost_steps(Trace& trace) {
    const int forward = forward_step_count(trace), backward = step_count(trace) - forward;
    std::size_t lost = 0, first = 0;
    for (std::size_t i = trace.story.size(); i-- > 0;) {
      const StoryStep& told = trace.story[i];
      const int steps = told.pass == Pass::forward    ? forward
                        : told.pass == Pass::backward ? backward
                                                      : std::max(forward, backward);
      if (told.step < steps && (!told.pass || steps > 0)) continue;
      ++lost;
      first = i + 1;
    }
    if (lost > 0)
      trace.notices.push_back(
          fmt::format("the story points {} at steps that were not recorded, first in paragraph {}",
                      lost == 1 ? "once" : fmt::format("{} times", lost), first));
  }

  ForeignEvents foreign_;
};

// A file whose reading is reported, chunk by chunk.
class WatchedFile : public FileSource {
 public:
  WatchedFile(const InputFile& file, const FileEvents& events, LoadProgress& progress)
      : FileSource(file),
        events_(events),
        progress_(progress),
        bytes_before_(progress.bytes_done),
        slices_before_(progress.slices) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = FileSource::read(to, size);
    progress_.bytes_done = bytes_before_ + done();
    progress_.slices = slices_before_ + static_cast<std::int64_t>(events_.slices());
    if (progress_.cancel) throw InputError("loading was cancelled");
    return count;
  }

 private:
  const FileEvents& events_;
  LoadProgress& progress_;
  const std::int64_t bytes_before_, slices_before_;
};

LoadedTrace load(TextSource& text, FileEvents& events, const std::string& path,
                 std::size_t chunk = kTraceChunk) {
  TraceHead head = read_trace(text, events, 0, chunk);
  LoadedTrace loaded = events.finish(std::move(head));
  loaded.trace.path = path;
  return loaded;
}

// Call f(file) for the file at `path`, and name it in every complaint.
template <class F>
auto with_file(const std::string& path, F&& f) try {
  return f(InputFile(path, "recorded trace"));
} catch (const InputError& error) {
  throw InputError(about_file(path, error.what()));
}

void refuse_compressed(const InputFile& file) {
  char magic[2] = {};
  if (file.size() < 2) return;
  file.read(magic, 2, 0);
  if (magic[0] == '\x1f' && magic[1] == '\x8b')
    fail_at(0, "compressed by gzip; an unpacked trace accepted");
}

LoadedTrace load_file(const std::string& path, LoadProgress& progress) {
  return with_file(path, [&](const InputFile& file) {
    refuse_compressed(file);
    FileEvents events;
    WatchedFile text(file, events, progress);
    return load(text, events, path);
  });
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
  return std::move(load_traces({path}, progress)[0]);
}

Trace parse_trace(std::string_view text, const std::string& path, std::size_t chunk) try {
  FileEvents events;
  MemorySource source(text);
  return load(source, events, path, chunk).trace;
} catch (const InputError& error) {
  throw InputError(about_file(path, error.what()));
}

std::vector<Trace> load_traces(const std::vector<std::string>& paths, LoadProgress* progress) {
  LoadProgress unwatched;
  LoadProgress& watched = progress != nullptr ? *progress : unwatched;
  std::int64_t total = 0;
  for (const std::string& path : paths)
    total += with_file(path, [](const InputFile& file) { return file.size(); });
  watched.bytes_total = total;
  // Group the files that make one trace together, in the order of each group's first file.
  std::vector<std::vector<LoadedTrace>> groups;
  for (const std::string& path : paths) {
    LoadedTrace file = load_file(path, watched);
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
