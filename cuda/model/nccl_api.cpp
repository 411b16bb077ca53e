// The calls of the model's NCCL, and when a communicator accepts them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "cuda/model/nccl_state.h"

namespace ringscope::cuda::model {
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
  model.registration = true;
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
void set_nccl_registration(bool works) {
  with_model([&](NcclModel& model) { model.registration = works; });
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

using ringscope::cuda::model::Allowed;
using ringscope::cuda::model::call;
using ringscope::cuda::model::Device;
using ringscope::cuda::model::let_time_pass;
using ringscope::cuda::model::NcclClique;
using ringscope::cuda::model::NcclModel;
using ringscope::cuda::model::put_in_progress;

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
    if (!comm->registered.empty())
      model.complain(fmt::format("ncclCommDestroy of rank {}: memory is registered", comm->rank));
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

ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t bytes, void** handle) {
  return call("ncclCommRegister", comm, Allowed::when_ready, [&](Device& device, NcclModel& model) {
    if (!model.registration) return ncclInvalidUsage;
    if (bytes == 0 || device.allocation_at(memory) == nullptr) return ncclInvalidArgument;
    const std::uintptr_t number = device.new_handle();
    comm->registered[number] = memory;
    *handle = reinterpret_cast<void*>(number);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void* handle) {
  return call("ncclCommDeregister", comm, Allowed::when_ready, [&](Device&, NcclModel&) {
    return comm->registered.erase(reinterpret_cast<std::uintptr_t>(handle)) == 1
               ? ncclSuccess
               : ncclInvalidArgument;
  });
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
