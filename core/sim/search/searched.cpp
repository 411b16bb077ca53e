#include "core/sim/search/searched.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/ring/ring.h"
#include "core/sim/search/ring_deal.h"

namespace ringscope {
namespace {

constexpr double kEffort = 2.4e7;              // of a search: exchanges x ranks
constexpr double kMostGreedyEffort = 1 << 24;  // chunks x ranks x steps
constexpr int kFewestExchanges = 20'000, kMostExchanges = 1'000'000;

// Return the shortest length that the request allows, or a slightly longer one that gives all ranks
// the same even number of chunks, so that pairs of chunks can balance.
Index chunk_rows_of(const SearchRequest& request) {
  const Index seqlen = request.job.shape.seqlen, pairs = 2 * Index{request.job.world_size};
  const Index tile = std::lcm(request.granularity.rows, request.granularity.keys);
  const Index shortest =
      max_of(max_of(request.least_chunk_rows, ceil_div(seqlen, request.most_chunks)), 1);
  const Index rows = round_up(shortest, tile);
  const Index even = round_up(ceil_div(seqlen, pairs * max_of(seqlen / rows / pairs, 1)), tile);
  return even <= rows + rows / 8 ? even : rows;
}

// Slots are chunks plus spares without positions: at most one per rank, so all hold as many. Ranks of
// unequal speed hold any number of chunks, and no spares.
struct Slots {
  int chunks, world_size;
  std::vector<double> speeds;  // empty: equal
  bool are_equal() const { return speeds.empty(); }
  int a_rank() const { return static_cast<int>(ceil_div(chunks, world_size)); }
  int count() const { return are_equal() ? a_rank() * world_size : chunks; }
  double speed() const {  // of all ranks together
    return are_equal() ? world_size : std::accumulate(speeds.begin(), speeds.end(), 0.0);
  }
  bool is_spare(int slot) const { return slot >= chunks; }
};

ChunkWork work_of(const Chunks& chunks, const Slots& slots) {
  ChunkWork work(slots.count());
  for (int q = 0; q < chunks.count(); ++q)
    for (int k = 0; k < chunks.count(); ++k)
      work.set(q, k, static_cast<double>(chunks.computed_pairs(q, k)));
  return work;
}

// Give the spare slots to the ranks that have fewer.
void deal_spares(const Slots& slots, std::vector<int>& rank_of) {
  std::vector<int> held(slots.world_size);
  for (int slot = 0; slot < slots.chunks; ++slot) ++held[rank_of[slot]];
  int rank = 0;
  for (int slot = slots.chunks; slot < slots.count(); ++slot) {
    while (held[rank] == slots.a_rank()) ++rank;
    rank_of[slot] = rank;
    ++held[rank];
  }
}

// Return a fixed partition, applied to chunks instead of positions.
std::vector<int> fixed_deal(PartitionKind kind, const Slots& slots) {
  std::vector<int> rank_of(slots.count());
  const Partition partition{kind, slots.chunks, slots.world_size};
  for (int rank = 0; rank < slots.world_size; ++rank) {
    const LocalRows mine = partition.rows_of(rank);
    for (Index i = 0; i < mine.size(); ++i) rank_of[mine.global_position(i)] = rank;
  }
  deal_spares(slots, rank_of);
  return rank_of;
}

std::vector<int> greedy_deal(const ChunkWork& work, const Slots& slots) {
  std::vector<double> weight(slots.chunks);
  for (int chunk = 0; chunk < slots.chunks; ++chunk)
    for (int other = 0; other < slots.chunks; ++other)
      weight[chunk] += work.row(chunk)[other] + work.column(chunk)[other];
  std::vector<int> order(weight.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return weight[a] > weight[b]; });

