// What the search for a mistake (diagnosis.cpp) works with: sampled rows with what is known of them,
// and hypotheses, which say what such a row would be if a mistake had been made.
#pragma once

#include <functional>
#include <memory>
#include <optional>
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

// A row of out, lse and dq. `owner_parts` are its parts by KV owner.
struct QueryRow {
  Index head = 0, position = 0;  // the head is counted through the batch
  Place place;
  Index kv_head = 0;
  Values dots{};     // q . k for every key, unscaled
  Values allowed{};  // 1 or 0 for every key
  std::vector<RowPart> owner_parts{};
  std::vector<Values> dq_shares{};  // by owner; only for gradients
};

// A row of dk and dv. Shares are what the queries of one head and rank add to it.
struct KeyRow {
  Index kv_head = 0, position = 0;
  Place place;
  std::vector<Index> heads{};             // query heads that the shares are of
  std::vector<std::vector<Values>> dk{};  // by index in heads, and by rank
  std::vector<std::vector<Values>> dv{};
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
  const NaiveResult<double>& oracle;
  const NaiveResult<double>& mine;  // tensors that it lacks are empty
  const DiagnosisOptions& options;
  Mask mask = problem.mask.for_seqlen(problem.shape.seqlen);
  DealtRows deal = DealtRows(problem.partition);

  Index seqlen() const { return problem.shape.seqlen; }
  Index width() const { return problem.shape.head_dim; }
  int ranks() const { return problem.partition.world_size; }
  const double* row_of(const Values& tensor, Index head, Index position) const {
    return tensor.data() + (head * seqlen() + position) * width();
  }
};

// One way to have made a mistake. `query` is called for rows of out, lse and dq, `key` for those of
// dk and dv; either may be empty. A hypothesis with more freedom has a penalty above 1, which
// multiplies its distance, so that of two with the same numbers the simpler one comes first.
struct Hypothesis {
  Mistake mistake;
  std::string how;
  std::function<void(const QueryRow&, Guess&)> query = {};
  std::function<void(const KeyRow&, Guess&)> key = {};
  double penalty = 1;
  std::function<void()> forget = {};       // frees what it keeps between rows
  std::shared_ptr<const void> table = {};  // the object that the functions refer to
};

// Return the hypotheses of a Table of `known`, by its function `part`. They keep the table alive.
template <class Table>
std::vector<Hypothesis> hypotheses_of(const Knowledge& known,
                                      std::vector<Hypothesis> (Table::*part)()) {
  const auto table = std::make_shared<Table>(known);
  std::vector<Hypothesis> hypotheses = ((*table).*part)();
  for (Hypothesis& hypothesis : hypotheses) hypothesis.table = table;
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

// Set out and lse from a row's m, l and unnormalised output.
void finish_row(double m, double l, const Values& acc, Guess& guess);

// Return the softmax of `scores` over the keys with a weight above 0, which is how often each key
// counts, as the output row and lse of kv head `kv_head`. `key_source`, unless empty, says from
// which position a key's V comes.
void attend_row(const Knowledge& known, const Values& scores, const Values& weights, Index kv_head,
                Guess& guess, const std::vector<Index>& key_source = {});

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
std::vector<Hypothesis> gradient_hypotheses(const Knowledge& known);
// Return those on an accumulator that is rounded before each hop, which leave the last step alone.
std::vector<Hypothesis> rounding_hypotheses(const Knowledge& known);
std::vector<Hypothesis> gradient_rounding_hypotheses(const Knowledge& known);

// ---
// Finds the mistake behind wrong attention outputs by trying: each known mistake is made in f64 for
// a sample of the rows, and the one whose numbers are nearest to the given ones is the likely one.
// How sure that is, is the share of the error that the mistake explains.

// Return the mistakes that explain how `mine` differs from `oracle`, the likeliest first, each kind
// once. `wrong` names the tensors that don't pass: out, lse, dq, dk or dv. When out or lse is among
// them, the gradients are left aside, because they follow.
std::vector<Suspect> diagnose(const Knowledge& known, const std::vector<std::string>& wrong);

// Return the suspicion that the accumulator was rounded at every hop, or none. It sees this in
// outputs whose every element is as near to the oracle as 16 bits can be: the roundings of the hops
// leave a pattern that the rounding of the result alone does not have.
std::vector<Suspect> find_hop_rounding(const Knowledge& known);

// Return, by rank and step, the share of the squared error of a sample of out's rows that lies in
// the direction in which the step's block moves the output.
std::vector<std::vector<double>> error_by_step(const Knowledge& known);

}  // namespace ringscope
