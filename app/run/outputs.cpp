#include "app/run/run.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "app/command_line/flags.h"
#include "app/report/fields.h"
#include "core/base/error.h"
#include "core/base/npy.h"
#include "core/run/cpu_engine.h"
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
          {"--dump", options.dump, true},
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

namespace {

// What all ranks write to. Each rank's thread adds to its own list of the manifest.
struct Dump {
  const AtomicFolder& folder;
  std::vector<std::vector<Fields>> arrays;  // by rank, in the order of its loop

  // Call f(path) to write a file of the folder.
  template <class F>
  void write(const std::string& name, F&& f) const {
    for_flag("--dump",
             [&] { folder.fill([&](const std::string& place) { f(place + "/" + name); }); });
  }
};

// Local rows [first, end) of a rank.
struct RowsOfRank {
  int rank = 0;
  Index first = 0, end = 0;
};

class DumpingBackend : public ForwardingBackend {
 public:
  DumpingBackend(BlockBackend& inner, Rank& rank, Dump& dump)
      : ForwardingBackend(inner),
        rank_(rank),
        params_(rank.ring_problem().params),
        share_{0, params_.num_heads, 0, params_.num_heads_kv},
        dump_(dump) {
    const LocalRows rows = rank.ring_problem().partition.rows_of(rank.rank());
    std::vector<Index> positions;
    for (Index row = 0; row < rows.size(); ++row) positions.push_back(rows.global_position(row));
    dump.write(fmt::format("positions-rank-{}.npy", rank.rank()), [&](const std::string& path) {
      AtomicFile file(path);
      write_npy_integers(file, {rows.size()}, positions);
      file.commit();
    });
  }

