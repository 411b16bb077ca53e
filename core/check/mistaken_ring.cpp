// A ring that makes mistakes, written rank by rank and step by step in f64 as one would write the
// right one, with a branch where each mistake happens. It serves tests and --inject; nothing in it
// is fast.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "core/check/mistakes.h"

namespace ringscope {
namespace {

constexpr double kNoScore = -std::numeric_limits<double>::infinity();

double rounded_to(DType dtype, double value) {
  return dtype == DType::f32 ? value : stored_as(dtype, value);
}

class Ring {
 public:
  Ring(const CheckedProblem& problem, const CheckedInputs& inputs, const MistakenRing& ring)
      : shape_(problem.shape),
        scale_(problem.softmax_scale),
        ring_(ring),
        ranks_(problem.partition.world_size),
        spec_(mask_of(problem.mask)),
        mask_(spec_.for_seqlen(shape_.seqlen)),
        q_(inputs.q),
        k_(inputs.k),
        v_(inputs.v),
        dout_(inputs.dout) {
    for (int rank = 0; rank < ranks_; ++rank) {
      positions_.emplace_back();
      const LocalRows rows = problem.partition.rows_of(rank);
      const Index end =
          makes(Mistake::rows_dropped) ? shape_.seqlen / ranks_ * ranks_ : shape_.seqlen;
      for (Index i = 0; i < rows.size(); ++i)
        if (rows.global_position(i) < end) positions_.back().push_back(rows.global_position(i));
    }
    if (makes(Mistake::rope_positions)) turn_to_wrong_positions();
    if (makes(Mistake::unequal_shards)) weigh_ranks_equally();
    if (makes(Mistake::window_dropped)) mask_.window = mask_.sink = 0;
    const Index values = std::ssize(q_), rows = values / width();
    result_.out.assign(values, 0);
    result_.lse.assign(rows, kNoScore);
    if (dout_.empty()) return;
    result_.dq.assign(values, 0);
    result_.dk.assign(k_.size(), 0);
    result_.dv.assign(k_.size(), 0);
  }

  NaiveResult<double> run() {
    for (Index head = 0; head < shape_.batch * shape_.num_heads; ++head)
      for (int rank = 0; rank < ranks_; ++rank)
        for (Index i = 0; i < rows(rank); ++i) forward(head, rank, i);
    if (!dout_.empty()) backward();
    if (makes(Mistake::rows_of_other_rank)) take_rows_of_others();
    return std::move(result_);
  }

 private:
  bool makes(Mistake mistake) const { return ring_.mistake == mistake; }
  bool strikes(Mistake mistake, int rank) const {
    return makes(mistake) && (ring_.rank < 0 || ring_.rank == rank);
  }
  Index width() const { return shape_.head_dim; }
  Index rows(int rank) const { return static_cast<Index>(positions_[rank].size()); }
  Index position(int rank, Index i) const { return positions_[rank][i]; }

  // Return the mask with a wider or narrower window for that variant of an off-by-one.
  MaskSpec mask_of(const MaskSpec& right) const {
    const std::string name = right.name();
    const std::size_t found = name.find("window:");
    if (!makes(Mistake::mask_off_by_one) || found == std::string::npos) return right;
    const std::size_t number = found + 7;
    std::size_t end = name.find('+', number);
    if (end == std::string::npos) end = name.size();
    const long size = std::stol(name.substr(number, end - number));
    return MaskSpec::parse(name.substr(0, number) +
                           std::to_string(ring_.variant == 0 && size > 1 ? size - 1 : size + 1) +
                           name.substr(end));
  }

  // Turn from the true position on to that in a contiguous deal, or to the local row.
  void turn_to_wrong_positions() {
    Index before = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (Index i = 0; i < rows(rank); ++i) {
        const Index wrong = ring_.variant == 0 ? before + i : i;
        const auto by = static_cast<double>(wrong - position(rank, i));
        for (auto* tensor : {&q_, &k_})
          for (Index row = position(rank, i); row * width() < std::ssize(*tensor);
               row += shape_.seqlen)
            rotate_row(tensor->data() + row * width(), width(), by, ring_.rope_base,
                       RopePairs::halves);
      }
      before += rows(rank);
    }
  }

