#include "core/processes/mpi/run_on_mpi.h"

#include <mpi.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/processes/mpi/mpi_calls.h"
#include "core/processes/mpi/mpi_communicator.h"
#include "core/processes/mpi/rank_report.h"
#include "core/threads/cpu_engine.h"
#include "core/threads/rank.h"

namespace ringscope {

namespace {

// The rows of a process, at the other end of a line to the rank `peer`. Both ends go through the same
// pieces (for_each_piece), so each piece is a message.
class PeerRows : public RowSource, public RowSink {
 public:
  PeerRows(const AttentionShape& shape, int peer, ProcessWait& wait)
      : shape_(shape), peer_(peer), wait_(wait) {}

  void get(const RowsOfHead& piece, float* to) override {
    wait_.receive(to, values_in(piece), MPI_FLOAT, peer_, Tag::rows);
  }
  void put(const RowsOfHead& piece, const float* from) override {
    wait_.send(from, values_in(piece), MPI_FLOAT, peer_, Tag::rows);
  }

 private:
  Index values_in(const RowsOfHead& piece) const {
    return piece.count() * width_of(shape_, piece.tensor);
  }

  const AttentionShape& shape_;
  int peer_;
  ProcessWait& wait_;
};

// ---
// One rank's part of a run, from its memory to its report.
class ProcessRun {
 public:
  ProcessRun(MpiSession& session, const Problem& config, Engine& engine)
      : config_(config),
        engine_(engine),
        session_(session),
        line_(session.lifeline()),
        rank_number_(session.rank()),
        problem_(config.ring_problem()) {
    run_.recording = empty_recording(config, engine.name());
    const auto world_size = static_cast<std::size_t>(config.world_size);
    run_.peak_bytes.resize(world_size);
    run_.predicted_bytes.resize(world_size);
    report_.origin_ns = monotonic_ns();
  }
  ~ProcessRun() { line_.unwatch(); }

  RingRun run(const ProcessInputs& inputs, bool gather_outputs, const Progress& progress) {
    rank_ = std::make_unique<Rank>(config_, problem_, rank_number_, engine_.memory_of(rank_number_),
                                   report_.origin_ns);
    line_.watch(rank_->pulse());
    wait_.emplace(rank_->pulse());
    take_inputs(inputs);
    go_round(progress);
    if (gather_outputs) give_outputs();
    gather_reports();
    return std::move(run_);
  }

 private:
  // Rank 0 serves the other ranks one after the other, then itself.
  void take_inputs(const ProcessInputs& inputs) {
    if (!inputs.is_scattered) return rank_->take_inputs(*inputs.rows);
    const AttentionShape& shape = config_.shape;
    if (rank_number_ != 0) {
      PeerRows source(shape, 0, *wait_);
      return rank_->take_inputs(source);
    }
    for (int peer = 1; peer < config_.world_size; ++peer) {
      PeerRows sink(shape, peer, *wait_);
      move_rows(peer, input_tensors(config_.backward), *inputs.rows, sink);
    }
    rank_->take_inputs(*inputs.rows);
  }

  // Move all rows of `peer` from one end to the other.
  void move_rows(int peer, std::span<const Tensor> tensors, RowSource& from, RowSink& to) const {
    const AttentionShape& shape = config_.shape;
    std::vector<float> values(piece_values(shape));
    for (const Tensor tensor : tensors) {
      const LocalRows rows = rows_of(tensor, problem_, peer);
      for_each_piece(shape, tensor, rows, [&](const RowsOfHead& piece) {
        from.get(piece, values.data());
        to.put(piece, values.data());
      });
    }
  }

  void go_round(const Progress& progress) {
    rank_engine_ = engine_.make(*rank_, listener(progress));
    report_.before = exchange_clocks(rank_number_, config_.world_size, *wait_);
    MPI_Request barrier = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &barrier), "MPI_Ibarrier");
    wait_->until_complete(barrier, -1);

    report_.begin_ns = rank_->recorder().now_ns();
    rank_engine_->begin();
    rank_->run(rank_engine_->communicator(), rank_engine_->backend());
    rank_engine_->finish();
    report_.end_ns = rank_->recorder().now_ns();
    rank_engine_->record();

    report_.events.clock_error_ns = rank_engine_->clock_error_ns();
    report_.predicted_bytes =
        RankMemory::predicted_bytes(config_, rank_number_) + rank_engine_->scratch_bytes();
    rank_engine_.reset();  // this thread calls MPI again from here on
    report_.after = exchange_clocks(rank_number_, config_.world_size, *wait_);
  }

  // Report progress by rank 0's share of the work, which stands for all.
  Engine::Listener listener(const Progress& progress) const {
    if (rank_number_ != 0) return {};
    double total = 0;
    for (int owner = 0; owner < config_.world_size; ++owner)
      total += static_cast<double>(problem_.region(0, owner).pairs());
    return progress_listener(progress, (config_.backward ? 2 : 1) * total);
  }

  // Rank 0 takes its own outputs, then those of the others one after the other.
  void give_outputs() {
    const AttentionShape& shape = config_.shape;
    if (rank_number_ != 0) {
      PeerRows sink(shape, 0, *wait_);
      return rank_->give_outputs(sink);
    }
    const auto tensors = output_tensors(config_.backward, config_.has_sinks());
    run_.outputs.resize(shape, tensors);
    WholeOutputs sink(shape, run_.outputs);
    rank_->give_outputs(sink);
    for (int peer = 1; peer < config_.world_size; ++peer) {
      PeerRows source(shape, peer, *wait_);
      move_rows(peer, tensors, source, sink);
    }
  }

  void gather_reports() {
    const std::int64_t clock_error_ns = report_.events.clock_error_ns;
    report_.events = rank_->recorded();
    report_.events.clock_error_ns = clock_error_ns;
    const std::vector<std::string> reports = session_.gather(pack(report_));
    for (std::size_t r = 0; r < reports.size(); ++r)
      add_report(run_, static_cast<int>(r), unpack_rank_report(reports[r]), report_.origin_ns);
    run_.engine_notes = engine_.notes();
  }

  const Problem& config_;
  Engine& engine_;
  MpiSession& session_;
  Lifeline& line_;
  const int rank_number_;
  const RingProblem problem_;
  RingRun run_;
  RankReport report_;
  std::unique_ptr<Rank> rank_;
  std::unique_ptr<RankEngine> rank_engine_;  // ends before the rank, whose memory it may touch
  std::optional<ProcessWait> wait_;
};

}  // namespace

RingRun run_one_rank(MpiSession& session, const Problem& config, const ProcessInputs& inputs,
                     bool gather_outputs, Engine& engine, const Progress& progress) {
  check_config(config);
  if (config.world_size != session.world_size())
    throw InputError("world-size: " + std::to_string(config.world_size) +
                     " given, MPI has started " + std::to_string(session.world_size()) + " ranks");
  ProcessRun run(session, config, engine);
  try {
    return run.run(inputs, gather_outputs, progress);
  } catch (...) {
    session.lifeline().fail(handled_error(session.rank()));
  }
}

RingRun run_on_mpi(MpiSession& session, const Problem& config, const ProcessInputs& inputs,
                   bool gather_outputs, const Progress& progress) {
  MpiEngine engine(session.lifeline());
  return run_one_rank(session, config, inputs, gather_outputs, engine, progress);
}

}  // namespace ringscope
