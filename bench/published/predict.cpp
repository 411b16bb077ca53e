#include "bench/published/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "core/base/text.h"
#include "core/tools/cost/amounts.h"
#include "core/tools/sim/simulate.h"

namespace ringscope {
namespace {

constexpr int kRanksOfNode = 8;
constexpr double kTileRows = 128;  // of the kernels
constexpr double kMasked = 1.06;   // keys of a block with a diagonal: its rows are unequal

double in_tiles(double rows) { return std::ceil(rows / kTileRows - 1e-9) * kTileRows; }

// Part of a pass: `rows` queries that attend `keys` keys each, or on average under a causal mask.
struct Piece {
  double rows, keys;
};

// What a row describes, in numbers.
struct Job {
  const PublishedRow& row;
  const MachineFigures& machine;
  bool causal;
  double ranks, positions, heads, kv_heads, batch, head_dim;

  Job(const PublishedRow& published, const MachineFigures& figures)
      : row(published),
        machine(figures),
        causal(is_causal(published)),
        ranks(published.world_size),
        positions(static_cast<double>(published.seqlen)),
        heads(static_cast<double>(published.heads)),
        kv_heads(static_cast<double>(published.kv_heads)),
        batch(static_cast<double>(published.batch)),
        head_dim(static_cast<double>(published.head_dim)) {}

