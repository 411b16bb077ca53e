#include "cuda/ring/cuda_backend.h"

#include <algorithm>
#include <utility>

#include "core/ring/program.h"
#include "cuda/base/check.h"
#include "cuda/base/stream.h"
#include "cuda/kernels/row_kernels.h"

namespace ringscope::cuda {

namespace {

// Return how many query rows a rank attends for at most.
Index most_queries(const RingProblem& problem, int rank) {
  return problem.attends_for_others() ? problem.partition.queries.max_rows()
                                      : problem.query_rows(rank);
}

Index workspace_bytes(const RingProblem& problem, int rank, bool backward) {
  if (!backward) return 0;
  return backward_workspace_bytes(
      shape_of(problem.params, most_queries(problem, rank), problem.partition.max_rows()));
}

Index sinks_in(const RingProblem& problem) {
  return problem.params.sink_logits == nullptr ? 0 : problem.params.num_heads;
}

// Call f(rows) for the rows of each rank's keys and queries that a table of stretches deals out. Where
// one table deals both, they come twice.
template <class F>
void for_dealt_rows(const RingProblem& problem, F&& f) {
  for (int rank = 0; rank < problem.partition.world_size; ++rank)
    for (const LocalRows& rows :
         {problem.partition.rows_of(rank), problem.partition.queries_of(rank)})
      if (rows.is_dealt()) f(rows);
}

// Return the entries of those tables.
Index stretch_entries(const RingProblem& problem) {
  std::map<const Stretch*, Index> entries;
  for_dealt_rows(problem,
                 [&](const LocalRows& rows) { entries[rows.stretches] = rows.num_stretches + 1; });
  Index sum = 0;
  for (const auto& [table, count] : entries) sum += count;
  return sum;
}

// The regions that a rank attends, each once however often it comes, and their numbers by pass and
// block attended.
struct AttendedRegions {
  std::vector<Region> regions;
  std::vector<std::size_t> of_blocks[2];
  Index query_rows = 0, key_rows = 0;  // of all regions that need a kernel

