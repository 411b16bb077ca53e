// What the exercises of your ring are given: rows, messages, and a rank that talks to others. The
// checks run ranks as threads with a clock that counts; backend.cpp runs them in the project's ring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

namespace my_ring {

// [states
using Row = std::vector<double>;
using Matrix = std::vector<Row>;

inline constexpr double kNone = -std::numeric_limits<double>::infinity();

// Of the keys met so far: the largest score, the sum of exp(score - m), and the same times values.
struct State {
  double m = kNone, l = 0;
  Row out;
};
// states]

// [rows_and_blocks
// Positions in the sequence grow. dout is the gradient of the output.
struct Queries {
  std::vector<long> positions;
  Matrix q, dout;
};
struct Block {
  std::vector<long> positions;
  Matrix k, v;
};
// Rows first to last - 1.
struct Range {
  std::size_t first, last;
};
// rows_and_blocks]
// [messages
struct Gradient {
  Matrix dk, dv;
};

// Ranks send one of the three, and leave the others empty.
struct Message {
  Block block;
  Gradient gradient;
  State state;
};
// messages]

inline double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t x = 0; x < a.size(); ++x) sum += a[x] * b[x];
  return sum;
}

// Compute a += factor * b.
inline void add(Row& a, double factor, const Row& b) {
  for (std::size_t x = 0; x < b.size(); ++x) a[x] += factor * b[x];
}

// Return the scores q k / sqrt(d) of a tile, a row for each query.
inline Matrix scores_of(const Queries& queries, Range rows, const Block& block, Range keys) {
  Matrix tile(rows.last - rows.first, Row(keys.last - keys.first));
  for (std::size_t i = rows.first; i < rows.last; ++i)
    for (std::size_t j = keys.first; j < keys.last; ++j)
      tile[i - rows.first][j - keys.first] =
          dot(queries.q[i], block.k[j]) / std::sqrt(static_cast<double>(block.k[j].size()));
  return tile;
}

class Rank {
 public:
  const int number, ranks;

  Rank(int number_, int ranks_) : number(number_), ranks(ranks_) {}
  virtual ~Rank() = default;

  int next() const { return (number + 1) % ranks; }
  int previous() const { return (number + ranks - 1) % ranks; }

  // [scores
  static constexpr std::size_t kTile = 8;

  // Return the scores of a tile, which has at most kTile rows and kTile keys, and is computed whole.
  virtual Matrix scores(const Queries& queries, Range rows, const Block& block, Range keys) = 0;
  // scores]

  // [hops
  // Start to send to the next rank and to receive from the previous one, and return at once.
  virtual void start_hop(Message message) = 0;
  // Wait for the end of the oldest hop that has been started, and return what it brought.
  virtual Message finish_hop() = 0;
  // hops]

  // [sends
  // Send, and wait until `to` has received it.
  virtual void send(int to, const Message& message) = 0;
  // Wait until `from` sends.
  virtual Message receive(int from) = 0;
  // sends]
};

using Attend = std::function<void(Rank&, const Queries&, const Block&, std::vector<State>&)>;

}  // namespace my_ring
