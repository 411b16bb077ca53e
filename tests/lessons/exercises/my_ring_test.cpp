// The check of your ring up to one lesson (RINGSCOPE_STEP): the functions until then run together on
// threads, are compared with naive attention in f64, and get a score beside par. With a path as
// argument the last run's timeline is written there. Ranks are threads with a clock that counts work and
// bytes, so that scores don't depend on the machine: a query-key pair takes one tick, and a message takes
// a tick for each 16 bytes.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "core/attention/naive.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/trace/chrome_trace.h"
#include "lessons/my_ring/given.h"
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

using ringscope::Index;
using ringscope::Lane;
using ringscope::RandomTensor;
using Exercise = ringscope::lessons::Exercise;

// ---
// A rank.

namespace {

constexpr double kTicksPerByte = 1.0 / 16;
constexpr char kNoBlock[] =
    "finish_hop brought a gradient, not a block: hops end in the order in which they were started";
constexpr char kOrder[] =
    "        finish_hop brought a gradient before: hops end in the order in which they were "
    "started\n";

// Count the bytes of a message. Positions are free, because a rank can compute them.
inline double bytes_of(const Message& m) {
  std::size_t numbers = m.state.out.empty() ? 0 : m.state.out.size() + 2;
  for (const Matrix* matrix : {&m.block.k, &m.block.v, &m.gradient.dk, &m.gradient.dv})
    for (const Row& row : *matrix) numbers += row.size();
  return static_cast<double>(8 * numbers);
}

// What the threads share: messages under way, each with the time at which it was sent.
class Network {
 public:
  struct Sent {
    Message message;
    double at = 0;
  };
  enum class Kind { hop, sent, taken };

  void put(int from, int to, Kind kind, Sent sent) {
    const std::lock_guard lock(mutex_);
    under_way_[{from, to, kind}].push_back(std::move(sent));
    changed_.notify_all();
  }
  // Throw if nothing comes for two seconds, or if another rank has failed.
  Sent take(int from, int to, Kind kind) {
    std::unique_lock lock(mutex_);
    std::deque<Sent>& queue = under_way_[{from, to, kind}];
    changed_.wait_for(lock, std::chrono::seconds(2), [&] { return failed_ || !queue.empty(); });
    if (queue.empty()) {
      throw std::runtime_error("rank " + std::to_string(to) + " waits for ever for rank " +
                               std::to_string(from));
    }
    Sent sent = std::move(queue.front());
    queue.pop_front();
    return sent;
  }
  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<int, int, Kind>, std::deque<Sent>> under_way_;
  bool failed_ = false;
};

class CountingRank : public Rank {
 public:
  CountingRank(int number_, int ranks_, Network& network)
      : Rank(number_, ranks_), network_(network) {}

  Matrix scores(const Queries& queries, Range rows, const Block& block, Range keys) override;
  void start_hop(Message message) override;
  Message finish_hop() override;
  void send(int to, const Message& message) override;
  Message receive(int from) override;

  // What carries hops out instead of start_hop and finish_hop, if it isn't empty.
  std::function<Message(Rank&, const Message&)> exchange;
  double now = 0, computed = 0, waited = 0, bytes = 0;
  std::vector<ringscope::TraceEvent> events;

  void end_slice();  // of computing
  void start_pass(ringscope::Pass next) { end_slice(), pass_ = next, step_ = 0; }

 private:
  void record(Lane lane, double begin, double end, const Message* message, int other);
  void wait_until(double time, const Message& message, int other);

