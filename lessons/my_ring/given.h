// What the exercises of your ring are given: rows, messages, and a rank that talks to others. Ranks
// are threads with a clock of their own that counts work and bytes, so that scores don't depend on
// the machine: a query-key pair takes one tick, and a message takes a tick for each 16 bytes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/trace/event.h"

namespace my_ring {

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

inline constexpr double kNone = -std::numeric_limits<double>::infinity();

// What a query keeps of the keys that it has met: the largest score m, the sum l of exp(score - m),
// and the sum of exp(score - m) times value.
struct State {
  double m = kNone, l = 0;
  Row out;
};

// Positions in the sequence grow. dout is the gradient of the output.
struct Queries {
  std::vector<long> positions;
  Matrix q, dout;
};
struct Block {
  std::vector<long> positions;
  Matrix k, v;
};
struct Gradient {
  Matrix dk, dv;
};

// Ranks send one of the three, and leave the others empty.
struct Message {
  Block block;
  Gradient gradient;
  State state;
};

// Rows [first, last).
struct Range {
  std::size_t first, last;
};

inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t x = 0; x < a.size(); ++x) sum += a[x] * b[x];
  return sum;
}

// Compute a += factor * b.
inline void add(Row& a, double factor, const Row& b) {
  for (std::size_t x = 0; x < b.size(); ++x) a[x] += factor * b[x];
}

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

class Rank {
 public:
  static constexpr std::size_t kTile = 8;

  const int number, ranks;

  Rank(int number_, int ranks_, Network& network)
      : number(number_), ranks(ranks_), network_(network) {}

  int next() const { return (number + 1) % ranks; }
  int previous() const { return (number + ranks - 1) % ranks; }

  // Return the scores q k / sqrt(D) of a tile, a row for each query. A tile has at most kTile rows
  // and kTile keys, and is computed whole.
  Matrix scores(const Queries& queries, Range rows, const Block& block, Range keys);

  // Start to send to the next rank and to receive from the previous one, and return at once.
  void start_hop(Message message);
  // Wait for the end of the oldest hop that has been started, and return what it brought.
  Message finish_hop();

  // Send, and wait until `to` has received it.
  void send(int to, const Message& message);
  // Wait until `from` sends.
  Message receive(int from);

  // ---
  // For the check: what carries hops out instead of start_hop and finish_hop, and what was counted.

  std::function<Message(Rank&, const Message&)> exchange;
  double now = 0, computed = 0, waited = 0, bytes = 0;
  std::vector<ringscope::TraceEvent> events;

  void end_slice();  // of computing
  void start_pass(ringscope::Pass next) { end_slice(), pass_ = next, step_ = 0; }

 private:
  void record(ringscope::Lane lane, double begin, double end, const Message* message, int other);
  void wait_until(double time, const Message& message, int other);

  Network& network_;
  std::deque<Network::Sent> started_;
  ringscope::Pass pass_ = ringscope::Pass::forward;
  int step_ = 0;
  double slice_began_ = 0, link_free_ = 0;
};

using Attend = std::function<void(Rank&, const Queries&, const Block&, std::vector<State>&)>;

}  // namespace my_ring