  AttendedRegions(const Problem& job, const RingProblem& problem, int rank) {
    program_of(job, problem, rank, [&](const Op& op, const Region& region, const HeadShare&) {
      const auto same = std::find_if(regions.begin(), regions.end(), [&](const Region& known) {
        return known.queries == region.queries && known.keys == region.keys;
      });
      of_blocks[static_cast<int>(op.pass)].push_back(
          static_cast<std::size_t>(same - regions.begin()));
      if (same != regions.end()) return;
      regions.push_back(region);
      if (region.pairs() == 0) return;
      query_rows += region.queries.size();
      if (job.backward) key_rows += region.keys.size();
    });
  }
};

}  // namespace

CudaBackend::CudaBackend(const Problem& job, const RingProblem& problem, int rank,
                         const ChosenKernels& kernels, MemoryMeter& meter)
    : params_(problem.params),
      blocks_(problem.blocks_attended()),
      has_many_states_(problem.attends_for_others()),
      has_many_dq_(has_many_states_ || problem.head_shares() > 1),
      kernels_(kernels),
      workspace_(&meter, workspace_bytes(problem, rank, job.backward)),
      counters_(&meter, (job.backward ? 2 : 1) * blocks_),
      document_ends_(&meter, problem.mask.num_documents),
      sinks_(&meter, sinks_in(problem)),
      stretches_(&meter, stretch_entries(problem)),
      skipped_tiles_(static_cast<std::size_t>(counters_.size()), 0),
      // Of each block, its completion, its slice's begin and its wait's ends; backward, those of the
      // sum of its gradient as well.
      events_(static_cast<std::size_t>((job.backward ? 11 : 4) * blocks_ + 8)) {
  for (int pass = 0; pass < kernels.stamped_passes(); ++pass)
    stamps_[pass].emplace(blocks_, kernels.stamped);
  meter.space().copy_in(document_ends_.data(), problem.mask.document_ends, document_ends_.bytes());
  meter.space().copy_in(sinks_.data(), problem.params.sink_logits, sinks_.bytes());
  Stretch* next = stretches_.data();
  for_dealt_rows(problem, [&](const LocalRows& rows) {
    if (on_device_.contains(rows.stretches)) return;
    const Index entries = rows.num_stretches + 1;
    meter.space().copy_in(next, rows.stretches, entries * static_cast<Index>(sizeof(Stretch)));
    on_device_[rows.stretches] = next;
    next += entries;
  });
  const AttendedRegions attended(job, problem, rank);
  allowed_keys_ = Buffer<RowInterval>(&meter, attended.query_rows);
  allowed_queries_ = Buffer<RowInterval>(&meter, attended.key_rows);
  std::vector<Tables> of_regions;
  RowInterval *keys = allowed_keys_.data(), *queries = allowed_queries_.data();
  for (const Region& region : attended.regions) {
    of_regions.push_back({keys, queries});
    if (region.pairs() == 0) continue;
    const auto rows_q = static_cast<int>(region.queries.size());
    launch_allowed_keys(on_device(region), keys, stream());
    if (job.backward) {
      launch_allowed_queries(keys, rows_q, queries, static_cast<int>(region.keys.size()), stream());
      queries += region.keys.size();
    }
    keys += rows_q;
  }
  for (int pass = 0; pass < 2; ++pass)
    for (const std::size_t number : attended.of_blocks[pass])
      tables_[pass].push_back(of_regions[number]);
  stream_.synchronize();
}

Index CudaBackend::scratch_bytes(const Problem& job, int rank) {
  const RingProblem problem = job.ring_problem();
  const AttendedRegions attended(job, problem, rank);
  return (attended.query_rows + attended.key_rows) * static_cast<Index>(sizeof(RowInterval)) +
         workspace_bytes(problem, rank, job.backward) +
         (job.backward ? 2 : 1) * problem.blocks_attended() *
             static_cast<Index>(sizeof(StepCounters)) +
         problem.mask.num_documents * static_cast<Index>(sizeof(Index)) +
         sinks_in(problem) * static_cast<Index>(sizeof(float)) +
         stretch_entries(problem) * static_cast<Index>(sizeof(Stretch));
}

void CudaBackend::enter(Pass pass) {
  if (pass != last_pass_) attended_ = 0;
  last_pass_ = pass;
}

Completion CudaBackend::begin(const QueryBlock& q, const SoftmaxState& state) {
  enter(Pass::forward);
  if (attended_ == 0)
    RINGSCOPE_CUDA(cudaMemsetAsync(counters_.data(), 0, static_cast<std::size_t>(counters_.bytes()),
                                   stream()));
  is_empty_ = !has_many_states_;
  is_finished_ = false;
  if (is_empty_ || q.rows == 0) return nullptr;
  ForwardStep arguments = forward_step(q, {}, state);
  arguments.first = true;  // and not the last, which a sink would join
  launch_finish(arguments, stream());
  return end();
}

Completion CudaBackend::attend(const StepInfo& step, const Region& region, const QueryBlock& q,
                               const KvBlock& block, const SoftmaxState& state,
                               const Completion& after) {
  const Range range("attend");
  const Kernel& kernel = *kernels_.forward;
  const int tile = kernels_.forward_tile;
  if (skips(region, kernel, tile)) {
    wait_on(stream(), after);
    return end();
  }
  wait_on(stream(), after);
  ForwardStep arguments = forward_step(q, block, state);
  arguments.allowed_keys = tables().allowed_keys;
  arguments.first = is_empty_;
  arguments.last = step.last && !has_many_states_;
  arguments.counters = counters_.data() + slot();
  const std::optional<StampBuffer> buffer = stamp_buffer();
  kernel.launch(arguments, params_.dtype, tile, stream(), buffer ? &*buffer : nullptr);
  is_empty_ = false;
  is_finished_ = arguments.last;
  return end();
}

Completion CudaBackend::merge(const StepInfo&, const QueryBlock& q, const SoftmaxState& into,
                              const SoftmaxState& from, const Completion& after) {
  wait_on(stream(), after);
  if (q.rows > 0)
    launch_merge(into, from, row_values(params_, q.rows), static_cast<int>(params_.value_dim()),
                 stream());
  return end();
}

Completion CudaBackend::finish(const QueryBlock& q, const SoftmaxState& state) {
  if (!is_finished_ && q.rows > 0) {
    ForwardStep arguments = forward_step(q, {}, state);
    arguments.first = is_empty_;
    arguments.last = true;
    launch_finish(arguments, stream());
  }
  is_finished_ = !has_many_states_;
  return end();
}

Completion CudaBackend::begin_backward(const QueryBlock& q, const BackwardState& state) {
  const Range range("begin_backward");
  enter(Pass::backward);
  const Index rows = row_values(params_, q.rows);
  if (rows > 0) {
    if (state.out != nullptr)
      launch_delta(q.dout, params_.dtype, state.out, state.delta, rows,
                   static_cast<int>(params_.value_dim()), stream());
    if (has_many_dq_) zero_dq(q, state);
  }
  is_dq_empty_ = !has_many_dq_;
  return end();
}

void CudaBackend::zero_dq(const QueryBlock& q, const BackwardState& state) {
  const auto values = static_cast<std::size_t>(query_values(params_, q.rows));
  RINGSCOPE_CUDA(cudaMemsetAsync(state.dq, 0, values * sizeof(float), stream()));
}

Completion CudaBackend::attend_backward(const StepInfo&, const Region& region, const QueryBlock& q,
                                        const KvBlock& block, const BackwardState& state,
                                        const KvGradient& gradient, const Completion& after) {
  const Range range("attend_backward");
  const Kernel& kernel = *kernels_.backward;
  const int tile = kernels_.backward_tile;
  if (skips(region, kernel, tile)) {
    wait_on(stream(), after);
    if (block.rows > 0)
      RINGSCOPE_CUDA(cudaMemsetAsync(
          gradient.data, 0,
          static_cast<std::size_t>(block_values(params_, block.rows)) * sizeof(float), stream()));
    return end();
  }
  wait_on(stream(), after);
  BackwardStep arguments;
  arguments.shape = shape_of(params_, q.rows, block.rows);
  arguments.softmax_scale = static_cast<float>(params_.softmax_scale);
  arguments.first = std::exchange(is_dq_empty_, false);
  arguments.q = q.q;
  arguments.k = block.data;
  arguments.v = values_of(block);
  arguments.dout = q.dout;
  arguments.allowed_keys = tables().allowed_keys;
  arguments.allowed_queries = tables().allowed_queries;
  arguments.row_max = state.row_max;
  arguments.row_sum = state.row_sum;
  arguments.delta = state.delta;
  arguments.dq = state.dq;
  arguments.dk = gradient.data;
  arguments.dv = gradient.data + kv_values(params_, block.rows);
  arguments.counters = counters_.data() + slot();
  arguments.workspace = workspace_.data();
  const std::optional<StampBuffer> buffer = stamp_buffer();
  kernel.launch(arguments, params_.dtype, tile, stream(), buffer ? &*buffer : nullptr);
  return end();
}

Completion CudaBackend::add(const StepInfo&, const KvGradient& into, const KvGradient& from,
                            const Completion& after) {
  const Range range("add");
  wait_on(stream(), after);
  if (into.rows > 0) launch_add(into.data, from.data, block_values(params_, into.rows), stream());
  return end();
}

Completion CudaBackend::add_dq(const StepInfo&, const QueryBlock& q, const BackwardState& into,
                               const BackwardState& from, const Completion& after) {
  wait_on(stream(), after);
  if (q.rows > 0) launch_add(into.dq, from.dq, query_values(params_, q.rows), stream());
  return end();
}

Completion CudaBackend::finish_backward(const StepInfo&, const QueryBlock& q,
                                        const BackwardState& state, const Completion& after) {
  wait_on(stream(), after);
  if (is_dq_empty_ && q.rows > 0) zero_dq(q, state);
  return end();
}

const BlockStats& CudaBackend::last_stats() const {
  last_stats_ = all_stats(last_pass_).at(attended_ - 1);
  return last_stats_;
}

std::vector<BlockStats> CudaBackend::all_stats(Pass pass) const {
  std::vector<StepCounters> counted(blocks_);
  const Index first = pass == Pass::forward ? 0 : blocks_;
  RINGSCOPE_CUDA(cudaMemcpyAsync(counted.data(), counters_.data() + first,
                                 counted.size() * sizeof(StepCounters), cudaMemcpyDeviceToHost,
                                 stream()));
  stream_.synchronize();
  std::vector<BlockStats> stats;
  for (std::size_t block = 0; block < counted.size(); ++block)
    stats.push_back({static_cast<Index>(counted[block].pairs),
                     static_cast<Index>(counted[block].tiles_full),
                     static_cast<Index>(counted[block].tiles_partial),
                     static_cast<Index>(counted[block].tiles_skipped) +
                         skipped_tiles_[static_cast<std::size_t>(first) + block]});
  return stats;
}

// Whether the next block needs no kernel. If so, count the tiles that a kernel would have skipped.
bool CudaBackend::skips(const Region& region, const Kernel& kernel, int tile) {
  ++attended_;
  if (region.pairs() > 0) return false;
  const TileShape shape = kernel.tiles[tile];
  skipped_tiles_[slot()] = params_.batch * params_.num_heads *
                           ceil_div(region.queries.size(), shape.rows) *
                           ceil_div(region.keys.size(), shape.keys);
  return true;
}

// Return the region with its tables in device memory instead of host memory: the documents' ends, and
// the stretches of rows that are dealt out.
Region CudaBackend::on_device(const Region& region) const {
  Region same = region;
  if (same.mask.num_documents > 0) same.mask.document_ends = document_ends_.data();
  for (LocalRows* rows : {&same.queries, &same.keys})
    if (rows->is_dealt()) rows->stretches = on_device_.at(rows->stretches);
  return same;
}

const void* CudaBackend::values_of(const KvBlock& block) const {
  return static_cast<const std::byte*>(block.data) +
         kv_values(params_, block.rows) * bytes_of(params_.dtype);
}

ForwardStep CudaBackend::forward_step(const QueryBlock& q, const KvBlock& block,
                                      const SoftmaxState& state) const {
  ForwardStep step;
  step.shape = shape_of(params_, q.rows, block.rows);
  step.softmax_scale = static_cast<float>(params_.softmax_scale);
  step.q = q.q;
  step.k = block.data;
  step.v = values_of(block);
  step.row_max = state.row_max;
  step.row_sum = state.row_sum;
  step.out = state.out_accum;
  step.lse = state.lse;
  if (sinks_.size() > 0) step.sink_logits = sinks_.data() + params_.first_head;
  return step;
}

}  // namespace ringscope::cuda
