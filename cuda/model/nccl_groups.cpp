// Runs groups of sends and receives as operations of streams.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "cuda/model/nccl_state.h"

namespace ringscope::cuda::model {
namespace {

constexpr unsigned char poison_byte = 0xff;

// Return the FNV-1a hash.
std::uint64_t checksum_of(const unsigned char* memory, std::size_t bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ memory[i]) * 0x100000001b3;
  return hash;
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

}  // namespace ringscope::cuda::model