  int ranks_a_node() const { return std::min(row.world_size, kRanksOfNode); }
  bool crosses_nodes() const { return row.world_size > kRanksOfNode; }
  double rows() const { return positions / ranks; }
  const KernelRate& kernel(Pass pass) const {
    const bool is_forward = pass == Pass::forward;
    if (row.has("magi") && machine.own_forward.flops > 0)
      return is_forward ? machine.own_forward : machine.own_backward;
    return is_forward ? machine.forward : machine.backward;
  }
  double flops_a_pair(Pass pass) const { return (pass == Pass::forward ? 4 : 10) * head_dim; }
  double rate(Pass pass) const {
    // Heads of less than 128 values fill the matrix units less; the exponentials stay as many.
    const double fill = std::min(1.0, (head_dim + 160) / 288);
    return kernel(pass).flops * fill;
  }
  // Return effective pairs, the starts of the loops over keys and whole tiles included.
  double effective(const Piece& piece, Pass pass) const {
    return in_tiles(piece.rows) * (piece.keys + kernel(pass).start_keys);
  }
  double pair_seconds(double pairs, double of_heads, Pass pass) const {
    return pairs * of_heads * batch * flops_a_pair(pass) / rate(pass);
  }
  double memory_s(double bytes) const { return bytes / machine.memory_bytes_per_s; }
  double query_bytes(double rows) const { return 2 * batch * rows * heads * head_dim; }
  double kv_bytes(double rows, double of_heads) const {
    return 4 * batch * rows * of_heads * head_dim;
  }
};

// ---
// Work.

double allowed_pairs(const Job& job, const Layout& layout) {
  double pairs = 0;
  for (const double length : layout) pairs += length * (job.causal ? (length + 1) / 2 : length);
  return pairs;
}

// Return the effective pairs of whole documents on one device, or of all devices together where each
// document is cut into equal `parts`, which begin and end with tiles of their own.
double whole_pairs(const Job& job, const Layout& layout, Pass pass, double parts = 1) {
  double pairs = 0;
  for (const double length : layout)
    pairs += parts * job.effective(
                         {length / parts, job.causal ? length / 2 + kTileRows / 2 : length}, pass);
  return pairs;
}

enum class Dealt { contiguous, zigzag, striped };

Dealt dealt(const PublishedRow& row) {
  if (row.has("zigzag") || row.has("usp") || row.has("2d")) return Dealt::zigzag;
  if (row.has("striped")) return Dealt::striped;
  return Dealt::contiguous;
}

// Return the effective pairs of `rank` of `ranks` with the block of `owner`. Documents are dealt out
// one by one.
double block_pairs(const Job& job, const Layout& layout, int ranks, Dealt deal, int rank, int owner,
                   Pass pass) {
  const bool own = rank == owner;
  if (job.causal && deal == Dealt::contiguous && owner > rank) return 0;
  double pairs = 0;
  for (const double length : layout) {
    const double rows = length / ranks;
    Piece piece{rows, rows};
    if (job.causal && (own || deal == Dealt::striped)) {
      piece.keys = (rows / 2 + std::min(rows, kTileRows) / 2) * kMasked;
    } else if (job.causal && deal == Dealt::zigzag) {
      (owner < rank ? piece.keys : piece.rows) /= 2;
    }
    pairs += job.effective(piece, pass);
  }
  return pairs;
}

// Return the effective pairs of the rank with most, where ranks hold consecutive parts of the
// sequence and all keys, as after an all-gather.
double contiguous_rows_pairs(const Job& job, const Layout& layout, Pass pass) {
  double most = 0;
  for (int rank = 0; rank < job.row.world_size; ++rank) {
    const double first = rank * job.rows(), last = first + job.rows();
    double begin = 0, pairs = 0;
    for (const double length : layout) {
      const double low = std::max(first, begin), high = std::min(last, begin + length);
      if (low < high)
        pairs += job.effective({high - low, job.causal ? (low + high) / 2 - begin : length}, pass);
      begin += length;
    }
    most = std::max(most, pairs);
  }
  return most;
}

// ---
// Communication. Messages between nodes share nothing but a device's own network port; a flat ring
// has one sender a node, whose port takes what all of the node need, so its hops are twice as long.

double all_to_all_s(const Job& job, double bytes, int ranks) {
  if (ranks == 1) return 0;
  const double inside = std::min(ranks, kRanksOfNode);
  return std::max(bytes * (inside - 1) / ranks / job.machine.link_bytes_per_s,
                  bytes * (ranks - inside) / ranks / job.machine.network_bytes_per_s);
}

// ---
// Schemes. Each returns the seconds of a pass.

// Return the time of a ring of `ranks` whose ranks hold `rows` rows of `heads` heads, simulated
// message by message. `slower` divides the network's rate; 0: it stays inside a node.
double ring_s(const Job& job, const Layout& layout, int ranks, double heads, double kv_heads,
              Dealt deal, double slower, Pass pass) {
  const double rows = job.positions / ranks;
  const auto n = static_cast<std::size_t>(ranks);
  // A rank's work depends only on whether a block is its own, an earlier or a later one, except in
  // the exchange of time for memory that a table is.
  const std::array<double, 3> pairs = {block_pairs(job, layout, ranks, deal, 1, 0, pass),
                                       block_pairs(job, layout, ranks, deal, 1, 1, pass),
                                       block_pairs(job, layout, ranks, deal, 1, 2, pass)};
  std::vector<double> table(n * n);
  for (std::size_t rank = 0; rank < n; ++rank)
    for (std::size_t owner = 0; owner < n; ++owner)
      table[rank * n + owner] = pairs[owner < rank ? 0 : owner == rank ? 1 : 2];

  Problem ring;
  const auto whole = [](double count) { return static_cast<Index>(std::max(1.0, count)); };
  ring.shape = {whole(job.batch), whole(heads), whole(kv_heads), whole(std::ceil(rows)) * ranks,
                whole(job.head_dim)};
  ring.world_size = ranks;
  ring.dtype = DType::bf16;
  ring.backward = pass == Pass::backward;
  Machine machine;
  machine.world_size = ranks;
  double bytes_per_s =
      slower > 0 ? job.machine.network_bytes_per_s / slower : job.machine.link_bytes_per_s;
  // Over PCIe a hop is written to the host's bridge and read from it.
  if (job.row.link.find("PCIe") != std::string::npos) bytes_per_s /= 2;
  // Gradients travel in 16 bits in these implementations, and in f32 in ours.
  if (pass == Pass::backward) bytes_per_s *= 12.0 / 8;
  machine.rates = {job.rate(Pass::forward), job.rate(Pass::backward), bytes_per_s, 0};
  // The first block's result is the accumulator; the others are merged into it.
  const double merges = 1 - 1.0 / ranks;  // of a step
  machine.step_s =
      ranks == 1 ? 0
                 : (job.machine.call_s + job.memory_s(merges * job.machine.step_bytes * job.batch *
                                                      rows * heads * job.head_dim)) *
                       (pass == Pass::forward ? 1 : kBackwardCalls);
  const std::vector<Index> by_rank(n, whole(std::ceil(rows)));
  const Simulation simulation =
      simulate({.job = ring, .pace = Pace::buffers}, Work(by_rank, table, table), machine);
  return pass == Pass::forward ? simulation.forward_s : simulation.backward_s;
}

// Heads dealt out over `inner` ranks, and a ring of the others around each: the all-to-alls of
// Ulysses, a ring, or both.
double hybrid_s(const Job& job, const Layout& layout, int inner, Pass pass) {
  const int outer = std::max(1, job.row.world_size / inner);
  const double kv_heads = std::max(job.kv_heads, static_cast<double>(inner));  // repeated
  const double bytes = 2 * job.query_bytes(job.rows()) + job.kv_bytes(job.rows(), kv_heads);
  double seconds = inner == 1 ? 0
                              : job.machine.call_s * (pass == Pass::forward ? 1 : 2) +
                                    all_to_all_s(job, bytes, inner) +
                                    job.memory_s(8 * bytes);  // into the order of heads and back
  const double slower =
      outer > 1 && job.crosses_nodes() ? (inner > 1 && !job.row.has("2d") ? 1 : 2) : 0;
  // Two rings, one within the other: a gradient's hop to another node begins when the inner ring is
  // done, and its first step waits for it (MagiAttention's exps/dist_attn/baselines/loongtrain.py).
  if (outer > 1 && slower > 0 && job.row.has("2d") && pass == Pass::backward)
    seconds += outer * job.kv_bytes(job.positions / outer, kv_heads / inner) * slower /
               job.machine.network_bytes_per_s;
  // Two dimensions go through the ring's merge even where the ring has one rank.
  if (outer == 1 && (job.row.has("usp") || job.row.has("2d")))
    seconds +=
        job.memory_s(job.machine.step_bytes * job.batch * job.rows() * job.heads * job.head_dim);
  if (outer == 1)
    return seconds + job.pair_seconds(whole_pairs(job, layout, pass), job.heads / inner, pass);
  return seconds + ring_s(job, layout, outer, job.heads / inner, kv_heads / inner, dealt(job.row),
                          slower, pass);
}

// Gather all K and V, then attend. The backward pass scatters the gradients, which those that were
// measured hold of every query head first.
double allgather_s(const Job& job, const Layout& layout, Pass pass) {
  const double all_kv = job.kv_bytes(job.positions, job.kv_heads);
  const double gathered = all_kv * (job.ranks - 1) / job.ranks;
  double moving = gathered / job.machine.link_bytes_per_s;
  if (job.crosses_nodes())
    moving = std::max(moving, gathered / (kRanksOfNode * job.machine.network_bytes_per_s));
  const bool contiguous = dealt(job.row) == Dealt::contiguous && job.row.has("contiguous");
  const bool in_stripes = job.row.has("stripes");  // which packs tiles of several documents
  const double pairs = contiguous
                           ? contiguous_rows_pairs(job, layout, pass)
                           : whole_pairs(job, layout, pass, in_stripes ? 1 : 2 * job.ranks) /
                                 job.ranks * (job.causal && pass == Pass::backward ? kMasked : 1) *
                                 (in_stripes ? kMasked : 1);
  double seconds = job.pair_seconds(pairs, job.heads, pass) + job.memory_s(2 * all_kv) + moving;
  if (pass == Pass::backward) {
    seconds += moving;
    const bool repeats_heads = !job.row.has("llama3");
    if (repeats_heads)
      seconds += job.memory_s(36 * job.batch * job.positions * job.heads * job.head_dim);
  }
  return seconds;
}

// Chunks of 2,048 rows dealt out for balance, each with just the keys that it needs, which move
// while the device computes on what it has. `native`: a node is sent each key once.
double magi_s(const Job& job, const Layout& layout, bool native, Pass pass) {
  constexpr double kChunk = 2048, kHidden = 2.0 / 3;
  double needed = 0;  // keys of other ranks that a rank attends
  for (const double length : layout) {
    const double chunks = length / kChunk;
    needed += chunks <= 1
                  ? length * chunks / 2 / job.ranks
                  : (job.causal ? 0.75 : 1) * length * (1 - std::pow(1 - 1 / job.ranks, chunks));
  }
  const double uneven = layout.size() > 1 && job.crosses_nodes() ? 1.5 : 1;
  const double bytes = uneven * std::min(needed, job.positions) * (job.ranks - 1) / job.ranks *
                       job.kv_bytes(1, job.kv_heads) * (pass == Pass::forward ? 1 : 2);
  const double between =
      bytes * (job.ranks - job.ranks_a_node()) / std::max(1.0, job.ranks - 1) / (native ? 2 : 1);
  const double moving =
      std::max(between / job.machine.network_bytes_per_s, bytes / job.machine.link_bytes_per_s);
  const double work = job.pair_seconds(whole_pairs(job, layout, pass) / job.ranks, job.heads, pass);
  const double packed = native ? 0 : job.memory_s(4 * bytes);  // for the library's all-to-all
  return std::max(work, moving) + (1 - kHidden) * std::min(work, moving) + packed +
         job.memory_s(2 * job.query_bytes(job.rows()));
}

// Whole documents, or parts of the longest, on subgroups of ranks. Their loads differ more the more
// ranks there are.
double subgroups_s(const Job& job, const Layout& layout, Pass pass) {
  const double levels = std::log2(job.ranks) / 3;
  const double uneven = (pass == Pass::forward ? 1.3 : 1.6) * std::max(1.0, levels);
  return uneven * job.pair_seconds(whole_pairs(job, layout, pass) / job.ranks, job.heads, pass) +
         2 * job.machine.call_s;
}

// Return the number behind `word` in the scheme, or `otherwise`.
int number_after(const std::string& scheme, const char* word, int otherwise) {
  const std::size_t at = scheme.find(word);
  int number = 0;
  if (at == scheme.npos ||
      std::sscanf(scheme.c_str() + at + std::string_view(word).size(), "%d", &number) != 1)
    return otherwise;
  return std::clamp(number, 1, 4096);
}

double pass_s(const Job& job, const Layout& layout, Pass pass) {
  const PublishedRow& row = job.row;
  if (row.scheme == "kernel" || row.world_size == 1)
    return job.pair_seconds(whole_pairs(job, layout, pass), job.heads, pass);
  const double besides = job.machine.call_s * (pass == Pass::forward ? 1 : 2);
  if (row.has("magi")) return besides + magi_s(job, layout, row.has("native"), pass);
  if (row.has("hybrid_dcp") && layout.size() > 1) return besides + subgroups_s(job, layout, pass);
  if (row.has("hybrid_dcp")) {
    const double slower = job.crosses_nodes() ? 2 : 0;
    return ring_s(job, layout, row.world_size, job.heads, job.kv_heads, Dealt::zigzag, slower,
                  pass);
  }
  if (row.has("allgather")) return besides + allgather_s(job, layout, pass);
  const bool two_dimensional = row.has("usp") || row.has("2d");
  int inner = number_after(row.scheme, "ulysses ", row.has("ulysses") ? row.world_size : 1);
  if (two_dimensional) inner = job.ranks_a_node();
  return hybrid_s(job, layout, std::min(inner, row.world_size), pass);
}

// A step of Llama 2 7B: the products with weights in 8 bits beside attention in 16. Return FLOP/s of
// a device, counted as the source counts them.
double training_flops(const Job& job) {
  constexpr double kLayers = 32, kWidth = 4096, kHidden = 11008, kVocab = 32000;
  const double products =
      6 * (kLayers * (4 * kWidth * kWidth + 3 * kWidth * kHidden) + kWidth * kVocab);
  const double attention = 3 * 4 * job.positions / 2 * kWidth * kLayers;  // a token
  const double product_rate = job.machine.own_forward.flops;
  const double seconds = products / product_rate + attention / 3 / job.machine.forward.flops +
                         attention * 2 / 3 / job.machine.backward.flops;
  return (products + attention) / seconds;
}

}  // namespace

std::optional<double> predict(const PublishedRow& row, const MachineFigures& machine,
                              std::string& why_not) {
  const Job job(row, machine);
  const bool is_step = row.pass == "one ring step", both = row.pass == "fwd+bwd";
  const bool forward = row.pass == "fwd" || both || is_step, backward = row.pass == "bwd" || both;
  if (row.pass == "training step") {
    if (row.metric == "TFLOP/s/GPU") return training_flops(job) / 1e12;
    why_not = "a training step is predicted in TFLOP/s/GPU only";
    return std::nullopt;
  }
  if (!forward && !backward) {
    why_not = "no such pass: " + row.pass.substr(0, 40);
    return std::nullopt;
  }
  double sum = 0, seconds_sum = 0;
  const std::vector<Layout> layouts = layouts_of(row);
  for (const Layout& layout : layouts) {
    double seconds = 0, flops = 0;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      if (!(pass == Pass::forward ? forward : backward)) continue;
      seconds += is_step
                     ? std::max(job.kv_bytes(job.rows(), job.kv_heads) / machine.link_bytes_per_s,
                                job.pair_seconds(job.rows() * job.rows(), job.heads, pass))
                     : pass_s(job, layout, pass);
      flops += allowed_pairs(job, layout) * job.heads * job.batch * job.flops_a_pair(pass);
    }
    seconds_sum += seconds;
    sum += flops / seconds / job.ranks / 1e12;  // sources give the mean of these
  }
  const auto count = static_cast<double>(layouts.size());
  const double seconds = seconds_sum / count;
  const std::string& metric = row.metric;
  if (metric == "TFLOP/s/GPU" || metric == "TFLOP/s/device") return sum / count;
  if (metric == "TFLOP/s") return sum / count * job.ranks;
  if (metric == "iter/s") return 1 / seconds;
  if (metric == "s") return seconds;
  if (metric == "ms") return 1e3 * seconds;
  if (metric == "us") return 1e6 * seconds;
  if (metric == "tokens/s") return job.positions * job.batch / seconds;
  if (metric == "tokens/s/GPU") return job.positions * job.batch / seconds / job.ranks;
  why_not = "no such metric: " + metric.substr(0, 40);
  return std::nullopt;
}

