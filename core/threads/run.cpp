#include "core/threads/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>

#include "core/attention/blockwise.h"
#include "core/base/error.h"
#include "core/ring/loop_counts.h"
#include "core/ring/ring.h"
#include "core/threads/cpu_engine.h"
#include "core/threads/rank.h"
#include "core/threads/watchdog.h"

namespace ringscope {

void check_config(const Problem& config) {
  validate(config.shape);
  require_between("world-size", config.world_size, 1);
  if (config.has_sinks() && std::ssize(config.sink_logits) != config.shape.num_heads)
    throw InputError("sink-logits: " + std::to_string(config.sink_logits.size()) +
                     " given, one per head accepted");
  if (config.softcap != 0 && !(1e-6 <= config.softcap && config.softcap <= 1e9))
    throw InputError("softcap: " + std::to_string(config.softcap) +
                     " given, 1e-6 to 1e9 accepted, or 0 for none");
  check_scheme(config);
  require_between("kv-buffers", config.kv_buffers, 2);
  if (!(config.timeout_s > 0 && std::isfinite(config.timeout_s)))
    throw InputError("timeout: " + std::to_string(config.timeout_s) +
                     " given, seconds above 0 accepted");
  if (config.injection) check_injection(*config.injection, config.world_size);
  if (config.recorded_tile) check_tile_place(config, *config.recorded_tile);
}

void check_tile_place(const Problem& config, TilePlace place) {
  const auto refuse = [&](const std::string& accepted) {
    throw InputError(
        fmt::format("record-tile: {}:{} given; accepted: {}", place.rank, place.step, accepted));
  };
  if (config.scheme->travels != Travels::blocks)
    refuse(fmt::format("it with a scheme whose KV blocks travel, and not with {}",
                       config.scheme->name));
  if (place.rank < 0 || place.rank >= config.world_size)
    refuse(fmt::format("ranks 0 to {}", config.world_size - 1));
  const std::vector<Index> pairs = predicted_pairs(config, place.rank);
  const auto some =
      std::find_if(pairs.begin(), pairs.end(), [](Index of_step) { return of_step > 0; });
  if (some == pairs.end()) refuse("a rank that attends something");
  if (place.step < 0 || place.step >= std::ssize(pairs) || pairs[place.step] == 0)
    refuse(fmt::format("a step at which rank {} attends something, such as {}", place.rank,
                       some - pairs.begin()));
}

WholeInputs checked_rows(const Problem& config, const AttentionInputs& inputs) {
  check_config(config);
  const AttentionShape& s = config.shape;
  const auto fits = [](const std::vector<float>& values, Index count) {
    return std::ssize(values) == count;
  };
  if (!fits(inputs.q, query_values(s, s.queries())) || !fits(inputs.k, kv_values(s, s.seqlen)) ||
      !fits(inputs.v, block_values(s, s.seqlen) - kv_values(s, s.seqlen)) ||
      !(inputs.dout.empty() || fits(inputs.dout, out_values(s, s.queries()))))
    throw InputError("the input tensors do not have the sizes that the shape says");
  return {s, inputs};
}

namespace {

using RankEngines = std::vector<std::unique_ptr<RankEngine>>;

// Run every rank on a thread of its own. Return the time of the last end, when all have ended.
// Throw the first failure.
std::int64_t run_all(const std::vector<std::unique_ptr<Rank>>& ranks, const RankEngines& engines,
                     Engine& engine, const Progress& progress) {
  std::vector<std::int64_t> end_ns(ranks.size());
  std::optional<Watchdog> watchdog;
  if (engine.has_pulses()) {
    std::vector<RankPulse*> pulses;
    for (const auto& rank : ranks) pulses.push_back(&rank->pulse());
    watchdog.emplace(std::move(pulses), ranks.front()->config().timeout_s, engine, progress.stuck);
  }
  const auto ended = [&](int rank) {
    if (watchdog) watchdog->ended(rank);
  };
  run_on_rank_threads(
      static_cast<int>(ranks.size()),
      [&](int rank) {
        engines[rank]->begin();
        ranks[rank]->run(engines[rank]->communicator(), engines[rank]->backend());
        engines[rank]->finish();
        end_ns[rank] = ranks[rank]->recorder().now_ns();
        engines[rank]->record();
        ended(rank);
      },
      [&](int rank, const RunError& error) {
        engine.fail(error);
        ended(rank);
      });
  watchdog.reset();
  engine.throw_if_failed();
  return *std::max_element(end_ns.begin(), end_ns.end());
}

// Store what one rank recorded in the run's recording.
void take_recording(const Rank& rank, const RankEngine& engine, Recording& recording) {
  RankEvents events = rank.recorded();
  events.clock_error_ns = engine.clock_error_ns();
  add_rank(recording, rank.rank(), std::move(events));
}

// Throw a RunFailure with what was recorded until `error`.
[[noreturn]] void end_failed(const RunError& error, const std::vector<std::unique_ptr<Rank>>& ranks,
                             const RankEngines& engines, Recording recording) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    try {
      engines[r]->finish_failed();
    } catch (const std::exception&) {  // records less; the first failure remains
    }
    take_recording(*ranks[r], *engines[r], recording);
  }
  recording.info.failure = RunEnd{error.what(), error.rank(), error.step()};
  throw RunFailure(error, std::move(recording));
}

