// The state of the model's communicators and of the groups of sends and receives in progress. The
// device's mutex guards all of it.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cuda/model/nccl_model.h"
#include "cuda/model/random.h"
#include "cuda/model/runtime_device.h"

namespace ringscope::cuda::model {

struct NcclGroup;

// A send or a receive. The nth send from one rank to another meets the nth receive there.
struct NcclHalf {
  bool is_send = false;
  int peer = 0;
  unsigned char* memory = nullptr;
  std::size_t bytes = 0;
  NcclGroup* group = nullptr;
  NcclHalf* other = nullptr;   // the peer's half, once both are in their streams
  std::uint64_t checksum = 0;  // of the data of a send when it began
  bool moved = false;
};

// One ncclGroupEnd starts a group. It begins when its stream reaches it, and ends behind its gate.
struct NcclGroup {
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<std::unique_ptr<NcclHalf>> halves;
  MarkerPtr gate;  // opens when all halves have met, and on abort
  bool begun = false, ended = false, aborted = false;
};

// The hops from one rank to another.
struct NcclChannel {
  bool send_asked = false, recv_asked = false;  // connected when both are true
  std::deque<NcclHalf*> sends, receives;        // in their streams, without the other half
};

// The communicators of one unique id.
struct NcclClique {
  int ranks = 0;
  std::map<int, ncclComm*> members;
  std::map<std::pair<int, int>, NcclChannel> channels;  // by (from, to)
};

struct NcclModel {
  static NcclModel& instance();

  void complain(const std::string& what) { complaints.push_back(what); }
  // Put the group that `comm` was given into its stream.
  void launch(Device& device, ncclComm& comm);
  // Whether the peers of the communicator's halves have asked for theirs.
  static bool is_connected(const ncclComm& comm);
  // End the communicator's unfinished work, whatever its state.
  static void abort(Device& device, ncclComm& comm);

  std::vector<std::unique_ptr<ncclComm>> communicators;        // never freed, so handles stay known
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;  // by unique id
  std::vector<std::string> complaints;
  std::vector<NcclPart> parts;
  int version = NCCL_VERSION_CODE;
  bool registration = true;
  int delay = 3;
  Random random{1};
  int next_id = 0;

  InjectedFailures<ncclResult_t> failures;
  std::map<int, std::pair<int, ncclResult_t>> failing_ranks;  // groups before failure, by rank

 private:
  void match(NcclHalf& half);
  static void open_if_met(Device& device, NcclGroup& group);
  void begin(Device& device, NcclGroup& group);
  void end(NcclGroup& group);
  void move(NcclHalf& half);
};

}  // namespace ringscope::cuda::model

// The type behind the handle, in the global namespace like NCCL's.
struct ncclComm {
  enum class State { alive, finalized, destroyed, aborted };

  int rank = 0;
  int device = 0;
  std::shared_ptr<ringscope::cuda::model::NcclClique> clique;
  State state = State::alive;
  bool in_progress = true;  // its creation is the first call in progress
  bool is_connected = false;
  int polls_left = 0;
  ncclResult_t error = ncclSuccess;
  std::string last_error;
  int groups_posted = 0;
  std::unique_ptr<ringscope::cuda::model::NcclGroup> asked;                // not in its stream yet
  std::vector<std::unique_ptr<ringscope::cuda::model::NcclGroup>> groups;  // all groups so far
  std::map<std::uintptr_t, const void*> registered;
};
