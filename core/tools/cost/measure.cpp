#include "core/tools/cost/measure.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/cores.h"
#include "core/base/random.h"
#include "core/ring/cpu_backend.h"
#include "core/ring/thread_communicator.h"
#include "core/threads/engine.h"

namespace ringscope {

std::vector<double> fastest_of(double budget, const std::vector<std::function<void()>>& calls) {
  constexpr int kTurns = 4;
  for (const auto& call : calls) call();  // to warm up
  std::vector<double> fastest(calls.size(), std::numeric_limits<double>::infinity());
  const std::int64_t begin_ns = monotonic_ns();
  do {
    std::vector<double> seconds(calls.size(), 0);
    int turns = 0;
    do {
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const double call_begin = thread_cpu_seconds();
        calls[i]();
        seconds[i] += thread_cpu_seconds() - call_begin;
      }
    } while (++turns < kTurns && seconds_since(begin_ns) < budget);
    for (std::size_t i = 0; i < calls.size(); ++i)
      fastest[i] = std::min(fastest[i], seconds[i] / turns);
  } while (seconds_since(begin_ns) < budget);
  return fastest;
}

namespace {

Buffer<std::byte> random_values(Index count, DType dtype, std::uint64_t seed) {
  Buffer<std::byte> bytes(nullptr, count * bytes_of(dtype));
  visit_dtype(dtype, [&]<class Stored>(Stored) {
    Stored* const to = reinterpret_cast<Stored*>(bytes.data());
    for (Index i = 0; i < count; ++i)
      to[i] = from_float<Stored>(static_cast<float>(normal(seed, RandomTensor::q, i)));
  });
  return bytes;
}

// Times the CPU kernels on one query head and blocks of random values. It attends a block as a
// whole and does the same work in pieces, which separates the costs of pairs, rows and keys. As in
// a ring, the rows exceed a core's own cache, and every call attends another block than the last.
class KernelBench {
 public:
  static constexpr Index kRowPiece = 4 * kTileRows;
  static constexpr Index kRows = 20 * kRowPiece;
  static constexpr Index kKeyPiece = kTileKeys / 4;  // less than a tile, but several vectors wide
  static constexpr Index kKeys = 4 * kTileKeys;
  static constexpr Index kBlocks = 8;

  KernelBench(Index head_dim, DType dtype)
      : params_{{1, 1, 1, kRows, head_dim}, dtype, default_softmax_scale(head_dim)},
        scratch_(nullptr, params_, true),
        q_(random_values(kRows * head_dim, dtype, 1)),
        dout_(random_values(kRows * head_dim, dtype, 2)),
        kv_(random_values(kBlocks * 2 * kKeys * head_dim, dtype, 3)),
        out_(nullptr, kRows * head_dim),
        dq_(nullptr, kRows * head_dim),
        gradient_(nullptr, 2 * kKeys * head_dim) {
    begin_attention(params_, query(0, kRows), state(0));
  }

  // Attend all rows to the keys of a block: at once, a few rows at a time (which loads the keys
  // again for each piece), or a few keys at a time (which visits all rows for each piece).
  void attend(Pass pass, Index rows = kRows, Index keys = kKeys) {
    for (Index row = 0; row < kRows; row += rows)
      for (Index key = 0; key < kKeys; key += keys) attend(pass, row, region(rows, keys));
  }
  // Attend a causal block of striped ranks with as many rows as keys. Half of the pairs are
  // allowed, and many tiles are partial.
  void attend_causal(Pass pass) { attend(pass, 0, causal_region()); }

  // Do what a pass does for all rows before the first block and after the last one.
  void begin_and_finish(Pass pass) {
    if (pass == Pass::forward) {
      begin_attention(params_, query(0, kRows), state(0));
      finish_attention(params_, query(0, kRows), state(0));
    } else {
      begin_backward(params_, query(0, kRows), backward_state(0));
      finish_backward(params_, query(0, kRows), backward_state(0));
    }
  }
  // Compute the state that the calls of the backward pass need.
  void prepare_backward() {
    begin_attention(params_, query(0, kRows), state(0));
    attend(Pass::forward);
    finish_attention(params_, query(0, kRows), state(0));
    begin_backward(params_, query(0, kRows), backward_state(0));
  }

  // Return the region of rank 0's queries and rank 1's keys, of two striped ranks.
  static Region causal_region() {
    const auto striped = [](Index first) {
      return LocalRows{{{first, 2, kKeys}, {2 * kKeys, 2, 0}}, false};
    };
    return {Mask{.seqlen = 2 * kKeys, .causal = true}, striped(0), striped(1)};
  }

  // Under a full mask only the numbers of rows and keys matter.
  static Region region(Index rows, Index keys) {
    const Index seqlen = kRows + kKeys;
    const auto first = [&](Index count) {
      return LocalRows{{{0, 1, count}, {seqlen, 1, 0}}, false};
    };
    return {Mask{.seqlen = seqlen}, first(rows), first(keys)};
  }

