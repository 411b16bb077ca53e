// Serves the lesson on decoding with costs by formula, a text that grows on ranks, and a model that
// has learned one line.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/base/math.h"
#include "core/cost/hardware.h"
#include "core/model/decode_attention.h"
#include "core/model/generate.h"
#include "core/model/merge.h"
#include "core/model/rank_threads.h"
#include "core/model/training.h"
#include "core/ring/wire_counter.h"
#include "core/run/run.h"
#include "lessons/book/page.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

// ---
// Tables of what a decode step costs by formula: work per byte read, bytes on links, and messages.

// Return the FLOPs of attention per byte of K and V read, if `queries` rows of g query heads use
// each number read once: a multiplication and an addition each.
inline double flops_a_byte(Index queries, Index g, Index bytes_a_number) {
  return 2.0 * static_cast<double>(queries * g) / static_cast<double>(bytes_a_number);
}

// Compare these with what `gpu` could do while it reads a byte. Its memory speed must be known.
inline Table roofline_table(const Gpu& gpu) {
  Table table({"", "FLOPs a byte", "the " + gpu.name + " could do", "of its peak, at most"});
  const auto add = [&](const char* what, DType dtype, Index queries, Index g) {
    const double flops = flops_a_byte(queries, g, bytes_of(dtype));
    const double could = gpu.peak_flops(dtype) / gpu.memory_bytes_per_s.value();
    table.row(what, flops, std::round(could), percent(std::min(1.0, flops / could)));
  };
  add("decode, f32, g = 1", DType::f32, 1, 1);
  add("decode, f32, g = 4", DType::f32, 1, 4);
  add("decode, 16 bits, g = 4", DType::bf16, 1, 4);
  add("prefill, 16 bits, g = 4, 4,096 queries", DType::bf16, 4096, 4);
  return table;
}

// Tabulate how long one token's bytes take on two links: those of K and V that each of 8 ranks
// would send, or those on the longest path of a merge in each of `layers`. Per-message costs are
// left out.
inline Table ways_table(double ring_bytes, const MergeCost& ring, const MergeCost& tree,
                        double layers) {
  Table table(
      {"for one token, 8 ranks", "bytes, one after the other", "NVLink4", "InfiniBand-NDR"});
  const auto way = [&](const char* what, double count) {
    const auto on = [&](const char* link) {
      return fmt::format("{:.3f} ms", 1e3 * count / find_link(link).bytes_per_s);
    };
    table.row(what, bytes(count), on("NVLink4"), on("InfiniBand-NDR"));
  };
  way("K and V round a ring", ring_bytes);
  way("results round a ring", layers * static_cast<double>(ring.way_bytes));
  way("results up a tree and down", layers * static_cast<double>(tree.way_bytes));
  return table;
}

// Tabulate one merge of `heads` heads of head_dim numbers.
inline Table merge_table(Index heads, Index head_dim, std::initializer_list<int> world_sizes) {
  Table table(
      {"ranks", "ring: rounds", "messages", "tree: rounds", "messages", "bytes, in either"});
  for (const int n : world_sizes) {
    const MergeCost ring = merge_cost(MergeKind::ring, heads, head_dim, n);
    const MergeCost tree = merge_cost(MergeKind::tree, heads, head_dim, n);
    table.row(n, ring.rounds, ring.messages, tree.rounds, tree.messages,
              bytes(static_cast<double>(tree.bytes)));
  }
  return table;
}

// ---
// A text that is read up to some position and then continues row by row, as attention sees it. Each
// rank on its thread holds a shard of the keys and values, and counts its messages.

struct GrowingText {
  AttentionShape shape;  // batch is 1; seqlen includes everything after the prompt
  AttentionInputs in;
  Index prompt = 1;

  AttentionParams params() const {
    return {shape, DType::f32, default_softmax_scale(shape.head_dim)};
  }
  // [heads, rows, head_dim] is the shape of the result: rows of a tensor [heads, seqlen, head_dim].
  std::vector<float> rows_of(const std::vector<float>& tensor, const LocalRows& rows) const {
    const Index d = shape.head_dim, head = shape.seqlen * d;
    std::vector<float> taken;
    for (auto from = tensor.begin(); from != tensor.end(); from += head)
      for (Index i = 0; i < rows.size(); ++i) {
        const auto row = from + rows.global_position(i) * d;
        taken.insert(taken.end(), row, row + d);
      }
    return taken;
  }
  // [heads, head_dim] is the shape of the result: the row at one position.
  std::vector<float> row_of(const std::vector<float>& tensor, Index position) const {
    return rows_of(tensor, {{{position, 1, 1}, {position + 1, 1, 0}}, false});
  }
};

// A rank's data and what it has computed.
struct DecodingRank {
  DecodingRank(const GrowingText& text, PartitionKind kind, MergeKind merge_kind,
               Communicator& its_comm)
      : first(text.prompt),
        row_values(query_values(text.params(), 1)),
        comm(its_comm),
        mine(Partition{kind, text.prompt, comm.world_size()}.rows_of(comm.rank())),
        shard(text.params(), {kind, text.prompt, comm.world_size()}, comm.rank(), nullptr),
        attention(merge_kind, text.params(), comm.world_size(), nullptr),
        out(static_cast<std::size_t>((text.shape.seqlen - first) * row_values),
            std::numeric_limits<float>::quiet_NaN()) {}

  // [num_heads, head_dim] is the shape of the output at a position after the prompt.
  float* out_of(Index position) { return out.data() + (position - first) * row_values; }