  Network& network_;
  std::deque<Network::Sent> started_;
  ringscope::Pass pass_ = ringscope::Pass::forward;
  int step_ = 0;
  double slice_began_ = 0, link_free_ = 0;
};

Matrix CountingRank::scores(const Queries& queries, Range rows, const Block& block, Range keys) {
  if (block.k.empty() && keys.last > 0) throw std::runtime_error(kNoBlock);
  if (rows.last > queries.q.size() || keys.last > block.k.size() || rows.first > rows.last ||
      keys.first > keys.last || rows.last - rows.first > kTile || keys.last - keys.first > kTile)
    throw std::runtime_error("a tile of queries [" + std::to_string(rows.first) + ", " +
                             std::to_string(rows.last) + ") and keys [" +
                             std::to_string(keys.first) + ", " + std::to_string(keys.last) +
                             ") does not exist, or is too large");
  const auto ticks = static_cast<double>((rows.last - rows.first) * (keys.last - keys.first));
  now += ticks;
  computed += ticks;
  return scores_of(queries, rows, block, keys);
}

void CountingRank::record(Lane lane, double begin, double end, const Message* message, int other) {
  ringscope::TraceEvent event;
  event.lane = lane;
  event.pass = pass_;
  event.step = std::min(step_, ranks - 1);
  event.kv_owner = ((number - event.step) % ranks + ranks) % ranks;
  event.begin_ns = static_cast<std::int64_t>(1000 * begin);
  event.end_ns = static_cast<std::int64_t>(1000 * end);
  if (lane == Lane::compute) event.pairs = static_cast<std::int64_t>(end - begin);
  if (message != nullptr && message->block.k.empty()) event.payload = ringscope::Payload::dkv;
  if (lane == Lane::recv || lane == Lane::send) {
    event.bytes = static_cast<std::int64_t>(bytes_of(*message));
    event.src = lane == Lane::recv ? other : number;
    event.dst = lane == Lane::recv ? number : other;
  }
  if (lane == Lane::wait) event.waiting_for = other;
  events.push_back(event);
}

void CountingRank::end_slice() {
  if (now > slice_began_) record(Lane::compute, slice_began_, now, nullptr, 0);
  slice_began_ = now;
}

void CountingRank::wait_until(double time, const Message& message, int other) {
  if (time > now) {
    record(Lane::wait, now, time, &message, other);
    waited += time - now;
    now = time;
  }
  slice_began_ = now;
}

void CountingRank::start_hop(Message message) {
  end_slice();
  if (message.block.k.empty() && message.gradient.dk.empty() && *Exercise::note != '\0')
    throw std::runtime_error(kNoBlock);
  started_.push_back({message, now});
  if (exchange) return;
  bytes += bytes_of(message);
  network_.put(number, next(), Network::Kind::hop, {std::move(message), now});
}

Message CountingRank::finish_hop() {
  end_slice();
  if (started_.empty()) throw std::runtime_error("finish_hop() without start_hop()");
  const Network::Sent mine = std::move(started_.front());
  started_.pop_front();
  Message in;
  if (exchange) {
    in = exchange(*this, mine.message);
  } else {
    Network::Sent sent = network_.take(previous(), number, Network::Kind::hop);
    const double begin = std::max({sent.at, mine.at, link_free_});
    link_free_ = begin + kTicksPerByte * bytes_of(sent.message);
    record(Lane::recv, begin, link_free_, &sent.message, previous());
    wait_until(link_free_, sent.message, previous());
    in = std::move(sent.message);
  }
  if (!in.block.k.empty()) ++step_;
  if (!in.gradient.dk.empty()) Exercise::note = kOrder;
  return in;
}

void CountingRank::send(int to, const Message& message) {
  end_slice();
  bytes += bytes_of(message);
  network_.put(number, to, Network::Kind::sent, {message, now});
  wait_until(network_.take(to, number, Network::Kind::taken).at, message, to);
}

Message CountingRank::receive(int from) {
  end_slice();
  Network::Sent sent = network_.take(from, number, Network::Kind::sent);
  const double begin = std::max(sent.at, now);
  const double end = begin + kTicksPerByte * bytes_of(sent.message);
  record(Lane::recv, begin, end, &sent.message, from);
  wait_until(end, sent.message, from);
  network_.put(number, from, Network::Kind::taken, {{}, now});
  return std::move(sent.message);
}

// ---
// A run of all ranks, and its problem.

constexpr std::size_t kDim = 4;

struct Run {
  std::vector<std::unique_ptr<CountingRank>> ranks;
  std::string failure;  // of the rank that failed first

