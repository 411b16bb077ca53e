// Recordings of real runs, made on the spot, and traces of slices thrown at random.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "core/threads/run.h"
#include "tests/core/attention/random_problem.h"
#include "tests/schemes.h"
#include "tests/viz_data/hand_made.h"

namespace ringscope::viz {

inline Recording record_run(PartitionKind partition, const std::string& mask, const Scheme* scheme,
                            int world_size, bool backward, Index seqlen = 96, int kv_buffers = 2) {
  Problem config;
  config.shape = {.batch = 1, .num_heads = 2, .num_heads_kv = 1, .seqlen = seqlen, .head_dim = 8};
  config.mask = MaskSpec::parse(mask);
  config.partition = partition;
  config.world_size = world_size;
  config.scheme = scheme;
  config.backward = backward;
  config.kv_buffers = kv_buffers;
  const Tensors<float> in = random_tensors(config.shape, 7);
  return run_on_threads(config, {in.q, in.k, in.v, in.dout}).recording;
}

// Calls f(recording, what) for runs of every partition and scheme, forward and backward.
template <class F>
void for_recorded_runs(F&& f) {
  for (const PartitionKind partition : kAllPartitions)
    for (const Scheme* scheme : kRunSchemes)
      for (const bool backward : {false, true})
        for (const int world_size : {1, 2, 5})
          for (const char* mask : {"causal", "causal+documents:40,56"}) {
            const int kv_buffers = mask == std::string("causal") ? 2 : 4;
            const Recording recording =
                record_run(partition, mask, scheme, world_size, backward, 96, kv_buffers);
            f(recording, std::string(name_of(partition)) + " " + std::string(name_of(scheme)) +
                             (backward ? " backward " : " ") + mask + " on " +
                             std::to_string(world_size));
          }
}

// Slices at random, of random steps, owners and peers, that need not fit each other; in a row they
// follow each other without overlap. Times repeat often.
inline Trace random_trace(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int world_size = 1 + below(5);
  HandMade made(world_size, "contiguous", "causal", below(3) == 0 ? "allgather" : "ring");
  for (int rank = 0; rank < world_size; ++rank)
    for (const Lane lane : kAllLanes) {
      std::int64_t now = below(20);
      for (int slices = below(12); slices > 0; --slices) {
        TraceEvent e;
        e.lane = lane;
        e.pass = below(3) == 0 ? Pass::backward : Pass::forward;
        e.payload = e.pass == Pass::backward && below(2) == 0 ? Payload::dkv : Payload::kv;
        e.step = below(world_size);
        e.kv_owner = below(world_size);
        e.begin_ns = now += below(6);
        e.end_ns = now += below(10);
        e.pairs = below(4) * 10;
        e.cpu_ns = e.end_ns - e.begin_ns;
        e.bytes = below(100);
        e.src = lane == Lane::send ? rank : below(world_size);
        e.dst = lane == Lane::recv ? rank : below(world_size);
        e.waiting_for = below(world_size);
        made.recording().events[rank].push_back(e);
      }
    }
  // A flow joins a send and a receive, of whatever ranks and times, that agree on the message.
  std::vector<TraceEvent*> sends, receives;
  for (auto& of_rank : made.recording().events)
    for (TraceEvent& e : of_rank) {
      if (e.lane == Lane::send) sends.push_back(&e);
      if (e.lane == Lane::recv) receives.push_back(&e);
    }
  std::shuffle(receives.begin(), receives.end(), random);
  for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i) {
    TraceEvent &sent = *sends[i], &received = *receives[i];
    const auto begin_ns = received.begin_ns, end_ns = received.end_ns;
    sent.dst = received.dst;
    sent.flow = static_cast<std::int64_t>(i) + 1;
    received = sent;
    received.lane = Lane::recv;
    received.begin_ns = begin_ns;
    received.end_ns = end_ns;
  }
  return made.trace();
}

// Any number of slices in every row, of lengths that differ by orders of magnitude: every rank
// takes its steps one after the other, with `slices` slices in each of its four lanes.
inline Trace crowded(int world_size, int slices, std::uint32_t seed) {
  std::mt19937 random(seed);
  HandMade made(world_size);
  for (int rank = 0; rank < world_size; ++rank)
    for (const Lane lane : kAllLanes) {
      std::int64_t now = random() % 50;
      for (int i = 0; i < slices; ++i) {
        TraceEvent e;
        e.lane = lane;
        e.step = static_cast<int>(std::int64_t{i} * world_size / slices);
        e.kv_owner = static_cast<int>(random() % static_cast<unsigned>(world_size));
        now += random() % 3 == 0 ? 0 : random() % 100;
        e.begin_ns = now;
        e.end_ns = now += random() % 20 == 0 ? random() % 3000 : random() % 60;
        made.recording().events[rank].push_back(e);
      }
    }
  return made.trace();
}

}  // namespace ringscope::viz
