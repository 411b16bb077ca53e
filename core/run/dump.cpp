#include "core/run/dump.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/npy.h"
#include "core/run/cpu_engine.h"

namespace ringscope {
namespace {

void write_array(const std::string& path, const std::string& header, const void* values,
                 Index bytes) {
  std::ofstream file(path, std::ios::binary);
  file << header;
  file.write(static_cast<const char*>(values), bytes);
  file.close();
  if (!file) throw RunError(path + ": writing failed: " + std::strerror(errno));
}

class DumpingBackend : public ForwardingBackend {
 public:
  DumpingBackend(BlockBackend& inner, Rank& rank, const std::string& folder,
                 std::vector<DumpedArray>& arrays)
      : ForwardingBackend(inner),
        rank_(rank),
        params_(rank.ring_problem().params),
        share_{0, params_.num_heads, 0, params_.num_heads_kv},
        folder_(folder),
        arrays_(arrays) {}

  void use_heads(const HeadShare& share) override {
    share_ = share;
    inner_.use_heads(share);
  }
  Completion attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                    const KvBlock& block, const SoftmaxState& state,
                    const Completion& after) override {
    wait_for(inner_.attend(step, region, q, block, state, after));
    rows_at_[state.row_max] = rows_of(region.queries, rank_.rank());
    write_state(step, "attend", state);
    return nullptr;
  }
  Completion merge(const StepInfo& step, const QueryBlock& q, const SoftmaxState& into,
                   const SoftmaxState& from, const Completion& after) override {
    wait_for(inner_.merge(step, q, into, from, after));
    write_state(step, "merge", into);
    return nullptr;
  }
  Completion finish(const QueryBlock& q, const SoftmaxState& state) override {
    wait_for(inner_.finish(q, state));
    const Rows rows = rows_held_at(state.row_max, rank_.rank());
    next_operation();
    write(last_, "finish", "out", rows, state.out_accum, params_.head_dim);
    write(last_, "finish", "lse", rows, state.lse, 1);
    return nullptr;
  }
  Completion attend_backward(const StepInfo& step, const Region& region, const QueryBlock& q,
                             const KvBlock& block, const BackwardState& state,
                             const KvGradient& gradient, const Completion& after) override {
    wait_for(inner_.attend_backward(step, region, q, block, state, gradient, after));
    rows_at_[gradient.data] = rows_of(region.keys, step.kv_owner);
    write_gradient(step, "attend", gradient);
    return nullptr;
  }
  Completion add(const StepInfo& step, const KvGradient& into, const KvGradient& from,
                 const Completion& after) override {
    wait_for(inner_.add(step, into, from, after));
    // What is given back at a group's end is of other heads than this rank's share.
    if (rows_at_.contains(into.data) || share_.num_heads == params_.num_heads)
      write_gradient(step, "add", into);
    return nullptr;
  }

 private:
  struct Rows {
    int rank = 0;
    Index first = 0, end = 0;
    Index first_position = -1, last_position = -1;
  };

  // Return which local rows of which rank `rows` are; of rank `otherwise` if there are none.
  Rows rows_of(const LocalRows& rows, int otherwise) const {
    if (rows.size() == 0) return {.rank = otherwise};
    const Partition& partition = rank_.ring_problem().partition;
    const Index first = rows.global_position(0), last = rows.global_position(rows.size() - 1);
    for (int rank = 0; rank < partition.world_size; ++rank) {
      const LocalRows all = partition.rows_of(rank);
      const Index local = all.rows_below(first);
      if (local < all.size() && all.global_position(local) == first)
        return {rank, local, local + rows.size(), first, last};
    }
    return {.rank = otherwise};  // unreachable: every position lies on a rank
  }
  // Return the rows whose state or gradient lies at `memory`; all of `rank` if nothing was attended
  // there.
  Rows rows_held_at(const void* memory, int rank) const {
    const auto held = rows_at_.find(memory);
    if (held != rows_at_.end()) return held->second;
    return rows_of(rank_.ring_problem().partition.rows_of(rank), rank);
  }

  void next_operation() { ++operations_; }

  void write_state(const StepInfo& step, const char* operation, const SoftmaxState& state) {
    const Rows rows = rows_held_at(state.row_max, rank_.rank());
    last_ = step;
    next_operation();
    write(step, operation, "row_max", rows, state.row_max, 1);
    write(step, operation, "row_sum", rows, state.row_sum, 1);
    write(step, operation, "out_accum", rows, state.out_accum, params_.head_dim);
  }
  void write_gradient(const StepInfo& step, const char* operation, const KvGradient& gradient) {
    const Rows rows = rows_held_at(gradient.data, step.kv_owner);
    next_operation();
    write(step, operation, "dk", rows, gradient.data, params_.head_dim);
    write(step, operation, "dv", rows,
          gradient.data + params_.batch * share_.num_heads_kv * gradient.rows * params_.head_dim,
          params_.head_dim);
  }

