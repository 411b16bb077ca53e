// The ranks of a benchmark over NCCL: all of them on threads of this process, or one of them in a
// process of its own. The connections are made once and serve all runs.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bench/nccl_controls.h"
#include "core/run/run.h"
#include "cuda/nccl/nccl_communicator.h"
#include "cuda/nccl/nccl_engine.h"
#include "cuda/nccl/nccl_setup.h"
#include "cuda/nccl/process_seat.h"
#ifdef RINGSCOPE_HAS_MPI
#include "core/mpi/run_on_mpi.h"
#endif

namespace ringscope::cuda {

inline constexpr double kRanksTimeoutS = 120;

// Rows that each rank makes for itself, so that no memory holds the whole sequence.
class CheapRows : public RowSource {
 public:
  explicit CheapRows(const AttentionShape& shape) : shape_(shape) {}
  void get(const RowsOfHead& piece, float* to) override {
    for (Index row = piece.first; row < piece.end; ++row)
      for (Index i = 0; i < shape_.head_dim; ++i)
        *to++ =
            value((piece.head * shape_.seqlen + piece.rows.global_position(row)) * shape_.head_dim +
                  i + 7919 * static_cast<Index>(piece.tensor));
  }
  static float value(Index index) {
    std::uint64_t x = static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return static_cast<float>(static_cast<double>(x >> 40) / (1 << 23) - 1);
  }

 private:
  AttentionShape shape_;
};

inline AttentionInputs whole_inputs(const AttentionShape& shape) {
  AttentionInputs inputs;
  const auto fill = [&](std::vector<float>& tensor, Index heads, Index seed) {
    tensor.resize(static_cast<std::size_t>(shape.batch * heads * shape.seqlen * shape.head_dim));
    for (std::size_t i = 0; i < tensor.size(); ++i)
      tensor[i] = CheapRows::value(static_cast<Index>(i) + seed);
  };
  fill(inputs.q, shape.num_heads, 0);
  fill(inputs.k, shape.num_heads_kv, 1);
  fill(inputs.v, shape.num_heads_kv, 2);
  return inputs;
}

// The ranks of this program: all of them on threads, or one of them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int world_size() const = 0;
  virtual bool is_first() const = 0;
  virtual bool shares_gpus() const = 0;
  // Run the ring. The first rank's result has the recording.
  virtual RingRun run(const Problem& config, Half half) = 0;
};

class ThreadRanks : public Ranks {
 public:
  // Throw RunError when NCCL can't be used.
  explicit ThreadRanks(int world_size) : world_size_(world_size) {
    std::string why_not;
    const RankGpus seen = visible_gpus(why_not);
    placement_ = place_ranks(std::vector<RankGpus>(static_cast<std::size_t>(world_size), seen));
    apply(nccl_environment(placement_, nccl_version(), false, 0));
    for (int rank = 0; rank < world_size; ++rank)
      seats_.push_back({rank, placement_.devices[static_cast<std::size_t>(rank)]});
    world_ = std::make_unique<NcclWorld>(new_nccl_id(), world_size, seats_,
                                         NcclLimits{NcclOptions{}.max_ctas, kRanksTimeoutS});
  }
  int world_size() const override { return world_size_; }
  bool is_first() const override { return true; }
  bool shares_gpus() const override { return placement_.shares_gpus; }
  RingRun run(const Problem& config, Half half) override {
    NcclSetup setup(config, seats_, {});
    NcclEngine engine(*world_, setup.kernels(), setup.tuner(), nullptr, true,
                      RankLives::in_a_thread);
    HalfEngine wished(engine, half);
    if (seqlen_ != config.shape.seqlen) inputs_ = whole_inputs(config.shape);
    seqlen_ = config.shape.seqlen;
    RingRun done = run_ranks(config, inputs_, wished);
    split_waiting_from_transfer(done.recording);
    return done;
  }

 private:
  int world_size_;
  Placement placement_;
  std::vector<NcclSeat> seats_;
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
  RingRun run(const Problem& config, Half half) override {
    NcclSetup setup(config, seats_, {});
    NcclEngine engine(*world_, setup.kernels(), setup.tuner(), nullptr, true,
                      RankLives::in_a_process);
    HalfEngine wished(engine, half);
    CheapRows rows(config.shape);
    RingRun done = run_one_rank(session_, config, {.generated = &rows}, false, wished);
    split_waiting_from_transfer(done.recording);
    return done;
  }

 private:
  MpiSession& session_;
  ProcessSeat place_;
  std::vector<NcclSeat> seats_;
  std::unique_ptr<NcclWorld> world_;
};

#endif

}  // namespace ringscope::cuda
