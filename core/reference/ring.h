// Ring attention, forward and backward, with all ranks in one loop. It does what core/ring/ring.cpp
// does on real ranks, without messages, threads, recording or faults. All ranks finish a step
// before any rank starts the next one.
//
// It is the middle rung of the checks: naive attention (core/attention/naive.h) checks it, and it
// checks the ring that runs. A hundred positions take milliseconds, ten thousand take minutes.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/attention/naive.h"
#include "core/reference/attention.h"

namespace ringscope::reference {

// Return the rank that `rank` sends to. Rank r sends to r + 1 and receives from r - 1.
inline int next_rank(int rank, int world_size) { return (rank + 1) % world_size; }

// Return each rank's output (in out_accum) and row statistics. At step t, rank r attends the block
// of owner (r - t) mod N. A rank has two KV buffers, so it attends one while the next block arrives
// in the other. The last step needs no hop, so a block makes N - 1 hops.
// [forward
inline std::vector<State> forward(const Terms& terms, const std::vector<Queries>& queries,
                                  const std::vector<KvBlock>& own) {
  const int n = static_cast<int>(own.size());
  std::vector<State> states;
  for (int rank = 0; rank < n; ++rank) {
    const Index rows = queries[rank].positions.size();
    states.push_back({std::vector<RowState<double>>(rows), Matrix(rows, own[rank].v.columns)});
  }

  std::vector<KvBlock> held = own, arriving(n);
  for (int step = 0; step < n; ++step) {
    if (step < n - 1)
      for (int rank = 0; rank < n; ++rank) arriving[next_rank(rank, n)] = held[rank];
    for (int rank = 0; rank < n; ++rank) attend(terms, queries[rank], held[rank], states[rank]);
    std::swap(held, arriving);
  }
  for (State& state : states) finish(terms, state);
  return states;
}
// forward]

// Return each rank's gradient of its own KV block, and add to dq[rank]. The blocks go round once
// more, and a block's gradient follows one step behind: a rank adds its share to the sum of the
// ranks before it and sends the sum on. A gradient makes N hops, and the last one brings it home.
// [backward
inline std::vector<KvGradient> backward(const Terms& terms, const std::vector<Queries>& queries,
                                        const std::vector<KvBlock>& own,
                                        const std::vector<State>& states, std::vector<Matrix>& dq) {
  const int n = static_cast<int>(own.size());
  std::vector<KvBlock> held = own, arriving(n);
  std::vector<KvGradient> arrived(n);  // by rank: the sum for the block that the rank holds now
  for (int step = 0; step < n; ++step) {
    if (step < n - 1)
      for (int rank = 0; rank < n; ++rank) arriving[next_rank(rank, n)] = held[rank];

    std::vector<KvGradient> sum(n);
    for (int rank = 0; rank < n; ++rank) {
      sum[rank] = attend_backward(terms, queries[rank], held[rank], states[rank], dq[rank]);
      if (step == 0) continue;  // no rank has added a share yet
      add(sum[rank].dk.values, 1, arrived[rank].dk.values);
      add(sum[rank].dv.values, 1, arrived[rank].dv.values);
    }
    for (int rank = 0; rank < n; ++rank) arrived[next_rank(rank, n)] = sum[rank];
    std::swap(held, arriving);
  }
  return arrived;
}
// backward]

// Return the rows of one head at `positions`: [positions, width] out of [seqlen, width].
inline Matrix rows_at(const LocalRows& positions, const double* head, Index width) {
  Matrix rows(positions.size(), width);
  for (Index i = 0; i < positions.size(); ++i)
    std::copy_n(head + positions.global_position(i) * width, width, rows.row(i).begin());
  return rows;
}

// Add `rows` to `head`, each at its position.
inline void add_at(const LocalRows& positions, const Matrix& rows, double* head) {
  for (Index i = 0; i < positions.size(); ++i)
    add({head + positions.global_position(i) * rows.columns, rows.row(i).size()}, 1, rows.row(i));
}

// Return what naive_attention() (core/attention/naive.h) returns for these arguments: tensors are
// in C order, and `dout` is null for a forward pass alone. The ranks of `partition` compute it, one
// head after the other, because heads are independent.
inline NaiveResult<double> ring_attention(const AttentionShape& shape, const Terms& terms,
                                          const Partition& partition, const double* q,
                                          const double* k, const double* v, const double* dout) {
  const Index d = shape.head_dim, d_v = shape.value_dim();
  const Index query_heads = shape.batch * shape.num_heads,
              kv_heads = shape.batch * shape.num_heads_kv;
  NaiveResult<double> result;
  result.out.assign(query_heads * shape.seqlen * d_v, 0);
  result.lse.assign(query_heads * shape.seqlen, 0);
  if (dout != nullptr) {
    result.dq.assign(query_heads * shape.seqlen * d, 0);
    result.dk.assign(kv_heads * shape.seqlen * d, 0);
    result.dv.assign(kv_heads * shape.seqlen * d_v, 0);
  }
  for (Index head = 0; head < query_heads; ++head) {
    // Query heads of one group read the same kv head, and their gradients add up in it. Both
    // numberings count through the batch, so one division serves all batch entries.
    const Index query_at = head * shape.seqlen, kv_at = head / shape.group_size() * shape.seqlen;
    std::vector<Queries> queries;
    std::vector<KvBlock> blocks;
    std::vector<Matrix> dq;
    for (int rank = 0; rank < partition.world_size; ++rank) {
      const LocalRows rows = partition.rows_of(rank);
      queries.push_back({rows, rows_at(rows, q + query_at * d, d),
                         dout == nullptr ? Matrix() : rows_at(rows, dout + query_at * d_v, d_v)});
      blocks.push_back(
          {rows, rows_at(rows, k + kv_at * d, d), rows_at(rows, v + kv_at * d_v, d_v)});
      dq.emplace_back(rows.size(), d);
    }

    const std::vector<State> states = forward(terms, queries, blocks);
    for (int rank = 0; rank < partition.world_size; ++rank) {
      const LocalRows& rows = queries[rank].positions;
      add_at(rows, states[rank].out_accum, &result.out[query_at * d_v]);
      for (Index i = 0; i < rows.size(); ++i)
        result.lse[query_at + rows.global_position(i)] = lse_of(states[rank].rows[i]);
    }
    if (dout == nullptr) continue;

    const std::vector<KvGradient> home = backward(terms, queries, blocks, states, dq);
    for (int rank = 0; rank < partition.world_size; ++rank) {
      const LocalRows& rows = queries[rank].positions;
      add_at(rows, dq[rank], &result.dq[query_at * d]);
      add_at(rows, home[rank].dk, &result.dk[kv_at * d]);
      add_at(rows, home[rank].dv, &result.dv[kv_at * d_v]);
    }
  }
  return result;
}

}  // namespace ringscope::reference
