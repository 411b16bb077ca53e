// Ranks of the learner's ring as threads, with a clock that counts work and bytes, so that scores don't
// depend on the machine: a query-key pair takes one tick, and a message takes a tick for each 16 bytes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/attention/naive.h"
#include "core/trace/event.h"
#include "lessons/my_ring/given.h"

namespace my_ring {

constexpr double kTicksPerByte = 1.0 / 16;
constexpr std::size_t kDim = 4;
constexpr double kMostError = 1e-12;

class Network;

// A message under way, and the time at which it was sent.
struct Sent {
  Message message;
  double at = 0;
};

class CountingRank : public Rank {
 public:
  CountingRank(int number, int ranks, Network& network);
  ~CountingRank();

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
  void record(ringscope::Lane lane, double begin, double end, const Message* message, int other);
  void wait_until(double time, const Message& message, int other);

  Network& network_;
  std::deque<Sent> started_;
  ringscope::Pass pass_ = ringscope::Pass::forward;
  int step_ = 0;
  double slice_began_ = 0, link_free_ = 0;
};

// ---
// A run of all ranks, and its problem.

struct Run {
  std::vector<std::unique_ptr<CountingRank>> ranks;
  std::string failure;  // of the rank that failed first

  double wall() const;
  // Return ticks of computing: of all ranks, and of the one that has most.
  std::pair<double, double> work() const;
  double bytes() const;
};

Run run_ranks(int n, const std::function<void(CountingRank&)>& body);

struct Problem {
  long seqlen;
  bool causal;
  std::vector<double> q, k, v, dout;
  ringscope::NaiveResult<double> exact;

  Problem(long seqlen, bool causal, double size = 1);
  Queries queries(const std::vector<long>& at) const;
  Block block(const std::vector<long>& at) const;
};

// Rows [rank * seqlen / ranks, ...).
std::vector<long> contiguous(int rank, int ranks, long seqlen);

// Return the larger of the two. A NaN stays.
double larger(double a, double b);

// Return the largest |yours - exact| over the rows at `positions`; infinity for the wrong shape.
double error_of(const Matrix& yours, const std::vector<double>& exact,
                const std::vector<long>& positions);

Matrix outputs_of(const std::vector<State>& states);

// ---
// Scores.

// What is shown when all checks hold, and the titles of what is above par.
extern std::string score_lines, above;

// Score against a run whose ranks compute `par_all` ticks together, the busiest one `par_most`.
void score_run(const Run& run, double par_bytes, double par_wall, double par_all, double par_most);

// Write the timeline of `run` to `path`, where a receive is also its sender's send.
void write_timeline(const Run& run, const Problem& problem, const char* path);

}  // namespace my_ring