  void use_heads(const HeadShare& share) override { inner_.use_heads(share_ = share); }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    wait_for(inner_.attend(step, region, q, block, state, after));
    rows_at_[state.row_max] = rows_of(region.queries, rank_.rank());
    return write_state(step, "attend", state);
  }
  Completion merge(const StepInfo& step, const QueryBlock& q, const SoftmaxState& into,
                   const SoftmaxState& from, const Completion& after) override {
    wait_for(inner_.merge(step, q, into, from, after));
    return write_state(step, "merge", into);
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override {
    wait_for(inner_.finish(q, state));
    const RowsOfRank rows = rows_held_at(state.row_max, rank_.rank());
    ++operations_;
    write(last_, "finish", "out", rows, state.out_accum, true);
    write(last_, "finish", "lse", rows, state.lse, false);
    return nullptr;
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    wait_for(inner_.attend_backward(step, region, q, block, state, gradient, after));
    rows_at_[gradient.data] = rows_of(region.keys, step.kv_owner);
    return write_gradient(step, "attend", gradient);
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    wait_for(inner_.add(step, into, from, after));
    // What a group's ranks give back at the end is of other heads than this rank's share.
    if (!rows_at_.contains(into.data) && share_.num_heads != params_.num_heads) return nullptr;
    return write_gradient(step, "add", into);
  }

 private:
  // Return which rows of which rank these are; of rank `otherwise` if there are none.
  RowsOfRank rows_of(const LocalRows& rows, int otherwise) const {
    const Partition& partition = rank_.ring_problem().partition;
    for (int rank = 0; rows.size() > 0 && rank < partition.world_size; ++rank) {
      const LocalRows all = partition.rows_of(rank);
      const Index first = rows.global_position(0), local = all.rows_below(first);
      if (local < all.size() && all.global_position(local) == first)
        return {rank, local, local + rows.size()};
    }
    return {otherwise, 0, 0};
  }
  // Return the rows whose state or gradient lies at `memory`: all of `rank` if none was attended
  // there.
  RowsOfRank rows_held_at(const void* memory, int rank) const {
    const auto held = rows_at_.find(memory);
    return held != rows_at_.end() ? held->second
                                  : RowsOfRank{rank, 0, rank_.ring_problem().rows(rank)};
  }

  Completion write_state(const StepInfo& step, const char* operation, const SoftmaxState& state) {
    const RowsOfRank rows = rows_held_at(state.row_max, rank_.rank());
    last_ = step;
    ++operations_;
    write(step, operation, "row_max", rows, state.row_max, false);
    write(step, operation, "row_sum", rows, state.row_sum, false);
    write(step, operation, "out_accum", rows, state.out_accum, true);
    return nullptr;
  }
  Completion write_gradient(const StepInfo& step, const char* operation, const KvGradient& both) {
    const RowsOfRank rows = rows_held_at(both.data, step.kv_owner);
    ++operations_;
    write(step, operation, "dk", rows, both.data, true);
    write(step, operation, "dv", rows,
          both.data + params_.batch * share_.num_heads_kv * both.rows * params_.head_dim, true);
    return nullptr;
  }

  template <class T>
  void write(const StepInfo& step, const char* operation, std::string_view what,
             const RowsOfRank& rows, const T* values, bool has_width) {
    const bool of_keys = what == "dk" || what == "dv";
    std::vector<Index> shape{params_.batch, of_keys ? share_.num_heads_kv : share_.num_heads,
                             rows.end - rows.first};
    if (has_width) shape.push_back(params_.head_dim);
    std::size_t bytes = sizeof(T);
    for (const Index size : shape) bytes *= static_cast<std::size_t>(size);
    const std::string name =
        fmt::format("rank{}-{}-op{:04}-step{}-{}-{}.npy", rank_.rank(), name_of(step.pass),
                    operations_, step.step, operation, what);
    dump_.write(name, [&](const std::string& path) {  // without AtomicFile's wait for the disk
      std::ofstream file(path, std::ios::binary);
      file << npy_header(shape, sizeof(T) == sizeof(double));
      file.write(reinterpret_cast<const char*>(values), static_cast<std::streamsize>(bytes));
      file.close();
      if (!file) throw RunError(path + ": writing failed: " + std::strerror(errno));
    });
    dump_.arrays[rank_.rank()].push_back(
        {{"name", name},
         {"rank", rank_.rank()},
         {"pass", name_of(step.pass)},
         {"step", step.step},
         {"operation", operation},
         {"kv_owner", step.kv_owner},
         {"what", what},
         {"dtype", sizeof(T) == sizeof(double) ? "f64" : "f32"},
         {"shape", shape},
         {"first_head", of_keys ? share_.first_kv : share_.first},
         {"rows_of_rank", rows.rank},
         {"rows", std::vector<Index>{rows.first, rows.end}},
         {"positions", fmt::format("positions-rank-{}.npy", rows.rank)}});
    rank_.pulse().tick();
  }

  Rank& rank_;
  const AttentionParams& params_;
  HeadShare share_;
  Dump& dump_;
  std::map<const void*, RowsOfRank> rows_at_;  // by where a state or gradient lies
  StepInfo last_;                              // of the state that was written last
  int operations_ = -1;                        // written before this one
};

}  // namespace

RingRun run_dumped(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                   const AtomicFolder& folder) {
  check_run(config, inputs);  // before world_size seats are made
  Dump dump{folder, std::vector<std::vector<Fields>>(static_cast<std::size_t>(config.world_size))};
  ThreadEngine engine(config.world_size, [&](BlockBackend& inner, Rank& rank) {
    return std::make_unique<DumpingBackend>(inner, rank, dump);
  });
  RingRun run = run_ranks(config, inputs, engine, progress);
  std::vector<Fields> all;
  for (const std::vector<Fields>& arrays : dump.arrays)
    all.insert(all.end(), arrays.begin(), arrays.end());
  dump.write("manifest.json", [&](const std::string& path) {
    write_file(path, json_line({{"shape", shape_fields(config.shape)},
                                {"world_size", config.world_size},
                                {"scheme", config.scheme_name()},
                                {"partition", name_of(config.partition)},
                                {"mask", config.mask.name()},
                                {"dtype", name_of(config.dtype)},
                                {"softmax_scale", config.scale()},
                                {"arrays", all}}));
  });
  return run;
}

}  // namespace ringscope
