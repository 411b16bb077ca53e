#include "core/cost/measure.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "core/attention/blockwise.h"
#include "core/base/random.h"
#include "core/cost/flops.h"
#include "core/ring/thread_communicator.h"

namespace ringscope {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Index kRows = 1024;  // of the block that is attended: a score matrix beyond any cache
constexpr double kPassSeconds = 0.6;
constexpr double kRingSeconds = 0.15;
constexpr Index kLargeBytes = Index{8} << 20;  // beyond the caches that a core has for itself
constexpr Index kSmallBytes = 64;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double thread_cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Processor seconds of the fastest of the calls that fit into `budget` seconds: what other programs
// take of the machine meanwhile is not its speed.
double fastest_of(double budget, const std::function<void()>& call) {
  call();  // to warm up
  double fastest = std::numeric_limits<double>::infinity();
  const Clock::time_point begin = Clock::now();
  do {
    const double call_begin = thread_cpu_seconds();
    call();
    fastest = std::min(fastest, thread_cpu_seconds() - call_begin);
  } while (seconds_since(begin) < budget);
  return fastest;
}

// One query head on one block of random values: a run's unit of work.
class Bench {
 public:
  Bench(Index head_dim, DType dtype)
      : params_{1, 1, 1, head_dim, dtype, default_softmax_scale(head_dim)},
        scratch_(nullptr, head_dim, true),
        q_(random_values(kRows * head_dim, dtype, 1)),
        dout_(random_values(kRows * head_dim, dtype, 2)),
        kv_(random_values(2 * kRows * head_dim, dtype, 3)),
        out_(nullptr, kRows * head_dim),
        dq_(nullptr, kRows * head_dim),
        gradient_(nullptr, 2 * kRows * head_dim) {
    begin_attention(params_, query(), state());
  }

  void forward() { attend_block(params_, region(), query(), block(), state(), scratch_); }

  void begin_backward_pass() {
    finish_attention(params_, query(), state());
    begin_backward(params_, query(), backward_state());
  }
  void backward() {
    attend_block_backward(params_, region(), query(), block(), backward_state(),
                          {gradient_.data(), kRows}, scratch_);
  }

 private:
  static Buffer<std::byte> random_values(Index count, DType dtype, std::uint64_t seed) {
    Buffer<std::byte> bytes(nullptr, count * bytes_of(dtype));
    visit_dtype(dtype, [&]<class Stored>(Stored) {
      Stored* const to = reinterpret_cast<Stored*>(bytes.data());
      for (Index i = 0; i < count; ++i)
        to[i] = from_float<Stored>(static_cast<float>(normal(seed, RandomTensor::q, i)));
    });
    return bytes;
  }

  static Region region() {
    const LocalRows rows{{{0, 1, kRows}, {kRows, 1, 0}}, false};
    return {Mask{.seqlen = kRows}, rows, rows};
  }
  QueryBlock query() const { return {q_.data(), dout_.data(), kRows}; }
  KvBlock block() const { return {kv_.data(), kRows}; }
  SoftmaxState state() { return {row_max_.data(), row_sum_.data(), out_.data(), lse_.data()}; }
  BackwardState backward_state() {
    return {row_max_.data(), row_sum_.data(), out_.data(), delta_.data(), dq_.data()};
  }

  AttentionParams params_;
  BlockwiseScratch scratch_;
  Buffer<std::byte> q_, dout_, kv_;
  Buffer<float> row_max_{nullptr, kRows}, lse_{nullptr, kRows}, delta_{nullptr, kRows};
  Buffer<double> row_sum_{nullptr, kRows};
  Buffer<float> out_, dq_, gradient_;
};

// FLOP/s of each of `threads` threads that all compute at once, forward and backward.
Rates measure_compute(Index head_dim, DType dtype, int threads) {
  std::vector<double> forward(static_cast<std::size_t>(threads)), backward = forward;
  std::vector<std::unique_ptr<Bench>> benches;
  for (int i = 0; i < threads; ++i) benches.push_back(std::make_unique<Bench>(head_dim, dtype));
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < benches.size(); ++i)
    workers.emplace_back([&, i] {
      Bench& bench = *benches[i];
      forward[i] = fastest_of(kPassSeconds, [&] { bench.forward(); });
      bench.begin_backward_pass();
      backward[i] = fastest_of(kPassSeconds, [&] { bench.backward(); });
    });
  for (std::jthread& worker : workers) worker.join();
  const AttentionShape one_head{1, 1, 1, kRows, head_dim};
  const double pairs = static_cast<double>(kRows) * kRows;
  // The slowest: it is what the others would wait for.
  const double slowest_forward = *std::max_element(forward.begin(), forward.end());
  const double slowest_backward = *std::max_element(backward.begin(), backward.end());
  return {flops_of_pairs(one_head, pairs, Pass::forward) / slowest_forward,
          flops_of_pairs(one_head, pairs, Pass::backward) / slowest_backward, 0, 0};
}

// One rank's blocks: the one that it sends and the one that it receives into, in turns.
struct TwoBlocks {
  Buffer<std::byte> block[2];

  explicit TwoBlocks(Index bytes) : block{{nullptr, bytes}, {nullptr, bytes}} {}
};

// Seconds of a hop, from `hops` of them in a ring of two threads.
double seconds_a_hop(TwoBlocks (&blocks)[2], int hops) {
  ThreadRing ring(2);
  const auto run_rank = [&](int rank) {
    try {
      ThreadCommunicator comm(ring, rank);
      for (int hop = 0; hop < hops; ++hop) {
        Buffer<std::byte>& from = blocks[rank].block[hop % 2];
        Buffer<std::byte>& to = blocks[rank].block[(hop + 1) % 2];
        comm.exchange({Pass::forward, Payload::kv, hop, 0, from.data(), from.size(), 0, to.data(),
                       to.size()},
                      {})
            ->wait();
      }
    } catch (const RunError& error) {
      ring.fail(error);
    }
  };
  const Clock::time_point begin = Clock::now();
  {
    const std::jthread other(run_rank, 1);
    run_rank(0);
  }
  ring.throw_if_failed();
  return seconds_since(begin) / hops;
}

// Of the fastest of a few batches of hops.
double hop_time(Index bytes) {
  constexpr int kBatches = 5;
  TwoBlocks blocks[2] = {TwoBlocks(bytes), TwoBlocks(bytes)};
  double fastest = seconds_a_hop(blocks, 4);
  const int hops = std::clamp(static_cast<int>(kRingSeconds / kBatches / fastest), 4, 2000);
  for (int batch = 0; batch < kBatches; ++batch)
    fastest = std::min(fastest, seconds_a_hop(blocks, hops));
  return fastest;
}

}  // namespace

Rates measure_rates(Index head_dim, DType dtype, int threads) {
  Rates rates = measure_compute(head_dim, dtype, threads);
  const double small = hop_time(kSmallBytes), large = hop_time(kLargeBytes);
  rates.latency_s = small;
  rates.bytes_per_s = static_cast<double>(kLargeBytes) / std::max(large - small, large / 2);
  return rates;
}

}  // namespace ringscope
