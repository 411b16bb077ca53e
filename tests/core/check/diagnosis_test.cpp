// The search for a mistake against a ring that makes it (core/check/mistaken_ring.cpp): random
// shapes, masks and partitions, in f32 and bf16. RINGSCOPE_CHECK_CASES sets how many.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/check/verdict.h"

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
    c.oracle = naive_attention<double>(
        s, c.problem.mask.for_seqlen(seqlen), c.problem.softmax_scale, c.inputs.q.data(),
        c.inputs.k.data(), c.inputs.v.data(), backward ? c.inputs.dout.data() : nullptr);
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
  const double least = c.dtype == DType::f32 ? 1e-4 : 2e-3;
  double most = distance(mine.out, c.oracle.out);
  for (const auto& [a, b] :
       {std::pair{&mine.dq, &c.oracle.dq}, {&mine.dk, &c.oracle.dk}, {&mine.dv, &c.oracle.dv}})
    if (!a->empty()) most = std::max(most, distance(*a, *b));
  return most > least;
}

TEST(Diagnosis, NamesTheMistakeThatWasMade) {
  Cases cases(test_seed());
  const int count = number_of_cases(48);
  int right = 0, done = 0, right_rank = 0, with_rank = 0;
  std::map<std::string, std::pair<int, int>> by_kind;
  std::string misses;
  for (int number = 0; done < count; ++number) {
    ASSERT_LT(number, 40 * count);
    // Those that a check can name come first.
    const Mistake mistake = kAllMistakes[number % static_cast<int>(Mistake::window_dropped)];
    MistakenRing ring;
    ring.mistake = mistake;
    ring.variant = cases.integer(0, facts_of(mistake).variants - 1);
    const bool backward = mistake == Mistake::gradient_one_hop_short ||
                          (mistake == Mistake::mean_instead_of_sum && ring.variant == 0) ||
                          (mistake == Mistake::rounds_each_hop && ring.variant == 2) ||
                          cases.integer(0, 3) == 0;
    Case c = cases.draw(backward, cases.integer(0, 1) == 1);
    const int n = c.problem.partition.world_size;
    if (mistake == Mistake::rounds_each_hop && n < 4) continue;
    const bool single = mistake != Mistake::rope_positions && mistake != Mistake::kv_head_mapping &&
                        mistake != Mistake::gradient_one_hop_short &&
                        mistake != Mistake::mean_instead_of_sum &&
                        mistake != Mistake::rounds_each_hop && cases.integer(0, 1) == 1;
    if (single) ring.rank = cases.integer(0, n - 1);
    ring.owner = cases.integer(0, n - 1);
    ring.factor = cases.one_of<double>({2, 0.5, std::sqrt(2.0), 1.4427, 0.125, 8});
    if (mistake == Mistake::causal_in_local_order &&
        (c.problem.mask.name() != "causal" ||
         (c.problem.partition.kind == PartitionKind::contiguous && ring.variant == 1)))
      continue;
    if (mistake == Mistake::mask_off_by_one && c.problem.mask.name() == "full") continue;
    Tensors mine = make_mistake(c.problem, c.inputs, ring);
    if (!is_visible(mine, c) && mistake != Mistake::rounds_each_hop) continue;
    store(mine, c.dtype);
    const CheckVerdict verdict = verdict_of(c, mine);
    ++done;
    const std::string kind = fmt::format("{} {}", name_of(mistake), ring.variant);
    ++by_kind[kind].second;
    const bool found = verdict.result == CheckResult::wrong && !verdict.suspects.empty() &&
                       verdict.suspects.front().mistake == mistake;
    if (found) {
      ++right;
      ++by_kind[kind].first;
      if (single) {
        ++with_rank;
        right_rank += verdict.suspects.front().rank == ring.rank;
      }
    } else {
      misses += fmt::format("{}, rank {}, owner {}, factor {}, {}: {}", kind, ring.rank, ring.owner,
                            ring.factor, c.text, name_of(verdict.result));
      for (const Suspect& suspect : verdict.suspects)
        misses += fmt::format(" [{} {:.3f} {}]", name_of(suspect.mistake), suspect.confidence,
                              suspect.how);
      misses += "\n";
    }
  }
  for (const auto& [kind, hits] : by_kind)
    misses += fmt::format("{} {}/{}\n", kind, hits.first, hits.second);
  EXPECT_GE(right, (count * 9 + 9) / 10)
      << "seed " << test_seed() << ", " << right << " of " << count << ", ranks " << right_rank
      << " of " << with_rank << "\n"
      << misses;
  RecordProperty("right", right);
  if (std::getenv("RINGSCOPE_CHECK_CASES") != nullptr)
    std::printf("%d of %d, rank %d of %d\n%s", right, count, right_rank, with_rank, misses.c_str());
}

// Softmax weights in f32 or bf16, as tensor cores take them.
TEST(Diagnosis, DoesNotCallACorrectRingWrong) {
  Cases cases(test_seed() + 1);
  const int count = number_of_cases(48);
  for (int number = 0; number < count; ++number) {
    const bool bf16 = number % 4 != 0;
    const Case c = cases.draw(number % 2 == 0, bf16);
    MistakenRing ring;
    if (bf16 && number % 3 != 0) ring.weight_dtype = DType::bf16;
    Tensors mine = make_mistake(c.problem, c.inputs, ring);
    store(mine, c.dtype);
    const CheckVerdict verdict = verdict_of(c, mine);
    std::string tensors;
    for (const TensorCheck& t : verdict.tensors)
      tensors += fmt::format("\n{} max {:.3g} <= {:.3g}, rms {:.3g} <= {:.3g}", t.name(), t.max_abs,
                             t.tolerance, t.rms, t.rms_tolerance);
    EXPECT_EQ(verdict.result, bf16 ? CheckResult::rounding : CheckResult::exact)
        << "seed " << test_seed() << ", case " << number << ": " << c.text << tensors
        << (verdict.suspects.empty() ? "" : verdict.suspects.front().how);
  }
}

}  // namespace check_test
}  // namespace ringscope
