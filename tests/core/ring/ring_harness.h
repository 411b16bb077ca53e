// A ring put together by hand: the loops of core/ring on threads, with whatever communicator and
// backend a test wants to put in between.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/ring/cpu_backend.h"
#include "core/ring/schemes.h"
#include "core/ring/thread_communicator.h"
#include "tests/core/ring/forwarding.h"
#include "tests/core/ring/ring_case.h"

namespace ringscope {

struct HarnessRun {
  AttentionOutputs outputs;
  std::optional<RunError> error;  // outputs are not to be used then
};

// Runs `config` with each rank's communicator and backend wrapped as told.
template <class MakeCommunicator, class MakeBackend>
HarnessRun run_wrapped(const Problem& config, const AttentionInputs& inputs,
                       MakeCommunicator make_communicator, MakeBackend make_backend) {
  using namespace blockwise_run_detail;
  const AttentionShape& s = config.shape;
  const Index heads = s.batch * s.num_heads, heads_kv = s.batch * s.num_heads_kv;
  const RingProblem problem = config.ring_problem();
  Problem both_passes = config;
  both_passes.backward = true;
  const int n = config.world_size;

  HarnessRun result;
  ThreadRing ring(n);
  std::vector<std::unique_ptr<RankMemory>> memories;
  for (int rank = 0; rank < n; ++rank) {
    memories.push_back(std::make_unique<RankMemory>(both_passes, rank));
    const LocalRows rows = problem.partition.rows_of(rank);
    RankMemory& mine = *memories.back();
    gather(config.dtype, inputs.q, heads, s.seqlen, s.head_dim, rows, mine.q.data());
    gather(config.dtype, inputs.dout, heads, s.seqlen, s.head_dim, rows, mine.dout.data());
    gather(config.dtype, inputs.k, heads_kv, s.seqlen, s.head_dim, rows, mine.own_kv());
    gather(config.dtype, inputs.v, heads_kv, s.seqlen, s.head_dim, rows,
           mine.own_kv() + problem.kv_bytes(rank) / 2);
  }
  std::vector<KvGradient> homes(n);
  std::vector<std::unique_ptr<ThreadCommunicator>> comms;
  for (int rank = 0; rank < n; ++rank)
    comms.push_back(std::make_unique<ThreadCommunicator>(ring, rank));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      try {
        RankMemory& mine = *memories[rank];
        CpuBackend cpu(problem.params, true, nullptr);
        auto comm = make_communicator(*comms[rank]);
        auto backend = make_backend(rank, cpu);
        run_forward(config.scheme, comm, backend, problem, mine);
        homes[rank] = run_backward(config.scheme, comm, backend, problem, mine);
      } catch (const RunError& error) {
        ring.fail(error);
      }
    });
  for (std::thread& thread : threads) thread.join();
  try {
    ring.throw_if_failed();
  } catch (const RunError& error) {
    result.error = error;
    return result;
  }
  AttentionOutputs& to = result.outputs;
  to.out.assign(query_values(s), kNan);
  to.lse.assign(heads * s.seqlen, kNan);
  to.dq = to.out;
  to.dk.assign(kv_values(s), kNan);
  to.dv = to.dk;
  for (int rank = 0; rank < n; ++rank) {
    const LocalRows rows = problem.partition.rows_of(rank);
    const RankMemory& mine = *memories[rank];
    scatter(mine.out_accum.data(), heads, s.seqlen, s.head_dim, rows, false, to.out);
    scatter(mine.lse.data(), heads, s.seqlen, 1, rows, false, to.lse);
    scatter(mine.dq.data(), heads, s.seqlen, s.head_dim, rows, false, to.dq);
    scatter(homes[rank].data, heads_kv, s.seqlen, s.head_dim, rows, false, to.dk);
    scatter(homes[rank].data + kv_values(problem.params, rows.size()), heads_kv, s.seqlen,
            s.head_dim, rows, false, to.dv);
  }
  return result;
}

}  // namespace ringscope
