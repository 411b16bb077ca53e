// Declares the inside of a Lifeline: how connections come about, and the state and thread behind
// them. Callers see only lifeline.h.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/process/invitation.h"
#include "core/process/lifeline.h"
#include "core/process/socket.h"
#include "core/process/wire.h"

namespace ringscope {

// ---
// How connections to rank 0 are made, and how rank 0 tells the ranks of its run from strangers.
// What follows on a connection is in lifeline_thread.cpp.

// Connect to rank 0 at all addresses of the invitation at once, and return the first connection
// with the right answer. Throw RunError naming rank 0 when there is none within the timeout.
Descriptor reach_rank_0(const Invitation& invitation, int rank, int world_size, double timeout_s);

// Accepts connections at rank 0. A connection that has not yet identified itself may send as many
// bytes as a JoinRequest has. One that sends something else, or nothing for a while, is dropped.
class Acceptor {
 public:
  struct JoiningRank {
    wire::JoinRequest request;
    Descriptor socket;
  };

  Acceptor(Descriptor listener, const Invitation& invitation, int world_size);

  // Return the sockets to poll for reading. admit() is needed only when one of these has something.
  std::vector<int> sockets(double now) const;
  // Take new connections, and return those that have shown the right secret.
  std::vector<JoiningRank> admit(double now);
  std::string answer() const;  // the frame that an admitted rank is sent

 private:
  struct Pending {
    Descriptor socket;
    std::string said;
    double since;
  };

  Descriptor listener_;
  Invitation invitation_;
  std::size_t room_;
  double rests_until_ = 0;  // while the system has no free descriptors
  std::vector<Pending> pending_;
};

// ---
// The state behind a Lifeline, and the thread that owns its sockets. Only the thread reads and
// closes them; calls leave messages and wait for what the thread brings. Rank 0 decides what the
// run's failure is. The others report to it, and decide only that rank 0 itself is lost.
//
// lifeline.cpp has the calls, lifeline_thread.cpp the thread with frames in and out, and
// lifeline_judging.cpp the decision who has failed.

class Lifeline::Impl {
 public:
  // What a call waits for from every rank at the other end of a connection.
  enum class Awaited { nothing, arrival, message, farewell };

  Impl(int rank, int world_size, double timeout_s);
  ~Impl();

  void open_door(Descriptor listener, const Invitation& invitation);  // rank 0
  void take_in(int rank, Descriptor socket);                          // connected to it
  void start();
  // End the thread and close the sockets. After a failure, first let the others read for a moment
  // what was sent.
  void stop();

  // Wait for `what`, and throw the run's failure.
  void await(std::unique_lock<std::mutex>& lock, Awaited what);
  // Report `error`, with rank and step filled in where they are missing.
  void fail_here(const RunError& error);
  void send_to_all(wire::Type part, wire::Type last, std::shared_ptr<const std::string> text);
  void throw_if_failed() const;
  bool all_peers(const std::function<bool(int)>& holds) const;
  void wake() { wake_up(wake_.get()); }

  struct Seat {  // one rank, as seen from here
    std::unique_ptr<Connection> connection;
    bool is_joined = false;
    bool is_gone = false;       // dead or silent, so that nobody waits for it any more
    bool has_reported = false;  // that something failed
    bool has_left = false;
    double heard_at = 0;
    double excused_at = 0;  // last time known to be busy; collectives are patient from then on
    wire::Status status;
    bool is_done_for_judge = false;
    std::deque<std::string> inbox;
    std::string message, words;  // parts received so far
    std::optional<std::string> last_words;
  };

  Seat& seat_of(int rank) { return seats_[rank]; }
  const Seat& seat_of(int rank) const { return seats_[rank]; }
  // Call f(connection) for the peers that are there.
  template <class F>
  void for_connections(F&& f) {
    for (const int r : peers_)
      if (Connection* connection = seat_of(r).connection.get()) f(*connection);
  }
  // Take the first message that `rank` has sent.
  std::string take_message(int rank);

  const int rank_;
  const int world_size_;
  const double timeout_s_;

  mutable std::mutex mutex_;  // guards what follows
  mutable std::condition_variable changed_;
  std::vector<Seat> seats_;
  std::vector<int> peers_;  // the other ends: all others on rank 0, rank 0 on the others

  std::optional<wire::Failure> verdict_;  // set when the run has failed
  bool is_verdict_from_rank_0_ = false;
  bool has_left_ = false;
  bool is_buried_ = false;  // on rank 0: others took it for lost
  bool has_rank_0_spoken_ = false;
  bool are_words_heard_ = false;  // by rank 0

  const RankPulse* pulse_ = nullptr;
  OnFailure on_failure_;
  std::uint64_t watch_ = 0;  // number of calls of watch()
  bool is_call_due_ = false;
  bool is_calling_ = false;

  Awaited awaited_ = Awaited::nothing;
  double awaited_since_ = 0;

  std::thread::id thread_id() const { return thread_.get_id(); }

 private:
  // The functions of the thread.
  void run();
  void poll_sockets(std::unique_lock<std::mutex>& lock);
  void admit_joining_ranks();
  void take_frame(int from, wire::Type type, std::string_view payload);
  void take_frame_of_rank_0(wire::Type type, std::string_view payload);
  void take_frame_at_rank_0(int from, wire::Type type, std::string_view payload);
  void send_status();
  void call_back(std::unique_lock<std::mutex>& lock);
  void linger(std::unique_lock<std::mutex>& lock);
  double seconds_to_sleep(double now) const;
  double status_period() const;
  wire::Status own_status() const;

  // The functions that judge, all at now_.
  void judge();
  void judge_silence();
  void judge_progress();
  void judge_absence();
  void lose(int rank);
  void hold(const wire::Failure& failure);    // until no death can explain it any more
  void report(const wire::Failure& failure);  // to rank 0
  void settle(wire::Failure failure);
  RankStatus last_status(int rank) const;
  wire::Failure failure_of(int rank, bool is_gone, const std::string& what) const;
  bool has(int rank, Awaited what) const;
  bool is_excused(const Seat& seat) const;

  Descriptor wake_;
  std::optional<Acceptor> acceptor_;
  std::thread thread_;
  bool is_stopping_ = false;

  // When this round of the thread began to look at the sockets. What had arrived by then is read
  // before any rank is judged, so a pause of this process counts against no rank.
  double now_ = 0;
  double status_due_ = 0;
  wire::Status sent_status_;
  std::optional<StallJudge> stall_judge_;
  std::uint64_t judged_watch_ = 0;
  bool has_reported_ = false;
  std::optional<wire::Failure> held_;
  double held_until_ = 0;
};

}  // namespace ringscope
