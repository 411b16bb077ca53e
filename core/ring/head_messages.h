// The places and messages of ranks that divide the heads among them, and what they do with gradients
// of heads that several of them have, for Ulysses and its hybrid (hybrid.cpp) and for Ulysses in chunks
// of the heads (ulysses_chunks.cpp).
//
// An all-to-all is U-1 exchanges: in the k-th a member sends to the member k places on and receives
// from the one k places back. Nothing is packed for it: a rank's own tensors lie share after share, in
// the order of chunks and members (RingProblem::heads_of), and what comes from each rank stays a block
// of its own.
#pragma once

#include <utility>
#include <vector>

#include "core/ring/schemes.h"

namespace ringscope {

// One rank's place, its share of the heads, of those of a chunk, and where everything lies.
class HeadsMember {
 public:
  HeadsMember(const Communicator& comm, const RingProblem& problem, RankMemory& mine, int chunk = 0)
      : problem_(problem), mine_(mine), rank_(comm.rank()), chunk_(chunk) {}

  int size() const { return size_; }      // of a group
  int groups() const { return groups_; }  // in the ring
  int number() const { return rank_ % size_; }
  // Return this rank's share of the heads, and a member's.
  HeadShare heads() const { return heads_of(number()); }
  HeadShare heads_of(int member) const { return problem_.heads_of(chunk_ * size_ + member); }
  // Return the member `k` places on, and the rank of a member of this group.
  int on(int k) const { return (number() + k + size_) % size_; }
  int rank_of(int member) const { return rank_ - number() + member; }
  // Return the owner of member `member`'s block at turn `turn`, and the ranks of this number in the
  // next group and the previous one.
  int owner(int turn, int member) const {
    return (rank_ / size_ + groups_ - turn % groups_) % groups_ * size_ + member;
  }
  int next_group() const { return (rank_ + size_) % (groups_ * size_); }
  int previous_group() const { return (rank_ + (groups_ - 1) * size_) % (groups_ * size_); }
  StepInfo step(Pass pass, int turn, int k) const {
    const int number_of_step = turn * size_ + k;
    return {pass, number_of_step, owner(turn, on(k)), number_of_step == groups_ * size_ - 1};
  }

  // Return where the queries of `member`'s rows and of this rank's heads lie. This rank's own lie
  // among those of its other heads.
  Index queries_at(int member) const {
    if (member == number()) return own_at(number());
    return mine_.slot(1 + place_of(member));
  }
  // Return the queries, and their state, of the rows of the member k places on, and what those of the
  // member j places on may attend of an owner's keys.
  QueryBlock queries(int k) const {
    return mine_.query_block(queries_at(on(k)), query_rows(rank_of(on(k))));
  }
  SoftmaxState softmax_state(int k) const { return mine_.softmax_state(queries_at(on(k))); }
  BackwardState backward_state(int k) const { return mine_.backward_state(queries_at(on(k))); }
  Region region(int j, int owner) const { return problem_.region(rank_of(on(j)), owner); }
  // Return where the heads of `member` lie in the rank's own rows.
  Index own_at(int member) const {
    return problem_.params.batch * heads_of(member).first * query_rows(rank_);
  }
  Index rows(int rank) const { return problem_.rows(rank); }  // of keys
  Index query_rows(int rank) const { return problem_.query_rows(rank); }
  // Return the rows, counted over the heads of `member`, of the member `of_rows`.
  Index query_rows_of(int member, int of_rows) const {
    return problem_.params.batch * heads_of(member).num_heads * query_rows(rank_of(of_rows));
  }
  // Return the values of K and V, or of their gradients, of a rank's rows and a share of the heads.
  Index kv_values_of(const HeadShare& heads, int rank) const {
    return problem_.kv_values_of(heads.num_heads_kv, rank);
  }
  Index own_kv_at(int member) const {
    return problem_.kv_values_of(heads_of(member).first_kv, rank_);
  }
  Index storage() const { return bytes_of(problem_.params.dtype); }

