// The check of your ring up to one lesson (RINGSCOPE_STEP): the functions until then run together on
// threads, are compared with naive attention in f64, and get a score beside par. With a path as
// argument the last run's timeline is written there.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "lessons/my_ring/given.h"
#include "tests/lessons/exercises/counted_ring.h"
#include "tests/lessons/exercises/exercise_test.h"
#include RINGSCOPE_STEP_03
#if RINGSCOPE_STEP >= 4
#include RINGSCOPE_STEP_04
#endif
#if RINGSCOPE_STEP >= 6
#include RINGSCOPE_STEP_06
#endif
#if RINGSCOPE_STEP >= 7
#include RINGSCOPE_STEP_07
#endif
#if RINGSCOPE_STEP >= 8
#include RINGSCOPE_STEP_08
#endif
#if RINGSCOPE_STEP >= 9
#include RINGSCOPE_STEP_09
#endif
#if RINGSCOPE_STEP >= 13
#include RINGSCOPE_STEP_13
#endif
#if RINGSCOPE_STEP >= 16
#include RINGSCOPE_STEP_16
#endif

namespace my_ring {

using Exercise = ringscope::lessons::Exercise;

// The checks, in the order in which the functions are written.

namespace {

State state_of(const Row& scores, const Matrix& values) {
  State state{kNone, 0, Row(values[0].size())};
  for (const double score : scores) state.m = std::fmax(state.m, score);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] == kNone) continue;
    state.l += std::exp(scores[j] - state.m);
    add(state.out, std::exp(scores[j] - state.m), values[j]);
  }
  return state;
}

bool same(const State& a, const State& b) {
  bool good = a.m == b.m && std::abs(a.l - b.l) <= kMostError && a.out.size() == b.out.size();
  for (std::size_t x = 0; good && x < a.out.size(); ++x)
    good = std::abs(a.out[x] - b.out[x]) <= 1e-10;
  return good;
}

std::string text_of(const State& state) {
  char text[128];
  std::snprintf(text, sizeof text, "%.6g, %.6g,", state.m, state.l);
  std::string all = text;
  for (const double x : state.out) std::snprintf(text, sizeof text, " %.6g", x), all += text;
  return all;
}

void check_carry_on(Exercise& exercise) {
  for (const double shift : {0.0, 1000.0, -1000.0}) {
    const Row scores = {kNone, kNone, shift + 1, shift + 3, kNone, shift + 5, shift - 2};
    const Matrix values = {{7, 7}, {7, 7}, {10, -1}, {20, 2}, {7, 7}, {30, 5}, {-5, 0}};
    for (const std::size_t piece : {1u, 2u, 3u, 7u}) {
      State state{kNone, 0, {0, 0}};
      std::string name =
          "scores near " + std::to_string(int(shift)) + " in pieces of " + std::to_string(piece);
      Exercise::begin(name);
      bool good = true;
      for (std::size_t first = 0; first < scores.size(); first += piece) {
        const auto from = static_cast<long>(first),
                   to = static_cast<long>(std::min(first + piece, scores.size()));
        carry_on(state, {scores.begin() + from, scores.begin() + to},
                 {values.begin() + from, values.begin() + to});
        const State expected =
            state_of({scores.begin(), scores.begin() + to}, {values.begin(), values.begin() + to});
        good = same(state, expected);
        if (good) continue;
        name += ", after " + std::to_string(to) + " scores: m, l, out: yours " + text_of(state) +
                ", expected " + text_of(expected);
        break;
      }
      exercise.holds(name, good);
    }
  }
  State none{kNone, 0, {0, 0}};
  carry_on(none, {kNone, kNone}, {{1, 2}, {3, 4}});
  const bool is_untouched = same(none, {kNone, 0, {0, 0}});
  exercise.holds("forbidden keys alone leave no trace" +
                     (is_untouched ? "" : ": m, l, out: yours " + text_of(none)),
                 is_untouched);
}

