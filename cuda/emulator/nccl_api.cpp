// The model's NCCL: the state of communicators and of the groups of sends and receives in progress,
// which run as operations of streams; the calls, and when a communicator accepts them.
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "cuda/emulator/nccl_model.h"
#include "cuda/emulator/random.h"
#include "cuda/emulator/runtime_device.h"

namespace ringscope::cuda::model {

// ---
// The state. The device's mutex guards all of it.

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
};

namespace ringscope::cuda::model {

// ---
// Groups, as operations of streams.

namespace {

constexpr unsigned char poison_byte = 0xff;

std::uint64_t checksum_of(const unsigned char* memory, std::size_t bytes) {
  return hash_of(std::span(memory, bytes));
}

NcclChannel& channel_of(const ncclComm& comm, const NcclHalf& half) {
  const int from = half.is_send ? comm.rank : half.peer, to = half.is_send ? half.peer : comm.rank;
  return comm.clique->channels[{from, to}];
}

std::string described(const NcclHalf& half) {
  return fmt::format("rank {} {} rank {} {} bytes", half.group->comm->rank,
                     half.is_send ? "sends" : "receives from", half.peer, half.bytes);
}

}  // namespace

NcclModel& NcclModel::instance() {
  static NcclModel& model = *new NcclModel;
  return model;
}

bool NcclModel::is_connected(const ncclComm& comm) {
  return std::all_of(comm.asked->halves.begin(), comm.asked->halves.end(), [&](const auto& half) {
    const NcclChannel& channel = channel_of(comm, *half);
    return channel.send_asked && channel.recv_asked;
  });
}

void NcclModel::launch(Device& device, ncclComm& comm) {
  comm.groups.push_back(std::move(comm.asked));
  NcclGroup* const group = comm.groups.back().get();
  group->gate = device.make_gate();
  std::vector<Range> names;
  for (const auto& half : group->halves) {
    match(*half);
    if (half->bytes > 0)
      names.push_back({reinterpret_cast<std::uintptr_t>(half->memory), half->bytes});
  }
  Operation begins;
  begins.name = "NCCL group";
  begins.names = names;
  begins.run = [this, &device, group] {
    const Device::Lock lock(device.mutex);
    begin(device, *group);
  };
  device.enqueue(group->stream, std::move(begins));
  Operation ends;
  ends.name = "NCCL group";
  ends.names = names;
  ends.after = {group->gate};
  ends.run = [this, &device, group] {
    const Device::Lock lock(device.mutex);
    end(*group);
  };
  device.enqueue(group->stream, std::move(ends));
}

void NcclModel::match(NcclHalf& half) {
  NcclChannel& channel = channel_of(*half.group->comm, half);
  auto& same = half.is_send ? channel.sends : channel.receives;
  auto& others = half.is_send ? channel.receives : channel.sends;
  if (others.empty()) {
    same.push_back(&half);
    return;
  }
  half.other = others.front();
  half.other->other = &half;
  others.pop_front();
  if (half.bytes != half.other->bytes)
    complain(fmt::format("{}, but {}", described(half), described(*half.other)));
}

// Open the gate when all halves' peers have begun too. Parts of different sizes never meet.
void NcclModel::open_if_met(Device& device, NcclGroup& group) {
  const bool met = std::all_of(group.halves.begin(), group.halves.end(), [](const auto& half) {
    const NcclHalf* other = half->other;
    return other != nullptr && other->group->begun && other->bytes == half->bytes &&
           (half->moved || !other->group->aborted);
  });
  if (met && group.begun) device.open(group.gate);
}

void NcclModel::begin(Device& device, NcclGroup& group) {
  if (group.aborted) return;
  group.begun = true;
  for (const auto& half : group.halves) {
    if (half->is_send) {
      half->checksum = checksum_of(half->memory, half->bytes);
    } else if (half->bytes > 0) {
      std::memset(half->memory, poison_byte, half->bytes);
    }
  }
  open_if_met(device, group);
  for (const auto& half : group.halves)
    if (half->other != nullptr) open_if_met(device, *half->other->group);
}

void NcclModel::end(NcclGroup& group) {
  if (!group.aborted)
    for (const auto& half : group.halves) move(*half);
  group.ended = true;
}

// Transfer as late as possible, which is when the first of the two groups ends.
void NcclModel::move(NcclHalf& half) {
  if (half.moved || half.other->group->aborted) return;
  NcclHalf& send = half.is_send ? half : *half.other;
  NcclHalf& receive = half.is_send ? *half.other : half;
  if (checksum_of(send.memory, send.bytes) != send.checksum)
    complain(
        fmt::format("{}: the buffer changed between its post and its transfer", described(send)));
  if (!std::all_of(receive.memory, receive.memory + receive.bytes,
                   [](unsigned char byte) { return byte == poison_byte; }))
    complain(fmt::format("{}: the buffer was written to between its post and its arrival",
                         described(receive)));
  if (send.bytes > 0) std::memcpy(receive.memory, send.memory, send.bytes);
  send.moved = receive.moved = true;
}

void NcclModel::abort(Device& device, ncclComm& comm) {
  comm.asked.reset();
  for (const auto& group : comm.groups) {
    if (group->ended) continue;
    group->aborted = true;
    device.open(group->gate);
  }
}

// ---
// The calls.

namespace {

// The group that this thread is building.
struct OpenGroup {
  int depth = 0;
  std::unique_ptr<NcclGroup> group;
  ncclResult_t failed = ncclSuccess;  // result of a failed call inside; it fails the whole group
};
thread_local OpenGroup open_group;

void put_in_progress(NcclModel& model, ncclComm& comm) {
  comm.in_progress = true;
  comm.polls_left = static_cast<int>(model.random.below(static_cast<std::size_t>(model.delay) + 1));
}

enum class Allowed { when_ready, always };

// Run a call, `body(device, model)`, unless it fails before or `comm` cannot accept it.
ncclResult_t call(const char* name, ncclComm_t comm, Allowed allowed,
                  const std::function<ncclResult_t(Device&, NcclModel&)>& body) {
  Device& device = Device::instance();
  const Device::Lock lock(device.mutex);
  NcclModel& model = NcclModel::instance();
  if (const ncclResult_t status = model.failures.take(name); status != ncclSuccess) return status;
  const auto refuse = [&](const std::string& why, ncclResult_t status) {
    model.complain(fmt::format("{}: the communicator of rank {} {}", name, comm->rank, why));
    return status;
  };
  if (comm != nullptr) {
    if (comm->state == ncclComm::State::destroyed)
      return refuse("is destroyed", ncclInvalidArgument);
    if (comm->state == ncclComm::State::aborted) return refuse("is aborted", ncclInvalidArgument);
    if (allowed == Allowed::when_ready) {
      if (comm->error != ncclSuccess) return refuse("has an error", comm->error);
      if (comm->in_progress) return refuse("has a call in progress", ncclInvalidUsage);
    }
  }
  return body(device, model);
}

bool may_share_a_gpu(const NcclModel& model) {
  const char* const enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return model.version >= NCCL_VERSION(2, 30, 3) && enabled != nullptr &&
         std::string_view(enabled) == "1";
}

void fail(ncclComm& comm, ncclResult_t status, const std::string& why) {
  comm.error = status;
  comm.last_error = why;
  comm.in_progress = false;
}

// Advance the communicator's state. Polls call it.
void let_time_pass(Device& device, NcclModel& model, ncclComm& comm) {
  if (comm.error != ncclSuccess || (comm.in_progress && comm.polls_left-- > 0)) return;
  if (!comm.is_connected) {
    if (std::ssize(comm.clique->members) < comm.clique->ranks) return;
    for (const auto& [rank, other] : comm.clique->members)
      if (rank != comm.rank && other->device == comm.device && !may_share_a_gpu(model))
        return fail(comm, ncclInvalidUsage,
                    fmt::format("Duplicate GPU detected : rank {} and rank {} both on device {}",
                                comm.rank, rank, comm.device));
    comm.is_connected = true;
  }
  if (const auto failing = model.failing_ranks.find(comm.rank);
      failing != model.failing_ranks.end() && comm.groups_posted >= failing->second.first)
    return fail(comm, failing->second.second, "a failure that was asked for");
  if (comm.asked != nullptr) {
    if (device.broken != cudaSuccess)
      return fail(comm, ncclUnhandledCudaError, "the device is broken");
    if (!NcclModel::is_connected(comm)) return;
    model.launch(device, comm);
  }
  comm.in_progress = false;
}

ncclResult_t end_group() {
  if (--open_group.depth > 0) return ncclSuccess;
  const std::shared_ptr<NcclGroup> kept = std::move(open_group.group);
  const ncclResult_t failed = std::exchange(open_group.failed, ncclSuccess);
  if (failed != ncclSuccess || kept == nullptr) return failed;
  return call("ncclGroupEnd", kept->comm, Allowed::when_ready, [&](Device&, NcclModel& model) {
    ncclComm& comm = *kept->comm;
    comm.asked = std::make_unique<NcclGroup>(std::move(*kept));
    for (const auto& half : comm.asked->halves) {
      half->group = comm.asked.get();
      const auto ends =
          half->is_send ? std::pair(comm.rank, half->peer) : std::pair(half->peer, comm.rank);
      NcclChannel& channel = comm.clique->channels[ends];
      (half->is_send ? channel.send_asked : channel.recv_asked) = true;
      model.parts.push_back({half->is_send, comm.rank, half->peer, half->bytes, comm.asked->stream,
                             comm.groups_posted});
    }
    ++comm.groups_posted;
    put_in_progress(model, comm);
    return ncclInProgress;
  });
}

ncclResult_t post(const char* name, bool is_send, void* memory, std::size_t bytes, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
  ++open_group.depth;
  const ncclResult_t status =
      call(name, comm, Allowed::when_ready, [&](Device& device, NcclModel& model) {
        const auto refuse = [&](const char* why) {
          model.complain(fmt::format("{} of rank {}: {}", name, comm->rank, why));
          return ncclInvalidArgument;
        };
        if (peer < 0 || peer >= comm->clique->ranks) return refuse("no such peer");
        if (device.stream(stream) == nullptr) return refuse("no such stream");
        if (device.stream(stream)->device != comm->device)
          return refuse("the stream is not its device's");
        auto half = std::make_unique<NcclHalf>();
        *half = {.is_send = is_send,
                 .peer = peer,
                 .memory = static_cast<unsigned char*>(memory),
                 .bytes = bytes};
        const auto* first = device.allocation_at(memory);
        if (bytes > 0 &&
            (first == nullptr || first != device.allocation_at(half->memory + bytes - 1)))
          return refuse("the bytes are not within one allocation");
        if (first != nullptr && first->device() != comm->device)
          return refuse("the bytes are not in its device's memory");
        if (open_group.group == nullptr) {
          open_group.group = std::make_unique<NcclGroup>();
          open_group.group->comm = comm;
          open_group.group->stream = stream;
        }
        if (open_group.group->comm != comm || open_group.group->stream != stream)
          return refuse("one communicator and one stream a group, in this model");
        open_group.group->halves.push_back(std::move(half));
        return ncclSuccess;
      });
  if (status != ncclSuccess) open_group.failed = status;
  return end_group();
}

}  // namespace

void reset_nccl() {
  Device& device = Device::instance();
  const Device::Lock lock(device.mutex);
  NcclModel& model = NcclModel::instance();
  for (const auto& comm : model.communicators) NcclModel::abort(device, *comm);
  model.communicators.clear();
  model.cliques.clear();
  model.complaints.clear();
  model.parts.clear();
  model.failures = {};
  model.failing_ranks.clear();
  model.version = NCCL_VERSION_CODE;
  model.delay = 3;
  model.random = Random{1};
}

namespace {

template <class F>
auto with_model(F&& f) {
  const Device::Lock lock(Device::instance().mutex);
  return f(NcclModel::instance());
}

std::size_t count(std::initializer_list<ncclComm::State> states) {
  return with_model([&](NcclModel& model) {
    return static_cast<std::size_t>(std::count_if(
        model.communicators.begin(), model.communicators.end(), [&](const auto& comm) {
          return std::find(states.begin(), states.end(), comm->state) != states.end();
        }));
  });
}

}  // namespace

std::size_t live_communicators() {
  return count({ncclComm::State::alive, ncclComm::State::finalized});
}
std::size_t aborted_communicators() { return count({ncclComm::State::aborted}); }
std::vector<std::string> nccl_complaints() {
  return with_model([](NcclModel& model) { return model.complaints; });
}
std::vector<NcclPart> nccl_parts() {
  return with_model([](NcclModel& model) { return model.parts; });
}
void set_nccl_version(int version) {
  with_model([&](NcclModel& model) { model.version = version; });
}
void set_nccl_delay(int polls, std::uint64_t seed) {
  with_model([&](NcclModel& model) {
    model.delay = polls;
    model.random = Random{seed};
  });
}
void fail_nccl_call(const std::string& name, int nth, ncclResult_t status) {
  with_model([&](NcclModel& model) { model.failures.add(name, nth, status); });
}
void fail_nccl_rank(int rank, int groups, ncclResult_t status) {
  with_model([&](NcclModel& model) { model.failing_ranks[rank] = {groups, status}; });
}

}  // namespace ringscope::cuda::model

