// What is alive at the same time, phase by phase:
//
//   loading    inputs
//   run        inputs, outputs, what the ranks hold, the recording twice (in the recorders, and
//              gathered)
//   comparing  inputs, outputs, the recording, what a Reference takes
//
// Loading is never the most: a text and its hashes take 9 bytes a token, the ranks at least 18.
#include "app/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/machine.h"
#include "app/verify.h"
#include "core/base/error.h"

namespace ringscope {
namespace {

Index product(Index a, Index b) { return checked_product(a, b, "memory"); }

Index sum(std::initializer_list<Index> terms) {
  Index total = 0;
  for (const Index term : terms)
    if (__builtin_add_overflow(total, term, &total))
      throw InputError("memory: the bytes of this run don't fit in 64 bits; give smaller sizes");
  return total;
}

Index query_values(const AttentionShape& s) {
  return checked_values(s.batch, s.num_heads, s.seqlen, s.head_dim);
}

Index kv_values(const AttentionShape& s) {
  return checked_values(s.batch, s.num_heads_kv, s.seqlen, s.head_dim);
}

Index input_bytes(const RingConfig& config, bool dout_given) {
  const Index query = query_values(config.shape), kv = kv_values(config.shape);
  return product(4, sum({query, product(2, kv), dout_given ? query : 0}));
}

// As f32.
Index output_bytes(const RingConfig& config) {
  const Index query = query_values(config.shape), kv = kv_values(config.shape);
  const Index rows = query / config.shape.head_dim;
  return product(4, sum({query, rows, config.backward ? sum({query, product(2, kv)}) : 0}));
}

// What the ranks hold beside the tensors of the whole sequence.
Index ranks_bytes(const RingConfig& config) {
  Index total = 0;
  for (int rank = 0; rank < config.world_size; ++rank)
    total = sum({total, predicted_rank_bytes(config, rank)});
  return total;
}

// Room for the events of every step, of both passes: at most a compute slice, and for each of two
// payloads a wait, a send and a recv; and one wait at the end of a pass.
Index recording_bytes(const RingConfig& config) {
  const Index events = 2 * (7 * Index{config.world_size} + 1), samples = 3 * config.world_size;
  return config.world_size * (events * static_cast<Index>(sizeof(TraceEvent)) +
                              samples * static_cast<Index>(sizeof(SoftmaxSample)));
}

void require(Index needed, const MemoryLimit& limit) {
  if (needed <= limit.bytes) return;
  throw RunError(fmt::format("memory: {} needed, {} {}; give smaller sizes", bytes_text(needed),
                             bytes_text(limit.bytes), limit.source));
}

}  // namespace

void require_memory(const RingConfig& config, const MemoryUse& use) {
  const MemoryLimit limit = available_memory();
  const Index outputs = output_bytes(config);
  const Index tensors = sum({input_bytes(config, use.dout_given), outputs});
  // First, because the formulas below don't look for overflow: with tensors that a machine can
  // hold there is none.
  require(tensors, limit);
  const Index recording = recording_bytes(config);
  const Index reference = use.keeps_reference ? product(2, outputs) : 0;  // the outputs in f64
  const Index run = sum({ranks_bytes(config), product(2, recording), reference});
  const Index comparing = use.verify ? sum({recording, reference_bytes(config)}) : 0;
  require(sum({tensors, std::max(run, comparing)}), limit);
}

std::string bytes_text(Index bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace ringscope
