// What the search for a mistake (diagnosis.cpp) works with: rows of a right ring taken apart, and the
// table of hypotheses, which say what such a row would be if a mistake had been made. The same table
// makes mistakes on purpose (make_mistake() in mistakes.h).
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tools/check/verdict.h"

namespace ringscope {

using Values = std::vector<double>;
inline constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

// The place of a global position: which rank holds it, as which of its rows.
struct Place {
  int rank = 0;
  Index local_row = 0;
};

// Where every position lies in a deal, and back.
struct DealtRows {
  std::vector<Place> places;                  // by global position
  std::vector<std::vector<Index>> positions;  // by rank and local row

  explicit DealtRows(const Partition& partition);
};

// Up to so many ranks everything is tried with each; of more ranks with some.
inline constexpr int kManyRanks = 64;
// Return the numbers from 0 to ranks - 1, of many ranks those near both ends.
std::vector<int> near_numbers(int ranks);

// What all hypotheses know.
struct Knowledge {
  const CheckedProblem& problem;
  const CheckedInputs& inputs;
  const NaiveResult<double>& oracle;  // with options.rows, other rows of it mean nothing
  const NaiveResult<double>& mine;    // tensors that it lacks are empty
  const DiagnosisOptions& options;
  Mask mask = problem.mask.for_seqlen(problem.shape.seqlen);
  DealtRows deal = DealtRows(problem.partition);
  DealtRows query_deal = DealtRows(problem.partition.queries);
  std::vector<int> numbers = numbers_to_try();  // of owners and of steps

  Index seqlen() const { return problem.shape.seqlen; }
  Index width() const { return problem.shape.head_dim; }
  int ranks() const { return problem.partition.world_size; }
  const double* row_of(const Values& tensor, Index head, Index position) const {
    return tensor.data() + (head * seqlen() + position) * width();
  }
  Values copy_of(const Values& tensor, Index head, Index position) const {
    const double* const row = row_of(tensor, head, position);
    return {row, row + width()};
  }
  // Return the right row of a tensor. With options.rows it is known at these positions alone.
  Values right_of(Tensor tensor, Index head, Index position) const {
    const Values& right = values_of(oracle, tensor);
    if (tensor == Tensor::lse) return {right[head * seqlen() + position]};
    return copy_of(right, head, position);
  }
  // Return where the rows of a tensor lie. A gradient of sinks has none of its own.
  const DealtRows& deal_of(Tensor tensor) const {
    return is_key_side(tensor) || tensor == Tensor::dsink ? deal : query_deal;
  }
  // Return whether the table of hypotheses is about such a problem: one width, no learned sinks, scores
  // without a cap, a query at each position, which lies where the key does. add_shapes() is about the others.
  bool is_plain() const {
    return problem.shape.value_dim() == width() && problem.sink_logits.empty() &&
           problem.softcap == 0 && problem.shape.is_square() &&
           problem.partition.queries.kind == problem.partition.kind &&
           problem.partition.queries.assignment == problem.partition.assignment;
  }
  // Call f(head x rows + position, position) for the rows of all heads that are looked at.
  template <class F>
  void for_rows(Tensor tensor, F&& f) const {
    const Index rows = seqlen_of(problem.shape, tensor);
    const Index count = options.rows.empty() ? rows : std::ssize(options.rows);
    for (Index head = 0; head < heads_of(problem.shape, tensor); ++head)
      for (Index i = 0; i < count; ++i) {
        const Index position = options.rows.empty() ? i : options.rows[i];
        f(head * rows + position, position);
      }
  }
  // Return whether a position lies in the second of its rank's two chunks.
  bool is_upper(Index position) const {
    const Place& place = deal.places[position];
    return place.local_row >= (std::ssize(deal.positions[place.rank]) + 1) / 2;
  }
  bool is_zigzag() const { return problem.partition.kind == PartitionKind::zigzag; }

 private:
  std::vector<int> numbers_to_try() const;
};

// What a row would be. What is not set is as it should be.
struct Guess {
  std::optional<Values> out, dq, dk, dv;
  std::optional<double> lse;
};

// The part of a softmax row over some keys: m, l and the unnormalised output.
struct RowPart {
  double m, l;
  Values acc;
};

// The softmax weight of a query and a key by the right lse, the gradient of the product q . k, and what
// rowsum(dO * O) takes from that.
struct PairWeight {
  double p, ds, by_delta;
};

// The rows of Q, K, V and dO, counted through all heads, that a pair's weight is made of.
struct PairRows {
  Index q, k, v, dout;
};
PairWeight weight_of(const Knowledge& known, const PairRows& rows, double lse, double delta);

// A row of out, lse and dq, from the query and the keys that it meets to its parts by KV owner.
struct QueryRow {
  const Knowledge* known = nullptr;
  Index head = 0, position = 0;  // the head is counted through the batch
  Place place{};
  Index kv_head = 0;
  double scale = 1;
  Values q{};
  const double *keys = nullptr, *values = nullptr;  // [seqlen, head_dim]
  std::vector<Index> k_from{}, v_from{};            // whose K and V stand at a key; empty: its own
  Values scores{};                                  // scaled, for every key
  Values counts{};                                  // how often every key counts
  std::vector<RowPart> owner_parts{};
  std::vector<Values> dq_shares{};    // by owner; only for gradients, as the following
  std::vector<PairWeight> weights{};  // of all keys