  Index first, row_values;
  WireCounter comm;
  LocalRows mine;  // rows of the prompt
  KvShard shard;
  DecodeAttention attention;
  std::vector<float> out;
};

// What all ranks sent, and the largest difference from the expected rows. A NaN stays.
struct Decoded {
  double off = 0;
  WireCount sent;
  Index fewest_rows = std::numeric_limits<Index>::max(), most_rows = 0;  // of a shard, at the end
};

// Append and attend what follows the prompt, row by row, on a thread per rank. `expected` is
// [num_heads, seqlen, head_dim].
inline Decoded decode_on_ranks(const GrowingText& text, const std::vector<float>& expected,
                               PartitionKind kind, MergeKind merge_kind, int world_size) {
  const auto ranks = run_rank_threads(
      world_size,
      [&](Communicator& comm) {
        return std::make_unique<DecodingRank>(text, kind, merge_kind, comm);
      },
      [&](DecodingRank& rank) {
        const auto& [q, k, v, dout] = text.in;
        rank.shard.fill(text.rows_of(k, rank.mine).data(), text.rows_of(v, rank.mine).data());
        for (Index p = text.prompt; p < text.shape.seqlen; ++p) {
          rank.shard.append(text.row_of(k, p).data(), text.row_of(v, p).data());
          rank.attention(rank.comm, rank.shard, {0, p + 1}, text.row_of(q, p).data(),
                         rank.out_of(p), nullptr);
        }
      });
  Decoded all;
  for (const auto& rank : ranks) {
    all.sent += rank->comm.take();
    all.fewest_rows = std::min(all.fewest_rows, rank->shard.rows());
    all.most_rows = std::max(all.most_rows, rank->shard.rows());
    for (Index p = text.prompt; p < text.shape.seqlen; ++p) {
      const float* const row = rank->out_of(p);
      const double off = largest_difference(text.row_of(expected, p),
                                            std::vector<float>(row, row + rank->row_values));
      keep_larger(all.off, off);
    }
  }
  return all;
}

// Compares 1 to 4 ranks, with both merges and the partitions in turn, with the prefill of the whole
// text on a ring of four. The counts are per row.
struct Comparison {
  Table table{{"ranks", "prompt", "merge", "largest difference", "rows of a rank", "messages",
               "bytes of them"}};
  double off = 0;            // largest difference
  bool as_predicted = true;  // whether messages and bytes equal merge_cost()
  Index most_apart = 0;      // largest difference in the number of rows of two ranks
};
inline Comparison compare_with_prefill(const GrowingText& text) {
  Problem config{.shape = text.shape,
                 .mask = MaskSpec::parse("causal"),
                 .partition = PartitionKind::zigzag,
                 .world_size = 4};
  const std::vector<float> expected = run_on_threads(config, text.in).outputs.out;
  const Index rows = text.shape.seqlen - text.prompt;
  Comparison all;
  for (int n = 1; n <= 4; ++n)
    for (const MergeKind merge_kind : {MergeKind::ring, MergeKind::tree}) {
      const PartitionKind kind = kAllPartitions[(n + (merge_kind == MergeKind::tree)) % 4];
      const Decoded found = decode_on_ranks(text, expected, kind, merge_kind, n);
      const MergeCost cost = merge_cost(merge_kind, text.shape.num_heads, text.shape.head_dim, n);
      all.as_predicted = all.as_predicted &&
                         found.sent == WireCount{rows * cost.hop_messages, rows * cost.hop_bytes};
      all.most_apart = max_of(all.most_apart, found.most_rows - found.fewest_rows);
      keep_larger(all.off, found.off);
      if (n == 1 && merge_kind == MergeKind::tree) continue;  // nothing to merge
      all.table.row(n, std::string(name_of(kind)),
                    n == 1                          ? ""
                    : merge_kind == MergeKind::ring ? "ring"
                                                    : "tree",
                    rounding(found.off, 2e-6),
                    found.fewest_rows == found.most_rows
                        ? fmt::format("{}", found.most_rows)
                        : fmt::format("{} or {}", found.fewest_rows, found.most_rows),
                    found.sent.messages / rows, found.sent.bytes / rows);
    }
  return all;
}

// ---
// A small model learns one line by heart, so its output is known in advance.

// Train a model on nothing but `line`, repeated, on one rank.
inline Checkpoint learned_by_heart(const std::string& line, Index steps) {
  TrainingSettings settings;
  settings.shape = {.layers = 2,
                    .width = 32,
                    .num_heads = 4,
                    .num_heads_kv = 2,
                    .head_dim = 8,
                    .hidden = 64,
                    .vocab = 128};
  settings.adam.rate = 5e-3;
  settings.batch = 4;
  settings.seqlen = 2 * static_cast<Index>(line.size());
  std::string text;
  for (int i = 0; i < 4; ++i) text += line;
  return train_on_threads(settings, {PartitionKind::contiguous, 1}, text, nullptr, steps);
}

// Return `prompt` and the likeliest `bytes` that follow it, by a model on `ranks` zigzag ranks.
inline std::string written(const Checkpoint& model, const std::string& prompt, Index bytes,
                           int ranks) {
  const GenerateOptions options{.prompt = prompt, .bytes = bytes, .sampling = {.temperature = 0}};
  return prompt + generate_on_threads(model, {PartitionKind::zigzag, ranks}, options).text;
}

}  // namespace ringscope::lessons
