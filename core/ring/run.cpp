#include "core/ring/run.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "core/ring/cpu_backend.h"
#include "core/ring/rank_memory.h"
#include "core/ring/recording.h"
#include "core/ring/ring_attention.h"
#include "core/ring/schedule.h"
#include "core/ring/thread_communicator.h"

namespace ringscope {

double RingConfig::scale() const {
  return softmax_scale.value_or(default_softmax_scale(shape.head_dim));
}

Partition RingConfig::partition_of_sequence() const {
  return {partition, shape.seqlen, world_size};
}

namespace {

RingProblem problem_of(const RingConfig& config) {
  const AttentionShape& s = config.shape;
  return {{s.batch, s.num_heads, s.num_heads_kv, s.head_dim, config.dtype, config.scale()},
          config.mask.for_seqlen(s.seqlen),
          config.partition_of_sequence()};
}

// Walks the rows of one rank: calls f(offset in the whole [heads, seqlen, width] tensor, offset in
// the rank's [heads, rows, width] one) for every (batch entry and head, row).
template <class F>
void for_each_row(const LocalRows& rows, Index heads, Index seqlen, Index width, F&& f) {
  for (Index head = 0; head < heads; ++head)
    for (Index row = 0; row < rows.size(); ++row)
      f((head * seqlen + rows.global_position(row)) * width, (head * rows.size() + row) * width);
}

// Copies a rank's rows of `whole` to `local`, stored as `dtype`.
void scatter(const std::vector<float>& whole, DType dtype, const LocalRows& rows, Index heads,
             Index seqlen, Index width, std::byte* local) {
  visit_dtype(dtype, [&]<class Stored>(Stored) {
    Stored* to = reinterpret_cast<Stored*>(local);
    for_each_row(rows, heads, seqlen, width, [&](Index from, Index at) {
      for (Index x = 0; x < width; ++x) to[at + x] = from_float<Stored>(whole[from + x]);
    });
  });
}

// Puts a rank's rows to their places in `whole`, as values of `dtype`.
void gather(const float* local, DType dtype, const LocalRows& rows, Index heads, Index seqlen,
            Index width, std::vector<float>& whole) {
  for_each_row(rows, heads, seqlen, width, [&](Index to, Index at) {
    for (Index x = 0; x < width; ++x) whole[to + x] = round_to(dtype, local[at + x]);
  });
}

// One rank: its memory, what it records with, and what comes of it.
class Rank {
 public:
  Rank(const RingConfig& config, const RingProblem& problem, int rank, std::int64_t origin_ns)
      : config_(config),
        problem_(problem),
        rank_(rank),
        memory_(problem, rank, config.scheme, config.backward),
        backend_(problem.params, config.backward, &memory_.meter()),
        // A pass records per step at most a compute slice, and a wait, a send and a recv for each
        // of two payloads; and one wait at its end.
        recorder_(2 * (7 * static_cast<std::size_t>(config.world_size) + 1),
                  3 * static_cast<std::size_t>(config.world_size), origin_ns) {}

  void take_inputs(const AttentionInputs& inputs) {
    const AttentionShape& s = config_.shape;
    const Index heads = s.batch * s.num_heads, heads_kv = s.batch * s.num_heads_kv;
    const DType dtype = config_.dtype;
    scatter(inputs.q, dtype, rows(), heads, s.seqlen, s.head_dim, memory_.q.data());
    scatter(inputs.k, dtype, rows(), heads_kv, s.seqlen, s.head_dim, memory_.own_kv());
    scatter(inputs.v, dtype, rows(), heads_kv, s.seqlen, s.head_dim,
            memory_.own_kv() + problem_.kv_bytes(rank_) / 2);
    if (!config_.backward) return;
    if (!inputs.dout.empty()) {
      scatter(inputs.dout, dtype, rows(), heads, s.seqlen, s.head_dim, memory_.dout.data());
    } else {
      visit_dtype(dtype, [&]<class Stored>(Stored) {
        std::fill_n(reinterpret_cast<Stored*>(memory_.dout.data()),
                    problem_.params.query_values(rows().size()), from_float<Stored>(1.0f));
      });
    }
  }

