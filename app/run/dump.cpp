#include "app/run/dump.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "app/report/fields.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/npy.h"
#include "core/run/cpu_engine.h"

namespace ringscope {
namespace {

// What all ranks write to. Each rank's thread adds to its own list of the manifest.
struct Dump {
  const AtomicFolder& folder;
  std::vector<std::vector<Fields>> arrays;  // by rank, in the order of its loop

  // Call f(path) to write a file of the folder. Errors name the folder as it was asked for.
  template <class F>
  void write(const std::string& name, F&& f) const {
    try {
      f(folder.place() + "/" + name);
    } catch (const std::exception& error) {
      std::string why = error.what();
      if (const std::size_t at = why.find(folder.place()); at != why.npos)
        why.replace(at, folder.place().size(), folder.path());
      throw RunError("--dump " + why);
    }
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
    dump_.arrays[static_cast<std::size_t>(rank_.rank())].push_back(
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
