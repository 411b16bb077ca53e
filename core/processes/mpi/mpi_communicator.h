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

#include <exception>
#include <functional>
#include <memory>
#include <thread>

#include "core/base/error.h"
#include "core/processes/mpi/mpi_hop.h"
#include "core/processes/supervision/lifeline.h"
#include "core/ring/seams.h"
#include "core/threads/engine.h"
#include "core/threads/watchdog.h"

namespace ringscope {

// One rank's place in the ring, used by that rank's thread. From the first hop until its
// destruction nobody else may call MPI.
class MpiCommunicator : public Communicator {
 public:
  struct Options {
    // Blocks go in messages of at most this many bytes, because MPI counts bytes in an int, and
    // because a rank whose pulse stood still during a long transfer would be taken for stuck.
    Index message_bytes = Index{64} << 20;
    // Advanced with each message; shows for whom the rank waits while it waits for a hop.
    RankPulse* pulse = nullptr;
    // Called by the progress thread with the error that it finds. If it returns, hops never end.
    std::function<void(const std::exception&)> on_failure;
  };

  // Join the ring as `rank` of `world_size`. `waits` must outlive it, and so must the memory that hops
  // name.
  MpiCommunicator(MpiWaits& waits, int rank, int world_size, Options options);
  ~MpiCommunicator() override;  // waits for the requested hops

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
  std::unique_ptr<Work> work_;
  std::thread progress_;
};

// ---
// The engine for ranks on CPUs, one process each: MPI moves blocks, and the CPU kernels attend.

class MpiEngine : public Engine {
 public:
  // `line` must outlive it. What the transfers find wrong ends the run there.
  explicit MpiEngine(Lifeline& line) : line_(line) {}

  std::string_view name() const override { return "mpi"; }
  MemorySpace& memory() override { return host_memory(); }
  bool has_pulses() const override { return true; }
  // Make the engine of this process's rank.
  std::unique_ptr<RankEngine> make(Rank& rank, const Listener& listener) override;
  void fail(const RunError& error) override { line_.fail(error); }
  void throw_if_failed() override {}

 private:
  Lifeline& line_;
  MpiWaits waits_;
};

}  // namespace ringscope
