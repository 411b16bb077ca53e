#include "core/sim/ulysses.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/cost/amounts.h"
#include "core/cost/time.h"
#include "core/sim/account.h"

namespace ringscope {
namespace {

struct Slowest {
  double seconds = 0;
  int rank = 0;
};

class AllToAllRun {
 public:
  // `whole` is the work of the whole sequence, for every head.
  AllToAllRun(Account& account, WorkAmount whole)
      : account_(account), n_(account.world_size()), whole_(whole), takes_(n_) {}

  // Run a pass and return its seconds.
  double run() {
    const bool forward = account_.pass() == Pass::forward;
    double now = 0;
    now += exchange(0, Payload::kv, now);
    now += compute(now);
    now += exchange(1, forward ? Payload::kv : Payload::dkv, now);
    for (int rank = 0; rank < n_; ++rank) account_.ended(rank, now);
    if (n_ > 1) account_.hopped(2, 0);
    return now;
  }

  const CriticalPath& path() const { return path_; }

 private:
  double exchange(int step, Payload payload, double begin) {
    if (n_ == 1) return 0;
    Slowest slowest;
    std::vector<double> bytes(n_);
    for (int rank = 0; rank < n_; ++rank) {
      const AllToAlls both = all_to_alls_of(account_.job(), account_.pass(), rank);
      bytes[rank] = step == 0 ? both.there_bytes : both.back_bytes;
      const Machine& machine = account_.machine();
      const Path path = machine.path_to_all(rank);
      double& takes = takes_[rank];
      takes = all_to_all_seconds(bytes[rank], n_, path.bytes_per_s, path.latency_s);
      if (machine.hop_jitter > 0)
        takes *= 1 + machine.hop_jitter *
                         jitter_draw(machine.seed, JitterOf::kv_hop, account_.pass(), rank, step);
      if (takes > slowest.seconds) slowest = {takes, rank};
    }
    for (int rank = 0; rank < n_; ++rank) {
      const int next = rank == n_ - 1 ? 0 : rank + 1, previous = rank == 0 ? n_ - 1 : rank - 1;
      // Every rank waits for the slowest one's message, so all take as long.
      Hop hop{payload, step, rank, next, rank, bytes[rank]};
      hop.seconds = takes_[rank];
      account_.moved(hop, {begin, begin + slowest.seconds});
      account_.exposed(rank, slowest.seconds);
      account_.waited(rank, step, rank, payload, {begin, begin + slowest.seconds},
                      slowest.rank == rank ? previous : slowest.rank);
    }
    path_.hop_s += slowest.seconds;
    visit(slowest.rank);
    return slowest.seconds;
  }

  // Compute each rank's share of the heads.
  double compute(double begin) {
    Slowest slowest;
    const WorkAmount share{whole_.pairs / n_, whole_.computed / n_};
    for (int rank = 0; rank < n_; ++rank) {
      const Computation mine = account_.computation(rank, 0, share);
      account_.computed(rank, 0, rank, begin, mine);
      takes_[rank] = mine.seconds;
      if (mine.seconds > slowest.seconds) slowest = {mine.seconds, rank};
    }
    for (int rank = 0; rank < n_; ++rank)
      account_.waited(rank, 0, rank, Payload::kv, {begin + takes_[rank], begin + slowest.seconds},
                      slowest.rank);
    if (account_.pass() == Pass::forward) account_.step_of(share.pairs * n_, share.pairs);
    path_.compute_s += slowest.seconds;
    visit(slowest.rank);
    return slowest.seconds;
  }

  void visit(int rank) {
    std::vector<int>& ranks = path_.ranks;
    ranks.erase(std::remove(ranks.begin(), ranks.end(), rank), ranks.end());
    ranks.insert(ranks.begin(), rank);
  }

  Account& account_;
  int n_;
  WorkAmount whole_;
  std::vector<double> takes_;
  CriticalPath path_;
};

// Return the work of all rows, in the order of their positions, because a rank has them all.
WorkAmount whole_sequence(const Problem& job, const Granularity& granularity) {
  const double pairs = total_pairs(job);
  if (granularity.rows == 1 && granularity.keys == 1) return {pairs, pairs};
  const LocalRows rows = Partition{PartitionKind::contiguous, job.shape.seqlen, 1}.rows_of(0);
  const Region all{job.mask.for_seqlen(job.shape.seqlen), rows, rows};
  return {pairs, static_cast<double>(computed_pairs(all, granularity))};
}

}  // namespace

Simulation simulate_ulysses(const SimulationRequest& request, const Work& work,
                            const Machine& machine) {
  const Problem& job = request.job;
  if (machine.cores > 0 && machine.cores < job.world_size)
    throw InputError(
        fmt::format("cores: {} given for {} ranks; accepted for ulysses: at least as many",
                    machine.cores, job.world_size));
  Account account(request, work, machine);
  AllToAllRun run(account, whole_sequence(job, work.granularity()));
  account.result.forward_s = run.run();
  if (job.backward) {
    account.begin_pass(Pass::backward, account.result.forward_s);
    account.result.backward_s = run.run();
  }
  if (request.with_path) account.result.path = run.path();
  return std::move(account.result);
}

}  // namespace ringscope
