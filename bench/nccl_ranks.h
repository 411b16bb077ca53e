// The two halves of a run over NCCL, each without the other, for comparison with the whole: only
// computing, where no block moves, and only communicating, where no block is attended. Their
// results are useless, and buffers that nothing arrives in hold NaN.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/run/engine.h"
#include "core/run/recording.h"
#include "core/run/run.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/placement.h"
#include "cuda/nccl/run_on_nccl.h"

#ifdef RINGSCOPE_HAS_MPI
#include "core/mpi/run_on_mpi.h"
#endif

namespace ringscope::cuda {

enum class Half { both, compute, communication };

// A communicator that moves nothing.
class StandingCommunicator : public Communicator {
 public:
  explicit StandingCommunicator(const Communicator& other)
      : rank_(other.rank()), world_size_(other.world_size()) {}
  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange&, std::initializer_list<Completion>) override {
    return nullptr;
  }

 private:
  int rank_, world_size_;
};

// A backend that attends nothing.
class IdleBackend : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

 private:
  Completion around(BlockOperation, const StepInfo*, const Completion&, const Start&) override {
    return nullptr;
  }
};

// An engine that does only one half of the work.
class HalfEngine : public NcclEngine {
 public:
  HalfEngine(NcclWorld& world, DeviceSetup& setup, RankLives lives, Half kept)
      : NcclEngine(world, setup, NcclOptions{}, lives), half_(kept) {}
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<HalfRank>(NcclEngine::make(rank, listener), half_);
  }

 private:
  class HalfRank : public RankEngine {
   public:
    HalfRank(std::unique_ptr<RankEngine> whole, Half kept)
        : whole_(std::move(whole)),
          half_(kept),
          standing_(whole_->communicator()),
          idle_(whole_->backend()) {}
    void begin() override { whole_->begin(); }
    Communicator& communicator() override {
      return half_ == Half::compute ? standing_ : whole_->communicator();
    }
    BlockBackend& backend() override {
      return half_ == Half::communication ? idle_ : whole_->backend();
    }
    void finish() override { whole_->finish(); }
    void finish_failed() override { whole_->finish_failed(); }
    Index scratch_bytes() const override { return whole_->scratch_bytes(); }
    std::int64_t clock_error_ns() const override { return whole_->clock_error_ns(); }

   private:
    std::unique_ptr<RankEngine> whole_;
    Half half_;
    StandingCommunicator standing_;
    IdleBackend idle_;
  };

  Half half_;
};

// ---
// The ranks of a benchmark over NCCL: all of them on threads of this process, or one of them in a
// process of its own. The connections are made once and serve all runs.

inline constexpr double kRanksTimeoutS = 120;

// Rows that each rank makes for itself, so that no memory holds the whole sequence.
class CheapRows : public RowSource {
 public:
  explicit CheapRows(const AttentionShape& shape) : shape_(shape) {}
  void get(const RowsOfHead& piece, float* to) override {
    for (Index row = piece.first; row < piece.end; ++row)
      for (Index i = 0; i < shape_.head_dim; ++i) {
        const Index index =
            (piece.head * shape_.seqlen + piece.rows.global_position(row)) * shape_.head_dim + i +
            7919 * static_cast<Index>(piece.tensor);
        std::uint64_t x = static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
        *to++ = static_cast<float>(static_cast<double>(x >> 40) / (1 << 23) - 1);
      }
  }

 private:
  AttentionShape shape_;
};

inline AttentionInputs cheap_inputs(const AttentionShape& shape) {
  CheapRows rows(shape);
  return whole_inputs(rows, shape);
}

// The ranks of this program: all of them on threads, or one of them in a process of its own.
struct Ranks {
  int world_size = 1;
  bool on_threads = true, is_first = true;
  Placement placement = {};  // of all ranks
  std::vector<RankSeat> seats = {};
  std::unique_ptr<NcclWorld> world = nullptr;
  std::function<RingRun(const Problem&, Engine&)> run_with = {};

  // Run the ring. The first rank's result has the recording.
  RingRun run(const Problem& config, Half kept) const {
    DeviceSetup setup("nccl", config, seats, {});
    HalfEngine engine(*world, setup, on_threads ? RankLives::in_a_thread : RankLives::in_a_process,
                      kept);
    RingRun done = run_with(config, engine);
    split_waiting_from_transfer(done.recording);
    return done;
  }
};

// Throw RunError when NCCL can't be used.
inline Ranks ranks_on_threads(int world_size) {
  Ranks ranks{.world_size = world_size};
  std::string why_not;
  const RankGpus seen = visible_gpus(why_not);
  ranks.placement = place_ranks(std::vector<RankGpus>(world_size, seen));
  apply(nccl_environment(ranks.placement, nccl_version(), false, 0));
  for (int rank = 0; rank < world_size; ++rank)
    ranks.seats.push_back({rank, ranks.placement.devices[rank]});
  ranks.world = std::make_unique<NcclWorld>(new_nccl_id(), world_size, ranks.seats,
                                            NcclLimits{NcclOptions{}.max_ctas, kRanksTimeoutS});
  ranks.run_with = [seqlen = Index{0}, inputs = AttentionInputs()](const Problem& config,
                                                                   Engine& engine) mutable {
    if (seqlen != config.shape.seqlen) inputs = cheap_inputs(config.shape);
    seqlen = config.shape.seqlen;
    return run_ranks(config, inputs, engine);
  };
  return ranks;
}

#ifdef RINGSCOPE_HAS_MPI

inline AllGather all_gather_of(MpiSession& session) {
  return [&session](const std::string& mine) { return session.all_gather(mine); };
}

// `session` must outlive the ranks.
inline Ranks ranks_in_processes(MpiSession& session, const ProcessSeat& place) {
  Ranks ranks{.world_size = session.world_size(),
              .on_threads = false,
              .is_first = session.rank() == 0,
              .placement = place.placement,
              .seats = {place.seat}};
  ranks.world = std::make_unique<NcclWorld>(share_nccl_id(session.rank(), all_gather_of(session)),
                                            ranks.world_size, ranks.seats,
                                            NcclLimits{NcclOptions{}.max_ctas, kRanksTimeoutS});
  ranks.run_with = [&session](const Problem& config, Engine& engine) {
    CheapRows rows(config.shape);
    return run_one_rank(session, config, {.generated = &rows}, false, engine);
  };
  return ranks;
}

#endif

}  // namespace ringscope::cuda