  // Return `member`'s block at turn `turn`, and where its gradient is summed and comes in.
  std::byte* kv(int turn, int member) const {
    if (turn > 0) return mine_.extra_kv(size_ - 1 + (turn - 1) % 2 * size_ + member);
    if (member != number()) return mine_.extra_kv(place_of(member));
    return mine_.own_kv() + own_kv_at(number()) * storage();
  }
  float* sum(int turn, int member) const {
    if (groups_ > 1) return mine_.extra_gradient(turn % 2 * size_ + member);
    return member == number() ? own_gradient(number()) : mine_.extra_gradient(place_of(member));
  }
  // The last one to arrive is this rank's own, or another member's, complete.
  float* incoming(int turn, int member) const {
    if (groups_ == 1) return sum(turn, member);
    return turn == groups_ && member == number() ? own_gradient(number())
                                                 : mine_.extra_gradient(2 * size_ + member);
  }
  float* own_gradient(int member) const { return mine_.own_gradient() + own_kv_at(member); }
  // Return the buffer of a gradient that is added to another: the first one behind the sums.
  float* share_to_add(int i = 0) const {
    const int sums = groups_ > 1 ? 3 * size_ : (problem_.layout().slices > 1 ? 2 : 1) * (size_ - 1);
    return mine_.extra_gradient(sums + i);
  }

 private:
  // Return the place of another member's rows: chunks take turns at two sets of places.
  int place_of(int member) const {
    return chunk_ % 2 * (size_ - 1) + (member < number() ? member : member - 1);
  }

  const RingProblem& problem_;
  RankMemory& mine_;
  int rank_, chunk_;
  int size_ = problem_.layout().heads_group, groups_ = problem_.partition.world_size / size_;
};

// The messages of one pass.
class HeadMessages {
 public:
  HeadMessages(Communicator& comm, RankMemory& mine, const HeadsMember& me, Pass pass)
      : comm_(comm), mine_(mine), me_(me), pass_(pass) {}

  // Give the member k places on its heads of this rank's rows, once `free` has happened, and take this
  // rank's heads of the rows of the one k places back. `row_bytes` are of a tensor of queries.
  template <class T>
  Completion queries_to_heads(int k, T* tensor, Index row_bytes, const Completion& free = {}) {
    std::byte* const base = reinterpret_cast<std::byte*>(tensor);
    const int to = me_.on(k), from = me_.on(-k);
    return exchange(k, Payload::kv,
                    {self(), base + me_.own_at(to) * row_bytes,
                     me_.query_rows_of(to, me_.number()) * row_bytes},
                    {me_.rank_of(from), base + me_.queries_at(from) * row_bytes,
                     me_.query_rows_of(me_.number(), from) * row_bytes},
                    {free});
  }
  Completion kv_to_heads(int k, const Completion& free = {}) {
    const int to = me_.on(k), from = me_.on(-k);
    const Index e = me_.storage();
    return exchange(
        k, Payload::kv,
        {self(), mine_.own_kv() + me_.own_kv_at(to) * e,
         me_.kv_values_of(me_.heads_of(to), self()) * e},
        {me_.rank_of(from), me_.kv(0, from), me_.kv_values_of(me_.heads(), me_.rank_of(from)) * e},
        {free});
  }
  // Return results of this rank's heads to the rank whose rows they are, and take its own rows'.
  template <class T>
  Completion queries_to_rows(int k, T* base, Index width, const Completion& ready) {
    const int to = me_.on(k), from = me_.on(-k);
    const Index row_bytes = width * static_cast<Index>(sizeof(T));
    return exchange(k, Payload::dkv,
                    {me_.rank_of(to), base + me_.queries_at(to) * width,
                     me_.query_rows_of(me_.number(), to) * row_bytes},
                    {self(), base + me_.own_at(from) * width,
                     me_.query_rows_of(from, me_.number()) * row_bytes},
                    {ready});
  }
  Completion gradient_to_rows(int k, float* sum, float* to_here, const Completion& ready,
                              const Completion& free) {
    const int to = me_.rank_of(me_.on(k));
    return exchange(k, Payload::dkv, {to, sum, me_.kv_values_of(me_.heads(), to) * 4},
                    {self(), to_here, me_.kv_values_of(me_.heads_of(me_.on(-k)), self()) * 4},
                    {ready, free});
  }
  // Pass on, to the next group, the block of turn `turn` or the sum of its gradients.
  Completion to_next_group(int turn, int k, Payload payload, void* send, void* recv,
                           std::initializer_list<Completion> after) {
    const int owner = me_.owner(turn, me_.on(k)), next_owner = me_.owner(turn + 1, me_.on(k));
    const Index bytes = payload == Payload::kv ? me_.storage() : 4;
    return comm_.exchange(
        hop_of(pass_, payload, me_.step(pass_, turn, k).step,
               {owner, send, me_.kv_values_of(me_.heads(), owner) * bytes},
               {next_owner, recv, me_.kv_values_of(me_.heads(), next_owner) * bytes},
               {Way::between_nodes, me_.next_group(), me_.previous_group()}),
        after);
  }

