// Communicator between MPI processes. MPI moves data only while somebody calls it, so each rank has a
// progress thread that makes all its calls: it starts transfers, looks whether they have ended, and
// sleeps in between, so that it takes next to nothing from the thread that computes.
//
// A hop is one send, to the next rank, and one receive, from the previous one, side by side:
//
//   sender      block is there  -> offer -------------------> ...            both known: block ->
//   receiver    buffer is free, its receive posted -> place -> ...           both known: block comes
//
// Offer and place are notes of what the one is about to send and the other expects. They are
// compared before any data moves: a mismatch is an error that names both ranks, never a truncated
// message. And they say when both sides were ready, which is when the transfer begins; what came
// before was waiting. Sends and receives of a rank go each in the order of its hops.
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

// The progress thread's name; it is there from a rank's first hop on.
inline constexpr char kProgressThread[] = "ring-progress";

// One rank's place in the ring; used by that rank's thread. From the first hop until its destruction
// nobody else may call MPI, but for communicators of the same MpiWaits: a process may be in several
// rings, no two of which have another rank in common (they could not tell their messages apart).
class MpiCommunicator : public Communicator {
 public:
  struct Options {
    // Blocks go in messages of at most this many bytes: MPI counts bytes in an int, and a rank whose
    // pulse stands still during a long transfer would be taken for stuck.
    Index message_bytes = Index{64} << 20;
    // Advanced with each of them; says whom the rank waits for when it waits for a hop.
    RankPulse* pulse = nullptr;
    // Those of the ring, in its order, by their numbers in MPI_COMM_WORLD; empty: all.
    std::vector<int> world_ranks;
    // Called by the progress thread with what it finds wrong, once fail() has been.
    std::function<void(const RunError&)> on_failure;
  };

  // `rank` of `world_size` in the ring. `waits` must outlive it, the memory that hops name too, and
  // after a failure be kept until the process ends. Errors call ranks by their numbers in
  // MPI_COMM_WORLD.
  MpiCommunicator(MpiWaits& waits, int rank, int world_size, Options options);
  ~MpiCommunicator() override;  // waits for the hops that were asked for, or for the failure

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  Completion exchange(const Exchange& hop, std::initializer_list<Completion> after) override;

 private:
  struct Work;

  void run_progress();
  bool wait_for_work(bool moved);

  MpiWaits& waits_;
  const int rank_;
  const int world_size_;
  const Options options_;
  const MpiNeighbours neighbours_;
  std::unique_ptr<Work> work_;
  std::thread progress_;
};

// ---
// Ranks on CPUs, a process each: blocks move by MPI, attended by the CPU kernels.

class MpiEngine : public Engine {
 public:
  // `line`, which hears of what the transfers find wrong, must outlive it.
  explicit MpiEngine(Lifeline& line) : line_(line) {}

  std::string_view name() const override { return "mpi"; }
  MemorySpace& memory() override { return host_memory(); }
  bool has_pulses() const override { return true; }
  // This process's rank.
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  // For communicators that work beside it and end with it.
  MpiWaits& waits() { return waits_; }
  void fail(const RunError& error) override { waits_.fail(error); }
  void throw_if_failed() override { waits_.throw_if_failed(); }

 private:
  Lifeline& line_;
  MpiWaits waits_;
};

}  // namespace ringscope
