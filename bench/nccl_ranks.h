// The two halves of a run over NCCL, each without the other, for comparison with the whole: only
// computing, where no block moves, and only communicating, where no block is attended. Their
// results are useless, and buffers that nothing arrives in hold NaN.
#pragma once

#include <algorithm>
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
class HalfEngine : public Engine {
 public:
  HalfEngine(Engine& whole, Half kept) : whole_(whole), half_(kept) {}

  std::string_view name() const override { return whole_.name(); }
  MemorySpace& memory() override { return whole_.memory(); }
  MemorySpace& memory_of(int rank) override { return whole_.memory_of(rank); }
  std::string notes() const override { return whole_.notes(); }
  bool has_pulses() const override { return whole_.has_pulses(); }
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override {
    return std::make_unique<HalfRank>(whole_.make(rank, listener), half_);
  }
  void fail(const RunError& error) override { whole_.fail(error); }
  void throw_if_failed() override { whole_.throw_if_failed(); }

 private:
  class HalfRank : public RankEngine {
   public:
    HalfRank(std::unique_ptr<RankEngine> whole, Half kept)
        : whole_(std::move(whole)),
          half_(kept),
          standing_(whole_->communicator()),
          idle_(whole_->backend()) {}
    // Call both getters, because they select the rank's GPU for its thread.
    Communicator& communicator() override {
      Communicator& moving = whole_->communicator();
      return half_ == Half::compute ? standing_ : moving;
    }
    BlockBackend& backend() override {
      BlockBackend& working = whole_->backend();
      return half_ == Half::communication ? idle_ : working;
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

  Engine& whole_;
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

// The ranks of this program: all of them on threads, or one of them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int world_size() const = 0;
  virtual bool is_first() const = 0;
  virtual bool shares_gpus() const = 0;
  // Run the ring. The first rank's result has the recording.
  virtual RingRun run(const Problem& config, Half kept) = 0;
};

class ThreadRanks : public Ranks {
 public:
  // Throw RunError when NCCL can't be used.
  explicit ThreadRanks(int world_size) : world_size_(world_size) {
    std::string why_not;
    const RankGpus seen = visible_gpus(why_not);
    placement_ = place_ranks(std::vector<RankGpus>(world_size, seen));
    apply(nccl_environment(placement_, nccl_version(), false, 0));
    for (int rank = 0; rank < world_size; ++rank)
      seats_.push_back({rank, placement_.devices[rank]});
    world_ = std::make_unique<NcclWorld>(new_nccl_id(), world_size, seats_,
                                         NcclLimits{NcclOptions{}.max_ctas, kRanksTimeoutS});
  }
  int world_size() const override { return world_size_; }
  bool is_first() const override { return true; }
  bool shares_gpus() const override { return placement_.shares_gpus; }
  RingRun run(const Problem& config, Half kept) override {
    DeviceSetup setup("nccl", config, seats_, {}, false);
    NcclEngine engine(*world_, setup, NcclOptions{}, RankLives::in_a_thread);
    HalfEngine wished(engine, kept);
    if (seqlen_ != config.shape.seqlen) inputs_ = cheap_inputs(config.shape);
    seqlen_ = config.shape.seqlen;
    RingRun done = run_ranks(config, inputs_, wished);
    split_waiting_from_transfer(done.recording);
    return done;
  }

 private:
  int world_size_;
  Placement placement_;
  std::vector<RankSeat> seats_;
  std::unique_ptr<NcclWorld> world_;
  AttentionInputs inputs_;
  Index seqlen_ = 0;  // of the inputs
};

#ifdef RINGSCOPE_HAS_MPI

class ProcessRanks : public Ranks {
 public:
  ProcessRanks(MpiSession& session, const ProcessSeat& place)
      : session_(session), place_(place), seats_{place_.seat} {
    Lifeline& line = session.lifeline();
    world_ = std::make_unique<NcclWorld>(share_nccl_id(line), session.world_size(), seats_,
                                         NcclLimits{NcclOptions{}.max_ctas, kRanksTimeoutS},
                                         failure_of(line));
  }
  int world_size() const override { return session_.world_size(); }
  bool is_first() const override { return session_.rank() == 0; }
  bool shares_gpus() const override { return place_.placement.shares_gpus; }
  RingRun run(const Problem& config, Half kept) override {
    DeviceSetup setup("nccl", config, seats_, {}, false);
    NcclEngine engine(*world_, setup, NcclOptions{}, RankLives::in_a_process);
    HalfEngine wished(engine, kept);
    CheapRows rows(config.shape);
    RingRun done = run_one_rank(session_, config, {.generated = &rows}, false, wished);
    split_waiting_from_transfer(done.recording);
    return done;
  }

 private:
  MpiSession& session_;
  ProcessSeat place_;
  std::vector<RankSeat> seats_;
  std::unique_ptr<NcclWorld> world_;
};

#endif

}  // namespace ringscope::cuda
