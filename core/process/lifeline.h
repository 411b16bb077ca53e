// A control line between the processes of a run, beside whatever moves their blocks: a TCP
// connection from every rank to rank 0. It does what MPI and NCCL do not: a process that dies closes
// its socket, so that all others know within milliseconds who it was and where; a rank that is
// silent or stuck is found by its pulse; a failure that one rank notices ends the run of all.
//
// Rank 0 opens a door and hands its invitation (addresses, port and a random cookie) to the others
// by any means, such as one MPI_Bcast. Threads: each Lifeline has one of its own; all calls are
// thread-safe unless they say otherwise.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/run/watchdog.h"

namespace ringscope {

class LifelineDoor {
 public:
  LifelineDoor();  // listens on all addresses; throws RunError
  ~LifelineDoor();
  LifelineDoor(LifelineDoor&&) noexcept;

  // One line of printable ASCII: every address of this host that others might reach, port, cookie.
  const std::string& invitation() const { return invitation_; }

 private:
  friend class Lifeline;
  int socket_ = -1;
  std::string invitation_;
};

class Lifeline {
 public:
  // Called once, from the lifeline's thread, when the run has failed anywhere.
  using OnFailure = std::function<void(const RunError&)>;

  // Rank 0: returns when all others have joined. Throws RunError naming a rank that did not come
  // within the timeout.
  static std::unique_ptr<Lifeline> host(LifelineDoor door, int world_size, double timeout_s);
  // The others. Throws RunError when rank 0 cannot be reached within the timeout.
  static std::unique_ptr<Lifeline> join(const std::string& invitation, int rank, int world_size,
                                        double timeout_s);
  // Without leave() before it, the others take it for this process's death.
  ~Lifeline();

  int rank() const;
  int world_size() const;

  // From now on the pulse is sent along (every 0.2 s, and at once when pass or step change) and
  // judged, until unwatch(), which returns when no call of on_failure is under way or will come.
  // `pulse` must outlive that. Calls on_failure at once when the run has failed already.
  void watch(const RankPulse& pulse, OnFailure on_failure);
  void unwatch();

  // Tells everybody; the first failure that reaches rank 0 counts, for all. A rank and step that
  // are not in `error` are filled in with this rank and where its pulse is.
  void fail(const RunError& error);
  // The failure of the run, as agreed by rank 0, or as seen from here when rank 0 is gone.
  std::optional<RunError> failure() const;
  // Waits at most `seconds` for failure() to be there.
  std::optional<RunError> wait_for_failure(double seconds) const;

  // Small collectives, called by every rank in the same order, not while another is under way.
  // Throw the RunError of the run when it fails, also by the timeout, while they wait.
  std::vector<std::string> gather(const std::string& mine);  // at rank 0: all by rank; else empty
  std::string broadcast(const std::string& of_rank_0);       // what rank 0 gave

  // After a failure: what each rank that still lives has to leave behind (its recording, say), at
  // rank 0; nothing from the dead and from those that take longer than `seconds` in all.
  std::vector<std::optional<std::string>> last_words(const std::string& mine, double seconds);
  // Whether it falls to this rank to say what happened: rank 0 as long as it lives, else the
  // lowest-ranked one that is not known to be gone.
  bool is_speaker() const;

  // Orderly end, called by every rank after the last collective: returns when all have called it.
  // Throws the RunError of the run when it fails meanwhile.
  void leave();
  // The end of a rank that will end with an error, last of all: after the speaker has spoken. It tells
  // the others, who wait for that, but for no more than `seconds`. (A launcher kills a job of which
  // one process ends with an error, and the speaker would be among the killed.)
  void leave_after_failure(double seconds);

 private:
  class Impl;
  explicit Lifeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringscope
