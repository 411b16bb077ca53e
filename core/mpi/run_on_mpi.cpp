#include "core/mpi/run_on_mpi.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/mpi/clock.h"
#include "core/mpi/mpi_calls.h"
#include "core/mpi/mpi_communicator.h"
#include "core/mpi/rank_report.h"
#include "core/run/cpu_engine.h"
#include "core/run/rank.h"
#include "core/run/rows.h"
#include "core/run/run.h"

namespace ringscope {

namespace {

// ---
// Rows on their way between rank 0 and another rank, as one stream of values. Neither end holds
// more of it than two messages of 256 KiB.

constexpr Index kMessageValues = 1 << 16;

// Return the number of values in `rows` of all the tensors.
Index values_in(const AttentionShape& shape, std::span<const Tensor> tensors,
                const LocalRows& rows) {
  Index total = 0;
  for (const Tensor tensor : tensors)
    total += heads_of(shape, tensor) * rows.size() * width_of(shape, tensor);
  return total;
}

// One end of a stream of `total` values, whose other end is the rank `peer`.
class RowStream {
 protected:
  RowStream(const AttentionShape& shape, int peer, Index total, ProcessWait& wait)
      : shape_(shape), peer_(peer), left_(total), wait_(wait) {}
  ~RowStream() {
    for (std::size_t i = 0; i < 2; ++i)
      if (requests_[i] != MPI_REQUEST_NULL) keep_until_exit(std::move(messages_[i]));
  }
  void await(std::size_t message) { wait_.until_complete(requests_[message], peer_); }

  AttentionShape shape_;
  int peer_;
  Index left_;  // values that no message has taken yet
  ProcessWait& wait_;
  std::array<std::vector<float>, 2> messages_;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::size_t current_ = 0;  // the message that is being filled or read
};

class RowSender : public RowSink, private RowStream {
 public:
  RowSender(const AttentionShape& shape, int to, Index total, ProcessWait& wait)
      : RowStream(shape, to, total, wait) {
    for (auto& message : messages_)
      message.reserve(static_cast<std::size_t>(min_of(total, kMessageValues)));
  }

  void put(const RowsOfHead& piece, const float* from) override {
    Index count = piece.count() * width_of(shape_, piece.tensor);
    if (count > left_) throw RunError("more rows were given than were agreed on");
    while (count > 0) {
      std::vector<float>& message = messages_[current_];
      const Index fits = min_of(count, kMessageValues - static_cast<Index>(message.size()));
      message.insert(message.end(), from, from + fits);
      from += fits;
      count -= fits;
      left_ -= fits;
      if (static_cast<Index>(message.size()) == kMessageValues || left_ == 0) send();
    }
  }

  // Return when all values have left.
  void finish() {
    if (left_ != 0) throw RunError("fewer rows were given than were agreed on");
    for (const std::size_t message : {0, 1}) await(message);
  }

 private:
  void send() {
    const std::vector<float>& message = messages_[current_];
    check_mpi(MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_FLOAT, peer_,
                        number_of(Tag::rows), MPI_COMM_WORLD, &requests_[current_]),
              "MPI_Isend");
    current_ = 1 - current_;
    await(current_);
    messages_[current_].clear();
  }
};

class RowReceiver : public RowSource, private RowStream {
 public:
  RowReceiver(const AttentionShape& shape, int from, Index total, ProcessWait& wait)
      : RowStream(shape, from, total, wait) {
    post(0);
    post(1);
  }

  void get(const RowsOfHead& piece, float* to) override {
    auto count = static_cast<std::size_t>(piece.count() * width_of(shape_, piece.tensor));
    while (count > 0) {
      const std::vector<float>& message = messages_[current_];
      if (message.empty()) throw RunError("more rows were asked for than were agreed on");
      if (at_ == 0) await(current_);
      const std::size_t here = std::min(count, message.size() - at_);
      to = std::copy_n(message.data() + at_, here, to);
      count -= here;
      at_ += here;
      if (at_ < message.size()) continue;
      post(current_);
      current_ = 1 - current_;
      at_ = 0;
    }
  }

 private:
  void post(std::size_t message) {
    const Index count = min_of(left_, kMessageValues);
    left_ -= count;
    messages_[message].resize(static_cast<std::size_t>(count));
    if (count == 0) return;
    check_mpi(MPI_Irecv(messages_[message].data(), static_cast<int>(count), MPI_FLOAT, peer_,
                        number_of(Tag::rows), MPI_COMM_WORLD, &requests_[message]),
              "MPI_Irecv");
  }

  std::size_t at_ = 0;  // in messages_[current_]
};

// ---
// One rank's part of a run, from its memory to its report.
class ProcessRun {
 public:
  ProcessRun(MpiSession& session, const Problem& config, Engine& engine)
      : config_(config),
        engine_(engine),
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
    line_.watch(rank_->pulse(), [this](const RunError& error) { stop(error); });
    wait_.emplace(engine_, rank_->pulse());
    take_inputs(inputs);
    go_round(progress);
    if (gather_outputs) give_outputs();
    gather_reports();
    return std::move(run_);
  }