  double wall() const {
    double wall = 0;
    for (const auto& rank : ranks) wall = std::max(wall, rank->now);
    return wall;
  }
  // Return ticks of computing: of all ranks, and of the one that has most.
  std::pair<double, double> work() const {
    double all = 0, most = 0;
    for (const auto& rank : ranks) all += rank->computed, most = std::max(most, rank->computed);
    return {all, most};
  }
  double bytes() const {
    double sum = 0;
    for (const auto& rank : ranks) sum += rank->bytes;
    return sum;
  }
};

[[maybe_unused]] Run run_ranks(int n, const std::function<void(CountingRank&)>& body) {
  Run run;
  Network network;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) run.ranks.push_back(std::make_unique<CountingRank>(r, n, network));
  for (const auto& owned : run.ranks)
    threads.emplace_back([&run, &network, &mutex, &body, &rank = *owned] {
      try {
        body(rank);
        rank.end_slice();
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (run.failure.empty()) run.failure = error.what();
        network.fail();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return run;
}

Matrix matrix_of(const std::vector<double>& all, const std::vector<long>& positions) {
  Matrix rows;
  for (const long position : positions) {
    const auto first = all.begin() + position * static_cast<long>(kDim);
    rows.emplace_back(first, first + static_cast<long>(kDim));
  }
  return rows;
}

struct Problem {
  long seqlen;
  bool causal;
  std::vector<double> q, k, v, dout;
  ringscope::NaiveResult<double> exact;

  Problem(long seqlen_, bool causal_, double size = 1) : seqlen(seqlen_), causal(causal_) {
    for (Index i = 0; i < seqlen * static_cast<Index>(kDim); ++i) {
      q.push_back(size * ringscope::normal(1, RandomTensor::q, i));
      k.push_back(ringscope::normal(1, RandomTensor::k, i));
      v.push_back(ringscope::normal(1, RandomTensor::v, i));
      dout.push_back(ringscope::normal(1, RandomTensor::dout, i));
    }
    ringscope::Mask mask;
    mask.seqlen = seqlen;
    mask.causal = causal;
    exact = ringscope::naive_attention<double>(
        {.seqlen = seqlen, .head_dim = static_cast<Index>(kDim)}, mask,
        1 / std::sqrt(static_cast<double>(kDim)), q.data(), k.data(), v.data(), dout.data());
  }
  Queries queries(const std::vector<long>& at) const {
    return {at, matrix_of(q, at), matrix_of(dout, at)};
  }
  Block block(const std::vector<long>& at) const {
    return {at, matrix_of(k, at), matrix_of(v, at)};
  }
};

// Rows [rank * seqlen / ranks, ...).
[[maybe_unused]] std::vector<long> contiguous(int rank, int ranks, long seqlen) {
  std::vector<long> positions;
  for (long i = rank * seqlen / ranks; i < (rank + 1) * seqlen / ranks; ++i) positions.push_back(i);
  return positions;
}

// Return the larger of the two. A NaN stays.
double larger(double a, double b) { return b <= a ? a : (std::isnan(a) ? a : b); }

// Return the largest |yours - exact| over the rows at `positions`; infinity for the wrong shape.
[[maybe_unused]] double error_of(const Matrix& yours, const std::vector<double>& exact,
                                 const std::vector<long>& positions) {
  const Matrix expected = matrix_of(exact, positions);
  if (yours.size() != expected.size()) return INFINITY;
  double error = 0;
  for (std::size_t i = 0; i < yours.size(); ++i) {
    if (yours[i].size() != kDim) return INFINITY;
    for (std::size_t x = 0; x < kDim; ++x)
      error = larger(error, std::abs(yours[i][x] - expected[i][x]));
  }
  return error;
}

[[maybe_unused]] Matrix outputs_of(const std::vector<State>& states) {
  Matrix out;
  for (const State& state : states) {
    out.push_back(state.out);
    for (double& x : out.back()) x /= state.l;
  }
  return out;
}

constexpr double kMostError = 1e-12;

// ---
// Scores.

// What is shown when all checks hold, and the titles of what is above par.
std::string score_lines, above;

// Score against a run whose ranks compute `par_all` ticks together, the busiest one `par_most`.
[[maybe_unused]] void score_run(const Run& run, double par_bytes, double par_wall, double par_all,
                                double par_most) {
  const auto n = static_cast<double>(run.ranks.size());
  const auto [all, most] = run.work();
  const auto score = [](const char* what, double yours, double par, const char* unit = "") {
    const bool is_good = yours <= par + 1e-9 * std::abs(par) + 1e-9;
    char line[160];
    std::snprintf(line, sizeof line, "  score  %-34s %10.6g%s, par %.6g%s%s\n", what, yours, unit,
                  par, unit, is_good ? "" : "  above par");
    score_lines += line;
    if (!is_good) above += (above.empty() ? "" : ", ") + std::string(what);
  };
  score("bytes sent", run.bytes(), par_bytes);
  score("ticks", run.wall(), par_wall);
  score("idle share", 100 * (1 - all / n / run.wall()), 100 * (1 - par_all / n / par_wall), " %");
  score("exposed ticks", run.wall() - most, par_wall - par_most);
}

// Write the timeline of `run` to `path`, where a receive is also its sender's send.
[[maybe_unused]] void write_timeline(const Run& run, const Problem& problem, const char* path) {
  ringscope::Recording recording;
  const auto n = run.ranks.size();
  recording.info.mask = problem.causal ? "causal" : "full";
  recording.info.shape = {.seqlen = problem.seqlen, .head_dim = static_cast<Index>(kDim)};
  recording.info.world_size = static_cast<int>(n);
  recording.info.clock_offset_ns.assign(n, 0);
  recording.info.clock_error_ns.assign(n, 0);
  recording.dropped.assign(n, 0);
  recording.events.resize(n);
  std::int64_t flow = 0;
  for (const auto& rank : run.ranks)
    for (ringscope::TraceEvent event : rank->events) {
      if (event.lane == Lane::recv) {
        event.flow = ++flow;
        ringscope::TraceEvent sent = event;
        sent.lane = Lane::send;
        recording.events[static_cast<std::size_t>(event.src)].push_back(sent);
      }
      recording.events[static_cast<std::size_t>(rank->number)].push_back(event);
    }
  ringscope::write_chrome_trace(path, recording);
  std::printf("timeline: %s\n", path);
}

// ---
// The checks, in the order in which the functions are written.

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