#if RINGSCOPE_STEP >= 4
void check_tiles(Exercise& exercise) {
  for (const long seqlen : {8, 21, 5}) {
    const Problem problem(seqlen, false, 5);
    const std::vector<long> all = contiguous(0, 1, seqlen);
    std::vector<State> states(all.size(), {kNone, 0, Row(kDim)});
    const std::string name = std::to_string(seqlen) + " rows";
    Exercise::begin(name);
    const Run run = run_ranks(1, [&](CountingRank& rank) {
      attend(rank, problem.queries(all), problem.block(all), states);
    });
    exercise.runs(name, run.failure);
    exercise.near(name + ": error", error_of(outputs_of(states), problem.exact.out, all), 0,
                  kMostError);
    exercise.equal(name + ": pairs computed", run.work().first, double(seqlen * seqlen));
  }
}
#endif

#if RINGSCOPE_STEP >= 6
using Deal = std::function<std::vector<long>(int, int, long)>;

// Run the ring, forward and perhaps backward. `exchange` may be empty.
Run check_ring(Exercise& exercise, const std::string& name, const Problem& problem, int n,
               const Deal& deal, const Attend& step, bool backward,
               const std::function<Message(Rank&, const Message&)>& exchange) {
  std::vector<Matrix> out(static_cast<std::size_t>(n)), dq = out, dk = out, dv = out;
  (void)backward;
  Exercise::begin(name);
  Run run = run_ranks(n, [&](CountingRank& rank) {
    const auto at = static_cast<std::size_t>(rank.number);
    rank.exchange = exchange;
    const std::vector<long> rows = deal(rank.number, n, problem.seqlen);
    const Queries mine = problem.queries(rows);
    const Block own = problem.block(rows);
    const std::vector<State> states = ring_forward(rank, mine, own, step);
    out[at] = outputs_of(states);
#if RINGSCOPE_STEP >= 9
    if (backward) {
      rank.start_pass(ringscope::Pass::backward);
      dq[at] = Matrix(rows.size(), Row(kDim));
      Gradient home = ring_backward(rank, mine, own, states, dq[at]);
      dk[at] = std::move(home.dk);
      dv[at] = std::move(home.dv);
    }
#endif
  });
  exercise.runs(name, run.failure);
  double error = 0, error_q = 0, error_k = 0, error_v = 0;
  for (int r = 0; r < n; ++r) {
    const auto at = static_cast<std::size_t>(r);
    const std::vector<long> rows = deal(r, n, problem.seqlen);
    error = larger(error, error_of(out[at], problem.exact.out, rows));
    if (!backward) continue;
    error_q = larger(error_q, error_of(dq[at], problem.exact.dq, rows));
    error_k = larger(error_k, error_of(dk[at], problem.exact.dk, rows));
    error_v = larger(error_v, error_of(dv[at], problem.exact.dv, rows));
  }
  exercise.near(name + ": error of the output", error, 0, kMostError);
  if (!backward) return run;
  exercise.near(name + ": error of dQ", error_q, 0, 1e-11);
  exercise.near(name + ": error of dK", error_k, 0, 1e-11);
  exercise.near(name + ": error of dV", error_v, 0, 1e-11);
  return run;
}

// Return the bytes of K and V, or of their gradients, that a sequence has.
constexpr double all_bytes(long seqlen) { return static_cast<double>(seqlen) * 2 * kDim * 8; }
#endif

// The steps before this one are one line, if they hold.
[[maybe_unused]] void unfold_before(Exercise& exercise, int step, const char* last_before) {
  if (step != RINGSCOPE_STEP) return;
  exercise.unfold(step == 4 ? "lesson 3" : "lessons 3 to " + std::string(last_before));
}

#if RINGSCOPE_STEP >= 7
// Queries between the keys: the first query of a tile may see none of them, and the last query some.
void check_interleaved(Exercise& exercise) {
  const Problem problem(32, true);
  const std::vector<long> rows = {0, 5, 9, 12, 14, 15, 18, 19, 21, 24, 27, 28, 31},
                          keys = {3, 4, 7, 8, 11, 13, 16, 17, 20, 22, 25, 26, 30};
  std::vector<long> others;
  for (long at = 0; at < 32; ++at)
    if (std::find(keys.begin(), keys.end(), at) == keys.end()) others.push_back(at);
  std::vector<State> states(rows.size(), {kNone, 0, Row(kDim)});
  const std::string name = "a tile that only its last query sees";
  Exercise::begin(name);
  const Run run = run_ranks(1, [&](CountingRank& rank) {
    for (const auto& block : {keys, others})
      attend_causal(rank, problem.queries(rows), problem.block(block), states);
  });
  exercise.runs(name, run.failure);
  exercise.near(name + ": error", error_of(outputs_of(states), problem.exact.out, rows), 0,
                kMostError);
}
#endif