  // Tell all ranks, and throw rank 0's verdict on the run.
  [[noreturn]] void fail(const RunError& error) {
    const RunError agreed = agreed_failure(line_, error);
    stop(agreed);
    if (rank_engine_ != nullptr) {
      try {
        rank_engine_->finish_failed();
      } catch (const std::exception&) {  // less is recorded then
      }
    }
    rank_engine_.reset();
    line_.unwatch();
    report_.end_ns = monotonic_ns() - report_.origin_ns;
    const auto words = line_.last_words(pack(report()), kFailureSeconds);
    if (rank_ != nullptr) keep_until_exit(std::move(rank_));
    if (rank_number_ != 0) throw agreed;
    for (std::size_t r = 0; r < words.size(); ++r)
      if (words[r]) add(static_cast<int>(r), *words[r]);
    run_.recording.info.failure = RunEnd{agreed.what(), agreed.rank(), agreed.step()};
    throw RunFailure(agreed, std::move(run_.recording));
  }

 private:
  LocalRows rows_of(int rank) const { return problem_.partition.rows_of(rank); }

  // End every wait, and the work of a long step.
  void stop(const RunError& error) {
    engine_.fail(error);
    if (rank_ != nullptr) rank_->pulse().stop();
  }

  // Rank 0 serves the other ranks one after the other, then itself.
  void take_inputs(const ProcessInputs& inputs) {
    if (!inputs.is_scattered) return rank_->take_inputs(*inputs.generated);
    const AttentionShape& shape = config_.shape;
    const auto tensors = input_tensors(config_.backward);
    if (rank_number_ != 0) {
      RowReceiver source(shape, 0, values_in(shape, tensors, rows_of(rank_number_)), *wait_);
      return rank_->take_inputs(source);
    }
    std::vector<float> values(static_cast<std::size_t>(piece_values(shape)));
    for (int peer = 1; peer < config_.world_size; ++peer) {
      const LocalRows rows = rows_of(peer);
      RowSender sender(shape, peer, values_in(shape, tensors, rows), *wait_);
      for (const Tensor tensor : tensors)
        for_each_piece(shape, tensor, rows, [&](const RowsOfHead& piece) {
          inputs.at_rank_0->get(piece, values.data());
          sender.put(piece, values.data());
        });
      sender.finish();
    }
    rank_->take_inputs(*inputs.at_rank_0);
  }

  void go_round(const Progress& progress) {
    rank_engine_ = engine_.make(*rank_, listener(progress));
    report_.before = exchange_clocks(rank_number_, config_.world_size, *wait_);
    MPI_Request barrier = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &barrier), "MPI_Ibarrier");
    wait_->until_complete(barrier, -1);

    report_.begin_ns = rank_->recorder().now_ns();
    rank_->run(rank_engine_->communicator(), rank_engine_->backend());
    rank_engine_->finish();
    report_.end_ns = rank_->recorder().now_ns();

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
    const auto tensors = output_tensors(config_.backward);
    if (rank_number_ != 0) {
      RowSender sink(shape, 0, values_in(shape, tensors, rows_of(rank_number_)), *wait_);
      rank_->give_outputs(sink);
      return sink.finish();
    }
    run_.outputs.resize(shape, config_.backward);
    WholeOutputs sink(shape, run_.outputs);
    rank_->give_outputs(sink);
    std::vector<float> values(static_cast<std::size_t>(piece_values(shape)));
    for (int peer = 1; peer < config_.world_size; ++peer) {
      const LocalRows rows = rows_of(peer);
      RowReceiver source(shape, peer, values_in(shape, tensors, rows), *wait_);
      for (const Tensor tensor : tensors)
        for_each_piece(shape, tensor, rows, [&](const RowsOfHead& piece) {
          source.get(piece, values.data());
          sink.put(piece, values.data());
        });
    }
  }

  const RankReport& report() {
    if (rank_ == nullptr) return report_;
    const std::int64_t clock_error_ns = report_.events.clock_error_ns;
    report_.events = rank_->recorded();
    report_.events.clock_error_ns = clock_error_ns;
    return report_;
  }

  void gather_reports() {
    const std::vector<std::string> reports = line_.gather(pack(report()));
    for (std::size_t r = 0; r < reports.size(); ++r) add(static_cast<int>(r), reports[r]);
    run_.engine_notes = engine_.notes();
  }

  void add(int rank, const std::string& bytes) {
    add_report(run_, rank, unpack_rank_report(bytes), report_.origin_ns);
  }

  const Problem& config_;
  Engine& engine_;
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
  } catch (const std::exception&) {
    run.fail(handled_error(session.rank()));
  }
}

RingRun run_on_mpi(MpiSession& session, const Problem& config, const ProcessInputs& inputs,
                   bool gather_outputs, const Progress& progress) {
  MpiEngine engine(session.lifeline());
  return run_one_rank(session, config, inputs, gather_outputs, engine, progress);
}

}  // namespace ringscope
