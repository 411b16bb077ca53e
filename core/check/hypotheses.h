// What the search for a mistake (diagnosis.cpp) works with: rows of a right ring taken apart, and the
// table of hypotheses, which say what such a row would be if a mistake had been made. The same table
// makes mistakes on purpose (make_mistake() in mistakes.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/check/verdict.h"

namespace ringscope {

using Values = std::vector<double>;

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

// The part of a softmax row over some keys: m, l and the unnormalised output.
struct RowPart {
  double m, l;
  Values acc;
};

// A row of out, lse and dq, from the query and the keys that it meets to its parts by KV owner.
struct QueryRow {
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
  std::vector<Values> dq_shares{};  // by owner; only for gradients
  Values dq_delta{};                // what rowsum(dO * O) takes from dq

  Index k_source(Index key) const { return k_from.empty() ? key : k_from[key]; }
  Index v_source(Index key) const { return v_from.empty() ? key : v_from[key]; }
};

// A row of dk and dv. Shares are what the queries of one head and rank add to it.
struct KeyRow {
  Index kv_head = 0, position = 0;
  Place place{};
  std::vector<Index> heads{};             // query heads that the shares are of
  std::vector<std::vector<Values>> dk{};  // by index in heads, and by rank
  std::vector<std::vector<Values>> dv{};
  std::vector<Values> dk_delta{};  // by index in heads: what rowsum(dO * O) takes from dk
};

// What a row would be. What is not set is as it should be.
struct Guess {
  std::optional<Values> out, dq, dk, dv;
  std::optional<double> lse;
};

// What all hypotheses know.
struct Knowledge {
  const CheckedProblem& problem;
  const CheckedInputs& inputs;
  const NaiveResult<double>& oracle;  // with options.rows, other rows of it mean nothing
  const NaiveResult<double>& mine;    // tensors that it lacks are empty
  const DiagnosisOptions& options;
  Mask mask = problem.mask.for_seqlen(problem.shape.seqlen);
  DealtRows deal = DealtRows(problem.partition);

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
  // Call f(head x seqlen + position, position) for the rows of all heads that are looked at.
  template <class F>
  void for_rows(Tensor tensor, F&& f) const {
    const Index count = options.rows.empty() ? seqlen() : std::ssize(options.rows);
    for (Index head = 0; head < heads_of(problem.shape, tensor); ++head)
      for (Index i = 0; i < count; ++i) {
        const Index position = options.rows.empty() ? i : options.rows[i];
        f(head * seqlen() + position, position);
      }
  }
};

// One way to have made a mistake. `weigh` changes the scores of a query row, how often keys count, or
// whose K and V stand where; `query` says what becomes of a row's parts (they are merged rightly if
// it is empty), and of dq; `key` what becomes of dk and dv. A hypothesis with more freedom has a
// penalty above 1, which multiplies its distance, so that of two with the same numbers the simpler
// one comes first.
struct Hypothesis {
  Mistake mistake;
  std::string how;
  std::function<void(const QueryRow&, Guess&)> query = {};
  std::function<void(const KeyRow&, Guess&)> key = {};
  double penalty = 1;
  std::function<void(QueryRow&)> weigh = {};
  std::string mask = {};                        // of a wrong mask
  double factor = 0;                            // of a scale that is only near; 0: none
  std::function<void(double)> set_factor = {};  // changes it, to come nearer
  std::function<void()> forget = {};            // frees what it keeps between rows
  std::shared_ptr<const void> table = {};       // the object that the functions refer to
};

// A table in the making: hypotheses that refer to the object that fills it.
class HypothesisTable {
 protected:
  explicit HypothesisTable(const Knowledge& known) : known_(known) {}

  void add(Mistake mistake, std::string how, std::function<void(const QueryRow&, Guess&)> query,
           double penalty = 1) {
    table_.push_back({mistake, std::move(how), std::move(query), {}, penalty});
  }
  void add_weighed(Mistake mistake, std::string how, std::function<void(QueryRow&)> weigh,
                   double penalty = 1) {
    table_.push_back({mistake, std::move(how), {}, {}, penalty, std::move(weigh)});
  }
  // Return whether a position lies in the second of its rank's two chunks.
  bool is_upper(Index position) const {
    const Place& place = known_.deal.places[position];
    return place.local_row >= (std::ssize(known_.deal.positions[place.rank]) + 1) / 2;
  }

