// Communicator between MPI processes. MPI moves data only during calls, so each rank has a progress
// thread that makes all its calls. It starts transfers, looks whether they have ended, and sleeps
// in between, so that it takes hardly any time from the thread that computes.
//
// A hop is one send to a rank, by default the next, and, side by side, one receive from another:
//
//   sender      block is there  -> offer -------------------> ...           both known: block ->
//   receiver    buffer is free, its receive posted -> place -> ...          both known: block comes
//
// Offer and place are notes of what the one side is about to send and the other expects. They are
// compared before any data moves, so a mismatch is an error that names both ranks, never a
// truncated message. They also tell when both sides were ready, which is when the transfer begins;
// the time before was waiting. Within a way, a rank's sends follow the order of its hops, and so do its
// receives; different ways have tags of their own and move side by side.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/mpi/mpi_hop.h"
#include "core/ring/seams.h"
#include "core/run/watchdog.h"

#include "core/process/lifeline.h"
#include "core/run/engine.h"

namespace ringscope {

// Name of the progress thread, which exists from a rank's first hop on.
inline constexpr char kProgressThread[] = "ring-progress";

// One rank's place in the ring, used by that rank's thread. From the first hop until its
// destruction nobody else may call MPI, except communicators of the same MpiWaits. A process may be
// in several rings if no two share another rank, because these could not tell their messages apart.
class MpiCommunicator : public Communicator {
 public:
  struct Options {
    // Blocks go in messages of at most this many bytes, because MPI counts bytes in an int, and
    // because a rank whose pulse stood still during a long transfer would be taken for stuck.
    Index message_bytes = Index{64} << 20;
    // Advanced with each message; shows for whom the rank waits while it waits for a hop.
    RankPulse* pulse = nullptr;
    // The ring's ranks in ring order, by their numbers in MPI_COMM_WORLD; empty: all ranks.
    std::vector<int> world_ranks;
    // Called by the progress thread with the error that it finds, after fail().
    std::function<void(const RunError&)> on_failure;
  };

  // Join the ring as `rank` of `world_size`. `waits` must outlive it. So must the memory that hops
  // name, which after a failure is kept until the process ends. Errors name MPI_COMM_WORLD's ranks.
  MpiCommunicator(MpiWaits& waits, int rank, int world_size, Options options);
  ~MpiCommunicator() override;  // waits for the requested hops, or for the failure

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  struct Work;

  int world_rank(int rank) const {
    return options_.world_ranks.empty() ? rank : options_.world_ranks[rank];
  }
  void run_progress();
  bool wait_for_work(bool moved);

  MpiWaits& waits_;
  const int rank_;
  const int world_size_;
  const Options options_;
  const int self_;  // in MPI_COMM_WORLD
  std::unique_ptr<Work> work_;
  std::thread progress_;
};

// ---
// The engine for ranks on CPUs, one process each: MPI moves blocks, and the CPU kernels attend.

class MpiEngine : public Engine {
 public:
  // `line` must outlive it, and is told what the transfers find wrong.
  explicit MpiEngine(Lifeline& line) : line_(line) {}

  std::string_view name() const override { return "mpi"; }
  MemorySpace& memory() override { return host_memory(); }
  bool has_pulses() const override { return true; }
  // Make the engine of this process's rank.
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  // Return the waits for communicators that work beside the engine's and end with them.
  MpiWaits& waits() { return waits_; }
  void fail(const RunError& error) override { waits_.fail(error); }
  void throw_if_failed() override { waits_.throw_if_failed(); }

 private:
  Lifeline& line_;
  MpiWaits waits_;
};

}  // namespace ringscope
