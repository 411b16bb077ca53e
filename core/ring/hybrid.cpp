// Ulysses, and the hybrid of Ulysses and ring. N ranks are R groups of U consecutive ranks. Inside a
// group an all-to-all gives each member a share of the heads of all the group's rows; around the ring
// of groups the members of one number pass on what they hold of K and V; and another all-to-all brings
// the outputs to their rows' ranks. Ulysses is one group of N ranks (S3, related work); the hybrid is
// that of USP and LoongTrain, with groups inside nodes and the ring between them.
//
// An all-to-all is U-1 exchanges: in the k-th a member sends to the member k places on and receives
// from the one k places back. Nothing is packed for it: a rank's own tensors lie share after share, in
// the order of the members (RingProblem::heads_of), and what comes from each rank stays a block of its
// own. A member thus attends, at the N steps t U + k, the block of the rank k places on in the group t
// places back, with each of the group's U blocks of queries. Members with the same kv head get copies
// of it, and its gradients are added at home.
//
// A rank sends, where its member has h of the H heads and k kv heads:
//
//   forward    (U-1) messages of its rows' Q and of K and V; N - U blocks of K and V of k heads; (U-1)
//              outputs and lse, in f32, of the others' rows and its h heads
//   backward   (U-1) messages of its rows' dO; N - U blocks again and N gradients of them in f32
//              (none with one group); (U-1) of dQ and of dK and dV in f32
//
// Groups of one rank are the flat ring (ring.h).
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

// One rank's place, its share of the heads, and where everything lies.
class Member {
 public:
  Member(const Communicator& comm, const RingProblem& problem, RankMemory& mine)
      : problem_(problem), mine_(mine), size_(problem.head_shares()), rank_(comm.rank()) {
    groups_ = comm.world_size() / size_;
    heads_ = problem.heads_of(number());
  }

  int size() const { return size_; }      // of a group
  int groups() const { return groups_; }  // in the ring
  int number() const { return rank_ % size_; }
  const HeadShare& heads() const { return heads_; }
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
    return mine_.slot(1 + index_of(member));
  }
  // Return where share `share` of the rank's own rows lies.
  Index own_at(int share) const {
    return problem_.params.batch * problem_.heads_of(share).first * rows(rank_);
  }
  Index rows(int rank) const { return problem_.rows(rank); }
  // Return the values of K and V, or of their gradients, of a rank's rows and a share of the heads.
  Index kv_values_of(const HeadShare& heads, int rank) const {
    return 2 * problem_.params.batch * heads.num_heads_kv * rows(rank) * problem_.params.head_dim;
  }
  Index own_kv_at(int share) const {
    const AttentionParams& p = problem_.params;
    return 2 * p.batch * problem_.heads_of(share).first_kv * rows(rank_) * p.head_dim;
  }
  Index storage() const { return bytes_of(problem_.params.dtype); }

  // Return `member`'s block at turn `turn`, and where its gradient is summed and comes in.
  std::byte* kv(int turn, int member) const {
    if (turn > 0) return mine_.extra_kv(size_ - 1 + (turn - 1) % 2 * size_ + member);
    if (member != number()) return mine_.extra_kv(index_of(member));
    return mine_.own_kv() + own_kv_at(number()) * storage();
  }
  float* sum(int turn, int member) const {
    if (groups_ > 1) return mine_.extra_gradient(turn % 2 * size_ + member);
    return member == number() ? own_gradient(number()) : mine_.extra_gradient(index_of(member));
  }
  // The last one to arrive is this rank's own, or another member's, complete.
  float* incoming(int turn, int member) const {
    if (groups_ == 1) return sum(turn, member);
    return turn == groups_ && member == number() ? own_gradient(number())
                                                 : mine_.extra_gradient(2 * size_ + member);
  }
  float* own_gradient(int share) const { return mine_.own_gradient() + own_kv_at(share); }
  // Return the gradient that is added to another.
  float* share_to_add() const { return mine_.extra_gradient(groups_ > 1 ? 3 * size_ : size_ - 1); }

 private:
  int index_of(int member) const { return member < number() ? member : member - 1; }

  const RingProblem& problem_;
  RankMemory& mine_;
  int size_, rank_, groups_ = 1;
  HeadShare heads_;
};