  template <class T>
  void write(const StepInfo& step, const char* operation, const std::string& what, const Rows& rows,
             const T* values, Index width) {
    const bool of_keys = what == "dk" || what == "dv";
    DumpedArray array{.rank = rank_.rank(),
                      .pass = step.pass,
                      .step = step.step,
                      .operation = operation,
                      .kv_owner = step.kv_owner,
                      .what = what,
                      .is_f64 = sizeof(T) == sizeof(double),
                      .first_head = of_keys ? share_.first_kv : share_.first,
                      .rows_of = rows.rank,
                      .first_row = rows.first,
                      .end_row = rows.end,
                      .first_position = rows.first_position,
                      .last_position = rows.last_position};
    array.shape = {params_.batch, of_keys ? share_.num_heads_kv : share_.num_heads,
                   rows.end - rows.first};
    if (width > 1 || of_keys || what.starts_with("out")) array.shape.push_back(width);
    array.file = fmt::format("rank{}-{}-op{:04}-step{}-{}-{}.npy", array.rank, name_of(array.pass),
                             operations_, array.step, operation, what);
    const Index count = std::accumulate(array.shape.begin(), array.shape.end(), Index{1},
                                        [](Index a, Index b) { return a * b; });
    write_array(folder_ + "/" + array.file, npy_header(array.shape, array.is_f64), values,
                count * static_cast<Index>(sizeof(T)));
    arrays_.push_back(std::move(array));
    rank_.pulse().tick();
  }

  Rank& rank_;
  const AttentionParams& params_;
  HeadShare share_;
  const std::string& folder_;
  std::vector<DumpedArray>& arrays_;
  std::map<const void*, Rows> rows_at_;  // by where a state or gradient lies
  StepInfo last_;                        // of the state that was written last
  int operations_ = -1;                  // written before this one
};

// Dumps around the backends of threads.
class DumpingRankEngine : public RankEngine {
 public:
  DumpingRankEngine(std::unique_ptr<RankEngine> inner, Rank& rank, const std::string& folder,
                    std::vector<DumpedArray>& arrays)
      : inner_(std::move(inner)), backend_(inner_->backend(), rank, folder, arrays) {}

  Communicator& communicator() override { return inner_->communicator(); }
  BlockBackend& backend() override { return backend_; }
  void finish() override { inner_->finish(); }
  void finish_failed() override { inner_->finish_failed(); }
  Index scratch_bytes() const override { return inner_->scratch_bytes(); }

 private:
  std::unique_ptr<RankEngine> inner_;
  DumpingBackend backend_;
};

class DumpingEngine : public ThreadEngine {
 public:
  DumpingEngine(int world_size, const std::string& folder)
      : ThreadEngine(world_size), folder_(folder), arrays_(static_cast<std::size_t>(world_size)) {}

  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    const LocalRows rows = rank.ring_problem().partition.rows_of(rank.rank());
    std::vector<Index> positions(static_cast<std::size_t>(rows.size()));
    for (Index row = 0; row < rows.size(); ++row)
      positions[static_cast<std::size_t>(row)] = rows.global_position(row);
    AtomicFile file(fmt::format("{}/positions-rank-{}.npy", folder_, rank.rank()));
    write_npy_integers(file, {rows.size()}, positions);
    file.commit();
    return std::make_unique<DumpingRankEngine>(ThreadEngine::make(rank, listener), rank, folder_,
                                               arrays_[static_cast<std::size_t>(rank.rank())]);
  }
  std::vector<std::vector<DumpedArray>>& arrays() { return arrays_; }

 private:
  const std::string& folder_;
  std::vector<std::vector<DumpedArray>> arrays_;  // by rank, each written by its thread
};

}  // namespace

RingRun run_dumped(const Problem& config, const AttentionInputs& inputs, const Progress& progress,
                   const std::string& folder, std::vector<DumpedArray>& arrays) {
  check_run(config, inputs);  // before world_size seats are made
  DumpingEngine engine(config.world_size, folder);
  RingRun run = run_ranks(config, inputs, engine, progress);
  for (std::vector<DumpedArray>& of_rank : engine.arrays())
    arrays.insert(arrays.end(), std::make_move_iterator(of_rank.begin()),
                  std::make_move_iterator(of_rank.end()));
  return run;
}

}  // namespace ringscope