  RingDeal deal(work, slots.world_size, std::vector<int>(slots.count(), RingDeal::kNobody),
                slots.speeds);
  // Number of ranks that may get a full share; the others get one chunk less.
  int may_be_full = slots.chunks - (slots.a_rank() - 1) * slots.world_size;
  std::vector<int> room(slots.world_size, slots.a_rank());
  for (const int chunk : order) {
    int best = RingDeal::kNobody;
    double least = 0;
    for (int rank = 0; rank < slots.world_size; ++rank) {
      if (slots.are_equal() && room[rank] <= (may_be_full > 0 ? 0 : 1)) continue;
      const double squares = deal.cost_of_gift(chunk, rank).squares;
      if (best != RingDeal::kNobody && squares >= least) continue;
      best = rank;
      least = squares;
    }
    deal.give(chunk, best);
    if (--room[best] == 0) --may_be_full;
  }
  std::vector<int> rank_of = deal.rank_of();
  deal_spares(slots, rank_of);
  return rank_of;
}

struct Start {
  std::string_view name;
  std::vector<int> rank_of;
};

Start best_start(const ChunkWork& work, const Slots& slots) {
  std::vector<Start> starts;
  for (const PartitionKind kind : kAllPartitions)
    starts.push_back({name_of(kind), fixed_deal(kind, slots)});
  if (static_cast<double>(slots.chunks) * slots.world_size * slots.world_size <= kMostGreedyEffort)
    starts.push_back({"greedy", greedy_deal(work, slots)});
  std::size_t best = 0;
  double least = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const double slowest =
        RingDeal(work, slots.world_size, starts[i].rank_of, slots.speeds).cost().slowest;
    if (i > 0 && slowest >= least) continue;
    best = i;
    least = slowest;
  }
  return std::move(starts[best]);
}

// Dice steps through a seed's random numbers.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : seed_(seed) {}
  int below(int n) {
    return static_cast<int>(random_bits(seed_, kStream, count_++) % static_cast<std::uint64_t>(n));
  }

 private:
  static constexpr std::uint64_t kStream = 0x5ea7c4;
  std::uint64_t seed_, count_ = 0;
};

// Each rank's slots, which RingDeal does not list.
class Hands {
 public:
  Hands(const Slots& slots, const std::vector<int>& rank_of)
      : slots_(slots), held_(static_cast<std::size_t>(slots.world_size)), has_spare_(held_.size()) {
    for (int slot = 0; slot < slots.count(); ++slot) {
      held_[rank_of[slot]].push_back(slot);
      if (slots.is_spare(slot)) has_spare_[rank_of[slot]] = true;
    }
  }
  int of(int rank, int k) const { return held_[rank][k]; }
  int size(int rank) const { return static_cast<int>(held_[rank].size()); }
  // Return whether no rank would hold two spare slots.
  bool may_exchange(int rank_a, int a, int rank_b, int b) const {
    if (slots_.is_spare(a) == slots_.is_spare(b)) return !slots_.is_spare(a);
    const int taker = slots_.is_spare(a) ? rank_b : rank_a;
    return !has_spare_[taker];
  }
  void exchange(int rank_a, int a, int rank_b, int b) {
    replace(rank_a, a, b);
    replace(rank_b, b, a);
  }
  void move(int rank_a, int a, int rank_b) {
    std::erase(held_[rank_a], a);
    held_[rank_b].push_back(a);
  }

 private:
  void replace(int rank, int out, int in) {
    std::vector<int>& held = held_[rank];
    *std::find(held.begin(), held.end(), out) = in;
    has_spare_[rank] =
        std::any_of(held.begin(), held.end(), [this](int slot) { return slots_.is_spare(slot); });
  }
  Slots slots_;
  std::vector<std::vector<int>> held_;
  std::vector<bool> has_spare_;
};