  // Give every rank's rows together the same weight in the loss.
  void weigh_ranks_equally() {
    for (int rank = 0; rank < ranks_; ++rank)
      for (Index i = 0; i < rows(rank); ++i)
        for (Index row = position(rank, i); row * width() < std::ssize(dout_); row += shape_.seqlen)
          for (Index c = 0; c < width(); ++c)
            dout_[row * width() + c] *=
                static_cast<double>(shape_.seqlen) / static_cast<double>(ranks_ * rows(rank));
  }

  Index kv_head_of(Index head) const {
    const Index batch = head / shape_.num_heads, in_batch = head % shape_.num_heads;
    const Index kv = makes(Mistake::kv_head_mapping) ? in_batch % shape_.num_heads_kv
                                                     : in_batch / shape_.group_size();
    return batch * shape_.num_heads_kv + kv;
  }

  bool allows(int rank, Index i, int owner, Index j) const {
    const Index query = position(rank, i), key = position(owner, j);
    if (strikes(Mistake::causal_in_local_order, rank)) {
      if (ring_.variant == 0) return j <= i;
      return owner == rank ? j <= i : owner < rank;
    }
    if (strikes(Mistake::mask_off_by_one, rank) && mask_.window == 0) {
      if (ring_.variant == 0) return mask_.allows(query, key) && query != key;
      return mask_.allows(query, key) || key == query + 1;
    }
    return mask_.allows(query, key);
  }

  // Return the position of the K row, or the V row, that `rank` finds as row j of `owner`.
  Index k_position(int rank, int owner, Index j) const {
    const bool from_next = strikes(Mistake::wrong_neighbour, rank);
    return row_of(from_next ? (2 * rank - owner + ranks_) % ranks_ : owner, owner, j);
  }
  Index v_position(int rank, int owner, Index j) const {
    const bool is_stale = strikes(Mistake::stale_values, rank) && owner != (rank + 1) % ranks_;
    return is_stale ? row_of((owner - 1 + ranks_) % ranks_, owner, j) : k_position(rank, owner, j);
  }
  // Return row j of rank `from`, or its last one, or `owner`'s if it has none.
  Index row_of(int from, int owner, Index j) const {
    return rows(from) > 0 ? position(from, std::min(j, rows(from) - 1)) : position(owner, j);
  }

  double score(Index head, int rank, Index i, int owner, Index j) const {
    if (!allows(rank, i, owner, j)) return kNoScore;
    const double* const q = q_.data() + (head * shape_.seqlen + position(rank, i)) * width();
    const double* const k =
        k_.data() + (kv_head_of(head) * shape_.seqlen + k_position(rank, owner, j)) * width();
    double sum = 0;
    for (Index c = 0; c < width(); ++c) sum += q[c] * k[c];
    return sum * scale_ * (strikes(Mistake::scale, rank) ? ring_.factor : 1);
  }

  // Return how often `rank` attends the block of `owner`.
  int times(int rank, int owner) const {
    const bool is_it = ring_.owner == owner;
    if (is_it && strikes(Mistake::missing_block, rank)) return 0;
    return is_it && strikes(Mistake::doubled_block, rank) ? 2 : 1;
  }

  struct State {
    double m = kNoScore, l = 0;
    std::vector<double> acc;
  };

  State attend(Index head, int rank, Index i, int owner) const {
    State block{kNoScore, 0, std::vector<double>(width())};
    std::vector<double> scores;
    for (Index j = 0; j < rows(owner); ++j) {
      scores.push_back(score(head, rank, i, owner, j));
      block.m = std::max(block.m, scores.back());
    }
    for (Index j = 0; j < rows(owner); ++j) {
      if (scores[j] == kNoScore) continue;
      const double weight = std::exp(scores[j] - block.m);
      const double stored = rounded_to(ring_.weight_dtype, weight);
      const double* const v =
          v_.data() + (kv_head_of(head) * shape_.seqlen + v_position(rank, owner, j)) * width();
      block.l += weight;
      for (Index c = 0; c < width(); ++c) block.acc[c] += stored * v[c];
    }
    if (strikes(Mistake::lse_in_log2, rank) && block.l > 0) {
      for (double& x : block.acc) x /= block.l;
      block.m = (block.m + std::log(block.l)) / std::log(2.0);
      block.l = 1;
    }
    return block;
  }

  void merge(int rank, int step, State& state, const State& block) const {
    if (block.m == kNoScore) {
      if (strikes(Mistake::masked_block_nan, rank))
        std::fill(state.acc.begin(), state.acc.end(), block.l / block.l);
      return;
    }
    const double most = std::max(state.m, block.m);
    double old_factor = state.m == kNoScore ? 0 : std::exp(state.m - most),
           new_factor = std::exp(block.m - most);
    if (strikes(Mistake::merge_without_max, rank)) {
      if (ring_.variant != 2) old_factor = 1;
      if (ring_.variant != 1) new_factor = 1;
    }
    state.m = most;
    state.l = state.l * old_factor + block.l * new_factor;
    for (std::size_t c = 0; c < state.acc.size(); ++c)
      state.acc[c] = state.acc[c] * old_factor + block.acc[c] * new_factor;
    if (strikes(Mistake::rounds_each_hop, rank) && ring_.variant != 2 && ranks_ > 1 &&
        (ring_.variant != 3 || step >= ranks_ / 2)) {
      const double divisor = ring_.variant == 1 ? state.l : 1;
      for (double& x : state.acc) x = rounded_to(ring_.hop_dtype, x / divisor) * divisor;
    }
  }

  void forward(Index head, int rank, Index i) {
    State state{kNoScore, 0, std::vector<double>(width())};
    std::vector<double> mean(width());
    for (int step = 0; step < ranks_; ++step) {
      const int owner = (rank - step + ranks_) % ranks_;
      const State block = attend(head, rank, i, owner);
      for (int time = 0; time < times(rank, owner); ++time) merge(rank, step, state, block);
      if (block.l > 0)
        for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += block.acc[c] / block.l / ranks_;
    }
    const Index row = head * shape_.seqlen + position(rank, i);
    if (state.l == 0) return;
    result_.lse[row] = state.m + std::log(state.l);
    const bool averages = strikes(Mistake::mean_instead_of_sum, rank) && ring_.variant == 1;
    for (Index c = 0; c < width(); ++c)
      result_.out[row * width() + c] = averages ? mean[c] : state.acc[c] / state.l;
  }

  // The gradient of an owner's block begins at the owner and gathers a share at every rank.
  void backward() {
    for (Index head = 0; head < shape_.batch * shape_.num_heads; ++head)
      for (int owner = 0; owner < ranks_; ++owner) {
        std::vector<double> dk(rows(owner) * width()), dv = dk;
        for (int step = 0; step < ranks_; ++step) {
          const int rank = (owner + step) % ranks_;
          if (makes(Mistake::gradient_one_hop_short) && ring_.variant == 1 && step == ranks_ - 1)
            continue;  // the share of the last rank stays behind
          add_share(head, rank, owner, dk, dv);
          if (makes(Mistake::rounds_each_hop) && ring_.variant == 2)
            for (auto* tensor : {&dk, &dv})
              for (double& x : *tensor) x = rounded_to(ring_.hop_dtype, x);
        }
        const bool short_of_home =
            makes(Mistake::gradient_one_hop_short) && ring_.variant == 0 && ranks_ > 1;
        const int home = short_of_home ? (owner + ranks_ - 1) % ranks_ : owner;
        const double factor =
            makes(Mistake::mean_instead_of_sum) && ring_.variant == 0 ? 1.0 / ranks_ : 1.0;
        for (Index j = 0; j < std::min(rows(home), rows(owner)); ++j)
          for (Index c = 0; c < width(); ++c) {
            const Index to = (kv_head_of(head) * shape_.seqlen + position(home, j)) * width() + c;
            result_.dk[to] += factor * dk[j * width() + c];
            result_.dv[to] += factor * dv[j * width() + c];
          }
      }
  }

  void add_share(Index head, int rank, int owner, std::vector<double>& dk,
                 std::vector<double>& dv) {
    const double scale = scale_ * (strikes(Mistake::scale, rank) ? ring_.factor : 1);
    for (Index i = 0; i < rows(rank); ++i) {
      const Index row = head * shape_.seqlen + position(rank, i);
      const double* const dout = dout_.data() + row * width();
      const double* const q = q_.data() + row * width();
      double delta = 0;
      for (Index c = 0; c < width(); ++c) delta += dout[c] * result_.out[row * width() + c];
      for (Index j = 0; j < rows(owner); ++j) {
        const double s = score(head, rank, i, owner, j);
        if (s == kNoScore) continue;
        const Index key = (kv_head_of(head) * shape_.seqlen + k_position(rank, owner, j)) * width();
        const double p = times(rank, owner) * std::exp(s - result_.lse[row]);
        double dp = 0;
        for (Index c = 0; c < width(); ++c) dp += dout[c] * v_[key + c];
        const double ds = rounded_to(ring_.weight_dtype, p * (dp - delta)) * scale;
        const double stored = rounded_to(ring_.weight_dtype, p);
        for (Index c = 0; c < width(); ++c) {
          dv[j * width() + c] += stored * dout[c];
          dk[j * width() + c] += ds * q[c];
          result_.dq[row * width() + c] += ds * k_[key + c];
        }
      }
    }
  }

  // Variant 0: the struck ranks hold the rows of the next rank. Variant 1: all rows are put back as
  // if the deal had been contiguous, or zigzag if it is.
  void take_rows_of_others() {
    std::vector<Index> source(shape_.seqlen);
    for (Index i = 0; i < shape_.seqlen; ++i) source[i] = i;
    Index before = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const int other = (rank + 1) % ranks_;
      for (Index i = 0; i < rows(rank); ++i) {
        if (ring_.variant == 0 && strikes(Mistake::rows_of_other_rank, rank) && i < rows(other))
          source[position(rank, i)] = position(other, i);
        if (ring_.variant == 1) source[before + i] = position(rank, i);
      }
      before += rows(rank);
    }
    const NaiveResult<double> right = result_;
    for (Index row = 0; row < std::ssize(right.lse); ++row) {
      const Index from = row / shape_.seqlen * shape_.seqlen + source[row % shape_.seqlen];
      result_.lse[row] = right.lse[from];
      std::copy_n(right.out.begin() + from * width(), width(), result_.out.begin() + row * width());
    }
  }

  AttentionShape shape_;
  double scale_;
  MistakenRing ring_;
  int ranks_;
  MaskSpec spec_;
  Mask mask_;
  std::vector<double> q_, k_, v_, dout_;
  std::vector<std::vector<Index>> positions_;  // by rank
  NaiveResult<double> result_;
};

}  // namespace

void rotate_row(double* row, Index head_dim, double position, double base, RopePairs pairs) {
  const Index half = head_dim / 2;
  const double step = std::pow(base, -2.0 / static_cast<double>(head_dim));
  double angle = position;
  for (Index x = 0; x < half; ++x, angle *= step) {
    double& a = pairs == RopePairs::halves ? row[x] : row[2 * x];
    double& b = pairs == RopePairs::halves ? row[x + half] : row[2 * x + 1];
    const double a_was = a, cosine = std::cos(angle), sine = std::sin(angle);
    a = a_was * cosine - b * sine;
    b = a_was * sine + b * cosine;
  }
}

const MistakeFacts& facts_of(Mistake mistake) {
  static constexpr MistakeFacts kFacts[] = {
      {"rows-of-other-rank", 2,
       "Rows lie at places of another rank or deal. Print the positions that each rank "
       "believes it holds, and compare them with the partition."},
      {"rope-positions", 2,
       "Rotary angles were taken at positions of another deal. Give every rank the global "
       "positions of its own rows, and compare Q after rotation with a single device's."},
      {"merge-without-max", 3,
       "Partial results are merged without bringing them to one row maximum. Check that both"
       " the accumulator and row_sum are multiplied by exp(m_old - m_new)."},
      {"rounds-each-hop", 4,
       "The accumulator is rounded to 16 bits at every hop. Keep it in f32 until the last "
       "step; the error then no longer grows with the number of ranks."},
      {"missing-block", 1,
       "A KV block is not attended. Log the owner of each block that a rank attends; every "
       "owner has to occur once."},
      {"doubled-block", 1,
       "A KV block is attended twice. Log the owner of each block that a rank attends; every"
       " owner has to occur once."},
      {"scale", 1,
       "Another softmax scale was used. Pass the scale explicitly, and look for a kernel "
       "that multiplies by it or by log2(e) a second time."},
      {"mask-off-by-one", 2,
       "The mask ends one position away. Check a row at the edge by hand: is the key at its "
       "own position allowed, and how many keys does its window hold?"},
      {"causal-in-local-order", 2,
       "The causal mask compares local rows. Compare global positions in every block; a "
       "block of lower positions is allowed whole, one of higher positions not at all."},
      {"kv-head-mapping", 1,
       "Query heads read the wrong key head. Head h reads h / (heads / heads_kv); repeat "
       "each kv head with repeat_interleave, not with repeat."},
      {"gradient-one-hop-short", 2,
       "dK and dV travel one hop too few. They make N hops, one more than the blocks, and "
       "the last one brings them home; count the sends of the backward pass."},
      {"mean-instead-of-sum", 2,
       "Parts are averaged where they are to be added. Look for an all-reduce with the mean,"
       " or a division by the number of ranks or heads."},
      {"window-dropped", 1, ""},
      {"rows-dropped", 1, ""},
      {"masked-block-nan", 1, ""},
      {"unequal-shards", 1, ""},
      {"lse-in-log2", 1, ""},
      {"wrong-neighbour", 1, ""},
      {"stale-values", 1, ""},
  };
  return kFacts[static_cast<int>(mistake)];
}

NaiveResult<double> make_mistake(const CheckedProblem& problem, const CheckedInputs& inputs,
                                 const MistakenRing& ring) {
  return Ring(problem, inputs, ring).run();
}

CheckedInputs stored_inputs(const Problem& config, const AttentionInputs& inputs) {
  const auto stored = [&](const std::vector<float>& values) {
    return stored_as(config.dtype, {values.begin(), values.end()});
  };
  CheckedInputs all{stored(inputs.q), stored(inputs.k), stored(inputs.v), {}};
  if (config.backward)
    all.dout = inputs.dout.empty() ? std::vector<double>(all.q.size(), 1.0) : stored(inputs.dout);
  return all;
}

NaiveResult<double> oracle_of(const CheckedProblem& problem, const CheckedInputs& inputs,
                              const NaiveOptions& options) {
  return naive_attention<double>(problem.shape, problem.mask.for_seqlen(problem.shape.seqlen),
                                 problem.softmax_scale, inputs.q.data(), inputs.k.data(),
                                 inputs.v.data(),
                                 inputs.dout.empty() ? nullptr : inputs.dout.data(), options);
}

double largest_row_norm(const std::vector<double>& values, Index width) {
  double largest = 0;
  for (auto row = values.begin(); row != values.end(); row += width) {
    const double norm = std::sqrt(std::inner_product(row, row + width, row, 0.0));
    if (std::isfinite(norm)) largest = std::max(largest, norm);
  }
  return largest;
}

}  // namespace ringscope