// The messages of one pass.
class Messages {
 public:
  Messages(Communicator& comm, const RingProblem& problem, RankMemory& mine, const Member& me,
           Pass pass)
      : comm_(comm), problem_(problem), mine_(mine), me_(me), pass_(pass) {}

  // Give the member k places on its heads of this rank's rows, and take this rank's heads of the
  // rows of the one k places back. `base` and `row_bytes` are of a tensor of queries.
  Completion queries_to_heads(int k, std::byte* base, Index row_bytes) {
    const int to = me_.on(k), from = me_.on(-k);
    const AttentionParams& p = problem_.params;
    return exchange(
        k, Payload::kv, me_.rank_of(me_.number()), base + me_.own_at(to) * row_bytes,
        p.batch * problem_.heads_of(to).num_heads * me_.rows(me_.rank_of(me_.number())) * row_bytes,
        me_.rank_of(from), base + me_.queries_at(from) * row_bytes,
        p.batch * me_.heads().num_heads * me_.rows(me_.rank_of(from)) * row_bytes, {});
  }
  Completion kv_to_heads(int k) {
    const int to = me_.on(k), from = me_.on(-k), self = me_.rank_of(me_.number());
    return exchange(k, Payload::kv, self, mine_.own_kv() + me_.own_kv_at(to) * me_.storage(),
                    me_.kv_values_of(problem_.heads_of(to), self) * me_.storage(),
                    me_.rank_of(from), me_.kv(0, from),
                    me_.kv_values_of(me_.heads(), me_.rank_of(from)) * me_.storage(), {});
  }
  // Return results of this rank's heads to the rank whose rows they are, and take its own rows'.
  Completion queries_to_rows(int k, float* base, Index width, const Completion& ready) {
    const int to = me_.on(k), from = me_.on(-k), self = me_.rank_of(me_.number());
    const AttentionParams& p = problem_.params;
    return exchange(k, Payload::dkv, me_.rank_of(to), base + me_.queries_at(to) * width,
                    p.batch * me_.heads().num_heads * me_.rows(me_.rank_of(to)) * width * 4, self,
                    base + me_.own_at(from) * width,
                    p.batch * problem_.heads_of(from).num_heads * me_.rows(self) * width * 4,
                    {ready});
  }
  Completion gradient_to_rows(int k, const float* sum, float* to_here, const Completion& ready,
                              const Completion& free) {
    const int to = me_.on(k), from = me_.on(-k), self = me_.rank_of(me_.number());
    return exchange(k, Payload::dkv, me_.rank_of(to), sum,
                    me_.kv_values_of(me_.heads(), me_.rank_of(to)) * 4, self, to_here,
                    me_.kv_values_of(problem_.heads_of(from), self) * 4, {ready, free});
  }
  // Pass on, to the next group, the block of turn `turn` or the sum of its gradients.
  Completion to_next_group(int turn, int k, Payload payload, const void* send, void* recv,
                           std::initializer_list<Completion> after) {
    const int member = me_.on(k), owner = me_.owner(turn, member);
    const int next_owner = me_.owner(turn + 1, member);
    const Index bytes = payload == Payload::kv ? me_.storage() : 4;
    return comm_.exchange({.pass = pass_,
                           .payload = payload,
                           .step = me_.step(pass_, turn, k).step,
                           .send_owner = owner,
                           .send = send,
                           .send_bytes = me_.kv_values_of(me_.heads(), owner) * bytes,
                           .recv_owner = next_owner,
                           .recv = recv,
                           .recv_bytes = me_.kv_values_of(me_.heads(), next_owner) * bytes,
                           .way = Way::between_nodes,
                           .to = me_.next_group(),
                           .from = me_.previous_group()},
                          after);
  }