  Index k_source(Index key) const { return k_from.empty() ? key : k_from[key]; }
  Index v_source(Index key) const { return v_from.empty() ? key : v_from[key]; }
  // Take the queries of another row; or another head's keys and values.
  void ask_as(Index of_head, Index of_position);
  void read_kv_head(Index other);
  // Compute the scores again, from q, the keys and the scale; and the parts, from the scores.
  void rescore();
  void take_apart();
  // Return what all parts together make, each counted so often (empty: once): out and lse.
  Guess merged(const std::function<double(int owner)>& times = {}) const;
};

// A row of dk and dv. Shares are what the queries of one head and rank add to it.
struct KeyRow {
  Index kv_head = 0, position = 0;
  Place place{};
  std::vector<Index> heads{};             // query heads that the shares are of
  std::vector<std::vector<Values>> dk{};  // by index in heads, and by rank
  std::vector<std::vector<Values>> dv{};
  std::vector<std::vector<PairWeight>> weights{};  // by index in heads, and by query
};

// K of one head, turned to other positions.
struct TurnedKeys {
  Index kv_head = -1;
  Values keys{};
};

// One way to have made a mistake. `pairs` says how often a query at a position meets the key at another
// one; `blocks` how often a rank's queries meet an owner's block, as a factor. They describe a forward
// pass and a backward pass alike. `weigh` changes a query row's scores, or whose K and V stand where;
// `query` says what becomes of its parts, which are merged rightly otherwise, and of dq; `key` what
// becomes of dk and dv. A hypothesis with more freedom has a penalty above 1, which multiplies its
// distance, so that of two with the same numbers the simpler one comes first.
struct Hypothesis {
  using Pairs = std::function<double(Index, Index)>;
  using Blocks = std::function<double(int, int)>;
  using Weigh = std::function<void(QueryRow&)>;
  using Query = std::function<void(const QueryRow&, Guess&)>;
  using Key = std::function<void(const KeyRow&, Guess&)>;