  // Both passes, on the calling thread.
  void run(Communicator& unrecorded, const RecordingBackend::Listener& listener) {
    RecordingCommunicator comm(unrecorded, recorder_,
                               4 * static_cast<std::size_t>(config_.world_size));
    RecordingBackend backend(backend_, recorder_, problem_.params, rank_, listener);
    const bool is_ring = config_.scheme == Scheme::ring;
    is_ring ? ring_forward(comm, backend, problem_, memory_)
            : allgather_forward(comm, backend, problem_, memory_);
    if (config_.backward)
      home_ = is_ring ? ring_backward(comm, backend, problem_, memory_)
                      : allgather_backward(comm, backend, problem_, memory_);
    comm.flush();
    end_ns_ = recorder_.now_ns();
  }

  void give_outputs(AttentionOutputs& outputs) const {
    const AttentionShape& s = config_.shape;
    const Index heads = s.batch * s.num_heads, heads_kv = s.batch * s.num_heads_kv;
    gather(memory_.out_accum.data(), config_.dtype, rows(), heads, s.seqlen, s.head_dim,
           outputs.out);
    gather(memory_.lse.data(), DType::f32, rows(), heads, s.seqlen, 1, outputs.lse);
    if (!config_.backward) return;
    gather(memory_.dq.data(), config_.dtype, rows(), heads, s.seqlen, s.head_dim, outputs.dq);
    gather(home_.data, config_.dtype, rows(), heads_kv, s.seqlen, s.head_dim, outputs.dk);
    gather(home_.data + problem_.params.kv_values(home_.rows), config_.dtype, rows(), heads_kv,
           s.seqlen, s.head_dim, outputs.dv);
  }

  int rank() const { return rank_; }
  const Recorder& recorder() const { return recorder_; }
  Index peak_bytes() const { return memory_.meter().peak_bytes(); }
  std::int64_t end_ns() const { return end_ns_; }

 private:
  LocalRows rows() const { return problem_.partition.rows_of(rank_); }

  const RingConfig& config_;
  const RingProblem& problem_;
  int rank_;
  RankMemory memory_;
  CpuBackend backend_;
  Recorder recorder_;
  KvGradient home_;
  std::int64_t end_ns_ = 0;
};

void check(const RingConfig& config, const AttentionInputs& inputs) {
  validate(config.shape);
  if (config.world_size < 1)
    throw InputError("world-size: " + std::to_string(config.world_size) +
                     " given, at least 1 accepted");
  const AttentionShape& s = config.shape;
  const auto values =
      static_cast<std::size_t>(checked_values(s.batch, s.num_heads, s.seqlen, s.head_dim));
  const std::size_t values_kv = values / static_cast<std::size_t>(s.group_size());
  if (inputs.q.size() != values || inputs.k.size() != values_kv || inputs.v.size() != values_kv ||
      !(inputs.dout.empty() || inputs.dout.size() == values))
    throw InputError("the input tensors do not have the sizes that the shape says");
}

RunInfo info_of(const RingConfig& config) {
  RunInfo info;
  info.partition = name_of(config.partition);
  info.mask = config.mask.name();
  info.scheme = name_of(config.scheme);
  info.dtype = name_of(config.dtype);
  info.shape = config.shape;
  info.world_size = config.world_size;
  // All ranks read one clock.
  info.clock_offset_ns.assign(static_cast<std::size_t>(config.world_size), 0);
  info.clock_error_ns.assign(static_cast<std::size_t>(config.world_size), 0);
  info.base_time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  return info;
}

// Runs every rank on a thread of its own; returns when all have ended. Throws the first failure.
void run_all(std::vector<std::unique_ptr<Rank>>& ranks,
             const RecordingBackend::Listener& listener) {
  ThreadRing ring(static_cast<int>(ranks.size()));
  // They live on after a rank has failed: its copy engine may still wait for a peer, which the
  // failure has to reach first.
  std::vector<std::unique_ptr<ThreadCommunicator>> comms;
  for (const auto& rank : ranks)
    comms.push_back(std::make_unique<ThreadCommunicator>(ring, rank->rank()));
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  const auto run_one = [&](Rank& rank, Communicator& comm) {
    try {
      rank.run(comm, listener);
    } catch (const RunError& error) {
      ring.fail(error);
    } catch (const std::exception& error) {
      ring.fail(RunError(error.what(), rank.rank()));
    }
  };
  try {
    for (std::size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back(run_one, std::ref(*ranks[i]), std::ref(*comms[i]));
  } catch (const std::exception& error) {
    ring.fail(RunError(std::string("cannot start a thread: ") + error.what(),
                       static_cast<int>(threads.size())));
  }
  for (std::thread& thread : threads) thread.join();
  ring.throw_if_failed();
}

}  // namespace

RingRun run_on_threads(const RingConfig& config, const AttentionInputs& inputs,
                       const Progress& progress) {
  check(config, inputs);
  const RingProblem problem = problem_of(config);
  RingRun result;
  result.recording.info = info_of(config);
  const std::int64_t origin_ns = monotonic_ns();

  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < config.world_size; ++rank) {
    ranks.push_back(std::make_unique<Rank>(config, problem, rank, origin_ns));
    ranks.back()->take_inputs(inputs);
  }

