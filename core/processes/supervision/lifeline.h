// A control line between the processes of a run: a TCP connection from every rank to rank 0, beside
// whatever moves their blocks. MPI and NCCL do not do this: a process that dies closes its socket,
// so all others know within milliseconds who it was and where; a pulse reveals a rank that is silent
// or stuck; a failure that one rank notices ends the processes of all.
//
// It reaches from the ranks' meeting to their common end. Each Lifeline has a thread of its own, which
// ends the process when the run fails, whatever the other threads wait for. So after a failure nobody
// calls MPI any more, whose state is undefined then, and no wait for a peer needs an end of its own.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/processes/supervision/meeting.h"
#include "core/threads/watchdog.h"

namespace ringscope {

class Lifeline {
 public:
  // Called once, from the lifeline's thread, when the run has failed. The process ends by _exit(status)
  // when it returns. `speaks` holds on the one rank that tells people: rank 0, or without it rank 1.
  using OnFailure = std::function<void(const RunError& error, int status, bool speaks)>;

  // Start rank 0's line, and return when all others have joined.
  static std::unique_ptr<Lifeline> host(LifelineDoor door, int world_size, double timeout_s,
                                        OnFailure on_failure);
  // Start another rank's line. Throw RunError when rank 0 cannot be reached.
  static std::unique_ptr<Lifeline> join(const std::string& invitation, int rank, int world_size,
                                        double timeout_s, OnFailure on_failure);
  // Without leave() before it, the others take this for the process's death.
  ~Lifeline() { stop(); }

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Have `pulse` sent (every 0.2 s, and at once when pass or step changes) and judged, until unwatch().
  void watch(RankPulse& pulse) { show(pulse); }
  void unwatch() { show(between_runs_); }
  // Return the pulse that is sent: the watched one, or one of the time between watched runs.
  RankPulse& pulse() { return *pulse_; }
  // Say what the rank does outside of the ring, for messages: "in MPI_Finalize". The others know it when
  // this returns.
  void doing(const char* what);

  // End the processes of all ranks: with 2 for an InputError, otherwise with 3 and an error that names
  // this rank and its pulse's step if it names none. The first failure that reaches rank 0 counts.
  [[noreturn]] void fail(const std::exception& error);

  // End in order; every rank calls it. Return when all have called it.
  void leave();

 private:
  using Lock = std::unique_lock<std::mutex>;

  // Where a rank is, as it says itself.
  struct Place {
    RankStatus where;
    std::string doing;  // "" in the ring

    bool differs(const Place& other) const {
      return where.pass != other.where.pass || where.step != other.where.step ||
             doing != other.doing;
    }
    Message failure(int rank, std::string what) const;
  };

  struct Seat {  // one rank, as seen from here
    std::unique_ptr<Connection> connection;
    bool has_joined = false, has_left = false, is_gone = false;
    double heard_at = 0;
    Place last;
  };

  Lifeline(int rank, int world_size, double timeout_s, OnFailure on_failure);
  void start();
  void show(RankPulse& pulse);
  void stop();
  void wake();
  bool all_peers(bool Seat::*flag) const {
    return std::ranges::all_of(peers_, [&](int r) { return seats_[r].*flag; });
  }
  template <class F>
  void for_connections(const F& f);

  // The functions of the thread, which owns the sockets: only it reads and closes them. Rank 0 decides
  // what the run's failure is. The others report to it, and decide only that rank 0 itself is lost.
  void run();
  void poll_sockets(Lock& lock);
  void admit_joining_ranks();
  void take_in(int rank, std::unique_ptr<Connection> connection);
  void take(int from, const Message& message);
  void lose(int rank);
  void send_status();
  void judge();
  void settle(const Message& failure, bool speaks);
  [[noreturn]] void end_process(Lock& lock);
  void linger();
  double status_period() const { return std::min(0.2, timeout_s_ / 5); }
  Place own_place() const;
  Place place_of(int rank) const { return rank == rank_ ? own_place() : seats_[rank].last; }

  const int rank_;
  const int world_size_;
  const double timeout_s_;
  const OnFailure on_failure_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  std::vector<int> peers_;          // the other ends: all others on rank 0, rank 0 on the others
  std::optional<Message> told_;     // by fail()
  std::optional<Message> verdict_;  // the run has failed
  bool has_told_ = false, speaks_ = false, is_parting_ = false, has_left_ = false,
       is_stopping_ = false;

  RankPulse between_runs_;
  RankPulse* pulse_ = &between_runs_;
  std::uint64_t progress_before_ = 0;  // of pulses that were watched before
  const char* doing_ = "";

  Descriptor wake_read_, wake_write_;
  std::optional<Acceptor> acceptor_;
  std::thread thread_;

  // When this round of the thread began to look at the sockets. What had arrived by then is read
  // before any rank is judged, so a pause of this process counts against no rank.
  double now_ = steady_seconds();
  const double begin_ = now_;
  double status_due_ = 0;
  Place sent_;
  std::optional<StallJudge> judge_;  // on rank 0, when all have joined
};

}  // namespace ringscope