 private:
  QueryBlock query(Index row, Index rows) const {
    const Index at = row * params_.head_dim * bytes_of(params_.dtype);
    return {q_.data() + at, dout_.data() + at, rows};
  }
  KvBlock next_block(Index keys) {
    block_ = (block_ + 1) % kBlocks;
    return {kv_.data() + block_ * 2 * kKeys * params_.head_dim * bytes_of(params_.dtype), keys};
  }
  SoftmaxState state(Index row) {
    return {row_max_.data() + row, row_sum_.data() + row, out_.data() + row * params_.head_dim,
            lse_.data() + row};
  }
  BackwardState backward_state(Index row) {
    return {row_max_.data() + row, row_sum_.data() + row, out_.data() + row * params_.head_dim,
            delta_.data() + row, dq_.data() + row * params_.head_dim};
  }
  void attend(Pass pass, Index row, const Region& region) {
    const QueryBlock q = query(row, region.queries.size());
    const KvBlock block = next_block(region.keys.size());
    if (pass == Pass::forward) {
      attend_block(params_, region, q, block, state(row), scratch_);
    } else {
      attend_block_backward(params_, region, q, block, backward_state(row),
                            {gradient_.data(), block.rows}, scratch_);
    }
  }

  AttentionParams params_;
  BlockwiseScratch scratch_;
  Buffer<std::byte> q_, dout_, kv_;
  Buffer<float> row_max_{nullptr, kRows}, lse_{nullptr, kRows}, delta_{nullptr, kRows};
  Buffer<double> row_sum_{nullptr, kRows};
  Buffer<float> out_, dq_, gradient_;
  Index block_ = 0;
};

constexpr double kRingSeconds = 0.15;
constexpr Index kLargeBytes = Index{8} << 20;  // larger than a core's own caches
constexpr Index kSmallBytes = 64;

std::vector<std::unique_ptr<KernelBench>> benches_of(Index head_dim, DType dtype, int threads) {
  std::vector<std::unique_ptr<KernelBench>> benches;
  for (int i = 0; i < threads; ++i)
    benches.push_back(std::make_unique<KernelBench>(head_dim, dtype));
  return benches;
}

// Derive the figures from five times: the whole block, the block by rows and by keys, a causal
// block, and beginning and finishing. Pieces compute the same pairs, but load the keys or visit the
// rows once per piece, so the difference to the whole gives the cost per key or row.
KernelFigures kernel_figures(const double* seconds, Index head_dim) {
  const double whole = seconds[0], by_rows = seconds[1], by_keys = seconds[2];
  constexpr double kRowPieces = KernelBench::kRows / KernelBench::kRowPiece;
  constexpr double kKeyTiles = KernelBench::kKeys / kTileKeys;
  constexpr double kKeyPieces = KernelBench::kKeys / KernelBench::kKeyPiece;
  constexpr double kRows = KernelBench::kRows, kKeys = KernelBench::kKeys;
  KernelFigures figures;
  figures.key_s = std::max(0.0, by_rows - whole) / ((kRowPieces - 1) * kKeys);
  figures.row_s = std::max(0.0, by_keys - whole) / ((kKeyPieces - kKeyTiles) * kRows);
  figures.pair_s =
      (whole - figures.key_s * kKeys - figures.row_s * kKeyTiles * kRows) / (kRows * kKeys);
  const TileAmounts causal = tile_amounts(KernelBench::causal_region());
  figures.partial_row_s =
      std::max(0.0, seconds[3] - figures.seconds(causal, 1, 1)) / causal.partial_rows;
  figures.value_s = seconds[4] / (kRows * static_cast<double>(head_dim));
  return figures;
}

// Return the seconds per value of adding gradients as large as KernelBench's blocks.
double add_seconds(Index head_dim) {
  const Index rows = KernelBench::kKeys;
  CpuBackend backend({{1, 1, 1, rows, head_dim}, DType::f32, 1}, true, nullptr);
  Buffer<float> into(nullptr, 2 * rows * head_dim), from(nullptr, 2 * rows * head_dim);
  into.fill(0);
  from.fill(1);
  const double seconds =
      fastest_of(0.02, {[&] {
                   backend.add({}, {into.data(), rows}, {from.data(), rows}, nullptr);
                 }})[0];
  return seconds / static_cast<double>(into.size());
}

double start_seconds() {
  constexpr int kThreads = 64;
  double fastest = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < 5; ++batch) {
    const double begin = process_cpu_seconds();
    for (int i = 0; i < kThreads; ++i) std::jthread([] {});
    fastest = std::min(fastest, process_cpu_seconds() - begin);
  }
  return fastest / kThreads;
}