 private:
  int self() const { return comm_.rank(); }
  Completion exchange(int k, Payload payload, const Held& sent, const Held& brought,
                      std::initializer_list<Completion> after) {
    const int step = payload == Payload::kv ? 0 : comm_.world_size() - 1;
    return comm_.exchange(hop_of(pass_, payload, step, sent, brought,
                                 {Way::ring, me_.rank_of(me_.on(k)), me_.rank_of(me_.on(-k))}),
                          after);
  }

  Communicator& comm_;
  RankMemory& mine_;
  const HeadsMember& me_;
  Pass pass_;
};

// The gradients of a rank's own block, of which members send what they have summed for their heads. The
// first one of a kv head goes to its place, and what other members or chunks have of it is added.
class GradientsAtHome {
 public:
  GradientsAtHome(BlockBackend& backend, const RingProblem& problem)
      : backend_(backend),
        in_chunks_(problem.layout().slices > 1),
        has_come_(static_cast<std::size_t>(problem.params.num_heads_kv), false) {}

  // Return where the rank's own share is summed: at its place, or apart.
  float* begin(const HeadsMember& me) {
    adds_own_ = !is_first(me, me.number());
    return adds_own_ ? me.share_to_add(1) : me.own_gradient(me.number());
  }
  // Take what the other members send of their `sums`, once those of the chunk before, which have come
  // at `here`, are added. In chunks, it is added later, so that the next chunk need not wait for it.
  Completion take(const HeadsMember& me, HeadMessages& messages, const StepInfo& step,
                  const std::vector<Completion>& sums, const Completion& here) {
    const Index rows = me.rows(me.rank_of(me.number()));
    Completion added = add(step, here), arrived;
    if (adds_own_)
      added = backend_.add(step, {me.own_gradient(me.number()), rows}, {me.share_to_add(1), rows},
                           here);
    for (int k = 1; k < me.size(); ++k) {
      float* const own = me.own_gradient(me.on(-k));
      const bool first = is_first(me, me.on(-k));
      float* const to_here = first ? own : me.share_to_add(in_chunks_ ? 1 + k : 0);
      arrived =
          messages.gradient_to_rows(k, me.incoming(me.groups(), me.on(k)), to_here, sums[k], added);
      if (!first) waiting_.push_back({{own, rows}, {to_here, rows}});
      if (!in_chunks_) added = add(step, arrived);
    }
    return arrived;
  }
  // Add what waits, once it has come.
  Completion add(const StepInfo& step, const Completion& here) {
    Completion added = here;
    for (const auto& [own, one_share] : waiting_) added = backend_.add(step, own, one_share, here);
    waiting_.clear();
    return added;
  }

 private:
  bool is_first(const HeadsMember& me, int member) {
    const auto kv_head = static_cast<std::size_t>(me.heads_of(member).first_kv);
    const bool first = !has_come_[kv_head];
    has_come_[kv_head] = true;
    return first;
  }

  BlockBackend& backend_;
  bool in_chunks_;
  std::vector<bool> has_come_;  // by kv head
  std::vector<std::pair<KvGradient, KvGradient>> waiting_;
  bool adds_own_ = false;
};

// The loop of Ulysses and of its hybrid.
ForwardLoop hybrid_forward;
BackwardLoop hybrid_backward;

// Return what each rank holds beside its own tensors, in schemes that exchange heads.
Extras extras_of_heads(const Problem& job);

}  // namespace ringscope
