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

#include <mpi.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/processes/mpi/mpi_calls.h"
#include "core/processes/supervision/lifeline.h"
#include "core/ring/seams.h"
#include "core/threads/engine.h"
#include "core/threads/watchdog.h"

namespace ringscope {

// ---
// One hop of a rank between MPI processes, shared by the thread that asked for it and the progress
// thread. The progress thread itself is in mpi_communicator.

// What all hops of a process share.
class MpiWaits {
  friend class MpiCommunicator;
  friend class HopHalf;
  friend class MpiHop;

  std::mutex mutex_;                  // guards everything below, and all hops' states
  std::condition_variable happened_;  // for the threads that wait for hops
  std::condition_variable has_work_;  // for the progress thread
  int waiting_ = 0;                   // threads in the wait of a hop
};

// The two ends of a rank's hop and the rank itself.
struct MpiPeers {
  int self = 0, to = 0, from = 0;
};

// One hop. The mutex of the waits guards what is not const or marked otherwise.
class MpiHop : public PendingOperation, public std::enable_shared_from_this<MpiHop> {
 public:
  // `pulse`, which may be null, shows when a thread waits for the hop.
  MpiHop(MpiWaits& waits, const MpiPeers& its_peers, const Exchange& its_exchange,
         std::initializer_list<Completion> after, RankPulse* pulse)
      : exchange(its_exchange),
        peers(its_peers),
        waits_(waits),
        pulse_(pulse),
        after_(after),
        sent_(!its_exchange.sends()),
        received_(!its_exchange.receives()) {}

  bool done() const override {
    const std::lock_guard lock(waits_.mutex_);
    return is_done();
  }
  void wait() override {
    if (done()) return;
    const ShownWait shown(pulse_, shared_from_this(), peers.from);
    std::unique_lock lock(waits_.mutex_);
    if (is_done()) return;
    ++waits_.waiting_;
    waits_.has_work_.notify_all();  // the progress thread looks more often from now on
    waits_.happened_.wait(lock, [&] { return is_done(); });
    --waits_.waiting_;
  }
  TransferTimes times() const override {
    const std::lock_guard lock(waits_.mutex_);
    return times_;
  }
  TransferTimes times_so_far() const override { return times(); }
  Awaited awaited() const override;

  // The rest is called by the progress thread.

  bool is_ready();
  void set_sent(std::int64_t begin, std::int64_t end, int to) {
    set(sent_, times_.send_begin, begin, times_.send_end, end, to);
  }
  void set_received(std::int64_t begin, std::int64_t end, int from) {
    set(received_, times_.recv_begin, begin, times_.recv_end, end, from);
  }

  const Exchange exchange;
  const MpiPeers peers;

 private:
  bool is_done() const { return sent_ && received_; }
  void set(bool& flag, std::int64_t& begin, std::int64_t its_begin, std::int64_t& end,
           std::int64_t its_end, int peer) {
    const std::lock_guard lock(waits_.mutex_);
    flag = true;
    begin = its_begin;
    end = its_end;
    times_.last_peer = peer;
    if (is_done()) waits_.happened_.notify_all();
  }

  MpiWaits& waits_;
  RankPulse* const pulse_;
  std::vector<Completion> after_;
  bool sent_, received_;
  TransferTimes times_;
};

// ---
// The two halves of a rank's hops, sends and receives. mpi_communicator.h describes their notes.

// What one side of a transfer tells the other.
struct HopNote {
  std::int64_t bytes = 0;
  std::int32_t pass = 0, payload = 0, step = 0, owner = 0;

  bool operator==(const HopNote&) const = default;

  // Describe the note, with pass and step only where they differ from those of `other`.
  std::string text(const HopNote& other) const;
};

// One half of a rank's hops of one way, one hop after the other. The progress thread uses it; new hops are
// added under the mutex of the waits.
class HopHalf {
 public:
  HopHalf(MpiWaits& waits, int rank, Way way, Index message_bytes, RankPulse* pulse)
      : rank_(rank), way_(way), message_bytes_(message_bytes), waits_(waits), pulse_(pulse) {}
  virtual ~HopHalf() = default;

  // Do what can be done now, and return whether there was anything. Throw RunError.
  bool look();

  void add(const std::shared_ptr<MpiHop>& hop) { hops_.push_back(hop); }  // under the mutex
  bool has_new_hop() const { return hop_ == nullptr && !hops_.empty(); }  // under the mutex
  bool is_idle() const { return hop_ == nullptr; }
  bool is_moving() const { return stage_ == Stage::moving; }

 protected:
  enum class Stage { not_ready, agreeing, moving };

  // Return the rank at the other end of `hop`.
  virtual int peer_of(const MpiHop& hop) const = 0;
  // Post what needs no word from the peer, and set mine_.
  virtual void start(const Exchange& hop) = 0;
  // Go on after the peer's note has come, which is theirs_.
  virtual void agreed(const Exchange& hop) = 0;
  virtual void finished(MpiHop& hop, std::int64_t begin, std::int64_t end) = 0;

  void exchange_notes(Tag mine, Tag theirs);
  // Call post(from, bytes, request) for each message of a block.
  template <class Post>
  void in_messages(Index bytes, const Post& post) {
    for (Index from = 0; from < bytes; from += message_bytes_)
      post(from, static_cast<int>(min_of(bytes - from, message_bytes_)),
           &requests_.emplace_back(MPI_REQUEST_NULL));
  }
  // Throw the RunError that both sides find, in the same words.
  void compare(const HopNote& place, int receiver, const HopNote& offer, int sender) const;

  const int rank_;
  const Way way_;
  const Index message_bytes_;
  int peer_ = -1;  // of the hop under way
  HopNote mine_, theirs_;

 private:
  bool look_for_note();
  bool look_for_blocks();

  MpiWaits& waits_;
  RankPulse* const pulse_;
  std::deque<std::shared_ptr<MpiHop>> hops_;  // not begun yet; guarded by the mutex
  std::shared_ptr<MpiHop> hop_;               // under way
  Stage stage_ = Stage::not_ready;
  MPI_Request note_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> requests_;  // everything else
  std::vector<int> completed_;
  std::int64_t begin_ns_ = 0;
};

class Sending : public HopHalf {
 public:
  using HopHalf::HopHalf;

 private:
  int peer_of(const MpiHop& hop) const override { return hop.peers.to; }
  void start(const Exchange& hop) override;
  void agreed(const Exchange& hop) override;
  void finished(MpiHop& hop, std::int64_t begin, std::int64_t end) override;
};

class Receiving : public HopHalf {
 public:
  using HopHalf::HopHalf;

 private:
  int peer_of(const MpiHop& hop) const override { return hop.peers.from; }
  void start(const Exchange& hop) override;
  void agreed(const Exchange& hop) override;
  void finished(MpiHop& hop, std::int64_t begin, std::int64_t end) override;
};

// ---

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
