#include "core/threads/rank.h"

#include <algorithm>
#include <cmath>

#include "core/attention/online_softmax.h"
#include "core/ring/schemes.h"

namespace ringscope {

namespace {

// A portion of a head's rows that lie one after the other in a rank's tensor, `at` values from its
// beginning.
struct Portion {
  Index at, first, end;
};

// Call f(portion) for where `piece`'s rows of `rank` lie. Tensors lie share of the heads after share,
// and keys that travel in parts, part of the rows after part; K and V of each alternate.
template <class F>
void for_each_portion(const RingProblem& problem, int rank, const RowsOfHead& piece, F&& f) {
  const AttentionParams& p = problem.params;
  const bool is_kv = is_key_side(piece.tensor);
  const bool is_value = piece.tensor == Tensor::v || piece.tensor == Tensor::dv;
  const Index heads = is_kv ? p.num_heads_kv : p.num_heads, rows = piece.rows.size();
  const Index width = width_of(p, piece.tensor), width_of_both = p.head_dim + p.value_dim();
  const Index entry = piece.head / heads, head = piece.head % heads;
  // The part that has the rows first, first + step, …, behind `at` rows of other parts.
  const auto in_part = [&](Index at, Index first, Index step, Index count) {
    const Index begin = clamp(ceil_div(piece.first - first, step), 0, count);
    const Index end = clamp(ceil_div(piece.end - first, step), 0, count);
    const Index place =
        p.batch * heads * (width_of_both * at + (is_value ? p.head_dim * count : 0)) +
        piece.head * count * width;
    if (step == 1 && begin < end) f(Portion{place + begin * width, first + begin, first + end});
    for (Index i = begin; step > 1 && i < end; ++i)
      f(Portion{place + i * width, first + step * i, first + step * i + 1});
  };
  if (const int parts = problem.row_parts(); is_kv && parts > 1) {
    for (int part = 0; part < parts; ++part) {
      const Index begin = begin_of_part(piece.rows, parts, part);
      in_part(begin, begin, 1, begin_of_part(piece.rows, parts, part + 1) - begin);
    }
    return;
  }
  if (is_kv && problem.parted) {
    for (const BlockPart& part : problem.parted->of_owner[rank])
      in_part(part.at, part.first, part.step, part.size());
    return;
  }
  const int shares = problem.head_shares();
  for (int number = 0; number < shares; ++number) {
    const HeadShare share = problem.heads_of(number);
    const Index first = is_kv ? share.first_kv : share.first;
    const Index count = is_kv ? share.num_heads_kv : share.num_heads;
    if (head < first || head >= first + count) continue;
    // The values of a row that lie before this head's.
    Index place = p.batch * first * (is_kv ? width_of_both : width);
    if (is_value) place += p.batch * count * p.head_dim;
    place += (entry * count + head - first) * width;
    return f(Portion{place * rows + piece.first * width, piece.first, piece.end});
  }
}

}  // namespace

Rank::Rank(const Problem& config, const RingProblem& problem, int rank, MemorySpace& space,
           std::int64_t origin_ns)
    : config_(config),
      problem_(problem),
      rank_(rank),
      space_(space),
      memory_(config, rank, space),
      counts_(count_loop(config, rank, false)),
      recorder_(counts_.events, counts_.samples, origin_ns) {}

void Rank::take_inputs(RowSource& inputs) {
  const AttentionShape& shape = config_.shape;
  visit_dtype(config_.dtype, [&]<class Stored>(Stored) {
    std::vector<float> values(piece_values(shape));
    std::vector<Stored> stored(values.size());
    const auto take = [&](Tensor tensor, std::byte* local) {
      const LocalRows rows = rows_of(tensor, problem_, rank_);
      for_each_piece(shape, tensor, rows, [&](const RowsOfHead& piece) {
        inputs.get(piece, values.data());
        pulse_.tick();
        const Index width = width_of(shape, tensor), count = piece.count() * width;
        std::transform(values.begin(), values.begin() + count, stored.begin(), from_float<Stored>);
        for_each_portion(problem_, rank_, piece, [&](const Portion& portion) {
          constexpr Index kBytes = sizeof(Stored);
          space_.copy_in(local + portion.at * kBytes,
                         stored.data() + (portion.first - piece.first) * width,
                         (portion.end - portion.first) * width * kBytes);
        });
      });
    };
    take(Tensor::q, memory_.q.data());
    take(Tensor::k, memory_.own_kv());
    take(Tensor::v, memory_.own_kv());
    if (config_.backward) take(Tensor::dout, memory_.dout.data());
  });
}

void Rank::run(Communicator& comm, BlockBackend& backend) {
  has_final_lse_ = false;
  run_forward(comm, backend, problem_, memory_);
  has_final_lse_ = !problem_.attends_for_others() || problem_.scheme->travels == Travels::heads;
  if (config_.backward) home_ = run_backward(comm, backend, problem_, memory_);
}

RankEvents Rank::recorded() const {
  RankEvents recorded = recorded_by(recorder_, has_final_lse_);
  recorded.peak_bytes = peak_bytes();
  return recorded;
}

template <class T>
void Rank::copy_out(const RowsOfHead& piece, const T* local, T* to) const {
  const Index width = width_of(config_.shape, piece.tensor);
  for_each_portion(problem_, rank_, piece, [&](const Portion& portion) {
    space_.copy_out(to + (portion.first - piece.first) * width, local + portion.at,
                    (portion.end - portion.first) * width * static_cast<Index>(sizeof(T)));
  });
}

// Give this rank's share of ds = -sum_i p_sink rowsum(dO * O), over its own rows, whose output and lse
// are at home in every scheme. Whoever collects the shares adds them up, as gradients of weights are.
void Rank::give_sink_gradients(RowSink& outputs) const {
  const AttentionShape& shape = config_.shape;
  std::vector<double> sums(config_.sink_logits.size(), 0);
  std::vector<float> out(piece_values(shape)), lse(out.size());
  visit_dtype(config_.dtype, [&]<class Stored>(Stored) {
    std::vector<Stored> dout(out.size());
    const LocalRows rows = rows_of(Tensor::out, problem_, rank_);
    for_each_piece(shape, Tensor::out, rows, [&](const RowsOfHead& piece) {
      const auto part_of = [&](Tensor tensor) {
        return RowsOfHead{tensor, piece.head, piece.rows, piece.first, piece.end};
      };
      copy_out(piece, memory_.out_accum.data(), out.data());
      copy_out(part_of(Tensor::lse), memory_.lse.data(), lse.data());
      copy_out(part_of(Tensor::dout), reinterpret_cast<const Stored*>(memory_.dout.data()),
               dout.data());
      const auto head = static_cast<std::size_t>(piece.head % shape.num_heads);
      const double sink = config_.sink_logits[head];
      for (Index row = 0; row < piece.count() && sink != kMinusInfinity<double>; ++row) {
        double delta = 0;
        for (Index x = row * shape.value_dim(); x < (row + 1) * shape.value_dim(); ++x)
          delta += static_cast<double>(to_float(dout[x])) * out[x];
        sums[head] -= std::exp(sink - lse[row]) * delta;
      }
      pulse_.tick();
    });
  });
  const std::vector<float> shares(sums.begin(), sums.end());
  for_each_piece(shape, Tensor::dsink, kOneRow,
                 [&](const RowsOfHead& piece) { outputs.put(piece, &shares[piece.head]); });
}

void Rank::give_outputs(RowSink& outputs) const {
  const AttentionShape& shape = config_.shape;
  std::vector<float> values(piece_values(shape));
  const auto give = [&](Tensor tensor, const float* local) {
    const Index width = width_of(shape, tensor);
    const LocalRows rows = rows_of(tensor, problem_, rank_);
    for_each_piece(shape, tensor, rows, [&](const RowsOfHead& piece) {
      const Index count = piece.count() * width;
      copy_out(piece, local, values.data());
      if (tensor != Tensor::lse)
        for (Index i = 0; i < count; ++i) values[i] = round_to(config_.dtype, values[i]);
      outputs.put(piece, values.data());
      pulse_.tick();
    });
  };
  give(Tensor::out, memory_.out_accum.data());
  give(Tensor::lse, memory_.lse.data());
  if (!config_.backward) return;
  give(Tensor::dq, memory_.dq.data());
  give(Tensor::dk, home_.data);
  give(Tensor::dv, home_.data);
  if (config_.has_sinks()) give_sink_gradients(outputs);
}

}  // namespace ringscope