// One rank's two blocks, which take turns in being sent and received into.
struct TwoBlocks {
  Buffer<std::byte> block[2];

  explicit TwoBlocks(Index bytes) : block{{nullptr, bytes}, {nullptr, bytes}} {}
};

// Seconds per hop, from `hops` hops in a ring of threads: on the clock, and of processors per rank.
struct HopSeconds {
  double clock = 0, processor = 0;
};

HopSeconds seconds_a_hop(std::vector<TwoBlocks>& blocks, int hops) {
  const int world_size = static_cast<int>(blocks.size());
  ThreadRing ring(world_size);
  const std::int64_t begin_ns = monotonic_ns();
  const double processor_begin = process_cpu_seconds();
  run_on_rank_threads(
      world_size,
      [&](int rank) {
        ThreadCommunicator comm(ring, rank);
        Buffer<std::byte>* const mine = blocks[rank].block;
        for (int hop = 0; hop < hops; ++hop) {
          const Buffer<std::byte>& from = mine[hop % 2];
          Buffer<std::byte>& to = mine[(hop + 1) % 2];
          comm.exchange({Pass::forward, Payload::kv, hop, 0, from.data(), from.size(), 0, to.data(),
                         to.size()},
                        {})
              ->wait();
        }
      },
      [&](int, const RunError& error) { ring.fail(error); });
  ring.throw_if_failed();
  return {seconds_since(begin_ns) / hops,
          (process_cpu_seconds() - processor_begin) / hops / world_size};
}

// Return the fastest of a few batches of hops.
HopSeconds hop_time(int world_size, Index bytes, double seconds) {
  constexpr int kBatches = 5;
  std::vector<TwoBlocks> blocks;
  for (int rank = 0; rank < world_size; ++rank) blocks.emplace_back(bytes);
  HopSeconds fastest = seconds_a_hop(blocks, 4);
  const int hops = std::clamp(static_cast<int>(seconds / kBatches / fastest.clock), 4, 2000);
  for (int batch = 0; batch < kBatches; ++batch) {
    const HopSeconds now = seconds_a_hop(blocks, hops);
    fastest.clock = std::min(fastest.clock, now.clock);
    fastest.processor = std::min(fastest.processor, now.processor);
  }
  return fastest;
}

}  // namespace

CpuFigures measure_cpu(const CpuMeasurement& what) {
  const double budget = what.seconds * std::max(1.0, static_cast<double>(what.threads) / cores());
  const auto seconds =
      slowest_thread(benches_of(what.head_dim, what.dtype, what.threads), [&](KernelBench& bench) {
        const auto times_of = [&](Pass pass) {
          return fastest_of(
              budget,
              {[&] { bench.attend(pass); }, [&] { bench.attend(pass, KernelBench::kRowPiece); },
               [&] { bench.attend(pass, KernelBench::kRows, KernelBench::kKeyPiece); },
               [&] { bench.attend_causal(pass); }, [&] { bench.begin_and_finish(pass); }});
        };
        std::vector<double> both = times_of(Pass::forward);
        if (!what.backward) return both;
        bench.prepare_backward();
        const std::vector<double> backward = times_of(Pass::backward);
        both.insert(both.end(), backward.begin(), backward.end());
        return both;
      });
  CpuFigures figures;
  figures.forward = kernel_figures(seconds.data(), what.head_dim);
  if (what.backward) {
    figures.backward = kernel_figures(seconds.data() + seconds.size() / 2, what.head_dim);
    figures.add_s = add_seconds(what.head_dim);
  }
  figures.start_s = start_seconds();
  if (what.world_size == 1) return figures;
  const auto hop_of = [&](Index bytes) {
    return hop_time(what.world_size, bytes, what.seconds / 4).processor;
  };
  const double small = hop_of(kSmallBytes), more = std::max(0.0, hop_of(what.block_bytes) - small);
  figures.hops = {
      small, what.block_bytes > kSmallBytes ? more / static_cast<double>(what.block_bytes) : 0};
  return figures;
}

Rates measure_rates(Index head_dim, DType dtype, int threads) {
  const CpuFigures figures =
      measure_cpu({.head_dim = head_dim, .dtype = dtype, .backward = true, .threads = threads});
  const TileAmounts block =
      tile_amounts(KernelBench::region(KernelBench::kRows, KernelBench::kKeys));
  const auto flops = [&](Pass pass) {
    return flops_of_pairs({1, 1, 1, KernelBench::kRows, head_dim}, block.pairs, pass) /
           figures.kernel(pass).seconds(block, 1, 1);
  };
  const double small = hop_time(2, kSmallBytes, kRingSeconds).clock;
  const double large = hop_time(2, kLargeBytes, kRingSeconds).clock;
  return {flops(Pass::forward), flops(Pass::backward),
          static_cast<double>(kLargeBytes) / std::max(large - small, large / 2), small};
}

}  // namespace ringscope
