// Moves blocks of queries and what belongs to them, for the schemes whose queries travel. Each tensor
// is a message of its own, because the tensors lie apart; the last one's arrival is that of all,
// because the hops of a way happen in their order.
#pragma once

#include "core/ring/schemes.h"

namespace ringscope {

class QueryMessages {
 public:
  // Move from ranks of a ring to their next ones, `to` and `from` of this rank's.
  QueryMessages(Communicator& comm, const RingProblem& problem, RankMemory& mine, Pass pass, int to,
                int from)
      : comm_(comm), problem_(problem), mine_(mine), pass_(pass), to_(to), from_(from) {}

  // What is sent and received: at which rows of heads (RankMemory::slot), and whose rows.
  struct Ends {
    int step = 0;
    Index send_at = 0;
    int send_owner = 0;
    Index recv_at = 0;
    int recv_owner = 0;
  };

  // Move Q, or in the backward pass, where Q may have stayed, dO, the row statistics and delta.
  Completion move_queries(const Ends& ends, bool with_q, std::initializer_list<Completion> after) {
    const Index e = bytes_of(problem_.params.dtype);
    Completion arrived;
    if (with_q)
      arrived = move(ends, Payload::kv, mine_.q.data(), problem_.params.head_dim * e, after);
    if (pass_ == Pass::forward) return arrived;
    move(ends, Payload::kv, mine_.dout.data(), problem_.params.value_dim() * e, after);
    move(ends, Payload::kv, mine_.row_max.data(), sizeof(float), after);
    move(ends, Payload::kv, mine_.row_sum.data(), sizeof(double), after);
    return move(ends, Payload::kv, mine_.delta.data(), sizeof(float), after);
  }
  // Move softmax states, or dQ.
  Completion move_results(const Ends& ends, std::initializer_list<Completion> after) {
    const auto width = [](Index values) { return values * static_cast<Index>(sizeof(float)); };
    if (pass_ == Pass::backward)
      return move(ends, Payload::dkv, mine_.dq.data(), width(problem_.params.head_dim), after);
    move(ends, Payload::dkv, mine_.row_max.data(), sizeof(float), after);
    move(ends, Payload::dkv, mine_.row_sum.data(), sizeof(double), after);
    return move(ends, Payload::dkv, mine_.out_accum.data(), width(problem_.params.value_dim()),
                after);
  }

 private:
  template <class T>
  Completion move(const Ends& ends, Payload payload, T* base, Index row_bytes,
                  std::initializer_list<Completion> after) {
    std::byte* const bytes = reinterpret_cast<std::byte*>(base);
    const auto held = [&](int owner, Index at) {
      return Held{owner, bytes + at * row_bytes,
                  row_values(problem_.params, problem_.query_rows(owner)) * row_bytes};
    };
    // A rank may have no queries at all, as most have none in a decode.
    return comm_.exchange(
        without_empty_halves(hop_of(pass_, payload, ends.step, held(ends.send_owner, ends.send_at),
                                    held(ends.recv_owner, ends.recv_at), {Way::ring, to_, from_})),
        after);
  }

  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  Pass pass_;
  int to_, from_;
};

}  // namespace ringscope
