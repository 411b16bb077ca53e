#include "tests/lessons/exercises/counted_ring.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "core/base/random.h"
#include "core/trace/chrome_trace.h"
#include "tests/lessons/exercises/exercise_test.h"

namespace my_ring {

using ringscope::Index;
using ringscope::Lane;
using ringscope::RandomTensor;
using Exercise = ringscope::lessons::Exercise;

// ---
// A rank.

namespace {

constexpr char kNoBlock[] =
    "finish_hop brought a gradient, not a block: hops end in the order in which they were started";
constexpr char kOrder[] =
    "        finish_hop brought a gradient before: hops end in the order in which they were "
    "started\n";

// Count the bytes of a message. Positions are free, because a rank can compute them.
double bytes_of(const Message& m) {
  std::size_t numbers = m.state.out.empty() ? 0 : m.state.out.size() + 2;
  for (const Matrix* matrix : {&m.block.k, &m.block.v, &m.gradient.dk, &m.gradient.dv})
    for (const Row& row : *matrix) numbers += row.size();
  return static_cast<double>(8 * numbers);
}

}  // namespace

// What the threads share: messages under way.
class Network {
 public:
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

CountingRank::CountingRank(int number_, int ranks_, Network& network)
    : Rank(number_, ranks_), network_(network) {}
CountingRank::~CountingRank() = default;

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
  const Sent mine = std::move(started_.front());
  started_.pop_front();
  Message in;
  if (exchange) {
    in = exchange(*this, mine.message);
  } else {
    Sent sent = network_.take(previous(), number, Network::Kind::hop);
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
  Sent sent = network_.take(from, number, Network::Kind::sent);
  const double begin = std::max(sent.at, now);
  const double end = begin + kTicksPerByte * bytes_of(sent.message);
  record(Lane::recv, begin, end, &sent.message, from);
  wait_until(end, sent.message, from);
  network_.put(number, from, Network::Kind::taken, {{}, now});
  return std::move(sent.message);
}

// ---
// A run of all ranks, and its problem.

double Run::wall() const {
  double wall = 0;
  for (const auto& rank : ranks) wall = std::max(wall, rank->now);
  return wall;
}

std::pair<double, double> Run::work() const {
  double all = 0, most = 0;
  for (const auto& rank : ranks) all += rank->computed, most = std::max(most, rank->computed);
  return {all, most};
}

double Run::bytes() const {
  double sum = 0;
  for (const auto& rank : ranks) sum += rank->bytes;
  return sum;
}

Run run_ranks(int n, const std::function<void(CountingRank&)>& body) {
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

namespace {

Matrix matrix_of(const std::vector<double>& all, const std::vector<long>& positions) {
  Matrix rows;
  for (const long position : positions) {
    const auto first = all.begin() + position * static_cast<long>(kDim);
    rows.emplace_back(first, first + static_cast<long>(kDim));
  }
  return rows;
}

}  // namespace

Problem::Problem(long seqlen_, bool causal_, double size) : seqlen(seqlen_), causal(causal_) {
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

Queries Problem::queries(const std::vector<long>& at) const {
  return {at, matrix_of(q, at), matrix_of(dout, at)};
}

Block Problem::block(const std::vector<long>& at) const {
  return {at, matrix_of(k, at), matrix_of(v, at)};
}

std::vector<long> contiguous(int rank, int ranks, long seqlen) {
  std::vector<long> positions;
  for (long i = rank * seqlen / ranks; i < (rank + 1) * seqlen / ranks; ++i) positions.push_back(i);
  return positions;
}

double larger(double a, double b) { return b <= a ? a : (std::isnan(a) ? a : b); }

double error_of(const Matrix& yours, const std::vector<double>& exact,
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

Matrix outputs_of(const std::vector<State>& states) {
  Matrix out;
  for (const State& state : states) {
    out.push_back(state.out);
    for (double& x : out.back()) x /= state.l;
  }
  return out;
}

// ---
// Scores.

std::string score_lines, above;

void score_run(const Run& run, double par_bytes, double par_wall, double par_all, double par_most) {
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

void write_timeline(const Run& run, const Problem& problem, const char* path) {
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

}  // namespace my_ring
