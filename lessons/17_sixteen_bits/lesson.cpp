// # Sixteen bits: what may be rounded, and when
// > A sum that is kept in bf16 stops growing far too soon. Inputs and results may have sixteen
// > bits, but whatever is added up on its way through a ring must have more.
//
// **You know** the carried state m, l, out_accum (lesson 3), the ring that carries it on from block
// to block (6), and perhaps tensor cores, which multiply 16-bit numbers and add in f32 (optional:
// lesson 23, in the second book). **You will see** where a sum in sixteen bits stands still, what that
// does to attention, and which of a ring's numbers must therefore stay in f32.
//
// ## Counting to a thousand
//
// Models store numbers in *bf16*: the upper half of an f32. It keeps the f32's range, up to 3.4 · 10³⁸,
// but only 8 significant bits in place of 24. It has every whole number up to 256; then the next one
// is 258. *f16* has 11 significant bits. Add 1,000 ones, and round the sum after each:
#include "core/base/dtype.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_17 {
void lesson_17(Page& page) {
  const Guess guess = page.predict("A thousand ones, added up in bf16. What comes out?", "");
  const auto count_up = [](DType dtype, int ones) {
    float sum = 0;
    for (int i = 0; i < ones; ++i) sum = round_to(dtype, sum + 1);
    return sum;
  };
  page.answer(guess, double{count_up(DType::bf16, 1000)});

  // 256 + 1 lies in the middle between 256 and 258, and ties go to the even last bit: to 256. From
  // there on each one that is added is rounded away. Nothing warns you, and nothing is infinite.
  Table types({"type", "1,000 ones", "10,000 ones", "36.881 is stored as", "70,000 is stored as"});
  for (const DType dtype : kAllDTypes)
    types.row(std::string(name_of(dtype)), double{count_up(dtype, 1000)},
              double{count_up(dtype, 10000)}, fixed(double{round_to(dtype, 36.881f)}, 3),
              double{round_to(dtype, 70000)});
  page.table(types);
  Drawing counting;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    counting.heading("ones added up in " + std::string(name_of(dtype)));
    for (const int ones : {100, 200, 300, 400, 500}) {
      const double sum = count_up(dtype, ones);
      counting.strip(std::to_string(ones), {{0, sum / 500, sum == ones ? 2 : Drawing::kWrong}},
                     fixed(sum, 0).kept);
    }
  }
  page.picture("counting.svg", "The sum in bf16 stands still at 256", counting);

  // f16 counts up to 2,048, but it ends at 65,504, and small gradients become 0 in it. Training
  // therefore uses bf16.
  //
  // ## Four keys again
  //
  // 36.881 was the output of lesson 3's four keys. Stored in bf16 it is 37: a number that is
  // rounded once is off by 1 part in 257 at most. Q, K, V and the final output can bear that.
  //
  // The trouble is with sums. Take a row of equal scores, so each key adds exp(0) = 1 to l, and
  // all values are 1. The output should be 1. Let l be a bf16 number, rounded at every key, and
  // out_accum an f32:
  const auto short_of_l = [](Index keys) {
    float l = 0, out_accum = 0;
    for (Index j = 0; j < keys; ++j, out_accum += 1) l = round_to(DType::bf16, l + 1);
    return double{out_accum / l};
  };
  Table sums({"keys", "output, l in bf16", "output, l and out_accum in bf16"});
  for (const Index keys : {256, 1024, 4096, 65536}) sums.row(keys, short_of_l(keys), 1);
  page.table(sums);

  // The last column looks right, and that is worse: both sums stand still at 256, so the output is
  // that of the first 256 keys, and all others are ignored. With equal values nobody notices.
  //
  // ## What breaks if a ring rounds at every hop?
  //
  // A ring attends one block at a time, and a kernel sums in f32. There are two ways to go on to the next
  // block. Either the state is carried on, and l or out_accum may be rounded to bf16 in between. Or
  // each block has its own complete attention, whose output is bf16 and whose lse is f32, and these
  // outputs are merged, in bf16 or in f32. Here are 32 rows over 4,096 random keys, in N blocks. The
  // error is its root mean square, divided by that of the outputs:
  enum class Rounded { nothing, l, out_accum, merged, outputs };
  const Index keys = 4096, rows = 32;
  const auto error = [&](Index blocks, Rounded what) {
    const auto kept = [&](Rounded which, float value) {
      return what == which ? round_to(DType::bf16, value) : value;
    };
    const bool by_merge = what == Rounded::merged || what == Rounded::outputs;
    double off = 0, all = 0;
    for (Index i = 0; i < rows; ++i) {
      const auto s = random_values(RandomTensor::q, keys, i + 1);
      const auto v = random_values(RandomTensor::v, keys, i + 1);
      RowState<float> row;
      float lse = kMinusInfinity<float>;
      std::vector<float> out = {0}, merged = {0};
      for (Index first = 0; first < keys; first += keys / blocks) {
        const auto scores = std::span(s).subspan(first, keys / blocks);
        carry_on<float>(row, out, scores, &v[first]);
        row.row_sum = kept(Rounded::l, row.row_sum);
        out[0] = kept(Rounded::out_accum, out[0]);
        RowState<float> block;
        std::vector<float> of_block = {0};
        carry_on<float>(block, of_block, scores, &v[first]);
        of_block[0] /= block.row_sum;
        if (by_merge) of_block[0] = round_to(DType::bf16, of_block[0]);
        merge_by_lse<float>(lse, merged, lse_of(block), of_block);
        merged[0] = kept(Rounded::merged, merged[0]);
      }
      const double truth = over_keys(in_f64(s), in_f64(v).data()).out;
      off += std::pow(double{by_merge ? merged[0] : out[0] / row.row_sum} - truth, 2);
      all += truth * truth;
    }
    return std::sqrt(off / all);
  };
  //-
  // What came out on one processor, in percent. Others round a little differently.
  const double known[4][4] = {
      {.18, .14, .16, .16}, {.33, .31, .42, .17}, {.83, .82, .98, .18}, {17, 2.6, 3.3, .19}};
  Table hops({"N", "all in f32", "l in bf16", "out_accum in bf16", "outputs and merge in bf16",
              "outputs in bf16, merged in f32"});
  std::vector<std::vector<double>> drift;
  for (const Index blocks : {1, 8, 64, 512}) {
    std::vector<Cell> cells = {blocks, rounding(error(blocks, Rounded::nothing), 1e-5)};
    drift.push_back({});
    for (const Rounded what : {Rounded::l, Rounded::out_accum, Rounded::merged, Rounded::outputs}) {
      const double near = known[drift.size() - 1][drift.back().size()], found = error(blocks, what);
      drift.back().push_back(found);
      const bool is_near = std::abs(100 * found / near - 1) < 0.2;
      cells.push_back(
          {percent(found, 2).shown, fmt::format("{}{} %", is_near ? "" : "not ", near)});
    }
    hops.add(cells);
  }
  page.choose("512 blocks: which rounding does the most harm?",
              {"l", "out_accum", "outputs and their merge", "outputs that are merged in f32"},
              letters_by({-drift[3][0], -drift[3][1], -drift[3][2], -drift[3][3]}));
  page.table(hops);

  // (The last columns differ a little between processors.) In f32 the error doesn't grow with the number of
  // ranks. With 8 to 64 blocks, outputs that are merged in bf16 do the most harm. With 512, l does about
  // five times as much as any other: it is a sum of positive numbers, so it grows until it stands still.
  // Outputs may have sixteen bits if they are merged in f32. A test on two ranks finds nothing wrong.
  //
  // If an output is wrong, look at its lse. If lse is right, outputs are kept or merged in too few
  // bits; if lse is wrong as well, l is kept in too few.
  //
  // ## What stays in f32
  //
  // - **Scores, m, l and out_accum**, inside kernels and between hops. (Rings here keep l in f64.)
  // - **lse**, which backward subtracts from scores before exp. For 4,096 equal keys it is
  //   ln 4,096 = 8.318; bf16 has 8.3125, and every weight is then off by the same 0.5 %:
  const double lse = std::log(4096.0);
  const double factor = std::exp(lse - double{round_to(DType::bf16, static_cast<float>(lse))});
  page.value("all weights, times", fixed(factor, 4));

  // - **dK and dV on their way**: N ranks add to them, which is a sum like any other (lesson 9).
  //   That is why a backward hop of bf16 K and V also carries twice their bytes in gradients.
  // - **The sum of the weights' gradients** over rows and ranks (the result may be stored in bf16, as
  //   lesson 20 counts), and the optimizer's copy of the weights: a change of 0.001 to a weight of 1 is
  //   below bf16's last bit.
  //
  // Q, K, V, the output, and P as a factor of P V may have sixteen bits, because each is rounded
  // once, and nothing is added to it afterwards.
  //
  // ## On paper
  page.predict("600 ones in bf16, in six sums of 100 that are then added: what comes out?", "",
               double{round_to(DType::bf16, 600)});

  // ## Checks
  page.check(
      "With 8 and 64 blocks, merging in bf16 does the most harm",
      drift[1][2] == std::ranges::max(drift[1]) && drift[2][2] == std::ranges::max(drift[2]));
  page.check("With 512, l in bf16 does more than 4 times the harm of any other",
             drift[3][0] > 4 * std::max({drift[3][1], drift[3][2], drift[3][3]}));
  page.check("Outputs in bf16 that are merged in f32 don't drift", drift[3][3] < 1.5 * drift[0][3]);
  page.equal("lse loses 0.5 %", fixed(factor, 4), "1.0053");
  page.equal("A weight of 1 and a thousandth is 1", double{round_to(DType::bf16, 1.001f)}, 1);

  // ## Exercise
  //
  // Round to bf16 by hand, and mend a sum that stands still: `lessons/17_sixteen_bits/exercise.py`.
  // `./ringscope lesson 17 --check` tries ties and signs.
}

}  // namespace ringscope::lessons::chapter_17
