#include "core/sim/search/ring_deal.h"

#include <algorithm>

namespace ringscope {

Chunks::Chunks(const Mask& mask, Index rows, Granularity granularity)
    : mask_(mask),
      rows_(rows),
      granularity_(granularity),
      count_(static_cast<int>(ceil_div(mask.seqlen, rows))) {
  if (mask.is_in_pieces()) return;
  for (Index first = 0; first < mask.seqlen; first += rows) {
    first_.push_back(mask.allowed_keys(first));
    last_.push_back(mask.allowed_keys(min_of(first + rows, mask.seqlen) - 1));
  }
}

// The ends of the rows' intervals never decrease from row to row.
Chunks::Allowed Chunks::allowed(int queries, int keys) const {
  if (mask_.is_in_pieces()) return Allowed::some;
  const Interval k = positions(keys);
  const Interval &first = first_[queries], &last = last_[queries];
  if (last.last <= k.first || k.last <= first.first) return Allowed::none;
  return last.first <= k.first && k.last <= first.last ? Allowed::all : Allowed::some;
}

Region Chunks::region(int queries, int keys) const {
  const auto rows = [this](int chunk) {
    const Interval here = positions(chunk);
    return LocalRows{{{here.first, 1, here.size()}, {mask_.seqlen, 1, 0}}};
  };
  return {mask_, rows(queries), rows(keys)};
}

template <class Count>
Index Chunks::pairs_or(int queries, int keys, Count&& of_some) const {
  switch (allowed(queries, keys)) {
    case Allowed::none:
      return 0;
    case Allowed::all:
      return positions(queries).size() * positions(keys).size();
    default:
      return of_some(region(queries, keys));
  }
}

Index Chunks::pairs(int queries, int keys) const {
  return pairs_or(queries, keys, [](const Region& region) { return region.pairs(); });
}

Index Chunks::computed_pairs(int queries, int keys) const {
  return pairs_or(queries, keys, [this](const Region& region) {
    return ringscope::computed_pairs(region, granularity_);
  });
}

ChunkWork::ChunkWork(int chunks) : chunks_(chunks) {
  by_queries_.resize(at(chunks + 1, 0));
  by_keys_.resize(by_queries_.size());
}

void ChunkWork::set(int queries, int keys, double work) {
  total_ += work - of(queries, keys);
  by_queries_[at(queries, keys)] = work;
  by_keys_[at(keys, queries)] = work;
}

RingDeal::RingDeal(const ChunkWork& work, int world_size, const std::vector<int>& rank_of,
                   const std::vector<double>& speeds)
    : work_(work), world_size_(world_size), rank_of_(rank_of) {
  const auto n = static_cast<std::size_t>(world_size);
  slowness_.assign(n, 1);
  for (std::size_t rank = 0; rank < speeds.size(); ++rank) slowness_[rank] = 1 / speeds[rank];
  const auto chunks = static_cast<std::size_t>(work.chunks());
  work_at_.resize(n * n);
  with_keys_of_.resize((chunks + 1) * n);
  with_rows_of_.resize((chunks + 1) * n);
  for (int chunk = 0; chunk < work.chunks(); ++chunk) {
    double* const keys = with_keys_of_.data() + static_cast<std::size_t>(chunk) * n;
    double* const rows = with_rows_of_.data() + static_cast<std::size_t>(chunk) * n;
    for (int other = 0; other < work.chunks(); ++other) {
      if (rank_of_[other] == kNobody) continue;
      keys[rank_of_[other]] += work.row(chunk)[other];
      rows[rank_of_[other]] += work.column(chunk)[other];
    }
    const int rank = rank_of_[chunk];
    if (rank == kNobody) continue;
    for (int owner = 0; owner < world_size; ++owner)
      work_at(step_of(rank, owner), rank) += keys[owner];
  }
  busiest_.resize(n);
  for (int step = 0; step < world_size; ++step) {
    rank_busiest(step);
    cost_.slowest += time_at(step, slowest_rank(step));
    for (int rank = 0; rank < world_size; ++rank)
      cost_.squares += work_at(step, rank) * time_at(step, rank);
  }
}

// Return whether a rank that takes this long may be among a step's busiest.
bool RingDeal::may_be_busiest(int step, double time) const { return time >= busiest_[step].least; }

void RingDeal::rank_busiest(int step) {
  Busiest& busiest = busiest_[step];
  busiest.count = 0;
  const auto most = static_cast<int>(busiest.ranks.size());
  for (int rank = 0; rank < world_size_; ++rank) {
    const double time = time_at(step, rank);
    int at = busiest.count;
    while (at > 0 && time_at(step, busiest.ranks[at - 1]) < time) --at;
    if (at == most) continue;
    busiest.count = std::min(busiest.count + 1, most);
    for (int k = busiest.count - 1; k > at; --k) busiest.ranks[k] = busiest.ranks[k - 1];
    busiest.ranks[at] = rank;
  }
  busiest.least = busiest.count < most ? 0 : time_at(step, busiest.ranks[most - 1]);
}

// Return the work of `rank` with `owner` after the trades. At least one of the two trades.
double RingDeal::after_trades(int rank, int owner, const Trade& a, const Trade& b) const {
  const Trade* const of_rank = rank == a.rank ? &a : rank == b.rank ? &b : nullptr;
  const Trade* const of_owner = owner == a.rank ? &a : owner == b.rank ? &b : nullptr;
  double work = work_at(step_of(rank, owner), rank);
  if (of_rank) work += with_keys_of(of_rank->in)[owner] - with_keys_of(of_rank->out)[owner];
  if (of_owner) work += with_rows_of(of_owner->in)[rank] - with_rows_of(of_owner->out)[rank];
  if (of_rank && of_owner)
    work += work_.of(of_rank->in, of_owner->in) - work_.of(of_rank->in, of_owner->out) -
            work_.of(of_rank->out, of_owner->in) + work_.of(of_rank->out, of_owner->out);
  return work;
}

int RingDeal::changes_at(int step, const Trade& a, const Trade& b,
                         std::array<NewWork, 4>& changes) const {
  int count = 0;
  const auto change = [&](int rank) {
    for (int k = 0; k < count; ++k)
      if (changes[k].rank == rank) return;
    const int owner = rank >= step ? rank - step : rank - step + world_size_;
    changes[count++] = {rank, after_trades(rank, owner, a, b)};
  };
  for (const Trade* const trade : {&a, &b}) {
    if (trade->rank == kNobody) continue;
    change(trade->rank);
    const int reader = trade->rank + step;
    change(reader >= world_size_ ? reader - world_size_ : reader);
  }
  return count;
}

DealCost RingDeal::cost_of(const Trade& a, const Trade& b) const {
  DealCost cost{0, cost_.squares};
  std::array<NewWork, 4> changes;
  for (int step = 0; step < world_size_; ++step) {
    const int count = changes_at(step, a, b, changes);
    double slowest = 0;
    const auto is_changed = [&](int rank) {
      return std::any_of(changes.begin(), changes.begin() + count,
                         [rank](const NewWork& change) { return change.rank == rank; });
    };
    const Busiest& busiest = busiest_[step];
    for (int k = 0; k < busiest.count; ++k) {
      const int rank = busiest.ranks[k];
      if (is_changed(rank)) continue;
      slowest = time_at(step, rank);
      break;
    }
    for (int k = 0; k < count; ++k) {
      const auto [rank, work] = changes[k];
      const double before = work_at(step, rank);
      slowest = std::max(slowest, work * slowness_[rank]);
      cost.squares += (work - before) * (work + before) * slowness_[rank];
    }
    cost.slowest += slowest;
  }
  return cost;
}

void RingDeal::carry_out(const Trade& a, const Trade& b) {
  std::array<NewWork, 4> changes;
  cost_.slowest = 0;
  for (int step = 0; step < world_size_; ++step) {
    const int count = changes_at(step, a, b, changes);
    bool is_order_changed = false;
    for (int k = 0; k < count; ++k) {
      const auto [rank, work] = changes[k];
      const double before = work_at(step, rank);
      cost_.squares += (work - before) * (work + before) * slowness_[rank];
      work_at(step, rank) = work;
      is_order_changed =
          is_order_changed || may_be_busiest(step, std::max(work, before) * slowness_[rank]);
    }
    if (is_order_changed) rank_busiest(step);
    cost_.slowest += time_at(step, slowest_rank(step));
  }
  const auto n = static_cast<std::size_t>(world_size_);
  for (const Trade* const trade : {&a, &b}) {
    if (trade->rank == kNobody) continue;
    const auto rank = static_cast<std::size_t>(trade->rank);
    const double *const out = work_.column(trade->out), *const in = work_.column(trade->in);
    const double *const out_row = work_.row(trade->out), *const in_row = work_.row(trade->in);
    for (int chunk = 0; chunk < work_.chunks(); ++chunk) {
      with_keys_of_[static_cast<std::size_t>(chunk) * n + rank] += in[chunk] - out[chunk];
      with_rows_of_[static_cast<std::size_t>(chunk) * n + rank] += in_row[chunk] - out_row[chunk];
    }
    if (trade->in != work_.no_chunk()) rank_of_[trade->in] = trade->rank;
  }
}

DealCost RingDeal::cost_of_exchange(int a, int b) const {
  return cost_of({rank_of(a), a, b}, {rank_of(b), b, a});
}

void RingDeal::exchange(int a, int b) { carry_out({rank_of(a), a, b}, {rank_of(b), b, a}); }

DealCost RingDeal::cost_of_move(int chunk, int rank) const {
  return cost_of({rank_of(chunk), chunk, work_.no_chunk()}, {rank, work_.no_chunk(), chunk});
}

void RingDeal::move(int chunk, int rank) {
  carry_out({rank_of(chunk), chunk, work_.no_chunk()}, {rank, work_.no_chunk(), chunk});
}

DealCost RingDeal::cost_of_gift(int chunk, int rank) const {
  return cost_of({rank, work_.no_chunk(), chunk}, {kNobody, 0, 0});
}

void RingDeal::give(int chunk, int rank) {
  carry_out({rank, work_.no_chunk(), chunk}, {kNobody, 0, 0});
}

}  // namespace ringscope