// ---
// Machines.

const MachineFigures& machine_of(const PublishedRow& row) {
  for (const MachineFigures& machine : published_machines())
    if (row.source.find(machine.source) != row.source.npos &&
        row.hardware.find(machine.device) != row.hardware.npos &&
        row.scheme.find(machine.implementation) != row.scheme.npos)
      return machine;
  return published_machines().back();
}

double misread_by(const PublishedRow& row) {
  if (row.source.find("MagiAttention") == row.source.npos || row.metric != "TFLOP/s/GPU") return 1;
  const bool narrow = row.mask == "varlen_causal" && row.pass == "bwd";
  if (row.hardware.find("H100") != row.hardware.npos) return narrow ? 2 : 1;
  if (row.hardware.find("B200") != row.hardware.npos) return narrow ? 1 : 0.5;
  return 1;
}

std::string row_key(const PublishedRow& row) {
  return fmt::format("{} {} {} {} {}", row.hardware, row.seqlen, row.mask, row.pass, row.scheme);
}

RowUse use_of(const PublishedRow& row) {
  if (row.scheme == "kernel") return RowUse::kernel;
  const std::string key = row_key(row);
  for (const std::string_view fitted : split(machine_of(row).fitted_on, '|'))
    if (fitted == key) return RowUse::fitted;
  return RowUse::predicted;
}

}  // namespace ringscope