using namespace ringscope::cuda::model;

ncclResult_t ncclGetVersion(int* version) {
  return call("ncclGetVersion", nullptr, Allowed::always, [&](Device&, NcclModel& model) {
    *version = model.version;
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return call("ncclGetUniqueId", nullptr, Allowed::always, [&](Device&, NcclModel& model) {
    *id = {};
    std::snprintf(id->internal, sizeof(id->internal), "clique %d", model.next_id++);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return call("ncclCommInitRankConfig", nullptr, Allowed::always, [&](Device&, NcclModel& model) {
    *comm = nullptr;
    const auto refuse = [&](const char* why) {
      model.complain(fmt::format("ncclCommInitRankConfig of rank {}: {}", rank, why));
      return ncclInvalidArgument;
    };
    if (config == nullptr || config->magic != 0xcafebeef) return refuse("no initialised config");
    if (config->blocking != 0) return refuse("the communicator would be blocking");
    if (rank < 0 || rank >= ranks) return refuse("no such rank");
    std::shared_ptr<NcclClique>& clique = model.cliques[id.internal];
    if (clique == nullptr) clique = std::make_shared<NcclClique>();
    clique->ranks = ranks;
    if (clique->members.contains(rank)) return refuse("the rank is taken");
    model.communicators.push_back(std::make_unique<ncclComm>());
    ncclComm& made = *model.communicators.back();
    made.rank = rank;
    made.device = Device::current();
    made.clique = clique;
    clique->members[rank] = &made;
    put_in_progress(model, made);
    *comm = &made;
    return ncclInProgress;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status) {
  return call("ncclCommGetAsyncError", comm, Allowed::always,
              [&](Device& device, NcclModel& model) {
                let_time_pass(device, model, *comm);
                *status = comm->error != ncclSuccess ? comm->error
                          : comm->in_progress        ? ncclInProgress
                                                     : ncclSuccess;
                return ncclSuccess;
              });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return call("ncclCommFinalize", comm, Allowed::when_ready, [&](Device&, NcclModel& model) {
    if (comm->state == ncclComm::State::finalized) return ncclInvalidArgument;
    comm->state = ncclComm::State::finalized;
    put_in_progress(model, *comm);
    return ncclInProgress;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return call("ncclCommDestroy", comm, Allowed::when_ready, [&](Device& device, NcclModel& model) {
    const bool busy = std::any_of(comm->groups.begin(), comm->groups.end(),
                                  [](const auto& group) { return !group->ended; });
    if (busy && device.broken == cudaSuccess)
      model.complain(fmt::format("ncclCommDestroy of rank {}: work is under way", comm->rank));
    comm->state = ncclComm::State::destroyed;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return call("ncclCommAbort", comm, Allowed::always, [&](Device& device, NcclModel&) {
    comm->state = ncclComm::State::aborted;
    NcclModel::abort(device, *comm);
    return ncclSuccess;
  });
}

const char* ncclGetErrorString(ncclResult_t status) {
  constexpr const char* texts[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return static_cast<unsigned>(status) < std::size(texts) ? texts[status] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  return comm == nullptr ? "" : comm->last_error.c_str();
}

ncclResult_t ncclSend(const void* from, std::size_t count, ncclDataType_t, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return ringscope::cuda::model::post("ncclSend", true, const_cast<void*>(from), count, peer, comm,
                                      stream);
}

ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return ringscope::cuda::model::post("ncclRecv", false, to, count, peer, comm, stream);
}

ncclResult_t ncclGroupStart() {
  return call("ncclGroupStart", nullptr, Allowed::always, [](Device&, NcclModel&) {
    ++ringscope::cuda::model::open_group.depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() { return ringscope::cuda::model::end_group(); }
