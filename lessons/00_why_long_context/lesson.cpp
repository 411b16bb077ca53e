// # Why long context, and why exact
// > What a model can't see, it can't use. Windows and linear attention make a long text cheap by
// > forgetting some of it; a ring forgets nothing, and shares the cost.
//
// **You know**, if only from hearsay, that attention averages the values of all keys, weighted by how
// well they agree with a query. (Lesson 1 builds it.) **You will see** what is lost if a model sees
// only the end of a text, or a summary of fixed size, and what it costs to see everything.
//
// ## A test of memory
//
// A question about a novel, a program's sources or a lawsuit's files can ask for any line. Here, then,
// is a text in which every line is a fact. Line j has a key, 64 random signs, and a value: yes or
// no, +1 or -1. A reader of all S lines is given one of the keys, and must say yes or no. A guess
// is right half of the time.
#include <bit>
#include <random>

#include "lessons/book/lesson.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_00 {
//-
struct Text {
  std::vector<std::uint64_t> keys;  // 64 signs each
  std::vector<int> facts;

  explicit Text(Index lines) {
    std::mt19937_64 random(1);
    for (Index j = 0; j < lines; ++j) {
      keys.push_back(random());
      facts.push_back(random() % 2 == 0 ? 1 : -1);
    }
  }
  int sign(Index j, int x) const { return (keys[j] >> x & 1) == 1 ? 1 : -1; }
};

static const std::vector<double> kWeight = [] {  // by the number of signs that differ
  std::vector<double> weight;
  for (int differ = 0; differ <= 64; ++differ) weight.push_back(std::exp((64 - 2 * differ) / 8.0));
  return weight;
}();
//+

