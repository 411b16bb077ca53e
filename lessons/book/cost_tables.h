// Tables of costs by formula: the terms of the crossover for lesson 12, and the schemes for lesson 25,
// with what each sends and how long it takes in five situations.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/cost/amounts.h"
#include "core/sim/recording.h"
#include "core/sim/scenario.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {

// Return an attention layer of 32 query heads and heads_kv of K and V, with a full mask.
inline Problem layer_job(Index seqlen, int world_size, Index heads_kv) {
  return {.shape = {.num_heads = 32, .num_heads_kv = heads_kv, .seqlen = seqlen, .head_dim = 128},
          .dtype = DType::bf16,
          .world_size = world_size};
}

// Tabulate the crossover with each of its terms changed alone. The values are the factors.
inline CheckedTable crossover_terms(const Rates& rates) {
  CheckedTable all({"change", "in the formula", "c*", "factor"});
  const Problem plain = layer_job(8192, 8, 32);
  const double before = threshold_rows(plain, rates, Pass::forward, 1);
  const auto turn = [&](const char* what, const char* term, const Problem& job, const Rates& with,
                        double share, Pass pass = Pass::forward) {
    const double rows = threshold_rows(job, with, pass, share);
    all.values.push_back(rows / before);
    all.table.row(what, term, std::round(rows), fixed(all.values.back(), 2));
  };
  Problem wide = plain;
  wide.dtype = DType::f32;
  Rates half = rates;
  half.forward_flops /= 2;
  turn("half of the FLOP/s achieved", "F / 2", plain, half, 1);
  turn("numbers of four bytes", "e = 4", wide, rates, 1);
  turn("a quarter of the heads in K, V", "G/H = 1/4", layer_job(8192, 8, 8), rates, 1);
  turn("causal, balanced", "c²/2 scores", plain, rates, 0.5);
  turn("backward", "five products; e + 4 bytes", plain, rates, 1, Pass::backward);
  return all;
}

// A ring of 8 ranks with `rows` rows each and a full mask, simulated.
inline Recording recorded_ring(Index rows, const Rates& rates) {
  Scenario ring;
  ring.job = layer_job(8 * rows, 8, 32);
  ring.rates = rates;
  return record({.job = ring.job}, work_of(ring), machine_of(ring), "8 H100", {}).recording;
}

// Tabulate what a ring sends over what Ulysses does.
inline CheckedTable bytes_of_swaps() {
  CheckedTable all({"N", "ring / Ulysses, 32 kv heads", "8 kv heads", "1 kv head"});
  for (const int n : {2, 4, 8, 16, 32}) {
    std::vector<Cell> cells = {n};
    for (const Index heads_kv : {32, 8, 1}) {
      const double ratio = n * heads_kv / (32.0 + heads_kv);
      cells.push_back(heads_kv % n == 0 ? fixed(ratio, 2) : "(" + fixed(ratio, 2).kept + ")");
      Problem job = layer_job(8192, n, heads_kv);
      const double ring = traffic_of(job, 0).forward_bytes;
      job.scheme = Scheme::ulysses;
      if (heads_kv % n == 0)
        all.as_formulas &= std::abs(ring / traffic_of(job, 0).forward_bytes - ratio) < 1e-12;
    }
    all.table.add(cells);
  }
  return all;
}

struct NamedScheme {
  const char *scheme, *name, *moves;
  double forward;  // values of 16 bits that 8 ranks send for a row of 128, 32 heads and 8 kv heads
};

// In these terms: a hop of K and V, a query, and its state of 4 d + 12 bytes a head.
inline constexpr double kKv = 2 * 8 * 128, kQuery = 32 * 128, kState = 32 * (4 * 128 + 12) / 2;
inline constexpr NamedScheme kSchemes[] = {
    {"ring", "ring", "K, V", 7 * kKv},
    {"bidirectional", "both ways", "K, V in halves", 7 * kKv},
    {"pass-q", "pass-Q", "Q, states", 7 * kQuery + 8 * kState},
    {"allgather", "all-gather", "K, V", 7 * kKv},
    {"ulysses", "Ulysses", "Q, K, V, out", 7.0 / 8 * (2 * kQuery + kKv)},
    {"hybrid:4", "hybrid, U = 4", "Q, K, V, out",
     3.0 / 4 * (kQuery + kKv + 32 * (4 * 128 + 4) / 2) + kKv},
    {"two-level:2", "two levels", "K, V", 7 * kKv},
    {"mesh:2x4", "mesh, 2 x 4", "Q, K, V, states", 3 * (kQuery + kState) + kKv}};

// Return a causal zigzag layer, forward, on eight H100 with `link`.
inline Scenario on_8(const char* scheme, Index seqlen, Index heads, Index heads_kv,
                     const char* link, int nodes = 1) {
  Scenario all;
  all.job = {.shape = {1, heads, heads_kv, seqlen, 128},
             .dtype = DType::bf16,
             .mask = MaskSpec::parse("causal"),
             .partition = PartitionKind::zigzag,
             .world_size = 8};
  set_scheme(all.job, scheme);
  all.job.nodes = nodes;
  all.rates = rates_of(find_gpu("H100"), find_link(link), DType::bf16);
  all.between = find_link("InfiniBand-NDR");
  all.nics = 4;
  return all;
}

inline CheckedTable bytes_of_schemes() {
  CheckedTable all({"8 ranks of 4,096 rows", "what moves", "forward", "backward", "held, forward"});
  for (const NamedScheme& s : kSchemes) {
    Problem job = on_8(s.scheme, 8 * 4096, 32, 8, "NVLink4").job;
    const double held = peak_bytes(job);
    job.backward = true;
    const Traffic sent = traffic_of(job, 0);
    all.as_formulas &= sent.forward_bytes == 4096 * 2 * s.forward;
    all.table.row(s.name, s.moves, bytes(sent.forward_bytes), bytes(sent.backward_bytes),
                  bytes(held));
  }
  return all;
}

struct SchemeTimes {
  Table table{{"ms", "A", "B", "C", "D", "E"}};
  std::vector<double> ms[5];  // of a situation, by scheme

  // Return the first of the fastest.
  std::string fastest(int situation) const {
    const std::vector<double>& all = ms[situation];
    return kSchemes[std::min_element(all.begin(), all.end()) - all.begin()].name;
  }
};

inline SchemeTimes times_of_schemes() {
  SchemeTimes all;
  for (const NamedScheme& s : kSchemes) {
    Scenario one_head = on_8(s.scheme, 64 * 4096, 1, 1, "InfiniBand-NDR");
    one_head.job.world_size = 64;
    if (one_head.job.scheme == Scheme::mesh) one_head.job.grid_rows = one_head.job.grid_columns = 8;
    std::vector<Cell> cells = {s.name};
    int i = 0;
    for (const Scenario& one :
         {on_8(s.scheme, 65536, 32, 8, "NVLink4"), on_8(s.scheme, 4096, 32, 8, "NVLink4"),
          on_8(s.scheme, 32768, 32, 8, "NVLink4", 2),
          on_8(s.scheme, 32768, 32, 32, "InfiniBand-NDR"), one_head}) {
      const bool can = !obstacle(one);
      all.ms[i].push_back(can ? 1e3 * run_scenario(one, work_of(one)).wall_s : HUGE_VAL);
      cells.push_back(can ? fixed(all.ms[i].back(), 3) : Cell("impossible"));
      ++i;
    }
    all.table.add(cells);
  }
  return all;
}

}  // namespace ringscope::lessons
