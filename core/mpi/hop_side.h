// The two halves of a rank's hops, sends and receives; see mpi_communicator.h for what they say to
// each other.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/mpi/mpi_calls.h"
#include "core/mpi/mpi_hop.h"
#include "core/ring/watch.h"

namespace ringscope {

// What one side of a transfer says to the other.
struct HopNote {
  std::int64_t bytes = 0;
  std::int32_t pass = 0, payload = 0, step = 0, owner = 0;

  bool operator==(const HopNote&) const = default;

  // Pass and step only where they differ from those of `other`.
  std::string text(const HopNote& other) const;
};

// One half of a rank's hops, one after the other. Used by the progress thread; new hops come under
// the mutex of the waits.
class HopSide {
 public:
  HopSide(MpiWaits& waits, int rank, int peer, Index message_bytes, RankPulse* pulse)
      : rank_(rank), peer_(peer), message_bytes_(message_bytes), waits_(waits), pulse_(pulse) {}
  virtual ~HopSide() = default;

  // Does what can be done now; returns whether there was anything. Throws RunError.
  bool look();

  void add(const std::shared_ptr<MpiHop>& hop) { hops_.push_back(hop); }  // under the mutex
  bool has_new_hop() const { return hop_ == nullptr && !hops_.empty(); }  // under the mutex
  bool is_idle() const { return hop_ == nullptr; }
  bool is_moving() const { return stage_ == Stage::moving; }
  // MPI may still touch the memory that it was given.
  bool has_requests() const { return stage_ != Stage::not_ready; }

 protected:
  enum class Stage { not_ready, agreeing, moving };

  virtual bool may_start(MpiHop& hop) const { return hop.is_ready(); }
  // Posts what is posted before the peer is heard of; sets mine_.
  virtual void start(const Exchange& hop) = 0;
  // The peer's note has come, theirs_.
  virtual void agreed(const Exchange& hop) = 0;
  virtual void finished(MpiHop& hop, std::int64_t begin, std::int64_t end) = 0;

  void exchange_notes(Tag mine, Tag theirs);
  // post(from, bytes, request): a message of a part of the block.
  template <class Post>
  void in_messages(Index bytes, const Post& post) {
    for (Index from = 0; from < bytes; from += message_bytes_)
      post(from, static_cast<int>(min_of(bytes - from, message_bytes_)),
           &requests_.emplace_back(MPI_REQUEST_NULL));
  }
  // Throws the RunError that both sides find, in the same words.
  void compare(const HopNote& place, int receiver, const HopNote& offer, int sender) const;

  const int rank_, peer_;
  const Index message_bytes_;
  HopNote mine_, theirs_;

 private:
  bool look_for_note();
  bool look_for_blocks();

  MpiWaits& waits_;
  RankPulse* const pulse_;
  std::deque<std::shared_ptr<MpiHop>> hops_;  // not begun yet; guarded by the mutex
  std::shared_ptr<MpiHop> hop_;               // in work
  Stage stage_ = Stage::not_ready;
  MPI_Request note_ = MPI_REQUEST_NULL;
  std::vector<MPI_Request> requests_;  // everything else
  std::vector<int> completed_;
  std::int64_t begin_ns_ = 0;
};

class Sending : public HopSide {
 public:
  using HopSide::HopSide;

 private:
  void start(const Exchange& hop) override;
  void agreed(const Exchange& hop) override;
  void finished(MpiHop& hop, std::int64_t begin, std::int64_t end) override;
};

class Receiving : public HopSide {
 public:
  using HopSide::HopSide;

 private:
  bool may_start(MpiHop& hop) const override;
  void start(const Exchange& hop) override;
  void agreed(const Exchange& hop) override;
  void finished(MpiHop& hop, std::int64_t begin, std::int64_t end) override;
};

}  // namespace ringscope