void lesson_00(Page& page) {
  // There are three ways to answer: *exact attention* weighs all S values by softmax (lesson 1), as
  // all other lessons do. A **window** is the same for the last 64 lines, and sees no others. *Linear
  // attention* leaves exp out, and then the sum can be taken in another order:
  //
  //     exact    answer = sum over j of  exp(q · k_j / 8) v_j  / sum over j of exp(q · k_j / 8)
  //     linear   answer = sum over j of  (q · k_j) v_j  =  q · (sum over j of k_j v_j)
  //
  // (8 is √64, which keeps q · k small: lesson 2. The answer is yes if it is positive, so the code
  // leaves the divisor out.) What stands in the last bracket doesn't depend on the question. It is 64
  // numbers, however many lines were read, and each new line is just added to it. This is the whole
  // test. A key's signs are the bits of a number, and `kWeight` has exp(q · k / 8) for each count of
  // other bits:
  const auto right = [](Index lines, Index questions) {
    const Text text(lines);
    std::vector<double> score(3), sums(64);  // exact, window, linear
    for (Index question = 0; question < questions; ++question) {
      const Index asked = question * lines / questions;
      double exact = 0;
      for (Index j = 0; j < lines; ++j)
        exact += kWeight[std::popcount(text.keys[j] ^ text.keys[asked])] * text.facts[j];
      score[0] += (exact * text.facts[asked] > 0 ? 1.0 : 0.0) / questions;
      score[1] += (asked >= lines - 64 ? 1 : 0.5) / questions;  // seen, or guessed
    }
    for (Index j = 0; j < lines; ++j)
      for (int x = 0; x < 64; ++x) sums[x] += text.facts[j] * text.sign(j, x);
    for (Index asked = 0; asked < lines; ++asked) {
      double linear = 0;
      for (int x = 0; x < 64; ++x) linear += text.sign(asked, x) * sums[x];
      score[2] += (linear == 0 ? 0.5 : linear * text.facts[asked] > 0 ? 1.0 : 0.0) / lines;
    }
    return score;
  };

  page.predict("1,024 lines, any of them asked for: how often is the window of 64 lines right?",
               "%", 100 * right(1024, 1024)[1]);
  Table recall({"lines", "exact", "window of 64", "linear, 64 numbers"});
  std::vector<std::vector<double>> scores;
  for (const Index lines : {16, 64, 256, 1024, 4096, 65536, 1048576}) {
    scores.push_back(right(lines, std::min(lines, (Index{1} << 28) / lines)));
    recall.row(lines, percent(scores.back()[0]), percent(scores.back()[1]),
               percent(scores.back()[2]));
  }
  Drawing memories;
  for (std::size_t way = 0; way < 3; ++way) {
    memories.heading(recall.head[way + 1]);
    for (std::size_t i = 0; i < scores.size(); ++i)
      memories.strip(recall.rows[i][0].kept + " lines",
                     {{0, scores[i][way], static_cast<int>(way)}}, recall.rows[i][way + 1].kept);
  }
  page.table(recall);
  page.picture("recall.svg", "How often each is right. A guess is, half of the time", memories);

  // The window knows its own lines and no others. The sum knows a few lines well, and the more are added
  // to it, the more each drowns in the others. Exact attention remembers each line by itself, because
  // exp lets the one key that fits outweigh thousands that don't.
  //
  // A million of them are too many for keys this short. (Only 256 were asked for, so that share may be off
  // by 5 %.) The key that fits weighs exp(8) = 2,981. The square of another one's weight is exp(2) on average,
  // and half of them stand for yes, half for no. By chance they add up to some exp(1) √S = 2,784 for one
  // side. With keys of 128 signs, as long as those of today's models, the one that fits weighs exp(√128) =
  // 81,937, and stands out again. If that sum has a normal distribution, exact attention is right this
  // often:
  const auto stands_out = [](double signs, double lines) {
    const double beyond = std::exp(std::sqrt(signs)) / std::sqrt(std::exp(2) * lines);
    return std::erfc(-beyond / std::sqrt(2)) / 2;
  };
  page.value("1,048,576 lines, keys of 64 signs", percent(stands_out(64, 1048576)));
  page.value("and of 128", percent(stands_out(128, 1048576)));

  // ## What breaks if the summary is larger?
  //
  // Nothing, and that is the trade. Keys of d numbers let a sum hold about d / 4 lines well, and a line's
  // value may be d numbers instead of one. The sum then has d² numbers, as many as K and V of d / 2
  // tokens. A summary that holds as much as exact attention is then as large as the text, or larger. Models
  // mix them: most layers see a window, or keep a summary, and a few see everything. Those few are the
  // ones that need a ring (below).
  //
  // ## What exactness costs
  //
  // Real models have many layers, and heads in each that attend side by side (lesson 1). Say that a model
  // has 32 layers of 32 query heads and 8 KV heads (heads of keys and values, K and V: lesson 10). A head
  // has 128 numbers in bf16, two bytes each. The S tokens are parts of words, and each sees itself and
  // those before it: a causal mask (7). The model keeps K and V of every token, and computes 4 · 128
  // operations for every pair and head (12). The table has its times on H100s, which are GPUs, at the
  // share of their peak that attention reaches. It assumes that work is shared evenly, and that what is
  // sent hides behind the computing (8, 12):
  const Gpu gpu = find_gpu("H100");
  const auto cache = [](double tokens) { return 32 * tokens * 8 * 2 * 128 * 2; };
  const auto hours = [&](double tokens) {
    const double flops = 32 * 32 * 4.0 * 128 * tokens * tokens / 2;
    return flops / (gpu.peak_flops(DType::bf16) * gpu.forward_share) / 3600;
  };
  Table costs({"tokens", "K and V of all layers", "attention on one GPU", "on 8", "on 64"});
  const auto time = [](double h) {
    return h < 1.0 / 60 ? fmt::format("{:.3g} s", 3600 * h) : fmt::format("{:.1f} min", 60 * h);
  };
  for (const double tokens : {8192.0, 131072.0, 1048576.0})
    costs.row(static_cast<Index>(tokens), bytes(cache(tokens)), time(hours(tokens)),
              time(hours(tokens) / 8), time(hours(tokens) / 64));
  page.table(costs);

  // Eight times the text is eight times the memory and 64 times the work. A million tokens don't fit on
  // one GPU, and would keep it busy for 7.5 minutes before it writes a word. N GPUs therefore share
  // memory and work, by **Ring Attention**: each keeps a part of the text, and the keys and values go round. The
  // answer is the one that a single machine would give; only memory and time are divided by N.
  page.predict("64 GPUs: how much of the cache of a million tokens has each?", "GiB",
               cache(1048576) / 64 / 0x1p30);

  // There are [three ways](../README.md#three-ways-through) through the lessons: for the idea, for systems
  // and for GPUs.
  //
  // ## On paper
  page.predict("Linear attention, keys and values of 128 numbers: how many are in its sum?",
               "numbers", 128 * 128);
  page.predict("K and V of how many tokens are as large?", "tokens", 128 * 128 / (2 * 128));
  page.predict("A window of 4,096 in a text of 65,536: how often is it right?", "%",
               100 * (4096 + 61440 / 2.0) / 65536);

  // ## Checks
  page.check("Exact attention answers every question", scores[0][0] == 1 && scores[4][0] == 1);
  page.check("64 numbers hold 16 lines, not 64", scores[0][2] > 0.9 && scores[1][2] < 0.9);
  page.check("A million lines are too many for keys of 64 signs, and not for 128",
             std::abs(scores[6][0] - stands_out(64, 1048576)) < 0.07 &&
                 stands_out(128, 1048576) > 0.999999);
  page.equal("Eight times the text is 64 times the work", hours(8 * 8192.0) / hours(8192), 64);
  page.check("One GPU can't hold a million tokens", cache(1048576) > gpu.memory_bytes);
  page.equal("and would take 7.5 minutes", fixed(60 * hours(1048576), 1), "7.5");
}

}  // namespace ringscope::lessons::chapter_00