  std::mutex progress_mutex;
  double done_pairs = 0;
  RecordingBackend::Listener listener;
  if (progress) {
    const LocalRows all = Partition{PartitionKind::contiguous, config.shape.seqlen, 1}.rows_of(0);
    const double total_pairs =
        static_cast<double>(Region{problem.mask, all, all}.pairs()) * (config.backward ? 2 : 1);
    listener = [&, total_pairs](Index pairs) {
      const std::lock_guard lock(progress_mutex);
      done_pairs += static_cast<double>(pairs);
      progress(done_pairs / total_pairs);
    };
  }

  const std::int64_t begin_ns = monotonic_ns() - origin_ns;
  run_all(ranks, listener);

  const AttentionShape& s = config.shape;
  const auto values = static_cast<std::size_t>(s.batch * s.num_heads * s.seqlen * s.head_dim);
  const std::size_t values_kv = values / static_cast<std::size_t>(s.group_size());
  result.outputs.out.resize(values);
  result.outputs.lse.resize(values / static_cast<std::size_t>(s.head_dim));
  if (config.backward) {
    result.outputs.dq.resize(values);
    result.outputs.dk.resize(values_kv);
    result.outputs.dv.resize(values_kv);
  }
  std::int64_t end_ns = begin_ns;
  for (const auto& rank : ranks) {
    rank->give_outputs(result.outputs);
    result.recording.events.push_back(rank->recorder().events());
    const auto& samples = rank->recorder().samples();
    result.recording.samples.insert(result.recording.samples.end(), samples.begin(), samples.end());
    result.recording.dropped.push_back(rank->recorder().dropped());
    result.peak_bytes.push_back(rank->peak_bytes());
    end_ns = std::max(end_ns, rank->end_ns());
  }
  result.wall_s = static_cast<double>(end_ns - begin_ns) * 1e-9;
  return result;
}

Index predicted_rank_bytes(const RingConfig& config, int rank) {
  return RankMemory::predicted_bytes(problem_of(config), rank, config.scheme, config.backward) +
         BlockwiseScratch::bytes(config.shape.head_dim, config.backward);
}

Index predicted_pairs(const RingConfig& config, int rank, int step) {
  const RingProblem problem = problem_of(config);
  return problem.region(rank, RingSchedule{rank, config.world_size}.owner(step)).pairs();
}

}  // namespace ringscope