int check(const char* path) {
  Exercise exercise;
  if (RINGSCOPE_STEP > 3) exercise.fold();
  check_carry_on(exercise);
#if RINGSCOPE_STEP >= 4
  unfold_before(exercise, 4, "3");
  check_tiles(exercise);
#endif
#if RINGSCOPE_STEP >= 6
  unfold_before(exercise, 6, "4");
  constexpr int n = 4;
  constexpr long seqlen = 128;
  const Problem full(seqlen, false);
  for (const int ranks : {1, 2, 3})
    check_ring(exercise, ringscope::count_text(ranks, "rank"), Problem(48, false), ranks,
               contiguous, attend, false, {});
  Run last = check_ring(exercise, "4 ranks", full, n, contiguous, attend, false, {});
  const Problem* shown = &full;
  [[maybe_unused]] constexpr double kBytes = (n - 1) * all_bytes(seqlen),
                                    kBytesBack = (3 * n - 2) * all_bytes(seqlen);
#endif
#if RINGSCOPE_STEP == 6
  score_run(last, kBytes, seqlen * seqlen / n, seqlen * seqlen, seqlen * seqlen / n);
#endif
#if RINGSCOPE_STEP >= 7
  unfold_before(exercise, 7, "6");
  const Problem causal(seqlen, true);
  for (const long position : {-1L, 0L, 3L, 4L, 9L, 10L})
    exercise.equal("visible at " + std::to_string(position),
                   double(visible(position, {0, 1, 4, 9})),
                   double((position >= 0) + (position >= 1) + (position >= 4) + (position >= 9)));
  check_interleaved(exercise);
  check_ring(exercise, "causal, 3 ranks of 7 rows", Problem(21, true), 3, contiguous, attend_causal,
             false, {});
  last = check_ring(exercise, "causal, 4 ranks", causal, n, contiguous, attend_causal, false, {});
  shown = &causal;
  // 136 tiles of 8 x 8 are not forbidden. The last rank has rows of 13, 14, 15 and 16 of them.
  [[maybe_unused]] constexpr double kAll = 136 * 64, kMost = (13 + 14 + 15 + 16) * 64;
#endif
#if RINGSCOPE_STEP == 7
  score_run(last, kBytes, kMost, kAll, kMost);
#endif
#if RINGSCOPE_STEP >= 8
  unfold_before(exercise, 8, "7");
  for (const int ranks : {1, 2, 3, 4}) {
    std::vector<long> all;
    for (int r = 0; r < ranks; ++r)
      for (const long position : positions_of(r, ranks, 48)) all.push_back(position);
    std::sort(all.begin(), all.end());
    long at = 0;  // the first that is wrong
    while (at < 48 && at < long(all.size()) && all[std::size_t(at)] == at) ++at;
    const bool is_double = at < long(all.size()) && all[std::size_t(at)] < at;
    exercise.holds(ringscope::count_text(ranks, "rank") + ": every position once" +
                       (all == contiguous(0, 1, 48) ? ""
                        : is_double ? ", but " + std::to_string(at - 1) + " is there twice"
                        : at < 48   ? ", but " + std::to_string(at) + " is missing"
                                    : ", but there are more than 48"),
                   all == contiguous(0, 1, 48));
  }
  if (positions_of(0, n, seqlen).empty()) return exercise.finish();
  last = check_ring(exercise, "zigzag, 4 ranks", causal, n, positions_of, attend_causal, false, {});
  exercise.equal("zigzag: ticks of the rank with most work", last.work().second, kAll / n);
#endif
#if RINGSCOPE_STEP == 8
  score_run(last, kBytes, kAll / n, kAll, kAll / n);
#endif
#if RINGSCOPE_STEP >= 9
  unfold_before(exercise, 9, "8");
  for (const int ranks : {1, 2, 3})
    check_ring(exercise, "backward, " + ringscope::count_text(ranks, "rank"), Problem(48, true),
               ranks, positions_of, attend_causal, true, {});
  last =
      check_ring(exercise, "backward, 4 ranks", causal, n, positions_of, attend_causal, true, {});
#endif
#if RINGSCOPE_STEP == 9
  // A gradient makes a hop more than its block; the last one, of 2 KiB, has nothing to hide behind.
  score_run(last, kBytesBack, 2 * kAll / n + all_bytes(seqlen) / n * kTicksPerByte, 2 * kAll,
            2 * kAll / n);
#endif
#if RINGSCOPE_STEP >= 13
  unfold_before(exercise, 13, "9");
  for (int ranks = 2; ranks <= 9; ++ranks) {
    std::vector<int> got(static_cast<std::size_t>(ranks), -1);
    const std::string name = "a hop of " + ringscope::count_text(ranks, "rank");
    Exercise::begin(name);
    const Run run = run_ranks(ranks, [&](CountingRank& rank) {
      const Message in = exchange(rank, {{}, {}, {double(rank.number), 0, Row(14)}});
      got[static_cast<std::size_t>(rank.number)] = int(in.state.m);
    });
    bool from_previous = true;
    for (int r = 0; r < ranks; ++r)
      from_previous &= got[static_cast<std::size_t>(r)] == (r + ranks - 1) % ranks;
    exercise.runs(name, run.failure);
    exercise.holds(name + ": brings the previous rank's message", from_previous);
    const double sends = run.wall() / (128 * kTicksPerByte);
    exercise.at_most(name + ": " + std::to_string(int(sends)) + " sends one after another", sends,
                     3);
    if (!run.failure.empty()) return exercise.finish();
  }
  last = check_ring(exercise, "exchange, 4 ranks", causal, n, positions_of, attend_causal, true,
                    exchange);
#endif
#if RINGSCOPE_STEP == 13
  // Nothing is hidden: 3 hops forward and 7 backward, each of two sends one after another.
  score_run(last, kBytesBack,
            2 * kAll / n + (3 * n - 2) * 2 * all_bytes(seqlen) / n * kTicksPerByte, 2 * kAll,
            2 * kAll / n);
#endif
#if RINGSCOPE_STEP >= 16
  unfold_before(exercise, 16, "13");
  for (const int ranks : {1, 2, 3, 5, 8}) {
    // The ranks from 6 on hold no key.
    const int holders = std::min(ranks, 6);
    const std::string name = "decode, " + ringscope::count_text(ranks, "rank");
    Exercise::begin(name);
    State found;
    last = run_ranks(ranks, [&](CountingRank& rank) {
      const bool holds = rank.number < holders;
      const Block own = holds ? causal.block(contiguous(rank.number, holders, seqlen)) : Block{};
      const State state = decode(rank, causal.queries({seqlen - 1}), own);
      if (rank.number == 0) found = state;
    });
    exercise.runs(name, last.failure);
    exercise.near(name + ": error", error_of(outputs_of({found}), causal.exact.out, {seqlen - 1}),
                  0, kMostError);
  }
  // 7 states of 6 numbers; 22 keys on the rank that has most; three messages one after another.
  const double rounds = (last.wall() - 22) / (48 * kTicksPerByte);
  exercise.at_most("decode, 8 ranks: messages one after another", rounds, 3);
  score_run(last, 7 * 48, 22 + 3 * 48 * kTicksPerByte, seqlen, 22);
#endif
#if RINGSCOPE_STEP >= 6
  if (path != nullptr && last.failure.empty()) write_timeline(last, *shown, path);
#endif
  (void)path;
  if (exercise.all_hold()) std::printf("%s", score_lines.c_str());
  return exercise.finish(above);
}

}  // namespace
}  // namespace my_ring

int main(int count, char** arguments) { return my_ring::check(count > 1 ? arguments[1] : nullptr); }