// Call f, and name `rank` in any RunError that it throws while the rank is made ready or read out.
template <class F>
void of_rank(int rank, F&& f) {
  try {
    f();
  } catch (const RunError& error) {
    if (error.rank() >= 0) throw;
    throw RunError(error.what(), rank);
  }
}

}  // namespace

Engine::Listener progress_listener(const Progress& progress, double total_pairs) {
  if (!progress.share || total_pairs == 0) return {};
  struct Done {
    std::mutex mutex;
    double pairs = 0;
  };
  return [done = std::make_shared<Done>(), total_pairs, &share = progress.share](Index pairs) {
    const std::lock_guard lock(done->mutex);
    done->pairs += static_cast<double>(pairs);
    share(done->pairs / total_pairs);
  };
}

RingRun run_ranks(const Problem& config, RowSource& rows, Engine& engine,
                  const Progress& progress) {
  check_config(config);
  const RingProblem problem = config.ring_problem();
  RingRun result;
  result.recording = empty_recording(config, engine.name());
  const std::int64_t origin_ns = monotonic_ns();

  std::vector<std::unique_ptr<Rank>> ranks;
  for (int rank = 0; rank < config.world_size; ++rank) {
    of_rank(rank, [&] {
      ranks.push_back(
          std::make_unique<Rank>(config, problem, rank, engine.memory_of(rank), origin_ns));
      ranks.back()->take_inputs(rows);
    });
  }
  // Engines are destroyed before the ranks, whose memory they may still touch.
  RankEngines engines;
  const auto pairs = static_cast<double>(config.whole_region().pairs());
  const Engine::Listener listener = progress_listener(progress, (config.backward ? 2 : 1) * pairs);
  for (const auto& rank : ranks)
    of_rank(rank->rank(), [&] { engines.push_back(engine.make(*rank, listener)); });

  const std::int64_t begin_ns = monotonic_ns() - origin_ns;
  std::int64_t end_ns = 0;
  try {
    end_ns = run_all(ranks, engines, engine, progress);
  } catch (const RunError& error) {
    end_failed(error, ranks, engines, std::move(result.recording));
  }

  result.outputs.resize(config.shape, output_tensors(config.backward, config.has_sinks()));
  WholeOutputs sink(config.shape, result.outputs);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Rank& rank = *ranks[r];
    of_rank(rank.rank(), [&] { rank.give_outputs(sink); });
    take_recording(rank, *engines[r], result.recording);
    result.peak_bytes.push_back(rank.peak_bytes());
    result.predicted_bytes.push_back(RankMemory::predicted_bytes(config, rank.rank()) +
                                     engines[r]->scratch_bytes());
  }
  result.engine_notes = engine.notes();
  result.wall_s = static_cast<double>(end_ns - begin_ns) * 1e-9;
  return result;
}

RingRun run_on_threads(const Problem& config, RowSource& rows, const Progress& progress) {
  check_config(config);  // before world_size seats are made
  ThreadEngine engine(config.world_size);
  return run_ranks(config, rows, engine, progress);
}

RingRun run_ranks(const Problem& config, const AttentionInputs& inputs, Engine& engine,
                  const Progress& progress) {
  WholeInputs rows = checked_rows(config, inputs);
  return run_ranks(config, rows, engine, progress);
}

RingRun run_on_threads(const Problem& config, const AttentionInputs& inputs,
                       const Progress& progress) {
  WholeInputs rows = checked_rows(config, inputs);
  return run_on_threads(config, rows, progress);
}

Index predicted_rank_bytes(const Problem& config, int rank) {
  return RankMemory::predicted_bytes(config, rank) +
         BlockwiseScratch::bytes(config.shape, config.backward);
}

std::vector<Index> predicted_pairs(const Problem& config, int rank) {
  if (!is_plain(config)) return count_loop(config, rank).pairs_by_step;
  const RingProblem problem = config.ring_problem();
  const RingSchedule ring{rank, config.world_size};
  std::vector<Index> pairs;
  for (int step = 0; step < config.world_size; ++step)
    pairs.push_back(problem.region(rank, ring.owner(step)).pairs());
  return pairs;
}

Index predicted_pairs(const Problem& config, int rank, int step) {
  const RingProblem problem = config.ring_problem();
  return problem.region(rank, RingSchedule{rank, config.world_size}.owner(step)).pairs();
}

}  // namespace ringscope