  Mistake mistake;
  double penalty;
  std::string how;
  Pairs pairs = {};
  Blocks blocks = {};
  Weigh weigh = {};
  Query query = {};
  Key key = {};
  std::string mask = {};                    // of a wrong mask that has a name
  std::shared_ptr<double> near = {};        // a number that is only near, to come nearer
  double near_by = 1;                       // within this factor
  std::shared_ptr<TurnedKeys> turned = {};  // kept between rows, as long as they are of one head
  double rounding = 1;             // how many times that of right numbers its numbers may have
  bool is_one_of_several = false;  // others with the same numbers are never told from it
};

// The table. It refers to what all know.
struct Hypotheses : std::vector<Hypothesis> {
  Hypothesis& add(Mistake mistake, double penalty, std::string how) {
    return emplace_back(Hypothesis{mistake, penalty, std::move(how)});
  }
  void meet(Mistake mistake, double penalty, std::string how, Hypothesis::Pairs pairs) {
    add(mistake, penalty, std::move(how)).pairs = std::move(pairs);
  }
  void weigh(Mistake mistake, double penalty, std::string how, Hypothesis::Weigh change) {
    add(mistake, penalty, std::move(how)).weigh = std::move(change);
  }
  void merge(Mistake mistake, double penalty, std::string how, Hypothesis::Query made) {
    add(mistake, penalty, std::move(how)).query = std::move(made);
  }
};

// Return a . b, summed in parts that a processor can add up side by side.
inline double dot_of(const double* a, const double* b, Index width) {
  constexpr Index kParts = 8;
  double parts[kParts] = {}, sum = 0;
  const Index whole = width / kParts * kParts;
  for (Index c = 0; c < whole; c += kParts)
    for (Index i = 0; i < kParts; ++i) parts[i] += a[c + i] * b[c + i];
  for (Index c = whole; c < width; ++c) sum += a[c] * b[c];
  for (const double part : parts) sum += part;
  return sum;
}
Values scaled(Values values, double factor);
// Add values times a factor.
inline void add_to(Values& sum, double factor, const double* values) {
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += factor * values[c];
}
inline void add_to(Values& sum, double factor, const Values& values) {
  add_to(sum, factor, values.data());
}

// Return the KV owner that a rank attends at a ring step, and whose gradient arrives likewise.
inline int owner_at(int rank, int step, int ranks) { return (rank - step + ranks) % ranks; }

// The order in which a rank merges blocks, or a block's gradient meets ranks: from rank to rank
// downwards, as the blocks of this project's ring come, or upwards, or by their numbers.
enum class Order { down, up, by_owner };
inline int met_at(Order order, int rank, int step, int ranks) {
  return order == Order::by_owner ? step
         : order == Order::down   ? owner_at(rank, step, ranks)
                                  : (rank + step) % ranks;
}

// Take a right ring's rows apart. A query row has shares of dq if `gradients`.
QueryRow query_row(const Knowledge& known, Index head, Index position, bool gradients);
KeyRow key_row(const Knowledge& known, Index kv_head, Index position);

// Set out and lse from a row's m, l and unnormalised output.
void finish_row(double m, double l, const Values& acc, Guess& guess);

// Return a query row as the hypothesis makes it meet its keys, and what becomes of the row in a
// forward pass, or of dq.
QueryRow changed_by(const Hypothesis& hypothesis, QueryRow row);
Guess guess_of(const Hypothesis& hypothesis, const QueryRow& row);

// Return the right out, lse and, if there is a dout, dq of a row.
Guess right_row(const Knowledge& known, Index head, Index position);

// Other places of the positions: for every position another one, and how they come about.
struct Belief {
  std::string how;
  std::vector<Index> positions;
  double penalty = 1;
};
// Return, for every position, the position at the same local row of the rank `distance` further.
std::vector<Index> rows_of_rank_beyond(const DealtRows& deal, int distance);
// Return what ranks would take for the positions of their rows if they believed in another deal, or
// counted local rows, which come last; before them those whose ranks follow each other.
std::vector<Belief> wrong_positions(const Knowledge& known);
// Return whose right row may lie at each position. Every one moves some row.
std::vector<Belief> wrong_sources(const Knowledge& known);

// Where positions end that are counted in 15 or 16 bits.
inline constexpr Index kIndexEnds[] = {1 << 15, 1 << 16};

// The caps of scores from which others are found.
inline constexpr double kLeastCap = 0.25, kMostCap = 256;

// Another row of K, or V, or both, that a query row meets in place of a key's: another head's or
// step's, or what lies there if heads and rows have changed places. Rows are counted through all heads.
struct Reading {
  Mistake mistake;
  double penalty;
  std::string how;
  bool of_k, of_v;
  std::function<Index(Index query, Index key)> from;
};
std::vector<Reading> wrong_readings(const Knowledge& known);

// Return where the row of a tensor with so many heads lies if a program takes [seqlen, heads] for
// [heads, seqlen], or the other way round.
Index swapped_row(const Knowledge& known, Index row, Index heads, bool back);

// Add all hypotheses on outputs and lse; those of them that say which queries meet which keys; and all
// on gradients, these included.
void add_forward(const Knowledge& known, Hypotheses& table);
void add_meetings(const Knowledge& known, Hypotheses& table);
void add_gradients(const Knowledge& known, Hypotheses& table);
// Add those of a problem that is not plain, on out, lse and dq. Return the gradients besides that are right
// but for a factor.
void add_shapes(const Knowledge& known, Hypotheses& table);
std::vector<Suspect> wrong_factors(const Knowledge& known, const std::vector<TensorCheck>& checks);
// Add those on an accumulator that is rounded before each hop, which leave the last step alone.
void add_hop_roundings(const Knowledge& known, Hypotheses& table);
void add_gradient_roundings(const Knowledge& known, int roundings, Hypotheses& table);

// By what factor the rounding of the sampled rows, which are the worst, may exceed a whole tensor's.
constexpr double kRounding = 4;

template <class T>
using PerTensor = std::map<Tensor, T>;

// What the search looks at: the wrong tensors, with the rounding of each, and rows of theirs.
struct SampledRow {
  Tensor tensor;
  int rank;
  Index at;  // head x seqlen + position
};
struct Sample {
  std::set<Tensor> wrong;
  PerTensor<double> tolerances;
  std::vector<SampledRow> rows;
};
// Add the hypotheses that the given tensors suggest when they are held beside the right ones.
void add_seen(const Knowledge& known, const Sample& sample, Hypotheses& table);

// Add that every sum of a head has exp(logit) besides, once or by each block with keys; a head that
// is not named has a logit of 0. They are told from each other only if the numbers of blocks `differ`.
struct SinkFit {
  double once = 0, by_block = 0;  // logits
};
void add_sinks(const Knowledge& known, const std::map<Index, SinkFit>& fits, bool differ,
               Hypotheses& table);

// ---
// Finds the mistake behind wrong attention outputs by trying: each known mistake is made in f64 for
// a sample of the rows, and the one whose numbers are nearest to the given ones is the likely one.
// How sure that is, is the share of the error that the mistake explains.

// Return the mistakes that explain how `mine` differs from `oracle`, the likeliest first, each kind
// once. `checks` are of all given tensors. When out or lse is wrong, the gradients are left aside,
// because they follow. No mistake is named that would have changed a tensor that passes.
std::vector<Suspect> diagnose(const Knowledge& known, const std::vector<TensorCheck>& checks);

// Return the suspicion that the accumulator was rounded at every hop, or none. It sees this in
// outputs whose every element is as near to the oracle as 16 bits can be: the roundings of the hops
// leave a pattern that the rounding of the result alone does not have. `checks` are of all given
// tensors.
std::vector<Suspect> find_hop_rounding(const Knowledge& known,
                                       const std::vector<TensorCheck>& checks);

}  // namespace ringscope