// Search from `start` by exchanges. Return the best deal found.
std::vector<int> improved(const ChunkWork& work, const Slots& slots, const std::vector<int>& start,
                          double bound, int exchanges, std::uint64_t seed) {
  RingDeal deal(work, slots.world_size, start, slots.speeds);
  Hands hands(slots, start);
  Dice dice(seed);
  const int n = slots.world_size;
  // A unit of work more on a rank of mean work adds this to the squares.
  const double a_square = work.total() / slots.speed() / n * 2;
  const auto badness = [a_square](const DealCost& cost) {
    return cost.slowest + cost.squares / a_square;
  };
  std::vector<int> best = start;
  double least = deal.cost().slowest;
  for (int i = 0; i < exchanges && least > bound; ++i) {
    const int step = dice.below(n), slowest = deal.slowest_rank(step);
    const int rank_a = dice.below(2) == 0 ? slowest : RingSchedule{slowest, n}.owner(step);
    if (hands.size(rank_a) == 0) continue;
    const int a = hands.of(rank_a, dice.below(hands.size(rank_a)));
    const bool moves = !slots.are_equal() && dice.below(2) == 0;
    const int b = moves ? a : dice.below(slots.count());
    const int rank_b = moves ? dice.below(n) : deal.rank_of(b);
    if (rank_a == rank_b || (!moves && !hands.may_exchange(rank_a, a, rank_b, b))) continue;
    const DealCost cost = moves ? deal.cost_of_move(a, rank_b) : deal.cost_of_exchange(a, b);
    if (!(badness(cost) <= badness(deal.cost()))) continue;
    if (moves) {
      deal.move(a, rank_b);
      hands.move(rank_a, a, rank_b);
    } else {
      deal.exchange(a, b);
      hands.exchange(rank_a, a, rank_b, b);
    }
    if (deal.cost().slowest >= least) continue;
    least = deal.cost().slowest;
    best = deal.rank_of();
  }
  return best;
}

// Return a bound that no deal can be below: all work over all speeds; at equal ones also the work
// of a rank or owner that has the chunk with the most work and otherwise those with the least. (A
// rank works at every step, and some rank attends each owner's block at every step.)
double least_slowest(const ChunkWork& work, const Slots& slots) {
  if (!slots.are_equal()) return work.total() / slots.speed();
  const auto of_heaviest = [&](auto line_of) {
    std::vector<double> sums;
    for (int chunk = 0; chunk < slots.count(); ++chunk) {
      const double* const line = line_of(chunk);
      sums.push_back(std::accumulate(line, line + slots.count(), 0.0));
    }
    std::sort(sums.begin(), sums.end());
    return std::accumulate(sums.begin(), sums.begin() + slots.a_rank() - 1, sums.back());
  };
  return std::max({work.total() / slots.world_size,
                   of_heaviest([&](int chunk) { return work.row(chunk); }),
                   of_heaviest([&](int chunk) { return work.column(chunk); })});
}

Work work_of(const Chunks& chunks, const ChunkWork& work, const std::vector<int>& rank_of,
             int world_size) {
  const auto n = static_cast<std::size_t>(world_size);
  std::vector<Index> rows(n);
  std::vector<double> pairs(n * n), computed(n * n);
  for (int q = 0; q < chunks.count(); ++q) {
    const auto rank = static_cast<std::size_t>(rank_of[q]);
    rows[rank] += chunks.positions(q).size();
    for (int k = 0; k < chunks.count(); ++k) {
      const std::size_t at = rank * n + static_cast<std::size_t>(rank_of[k]);
      pairs[at] += static_cast<double>(chunks.pairs(q, k));
      computed[at] += work.of(q, k);
    }
  }
  return Work(std::move(rows), std::move(pairs), std::move(computed));
}

}  // namespace

std::vector<Interval> SearchedPartition::positions_of(int rank) const {
  std::vector<Interval> positions;
  for (std::size_t chunk = 0; chunk < rank_of_chunk.size(); ++chunk) {
    if (rank_of_chunk[chunk] != rank) continue;
    const Index first = static_cast<Index>(chunk) * chunk_rows;
    const Index last = min_of(first + chunk_rows, seqlen);
    if (!positions.empty() && positions.back().last == first) {
      positions.back().last = last;
    } else {
      positions.push_back({first, last});
    }
  }
  return positions;
}