  const Knowledge& known_;
  std::vector<Hypothesis> table_;
};

// Return the hypotheses of a Table of `known`, by its function `part`. They keep the table alive.
template <class Table>
std::vector<Hypothesis> hypotheses_of(const Knowledge& known,
                                      std::vector<Hypothesis> (Table::*part)()) {
  const auto table = std::make_shared<Table>(known);
  std::vector<Hypothesis> hypotheses = ((*table).*part)();
  for (Hypothesis& hypothesis : hypotheses)
    if (!hypothesis.table) hypothesis.table = table;
  return hypotheses;
}

inline double dot_of(const double* a, const double* b, Index width) {
  double sum = 0;
  for (Index c = 0; c < width; ++c) sum += a[c] * b[c];
  return sum;
}
Values scaled(const Values& values, double factor);
// Add values times a factor.
inline void add_to(Values& sum, double factor, const Values& values) {
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += factor * values[c];
}

// Return the KV owner that a rank attends at a ring step, and whose gradient arrives likewise.
inline int owner_at(int rank, int step, int ranks) { return (rank - step + ranks) % ranks; }

// Take a right ring's rows apart. A query row has shares of dq if `gradients`.
QueryRow query_row(const Knowledge& known, Index head, Index position, bool gradients);
KeyRow key_row(const Knowledge& known, Index kv_head, Index position);

// Compute a row's scores again, from its q, its keys and its scale; and its parts, from its scores.
void rescore(const Knowledge& known, QueryRow& row);
void take_apart(const Knowledge& known, QueryRow& row);

// Set out and lse from a row's m, l and unnormalised output, or from all of its parts.
void finish_row(double m, double l, const Values& acc, Guess& guess);
void merge_all(const QueryRow& row, Guess& guess);

// Return what a query row would be under the hypothesis.
Guess guess_of(const Knowledge& known, const Hypothesis& hypothesis, const QueryRow& row);

// Return the right out, lse and, if there is a dout, dq of a row.
Guess right_row(const Knowledge& known, Index head, Index position);

// Return what a ring computes under the hypothesis, made by one rank or by all (-1). Null: a correct
// ring.
NaiveResult<double> made_by(const Knowledge& known, const Hypothesis* hypothesis, int rank);

// Return, for every position, the position at the same local row of the rank `distance` further.
std::vector<Index> rows_of_rank_beyond(const DealtRows& deal, int distance);

// Right rows at wrong places: which position's row lies at a position.
struct WrongSource {
  std::string how;
  std::vector<Index> source;  // by global position
  double penalty;
};
// Return those that move any row.
std::vector<WrongSource> wrong_sources(const Knowledge& known);

// Return what a rank would take for the positions of its rows if it believed in another deal, or
// counted its local rows: by global position, each with a name.
std::vector<std::pair<std::string, std::vector<Index>>> wrong_positions(const Knowledge& known);

// Return all hypotheses on outputs and lse, and all on gradients. They refer to `known`.
std::vector<Hypothesis> forward_hypotheses(const Knowledge& known);
std::vector<Hypothesis> mask_hypotheses(const Knowledge& known);  // part of the former
std::vector<Hypothesis> gradient_hypotheses(const Knowledge& known);
// Return those on an accumulator that is rounded before each hop, which leave the last step alone.
std::vector<Hypothesis> rounding_hypotheses(const Knowledge& known);
std::vector<Hypothesis> gradient_rounding_hypotheses(const Knowledge& known);

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
// leave a pattern that the rounding of the result alone does not have.
std::vector<Suspect> find_hop_rounding(const Knowledge& known);

// Return, by rank and step, the share of the squared error of a sample of out's rows that lies in
// the direction in which the step's block moves the output.
std::vector<std::vector<double>> error_by_step(const Knowledge& known);

}  // namespace ringscope
