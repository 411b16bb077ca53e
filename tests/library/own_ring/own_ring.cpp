// A ring of one's own scheme: blocks go to the previous rank instead of the next. Its memory, kernels,
// threads, masks and deals are the library's.
#include <cmath>
#include <cstdio>

#include "core/attention/naive.h"
#include "core/threads/cpu_engine.h"

using namespace ringscope;

// Run one rank's part. At step t it holds the block of owner (rank + t) mod N.
void own_forward(Communicator& comm, BlockBackend& backend, const RingProblem& ring,
                 RankMemory& mine) {
  const int n = comm.world_size(), rank = comm.rank();
  backend.begin(mine.query_block(), mine.softmax_state());
  Completion here, coming;
  for (int step = 0; step < n; ++step, here = coming) {
    const int owner = (rank + step) % n, next = (owner + 1) % n;
    if (step + 1 < n)
      coming = comm.exchange({.step = step,
                              .send_owner = owner,
                              .send = mine.kv_at_step(step),
                              .send_bytes = ring.kv_bytes(owner),
                              .recv_owner = next,
                              .recv = mine.kv_at_step(step + 1),
                              .recv_bytes = ring.kv_bytes(next),
                              .to = (rank + n - 1) % n,
                              .from = (rank + 1) % n},
                             {here});
    backend.attend({Pass::forward, step, owner, step + 1 == n}, ring.region(rank, owner),
                   mine.query_block(), {mine.kv_at_step(step), ring.rows(owner)},
                   mine.softmax_state(), here);
  }
  backend.finish(mine.query_block(), mine.softmax_state());
}

int main() {
  Problem problem{.shape = {1, 4, 2, 301, 16}, .mask = MaskSpec::parse("causal+window:90")};
  problem.partition = PartitionKind::zigzag;
  problem.world_size = 5;
  const RingProblem ring = problem.ring_problem();
  AttentionInputs in{std::vector<float>(4 * 301 * 16), std::vector<float>(2 * 301 * 16), {}, {}};
  for (std::size_t i = 0; i < in.q.size(); ++i) in.q[i] = std::sin(0.7f * static_cast<float>(i));
  for (std::size_t i = 0; i < in.k.size(); ++i) in.k[i] = std::cos(1.3f * static_cast<float>(i));
  in.v = in.k;
  AttentionOutputs outputs;
  outputs.resize(problem.shape, output_tensors(/*backward=*/false));
  WholeInputs rows(problem.shape, in);
  WholeOutputs sink(problem.shape, outputs);  // ranks put rows of their own, at once
  ThreadRing threads(problem.world_size);
  run_on_rank_threads(
      problem.world_size,
      [&](int rank) {
        Rank mine(problem, ring, rank, host_memory(), 0);
        mine.take_inputs(rows);
        ThreadCommunicator comm(threads, rank);
        CpuBackend backend(ring.params, false, &mine.meter());
        own_forward(comm, backend, ring, mine.memory());
        mine.give_outputs(sink);
      },
      [&](int, const RunError& error) { threads.fail(error); });
  threads.throw_if_failed();

  const auto naive = naive_attention<float>(problem.shape, ring.mask, problem.scale(), in.q.data(),
                                            in.k.data(), in.v.data(), nullptr);
  double worst = 0;
  for (std::size_t i = 0; i < naive.out.size(); ++i)
    worst = std::fmax(worst, std::abs(naive.out[i] - outputs.out[i]));
  std::printf("own ring: largest difference %.1e\n", worst);
  return worst < 1e-5 ? 0 : 1;
}
