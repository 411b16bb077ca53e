// What is alive at the same time, by phase:
//
//   loading    inputs
//   run        inputs, outputs, the ranks' memory, the recording twice (in the recorders, and
//              gathered)
//   comparing  inputs, outputs, the recording, a Reference
//
// Loading never takes the most, because a text and its hashes take 9 bytes a token and the ranks at
// least 18.
#include "app/run/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "app/report/machine.h"
#include "app/run/verify.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"

namespace ringscope {
namespace {

// All sums are floating point, which can't overflow; whole bytes don't matter.

double input_bytes(const Problem& config, bool dout_given) {
  const auto [query, kv, rows] = sizes_of(config.shape);
  return 4 * (query + 2 * kv + (dout_given ? query : 0));
}

// Return the bytes of the outputs as f32.
double output_bytes(const Problem& config) {
  const auto [query, kv, rows] = sizes_of(config.shape);
  return 4 * (query + rows + (config.backward ? query + 2 * kv : 0));
}

// Return what the ranks hold besides the tensors of the whole sequence.
double ranks_bytes(const Problem& config) {
  double total = 0;
  for (int rank = 0; rank < config.world_size; ++rank)
    total += static_cast<double>(predicted_rank_bytes(config, rank));
  return total;
}

// Count the events of every step, in both passes: at most a compute slice and, for each of two
// payloads, a wait, a send and a recv. Each pass ends with one more wait. In other schemes than the
// ring, count what rank 0 does, of which all ranks do as much.
double recording_bytes(const Problem& config) {
  const double ranks = config.world_size;
  if (!is_plain(config)) {
    const LoopCounts counts = count_loop(config, 0);
    return ranks * (static_cast<double>(counts.events * sizeof(TraceEvent)) +
                    static_cast<double>(counts.samples * sizeof(SoftmaxSample)));
  }
  return ranks * (2 * (7 * ranks + 1) * static_cast<double>(sizeof(TraceEvent)) +
                  3 * ranks * static_cast<double>(sizeof(SoftmaxSample)));
}

void require(double needed, const MemoryLimit& limit) {
  if (needed <= static_cast<double>(limit.bytes)) return;
  throw RunError(fmt::format("memory: {} needed, {} {}; give smaller sizes or fewer ranks",
                             bytes_text(needed), bytes_text(static_cast<double>(limit.bytes)),
                             limit.source));
}

}  // namespace

void require_memory(const Problem& config, const MemoryUse& use) {
  const MemoryLimit limit = available_memory();
  const double outputs = output_bytes(config);
  const double tensors = input_bytes(config, use.dout_given) + outputs;
  const double recording = recording_bytes(config);
  // Check this first, because ranks_bytes() loops over the ranks and counts in 64 bits. If tensors
  // and recording fit into a machine, that loop is fast and does not overflow.
  require(tensors + 2 * recording, limit);
  const double reference = use.keeps_reference ? 2 * outputs : 0;  // the outputs in f64
  const double run = (use.ranks_elsewhere ? 0 : ranks_bytes(config)) + 2 * recording + reference;
  const double comparing =
      use.verify ? recording + static_cast<double>(reference_bytes(config)) : 0;
  require(tensors + std::max(run, comparing), limit);
}

void require_process_memory(const Problem& config, const ProcessMemoryUse& use) {
  const MemoryLimit limit = available_memory();
  const double ranks = config.world_size;
  const double whole_inputs = input_bytes(config, use.dout_given);
  // Check the tensors' share alone first, for the same reason.
  require(whole_inputs / ranks, limit);
  const double text =
      use.makes_text ? static_cast<double>(config.shape.seqlen) * (config.shape.batch + 8.0) : 0;
  const double outputs = use.gathers_outputs ? output_bytes(config) : 0;
  // The recorder's events, and on rank 0 those gathered from all ranks.
  const double recording =
      recording_bytes(config) / ranks + (use.rank == 0 ? recording_bytes(config) : 0);
  const double rank =
      use.ranks_elsewhere ? 0 : static_cast<double>(predicted_rank_bytes(config, use.rank));
  const double run = text + (use.reads_inputs ? whole_inputs : 0) + rank;
  const double comparing =
      use.verify ? whole_inputs + static_cast<double>(reference_bytes(config)) : 0;
  require(outputs + recording + std::max(run, comparing), limit);
}

void require_bytes(double needed) { require(needed, available_memory()); }

TensorSizes sizes_of(const AttentionShape& shape) {
  const auto seqlen = static_cast<double>(shape.seqlen);
  return {query_values(shape, seqlen), kv_values(shape, seqlen), row_values(shape, seqlen)};
}

}  // namespace ringscope