std::shared_ptr<const Assignment> SearchedPartition::assignment(int world_size) const {
  std::vector<DealtRun> runs;
  for (std::size_t chunk = 0; chunk < rank_of_chunk.size(); ++chunk)
    runs.push_back({rank_of_chunk[chunk],
                    min_of(chunk_rows, seqlen - static_cast<Index>(chunk) * chunk_rows)});
  return std::make_shared<const Assignment>(runs, world_size);
}

SearchedPartition search_partition(const SearchRequest& request) {
  const Problem& job = request.job;
  const int n = job.world_size;
  if (n > kMostSearchedRanks)
    throw InputError(
        fmt::format("world-size: {} given for a searched partition; accepted: up to {}", n,
                    kMostSearchedRanks));
  for (const Index value : {request.granularity.rows, request.granularity.keys,
                            request.least_chunk_rows, request.most_chunks})
    if (value < 1)
      throw InputError(fmt::format(
          "tiles and chunks of a searched partition: {} given; accepted: at least 1", value));
  const std::vector<double>& speeds = job.speeds;
  const auto is_speed = [](double speed) {
    return std::isfinite(speed) && speed > 0 && std::isfinite(1 / speed);
  };
  if (!speeds.empty() &&
      (std::ssize(speeds) != n || !std::all_of(speeds.begin(), speeds.end(), is_speed)))
    throw InputError(fmt::format("speeds: {} given for {} ranks; accepted: a number above 0 a rank",
                                 speeds.size(), n));
  const Index rows = chunk_rows_of(request);
  const Chunks chunks(job.mask.for_seqlen(job.shape.seqlen), rows, request.granularity);
  const Slots slots{chunks.count(), n, are_equal(speeds) ? std::vector<double>() : speeds};
  const ChunkWork work = work_of(chunks, slots);
  const int exchanges = request.exchanges > 0 ? request.exchanges
                                              : std::clamp(static_cast<int>(kEffort / n),
                                                           kFewestExchanges, kMostExchanges);
  const Start start = best_start(work, slots);
  const double bound = least_slowest(work, slots);
  std::vector<int> rank_of = improved(work, slots, start.rank_of, bound, exchanges, request.seed);
  const auto slowest = [&](const std::vector<int>& deal) {
    return RingDeal(work, n, deal, slots.speeds).cost().slowest;
  };
  SearchedPartition found{.seqlen = job.shape.seqlen,
                          .chunk_rows = rows,
                          .rank_of_chunk = {},
                          .work = work_of(chunks, work, rank_of, n),
                          .start = start.name,
                          .start_slowest = slowest(start.rank_of),
                          .slowest = slowest(rank_of),
                          .least_slowest = bound,
                          .exchanges = exchanges};
  rank_of.resize(slots.chunks);
  found.rank_of_chunk = std::move(rank_of);
  return found;
}

bool are_equal(const std::vector<double>& speeds) {
  return std::adjacent_find(speeds.begin(), speeds.end(), std::not_equal_to()) == speeds.end();
}

Balance balance_of(const Work& work, const std::vector<double>& speeds) {
  const int n = work.world_size();
  Balance balance;
  std::vector<double> ranks(n);
  double all = 0;
  for (int step = 0; step < n; ++step) {
    double slowest = 0;
    for (int rank = 0; rank < n; ++rank) {
      const double computed = work.computed_pairs(rank, RingSchedule{rank, n}.owner(step)) /
                              (speeds.empty() ? 1 : speeds[rank]);
      slowest = std::max(slowest, computed);
      ranks[rank] += computed;
      all += computed;
    }
    balance.steps.push_back({1, slowest, step != n - 1});
  }
  balance.mean_rank = all / n;
  balance.slowest_rank = *std::max_element(ranks.begin(), ranks.end());
  return balance;
}

}  // namespace ringscope
