// A control line between the processes of a run: a TCP connection from every rank to rank 0, beside
// whatever moves their blocks. MPI and NCCL do not do this: a process that dies closes its socket,
// so all others know within milliseconds who it was and where; the pulse reveals a rank that is
// silent or stuck; a failure that one rank notices ends the run of all.
//
// Rank 0 opens a door and hands its invitation (addresses, port and two secrets) to the others by
// any means, such as one MPI_Bcast. Each Lifeline has a thread of its own. All calls are
// thread-safe unless their comments say otherwise.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/run/watchdog.h"

namespace ringscope {

class LifelineDoor {
 public:
  LifelineDoor();  // listens on all addresses; throws RunError

  // Return one line of printable ASCII: this host's addresses that others might reach, port,
  // secrets.
  const std::string& invitation() const { return invitation_; }

 private:
  friend class Lifeline;
  Descriptor socket_;
  std::string invitation_;
};

class Lifeline {
 public:
  // Called once, from the lifeline's thread, when the run has failed anywhere.
  using OnFailure = std::function<void(const RunError&)>;

  // Start rank 0's line, and return when all others have joined. Throw RunError naming a rank that
  // did not come within the timeout.
  static std::unique_ptr<Lifeline> host(LifelineDoor door, int world_size, double timeout_s);
  // Start another rank's line. Throw RunError when rank 0 cannot be reached within the timeout.
  static std::unique_ptr<Lifeline> join(const std::string& invitation, int rank, int world_size,
                                        double timeout_s);
  // Without leave() before it, the others take this for the process's death.
  ~Lifeline();

  int rank() const;
  int world_size() const;

  // Send the pulse (every 0.2 s, and at once when pass or step changes) and have it judged, until
  // unwatch(), which returns when no call of on_failure is under way or will come. `pulse` must
  // outlive that. Call on_failure at once when the run has failed already.
  void watch(const RankPulse& pulse, OnFailure on_failure);
  void unwatch();

  // Tell all ranks of a failure. The first one that reaches rank 0 counts, for all. If `error`
  // lacks rank or step, this rank and its pulse's step are filled in.
  void fail(const RunError& error);
  // Return the run's failure, as decided by rank 0, or as seen from here when rank 0 is gone.
  std::optional<RunError> failure() const;
  // Return failure(), after waiting for it at most `seconds`.
  std::optional<RunError> wait_for_failure(double seconds) const;

  // Small collectives, which every rank calls in the same order, one at a time. While they wait
  // they throw the run's RunError when it fails, also by the timeout.
  std::vector<std::string> gather(const std::string& mine);  // at rank 0: all by rank; else empty
  std::string broadcast(const std::string& of_rank_0);       // what rank 0 gave

  // Return at rank 0, after a failure, what each living rank leaves behind, such as its recording.
  // The dead, and those that take longer than `seconds` in all, leave nothing.
  std::vector<std::optional<std::string>> last_words(const std::string& mine, double seconds);
  // Return whether this rank must tell what happened. That is rank 0's duty as long as it lives,
  // and then that of the lowest rank that is not known to be gone.
  bool is_speaker() const;

  // End in order; every rank calls it after the last collective. Return when all have called it.
  // Throw the run's RunError when it fails meanwhile.
  void leave();
  // End a rank that will exit with an error, as its last call and after the speaker has spoken. The
  // others wait to be told so, but at most `seconds`. (A launcher kills a job of which one process
  // ends with an error, and that would kill the speaker, too.)
  void leave_after_failure(double seconds);

 private:
  class Impl;
  explicit Lifeline(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringscope
