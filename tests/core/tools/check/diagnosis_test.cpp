// The search for a mistake against rings that make it, with random shapes, masks and partitions, in
// f32 and bf16; and those rings against plain attention with the mistake put into it by hand.
// RINGSCOPE_CHECK_CASES sets how many.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/tools/check/hypotheses.h"
#include "core/tools/check/verdict.h"

namespace ringscope {
namespace check_test {

using Tensors = NaiveResult<double>;

struct Case {
  CheckedProblem problem;
  CheckedInputs inputs;
  Tensors oracle;
  DType dtype = DType::f32;
  std::string text;
};

std::uint64_t test_seed() {
  const char* const given = std::getenv("RINGSCOPE_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 23;
}
int number_of_cases(int otherwise) {
  const char* const given = std::getenv("RINGSCOPE_CHECK_CASES");
  return given != nullptr ? std::atoi(given) : otherwise;
}

void store(std::vector<double>& values, DType dtype) {
  for (double& x : values) x = static_cast<double>(round_to(dtype, static_cast<float>(x)));
}

// What a program gives: f32 throughout, out and gradients in the dtype.
void store(Tensors& tensors, DType dtype) {
  for (auto* tensor : {&tensors.out, &tensors.dq, &tensors.dk, &tensors.dv}) store(*tensor, dtype);
  store(tensors.lse, DType::f32);
}

class Cases {
 public:
  explicit Cases(std::uint64_t seed) : random_(seed) {}

  int integer(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[static_cast<std::size_t>(integer(0, static_cast<int>(values.size()) - 1))];
  }

  Case draw(bool backward, bool bf16) {
    Case c;
    const int kv = integer(1, 2), group = integer(1, 3);
    const Index seqlen = integer(48, 160);
    c.problem.shape = {integer(1, 2), kv * group, kv, seqlen, one_of<Index>({8, 16, 32, 64})};
    const int n = integer(2, 8);
    c.problem.partition = {one_of<PartitionKind>({PartitionKind::contiguous, PartitionKind::striped,
                                                  PartitionKind::zigzag, PartitionKind::fold}),
                           seqlen, n};
    const std::string mask = one_of<std::string>({"full", "causal", "causal", "causal+window:20",
                                                  "window:15", "prefix:17",
                                                  "causal+documents:" + std::to_string(seqlen / 3) +
                                                      "," + std::to_string(seqlen - seqlen / 3)});
    c.problem.mask = MaskSpec::parse(mask);
    c.problem.softmax_scale = 1 / std::sqrt(static_cast<double>(c.problem.shape.head_dim));
    c.dtype = bf16 ? DType::bf16 : DType::f32;
    std::normal_distribution<double> normal;
    const AttentionShape& s = c.problem.shape;
    for (auto* tensor : {&c.inputs.q, &c.inputs.k, &c.inputs.v}) {
      const Index heads = tensor == &c.inputs.q ? s.num_heads : s.num_heads_kv;
      for (Index i = 0; i < s.batch * heads * seqlen * s.head_dim; ++i)
        tensor->push_back(normal(random_));
      store(*tensor, c.dtype);
    }
    if (backward) {
      for (std::size_t i = 0; i < c.inputs.q.size(); ++i) c.inputs.dout.push_back(normal(random_));
      store(c.inputs.dout, c.dtype);
    }
    c.oracle = oracle_of(c.problem, c.inputs, {});
    c.text = fmt::format("{} x {} heads ({} kv) x {} x {}, {} ranks, {}, {}, {}", s.batch,
                         s.num_heads, s.num_heads_kv, seqlen, s.head_dim, n,
                         name_of(c.problem.partition.kind), mask, name_of(c.dtype));
    return c;
  }

 private:
  std::mt19937_64 random_;
};

CheckVerdict verdict_of(const Case& c, const Tensors& mine) {
  DiagnosisOptions options;
  options.dtype = c.dtype;
  options.threads = 2;
  return check_outputs(c.problem, c.inputs, c.oracle, mine, options);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
    sum += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return norm > 0 ? std::sqrt(sum / norm) : 0;
}

// Return whether the mistake changes more than rounding, so that it can be asked for.
bool is_visible(const Tensors& mine, const Case& c) {
  const double least = c.dtype == DType::f32 ? 1e-4 : 3e-3;
  double most = distance(mine.out, c.oracle.out);
  for (const auto& [a, b] :
       {std::pair{&mine.dq, &c.oracle.dq}, {&mine.dk, &c.oracle.dk}, {&mine.dv, &c.oracle.dv}})
    if (!a->empty()) most = std::max(most, distance(*a, *b));
  for (const double x : mine.out)
    if (!std::isfinite(x)) return true;
  return most > least;
}

std::string text_of(const CheckVerdict& verdict) {
  std::string text(name_of(verdict.result));
  for (const Suspect& suspect : verdict.suspects)
    text +=
        fmt::format(" [{} {:.3f} {}]", name_of(suspect.mistake), suspect.confidence, suspect.how);
  return text;
}

// Every mistake is named first in at least 9 of 10 problems that show it, with a rank of its own in
// half of them, and a wrong name is never a sure one. (Two names may be one thing: among two ranks
// the own block alone is the other's block missing.)
class EveryMistake : public testing::TestWithParam<Mistake> {};

TEST_P(EveryMistake, IsNamedFirst) {
  const Mistake mistake = GetParam();
  const int count = number_of_cases(6);
  Cases cases(test_seed() + static_cast<std::uint64_t>(mistake));
  int right = 0, done = 0;
  std::string misses;
  for (int number = 0; done < count; ++number) {
    ASSERT_LT(number, 60 * count) << "no problem shows it";
    Case c = cases.draw(is_of_gradients(mistake) || cases.integer(0, 3) == 0, number % 2 == 1);
    const int n = c.problem.partition.world_size;
    const bool single = !is_of_gradients(mistake) && mistake != Mistake::rope_positions &&
                        mistake != Mistake::rounds_each_hop && mistake != Mistake::own_block_only &&
                        mistake != Mistake::wrong_mask && cases.integer(0, 1) == 1;
    if (n < 4) continue;
    const MistakenRing ring{mistake, single ? cases.integer(0, n - 1) : -1};
    Tensors mine = make_mistake(c.problem, c.inputs, ring);
    if (!is_visible(mine, c) && mistake != Mistake::rounds_each_hop) continue;
    store(mine, c.dtype);
    const CheckVerdict verdict = verdict_of(c, mine);
    ++done;
    const bool found = verdict.result == CheckResult::wrong && !verdict.suspects.empty() &&
                       verdict.suspects.front().mistake == mistake;
    right += found;
    if (found) {
      if (single) {
        EXPECT_EQ(verdict.suspects.front().rank, ring.rank) << c.text;
      }
      EXPECT_EQ(verdict.suspects.front().mask.empty(), mistake != Mistake::wrong_mask);
      continue;
    }
    misses += fmt::format("{}, rank {}: {}\n", c.text, ring.rank, text_of(verdict));
    if (!verdict.suspects.empty()) {
      EXPECT_FALSE(verdict.suspects.front().is_sure()) << c.text << ": " << text_of(verdict);
    }
  }
  EXPECT_GE(10 * right, 9 * count - 9) << "seed " << test_seed() << "\n" << misses;
}

INSTANTIATE_TEST_SUITE_P(Check, EveryMistake, testing::ValuesIn(kRingMistakes),
                         [](const auto& given) {
                           std::string name(name_of(given.param));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A problem of one head on four ranks, forward only. Its first value of V is `first`, if that is given.
Case plain_case(std::uint64_t seed, const std::string& mask, PartitionKind kind, bool bf16,
                Index rows = 96, std::optional<Index> width = {},
                std::optional<double> first = {}) {
  Cases cases(seed);
  Case c = cases.draw(false, bf16);
  c.problem.shape = {1, 1, 1, rows, width.value_or(c.problem.shape.head_dim)};
  c.problem.partition = {kind, rows, 4};
  c.problem.mask = MaskSpec::parse(mask);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (auto* tensor : {&c.inputs.q, &c.inputs.k, &c.inputs.v}) {
    tensor->resize(static_cast<std::size_t>(rows * c.problem.shape.head_dim));
    for (double& x : *tensor) x = normal(random);
    store(*tensor, c.dtype);
  }
  c.inputs.v[0] = first.value_or(c.inputs.v[0]);
  c.oracle = oracle_of(c.problem, c.inputs, {});
  return c;
}

Tensors with_mask(Case c, const std::string& mask) {
  c.problem.mask = MaskSpec::parse(mask);
  return oracle_of(c.problem, c.inputs, {});
}

// The mask that was applied is named in full, whatever the deal.
TEST(Diagnosis, NamesTheMaskThatFits) {
  const std::pair<const char*, const char*> cases[] = {
      {"causal+documents:30,40,26", "causal"},
      {"causal+documents:30,40,26", "documents:30,40,26"},
      {"causal+documents:30,40,26", "causal+documents:31,40,25"},
      {"causal+documents:30,40,26", "causal+documents:30,39,27"},
      {"causal+documents:30,40,26", "causal+documents:30,66"},
      {"causal+window:20", "causal"},
      {"causal+window:20", "causal+window:40"},
      {"causal", "full"},
      {"causal", "causal+documents:40,56"},
      {"full", "causal"},
      {"full", "causal+window:12"}};
  std::uint64_t seed = test_seed();
  for (const auto& [stated, applied] : cases)
    for (const PartitionKind kind :
         {PartitionKind::contiguous, PartitionKind::striped, PartitionKind::zigzag}) {
      ++seed;
      const Case c = plain_case(seed, stated, kind, seed % 2 == 0);
      Tensors mine = with_mask(c, applied);
      store(mine, c.dtype);
      const CheckVerdict verdict = verdict_of(c, mine);
      ASSERT_FALSE(verdict.suspects.empty()) << stated << ", " << applied;
      EXPECT_EQ(verdict.suspects.front().mistake, Mistake::wrong_mask) << text_of(verdict);
      EXPECT_EQ(verdict.suspects.front().mask, applied) << text_of(verdict);
      EXPECT_TRUE(verdict.suspects.front().is_sure()) << text_of(verdict);
    }
}

// Rings that follow the table against plain attention in which the mistake is made by hand.
TEST(MistakenRing, MakesTheMistakeThatItSays) {
  const Case c = plain_case(test_seed(), "causal", PartitionKind::contiguous, false);
  const auto made = [&](std::optional<Mistake> mistake) {
    return make_mistake(c.problem, c.inputs, {mistake, -1});
  };
  const auto expect_near = [](const Tensors& a, const Tensors& b) {
    EXPECT_LT(distance(a.out, b.out), 1e-12);
    EXPECT_LT(distance(a.lse, b.lse), 1e-12);
  };
  expect_near(made({}), c.oracle);
  expect_near(made(Mistake::wrong_mask), with_mask(c, "full"));
  expect_near(made(Mistake::own_block_only), with_mask(c, "causal+documents:24,24,24,24"));
  Case scaled = c;
  scaled.problem.softmax_scale = 1;
  expect_near(made(Mistake::scale), oracle_of(scaled.problem, scaled.inputs, {}));
  Case ones = c;
  for (double& x : ones.inputs.v) x = 1;
  const Tensors sums = make_mistake(ones.problem, ones.inputs, {Mistake::not_normalised, -1});
  EXPECT_EQ(sums.out.front(), 1);  // one key
  EXPECT_GT(sums.out.back(), 2);   // its row sum
}

// Ten rows that lie a position off, among many that are right, in 16 bits far below the tolerance of
// the whole tensor.
TEST(Diagnosis, FindsTenShiftedRows) {
  for (const bool bf16 : {false, true}) {
    constexpr Index kWidth = 16;
    // One large value makes the tolerance of 16 bits wide.
    const Case c = plain_case(test_seed(), "causal", PartitionKind::zigzag, bf16, 2048, kWidth, 20);
    Tensors mine{c.oracle.out, {}, {}, {}, {}};
    std::copy_n(c.oracle.out.begin() + 1501 * kWidth, 10 * kWidth,
                mine.out.begin() + 1500 * kWidth);
    store(mine, c.dtype);
    const CheckVerdict verdict = verdict_of(c, mine);
    EXPECT_EQ(verdict.result, CheckResult::wrong);
    EXPECT_EQ(verdict.tensors[0].wrong_rows, 10);
    EXPECT_EQ(verdict.tensors[0].first_wrong_row, 1500);
    EXPECT_EQ(verdict.tensors[0].last_wrong_row, 1509);
    ASSERT_FALSE(verdict.suspects.empty());
    EXPECT_EQ(verdict.suspects[0].mistake, Mistake::rows_of_other_rank) << text_of(verdict);
    EXPECT_TRUE(verdict.suspects[0].is_sure());
  }
}

// What would have changed a tensor that passes is not named, nor is noise named surely.
TEST(Diagnosis, NamesNothingThatContradictsARightTensor) {
  Cases cases(test_seed());
  const Case c = cases.draw(true, false);
  Tensors mine = c.oracle;
  mine.dk = make_mistake(c.problem, c.inputs, {Mistake::delta_missing, -1}).dk;
  store(mine, c.dtype);
  for (const Suspect& suspect : verdict_of(c, mine).suspects)
    EXPECT_NE(suspect.mistake, Mistake::delta_missing) << suspect.how;
  mine = c.oracle;
  std::mt19937_64 random(test_seed());
  std::normal_distribution<double> normal;
  for (double& x : mine.out) x += 0.3 * normal(random);
  for (const Suspect& suspect : verdict_of(c, mine).suspects) EXPECT_FALSE(suspect.is_sure());
}

// Return attention as flash kernels compute it: in bf16 softmax weights, dS, and the O in rowsum(dO * O)
// are rounded. Its backward pass sees the keys that the mask allows, or `seen` if there is one.
Tensors flash_attention(const Case& c, const std::function<bool(Index, Index)>& seen = {}) {
  const AttentionShape& shape = c.problem.shape;
  const Mask mask = c.problem.mask.for_seqlen(shape.seqlen);
  const Index n = shape.seqlen, width = shape.head_dim;
  Tensors mine = c.oracle;
  for (auto* tensor : {&mine.out, &mine.dq, &mine.dk, &mine.dv})
    std::fill(tensor->begin(), tensor->end(), 0.0);
  const auto dot = [&](const std::vector<double>& a, Index at, const std::vector<double>& b,
                       Index key) {
    return std::inner_product(&a[at], &a[at] + width, &b[key], 0.0);
  };
  for (Index row = 0; row < shape.batch * shape.num_heads * n; ++row) {
    const Index at = row * width, first_key = row / n / shape.group_size() * n;
    const double lse = c.oracle.lse[row];
    const auto score = [&](Index key) {
      return c.problem.softmax_scale * dot(c.inputs.q, at, c.inputs.k, key);
    };
    double m = -1e300;
    for (Index j = 0; j < n; ++j)
      if (mask.allows(row % n, j)) m = std::max(m, score((first_key + j) * width));
    for (Index j = 0; j < n; ++j) {
      const Index key = (first_key + j) * width;
      if (!mask.allows(row % n, j)) continue;
      const double weight = stored_as(c.dtype, std::exp(score(key) - m)) * std::exp(m - lse);
      for (Index x = 0; x < width; ++x) mine.out[at + x] += weight * c.inputs.v[key + x];
    }
    for (Index x = at; x < at + width; ++x) mine.out[x] = stored_as(c.dtype, mine.out[x]);
    for (Index j = 0; j < n && !c.inputs.dout.empty(); ++j) {
      const Index key = (first_key + j) * width;
      if (!(seen ? seen(row % n, j) : mask.allows(row % n, j))) continue;
      const std::vector<double>& dout = c.inputs.dout;
      const double p = std::exp(score(key) - lse),
                   dp = dot(dout, at, c.inputs.v, key) - dot(dout, at, mine.out, at),
                   ds = c.problem.softmax_scale * stored_as(c.dtype, p * dp);
      for (Index x = 0; x < width; ++x) {
        mine.dv[key + x] += stored_as(c.dtype, p) * dout[at + x];
        mine.dk[key + x] += ds * c.inputs.q[at + x];
        mine.dq[at + x] += ds * c.inputs.k[key + x];
      }
    }
  }
  return mine;
}

// Rings in f64, and flash kernels in bf16, whose softmax is smooth or sharp.
TEST(Diagnosis, DoesNotCallACorrectRingWrong) {
  Cases cases(test_seed() + 1);
  const int count = number_of_cases(24);
  for (int number = 0; number < count; ++number) {
    const bool bf16 = number % 4 != 0;
    Case c = cases.draw(number % 2 == 0, bf16);
    for (double& x : c.inputs.q) x *= number % 4 == 2 ? 4 : 1;
    // Equal values leave nothing but noise of dQ and dK.
    const auto width = static_cast<std::size_t>(c.problem.shape.head_dim);
    for (std::size_t i = width; number % 6 == 0 && i < c.inputs.v.size(); ++i)
      c.inputs.v[i] = c.inputs.v[i - width];
    c.oracle = oracle_of(c.problem, c.inputs, {});
    Tensors mine = make_mistake(c.problem, c.inputs, {});
    if (bf16 && number % 3 != 0) mine = flash_attention(c);
    store(mine, c.dtype);
    const CheckVerdict verdict = verdict_of(c, mine);
    EXPECT_EQ(verdict.result, bf16 ? CheckResult::rounding : CheckResult::exact)
        << "seed " << test_seed() << ", case " << number << ": " << c.text << text_of(verdict);
  }
}

// Ways to make a mistake that a ring doesn't make when it is asked to.
TEST(Diagnosis, NamesOtherWaysToMakeAMistake) {
  Case c = plain_case(test_seed(), "causal", PartitionKind::contiguous, false);
  const AttentionShape& shape = c.problem.shape;
  const Index width = shape.head_dim, block = shape.seqlen / 4;
  c.inputs.dout.assign(c.inputs.v.rbegin(), c.inputs.v.rend());
  c.oracle = oracle_of(c.problem, c.inputs, {});
  Tensors log2_lse = c.oracle, moved = c.oracle, zeros = c.oracle, nan = c.oracle, last = c.oracle;
  for (double& x : log2_lse.lse) x /= std::log(2.0);
  std::rotate(moved.out.begin(), moved.out.begin() + block * width, moved.out.end());
  std::fill_n(zeros.out.begin() + 30 * width, 7 * width, 0.0);
  std::fill_n(nan.out.begin(), 3 * block * width, std::nan(""));
  std::fill_n(nan.lse.begin(), 3 * block, std::nan(""));
  // The gradients are linear in dO, so the share of a rank's queries is what the others' zeros leave.
  for (Index rank = 0; rank < 4; ++rank) {
    Case part = c;
    for (Index x = 0; x < std::ssize(part.inputs.dout); ++x)
      if (x / (block * width) != rank) part.inputs.dout[x] = 0;
    const Tensors share = oracle_of(part.problem, part.inputs, {});
    const Index owner = (rank + 3) % 4 * block * width;
    std::copy_n(share.dk.begin() + owner, block * width, last.dk.begin() + owner);
    std::copy_n(share.dv.begin() + owner, block * width, last.dv.begin() + owner);
  }
  // A natural lse that is merged by powers of 2.
  Case full = plain_case(test_seed(), "full", PartitionKind::contiguous, false);
  Tensors powers = full.oracle;
  for (Index i = 0; i < shape.seqlen; ++i) {
    double sum = 0;
    std::vector<double> out(width);
    for (Index first = 0; first < shape.seqlen; first += block) {
      std::vector<double> p;
      for (Index j = first; j < first + block; ++j)
        p.push_back(std::exp(full.problem.softmax_scale *
                             std::inner_product(&full.inputs.q[i * width],
                                                &full.inputs.q[i * width] + width,
                                                &full.inputs.k[j * width], 0.0)));
      const double l = std::accumulate(p.begin(), p.end(), 0.0), weight = std::exp2(std::log(l));
      sum += weight;
      for (Index x = 0; x < block * width; ++x)
        out[x % width] += weight / l * p[x / width] * full.inputs.v[first * width + x];
    }
    for (Index x = 0; x < width; ++x) powers.out[i * width + x] = out[x] / sum;
    powers.lse[i] = std::log2(sum);
  }
  Case zigzag = c;
  zigzag.problem.partition = {PartitionKind::zigzag, zigzag.problem.shape.seqlen,
                              zigzag.problem.partition.world_size};
  const auto in_backward = [&](const std::function<bool(Index, Index)>& seen) {
    return flash_attention(c, seen);
  };
  struct Way {
    Mistake mistake;
    const Case& of;
    Tensors mine;
  };
  for (Way& way : std::vector<Way>{
           {Mistake::lse_in_log2, c, log2_lse},
           {Mistake::lse_in_log2, full, powers},
           {Mistake::rows_of_other_rank, c, moved},
           {Mistake::rows_dropped, c, zeros},
           {Mistake::masked_block_nan, c, nan},
           {Mistake::dk_last_share_only, c, last},
           {Mistake::wrong_mask, c, in_backward([](Index, Index) { return true; })},
           {Mistake::own_block_only, c,
            in_backward([=](Index i, Index j) { return j <= i && j / block == i / block; })},
           {Mistake::missing_block, c,
            in_backward([=](Index i, Index j) { return j <= i && j / block != 1; })},
           // The block of owner o is at rank r where that expects 2 r - o.
           {Mistake::wrong_neighbour, c, in_backward([=](Index i, Index j) {
              return (2 * (i / block) + 4 - j / block) % 4 * block + j % block <= i;
            })},
           // The upper chunks of the blocks of lower ranks.
           {Mistake::wrong_zigzag_half, zigzag, flash_attention(zigzag, [=](Index i, Index j) {
              const Index rank = std::min(i * 2 / block, 7 - i * 2 / block),
                          owner = std::min(j * 2 / block, 7 - j * 2 / block);
              return owner == rank ? j <= i : (owner < rank ? j : i) >= 2 * block;
            })}}) {
    store(way.mine, DType::f32);
    const CheckVerdict verdict = verdict_of(way.of, way.mine);
    ASSERT_FALSE(verdict.suspects.empty()) << name_of(way.mistake);
    EXPECT_EQ(verdict.suspects.front().mistake, way.mistake) << text_of(verdict);
    EXPECT_TRUE(verdict.suspects.front().is_sure()) << text_of(verdict);
  }
}

Case backward_case(std::uint64_t seed, bool bf16) {
  Case c = plain_case(seed, "causal", PartitionKind::zigzag, bf16, 96, 32);
  c.problem.shape = {1, 4, 2, 96, 32};
  c.problem.softmax_scale = 1 / std::sqrt(32.0);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (auto* tensor : {&c.inputs.q, &c.inputs.dout, &c.inputs.k, &c.inputs.v}) {
    tensor->resize((tensor == &c.inputs.k || tensor == &c.inputs.v ? 2 : 4) * 96 * 32);
    for (double& x : *tensor) x = normal(random);
    store(*tensor, c.dtype);
  }
  c.oracle = oracle_of(c.problem, c.inputs, {});
  return c;
}

// A factor of whole tensors is told with its number, and named by what makes it. Where more than one
// mistake makes it, none is sure.
TEST(Diagnosis, NamesTheFactorOfATensor) {
  const double scale = 1 / std::sqrt(32.0);
  const struct {
    std::vector<Tensor> of;
    double factor;
    Mistake mistake;
    bool is_sure;
    const char* words;
  } cases[] = {{{Tensor::dq, Tensor::dk, Tensor::dv},
                4,
                Mistake::sum_instead_of_mean,
                true,
                "dq, dk, dv = 4 x right, to rounding: times the number of ranks"},
               {{Tensor::dk}, 0.5, Mistake::mean_instead_of_sum, true, "dk = 0.5 x right"},
               {{Tensor::dq}, scale, Mistake::scale, true, "dq = 0.1768 x right"},
               {{Tensor::dq, Tensor::dk}, 1 / scale, Mistake::scale, true, "is missing"},
               {{Tensor::dq, Tensor::dk}, std::log(2.0), Mistake::scale, true, "ln(2)"},
               {{Tensor::dv}, 1 / scale, Mistake::wrong_factor, true, "dv = 5.657 x right"},
               {{Tensor::dv}, 2, Mistake::sum_instead_of_mean, false, "or added up twice"},
               {{Tensor::lse}, 1 / std::log(2.0), Mistake::lse_in_log2, true, "another unit"}};
  for (const bool bf16 : {false, true})
    for (const auto& one : cases) {
      const Case c = backward_case(test_seed(), bf16);
      Tensors mine = c.oracle;
      for (const Tensor tensor : one.of)
        for (double& x : values_of(mine, tensor)) x *= one.factor;
      store(mine, c.dtype);
      const CheckVerdict verdict = verdict_of(c, mine);
      ASSERT_FALSE(verdict.suspects.empty()) << one.words;
      EXPECT_EQ(verdict.suspects[0].mistake, one.mistake) << text_of(verdict);
      EXPECT_EQ(verdict.suspects[0].is_sure(), one.is_sure) << text_of(verdict);
      EXPECT_NE(verdict.suspects[0].how.find(one.words), std::string::npos) << text_of(verdict);
    }
}

// What no ring makes on purpose: halves, caps, sinks, and positions in 16 bits.
TEST(Diagnosis, NamesWhatTensorsHold) {
  const Case c = backward_case(test_seed() + 1, false);
  const Index width = 32, rows = 96;
  Tensors columns = c.oracle, halves = c.oracle, noise = c.oracle, once = c.oracle, blocks = once;
  for (std::size_t i = 0; i < columns.out.size(); ++i)
    if (i % 32 >= 16) columns.out[i] = c.oracle.out[i - 16];
  std::mt19937_64 random(test_seed());
  std::normal_distribution<double> normal;
  for (std::size_t i = 0; i < halves.dk.size(); ++i)
    if (static_cast<Index>(i) / width % rows >= rows / 2) {
      halves.dk[i] = c.inputs.k[i];
      noise.dk[i] = normal(random);
    }
  const DealtRows deal(c.problem.partition);
  for (Index at = 0; at < 4 * rows; ++at) {
    const Index position = at % rows;
    std::vector<bool> met(4);
    for (Index j = 0; j <= position; ++j) met[deal.places[j].rank] = true;
    for (Tensors* const of : {&once, &blocks}) {
      const auto count =
          of == &once ? 1.0 : static_cast<double>(std::count(met.begin(), met.end(), true));
      const double lse = c.oracle.lse[at],
                   sum = std::exp(lse) + count * std::exp(0.3 * static_cast<double>(at / rows));
      of->lse[at] = std::log(sum);
      for (Index x = at * width; x < (at + 1) * width; ++x) of->out[x] *= std::exp(lse) / sum;
    }
  }
  // By hand: the scores of one head under a cap.
  Case capped = plain_case(test_seed(), "full", PartitionKind::contiguous, false, 40, 8);
  Tensors mine = capped.oracle;
  for (Index i = 0; i < 40; ++i) {
    double sum = 0;
    std::vector<double> out(8);
    for (Index j = 0; j < 40; ++j) {
      const double score = std::inner_product(&capped.inputs.q[i * 8], &capped.inputs.q[i * 8] + 8,
                                              &capped.inputs.k[j * 8], 0.0) *
                           capped.problem.softmax_scale,
                   p = std::exp(3 * std::tanh(score / 3));
      sum += p;
      for (Index x = 0; x < 8; ++x) out[x] += p * capped.inputs.v[j * 8 + x];
    }
    mine.lse[i] = std::log(sum);
    for (Index x = 0; x < 8; ++x) mine.out[i * 8 + x] = out[x] / sum;
  }
  const struct {
    Mistake mistake;
    const Case& of;
    Tensors mine;
    bool is_sure;
    const char* words;
  } ways[] = {{Mistake::overwritten, c, columns, true, "the upper half of the columns"},
              {Mistake::overwritten, c, halves, true, "values of K"},
              {Mistake::overwritten, c, noise, false, "holds something else"},
              {Mistake::sink_missing, c, once, false, "0.6 in head 2"},
              {Mistake::sink_counted_per_rank, c, blocks, true, "every block"},
              {Mistake::softcap, capped, mine, true, "cap near 3"}};
  for (const auto& way : ways) {
    Tensors stored = way.mine;
    store(stored, DType::f32);
    const CheckVerdict verdict = verdict_of(way.of, stored);
    ASSERT_FALSE(verdict.suspects.empty()) << way.words;
    EXPECT_EQ(verdict.suspects[0].mistake, way.mistake) << text_of(verdict);
    EXPECT_EQ(verdict.suspects[0].is_sure(), way.is_sure) << text_of(verdict);
    EXPECT_NE(verdict.suspects[0].how.find(way.words), std::string::npos) << text_of(verdict);
  }
}

// Positions that wrap at 2^15 and a block of many that is missing are found in a sample of rows.
TEST(Diagnosis, FindsWhatLongAndManyRanksHave) {
  constexpr Index kRows = 34000, kEnd = 1 << 15;
  const int ranks = 200, missing = 77;
  Case c;
  c.problem = {{1, 1, 1, kRows, 2}, MaskSpec::parse("full"), 1, {}};
  c.problem.partition = {PartitionKind::contiguous, kRows, ranks};
  std::mt19937_64 random(test_seed());
  std::normal_distribution<double> normal;
  for (auto* tensor : {&c.inputs.q, &c.inputs.k, &c.inputs.v})
    for (Index i = 0; i < 2 * kRows; ++i) tensor->push_back(normal(random));
  DiagnosisOptions options;
  for (Index i = 500; i < kRows; i += 8000) options.rows.push_back(i);
  const auto attend = [&](const std::function<Index(Index)>& source, Tensors& into) {
    into.out.assign(2 * kRows, 0);
    into.lse.assign(kRows, 0);
    for (const Index i : options.rows) {
      double sum = 0, out[2] = {};
      for (Index j = 0; j < kRows; ++j) {
        const Index from = source(j);
        if (from < 0) continue;
        const double p = std::exp(c.inputs.q[2 * i] * c.inputs.k[2 * from] +
                                  c.inputs.q[2 * i + 1] * c.inputs.k[2 * from + 1]);
        sum += p;
        for (int x = 0; x < 2; ++x) out[x] += p * c.inputs.v[2 * from + x];
      }
      into.lse[i] = std::log(sum);
      for (int x = 0; x < 2; ++x) into.out[2 * i + x] = out[x] / sum;
    }
  };
  attend([](Index j) { return j; }, c.oracle);
  for (RowBound* const bound : {&c.oracle.bounds.out, &c.oracle.bounds.lse})
    *bound = {std::vector<double>(kRows, 1e-7), std::vector<double>(kRows, 1.0)};
  const std::pair<Mistake, std::function<Index(Index)>> ways[] = {
      {Mistake::index_overflow, [](Index j) { return j < kEnd ? j : -1; }},
      {Mistake::index_overflow, [](Index j) { return j % kEnd; }},
      {Mistake::missing_block, [=](Index j) { return j / (kRows / ranks) == missing ? -1 : j; }}};
  for (const auto& [mistake, source] : ways) {
    Tensors mine;
    attend(source, mine);
    const CheckVerdict verdict = check_outputs(c.problem, c.inputs, c.oracle, mine, options);
    ASSERT_FALSE(verdict.suspects.empty());
    EXPECT_EQ(verdict.suspects[0].mistake, mistake) << text_of(verdict);
    EXPECT_TRUE(verdict.suspects[0].is_sure()) << text_of(verdict);
  }
}

// A guess names no rank and is below a sure one; what explains next to nothing has no name, but the
// tensors, rows and ranks that are wrong are told.
TEST(Diagnosis, TellsAGuessFromAMistakeThatIsFound) {
  const Case c = backward_case(test_seed() + 2, false);
  const Tensors made = make_mistake(c.problem, c.inputs, {Mistake::scale, 2});
  Tensors partly = c.oracle, noise = c.oracle;
  partly.lse.clear();
  for (std::size_t i = 0; i < made.out.size(); ++i)
    partly.out[i] = 0.8 * made.out[i] + 0.2 * c.oracle.out[i];
  const CheckVerdict guess = verdict_of(c, partly);
  ASSERT_FALSE(guess.suspects.empty());
  for (const Suspect& suspect : guess.suspects) {
    EXPECT_FALSE(suspect.is_sure()) << text_of(guess);
    EXPECT_EQ(suspect.rank, -1);
  }
  EXPECT_EQ(guess.tensors[0].wrong_ranks, std::vector<int>{2});
  std::mt19937_64 random(test_seed());
  std::normal_distribution<double> normal;
  for (const double size : {0.3, 0.003}) {
    for (std::size_t i = 0; i < noise.out.size(); ++i)
      noise.out[i] = c.oracle.out[i] + size * normal(random);
    const CheckVerdict unknown = verdict_of(c, noise);
    EXPECT_TRUE(unknown.suspects.empty()) << text_of(unknown);
    EXPECT_EQ(unknown.tensors[0].first_wrong_row, 0);
    EXPECT_EQ(unknown.tensors[0].wrong_ranks.size(), 4u);
  }
}

// Values of 16 bits in f32 are told as such, and of no mistake.
TEST(Diagnosis, TellsValuesOf16BitsFromMistakes) {
  const Case c = backward_case(test_seed() + 3, false);
  Tensors mine = c.oracle;
  store(mine, DType::f32);
  store(mine.dk, DType::bf16);
  const CheckVerdict verdict = verdict_of(c, mine);
  EXPECT_EQ(verdict.result, CheckResult::wrong);
  EXPECT_TRUE(verdict.suspects.empty()) << text_of(verdict);
  for (const TensorCheck& check : verdict.tensors) {
    EXPECT_EQ(check.right_in.has_value(), check.tensor == Tensor::dk);
    EXPECT_EQ(check.times_f32 > 10, check.tensor == Tensor::dk) << check.times_f32;
  }
}

}  // namespace check_test
}  // namespace ringscope