 private:
  Completion exchange(int k, Payload payload, int send_owner, const void* send, Index send_bytes,
                      int recv_owner, void* recv, Index recv_bytes,
                      std::initializer_list<Completion> after) {
    return comm_.exchange({.pass = pass_,
                           .payload = payload,
                           .step = payload == Payload::kv ? 0 : comm_.world_size() - 1,
                           .send_owner = send_owner,
                           .send = send,
                           .send_bytes = send_bytes,
                           .recv_owner = recv_owner,
                           .recv = recv,
                           .recv_bytes = recv_bytes,
                           .to = me_.rank_of(me_.on(k)),
                           .from = me_.rank_of(me_.on(-k))},
                          after);
  }

  Communicator& comm_;
  const RingProblem& problem_;
  RankMemory& mine_;
  const Member& me_;
  Pass pass_;
};

// When the blocks of the group that is attended now are there and, by the block's place in the
// group, how the loop goes on.
struct Turn {
  std::vector<Completion> arrived, attended;
  explicit Turn(int size) : arrived(size), attended(size) {}

  // Bring the blocks of turn `turn` + 1, each into the buffer of turn `turn` - 1, and return them.
  // The blocks of that turn were attended, and were sent on when those of `turn` arrived.
  Turn start_next(Messages& messages, const Member& me, int turn, const Turn& before) const {
    Turn next(me.size());
    if (turn + 1 == me.groups()) return next;
    for (int k = 0; k < me.size(); ++k)
      next.arrived[k] =
          messages.to_next_group(turn, k, Payload::kv, me.kv(turn, me.on(k)),
                                 me.kv(turn + 1, me.on(k)), {arrived[k], before.attended[k]});
    return next;
  }
};

}  // namespace

void hybrid_forward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                    RankMemory& mine) {
  const Member me(comm, problem, mine);
  Messages messages(comm, problem, mine, me, Pass::forward);
  const Index d = problem.params.head_dim;
  const auto queries = [&](int k) {
    return mine.query_block(me.queries_at(me.on(k)), me.rows(me.rank_of(me.on(k))));
  };
  const auto state = [&](int k) { return mine.softmax_state(me.queries_at(me.on(k))); };

  std::vector<Completion> queries_here(me.size());
  Turn now(me.size()), before(me.size());
  for (int k = 1; k < me.size(); ++k)
    queries_here[me.size() - k] = messages.queries_to_heads(k, mine.q.data(), d * me.storage());
  for (int k = 1; k < me.size(); ++k) now.arrived[me.size() - k] = messages.kv_to_heads(k);

  backend.use_heads(me.heads());
  for (int k = 0; k < me.size(); ++k) backend.begin(queries(k), state(k));
  for (int turn = 0; turn < me.groups(); ++turn) {
    Turn next = now.start_next(messages, me, turn, before);
    for (int k = 0; k < me.size(); ++k) {
      const StepInfo step = me.step(Pass::forward, turn, k);
      const KvBlock block{me.kv(turn, me.on(k)), me.rows(step.kv_owner)};
      for (int j = 0; j < me.size(); ++j) {
        if (turn == 0 && k == 0) backend.await(step, Payload::kv, queries_here[j]);
        const int rank = me.rank_of(me.on(j));
        now.attended[k] = backend.attend(step, problem.region(rank, step.kv_owner), queries(j),
                                         block, state(j), now.arrived[k]);
      }
    }
    before = std::move(now);
    now = std::move(next);
  }
  std::vector<Completion> finished(me.size());
  for (int k = 0; k < me.size(); ++k) finished[k] = backend.finish(queries(k), state(k));
  for (int k = 1; k < me.size(); ++k) {
    messages.queries_to_rows(k, mine.out_accum.data(), d, finished[k]);
    finished[k] = messages.queries_to_rows(k, mine.lse.data(), 1, finished[k]);
  }
  const StepInfo last{Pass::forward, comm.world_size() - 1, comm.rank(), true};
  for (int k = 1; k < me.size(); ++k) backend.await(last, Payload::dkv, finished[k]);
}

KvGradient hybrid_backward(Communicator& comm, BlockBackend& backend, const RingProblem& problem,
                           RankMemory& mine) {
  const Member me(comm, problem, mine);
  Messages messages(comm, problem, mine, me, Pass::backward);
  const Index d = problem.params.head_dim;
  const auto queries = [&](int k) {
    return mine.query_block(me.queries_at(me.on(k)), me.rows(me.rank_of(me.on(k))));
  };
  const auto state = [&](int k) { return mine.backward_state(me.queries_at(me.on(k))); };
  const StepInfo first = me.step(Pass::backward, 0, 0);

  // Q, and the blocks of this group, are still here from the forward pass.
  std::vector<Completion> dout_here(me.size());
  for (int k = 1; k < me.size(); ++k)
    dout_here[me.size() - k] = messages.queries_to_heads(k, mine.dout.data(), d * me.storage());
  backend.use_heads(me.heads());
  Turn now(me.size()), before(me.size());
  for (int k = 0; k < me.size(); ++k) {
    backend.await(first, Payload::kv, dout_here[k]);
    before.attended[k] = backend.begin_backward(queries(k), state(k));
  }

  std::vector<Completion> sums(me.size());  // of all groups, at the end
  for (int turn = 0; turn < me.groups(); ++turn) {
    Turn next = now.start_next(messages, me, turn, before);
    for (int k = 0; k < me.size(); ++k) {
      const StepInfo step = me.step(Pass::backward, turn, k);
      const KvBlock block{me.kv(turn, me.on(k)), me.rows(step.kv_owner)};
      const KvGradient sum{me.sum(turn, me.on(k)), block.rows};
      const KvGradient one_share{me.share_to_add(), block.rows};
      Completion summed;
      for (int j = 0; j < me.size(); ++j) {
        const Region region = problem.region(me.rank_of(me.on(j)), step.kv_owner);
        now.attended[k] = summed = backend.attend_backward(
            step, region, queries(j), block, state(j), j == 0 ? sum : one_share, now.arrived[k]);
        if (j > 0) summed = backend.add(step, sum, one_share, summed);
      }
      if (turn > 0)
        summed = backend.add(step, sum, {me.incoming(turn, me.on(k)), block.rows}, sums[k]);
      sums[k] = me.groups() == 1
                    ? summed
                    : messages.to_next_group(turn, k, Payload::dkv, sum.data,
                                             me.incoming(turn + 1, me.on(k)), {summed});
    }
    before = std::move(now);
    now = std::move(next);
  }

  const StepInfo last{Pass::backward, comm.world_size() - 1, comm.rank(), true};
  std::vector<Completion> finished(me.size());
  for (int k = 0; k < me.size(); ++k)
    finished[k] = backend.finish_backward(last, queries(k), state(k), nullptr);
  for (int k = 1; k < me.size(); ++k) messages.queries_to_rows(k, mine.dq.data(), d, finished[k]);
  // The first gradient of a kv head goes to its place, and those of other members are added.
  backend.await(last, Payload::dkv, sums[0]);
  Completion added = finished.back();
  std::vector<bool> has_come(problem.params.num_heads_kv, false);
  has_come[me.heads().first_kv] = true;
  for (int k = 1; k < me.size(); ++k) {
    const int from = me.on(-k);
    const auto kv_head = static_cast<std::size_t>(problem.heads_of(from).first_kv);
    const bool is_first = !has_come[kv_head];
    has_come[kv_head] = true;
    const KvGradient own{me.own_gradient(from), me.rows(comm.rank())};
    const KvGradient one_share{is_first ? own.data : me.share_to_add(), own.rows};
    const Completion here = messages.gradient_to_rows(k, me.incoming(me.groups(), me.on(k)),
                                                      one_share.data, sums[k], added);
    if (is_first) {
      backend.await(last, Payload::dkv, here);
    } else {
      added = backend.add(last, own, one_share, here);
    }
  }
  return {mine.own_gradient(), me.rows(comm.rank())};
}

}  // namespace ringscope
