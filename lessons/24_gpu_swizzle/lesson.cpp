// # The GPU ladder III: banks and swizzle
// > A tile is read along its rows and down its columns, and shared memory serves only one of them well.
// > If the pieces of each row are moved a little, by a rule that everybody knows, it serves both.
//
// **You know** that shared memory has 32 banks (lesson 22), and that the TMA brings whole tiles there
// (23). **You will see** why eight rows of a tile meet in the same banks, why rows can't be padded
// any more, and how one exclusive-or helps instead.
//
// ## Eight rows, four banks
//
// A tile of K has rows of 64 numbers, two bytes each: 128 bytes, or 32 words of four. Every row
// begins in bank 0 and ends in bank 31. Call 16 bytes of a row, eight numbers, a **unit**: a row has
// units 0 to 7. Tensor cores take squares of 8 x 8 numbers, one unit from each of eight rows.
// The 32 threads of a warp read such a square together, four threads per unit, one word each.
#include <cuda_runtime.h>

#include "lessons/book/gpu.h"

namespace ringscope::lessons::chapter_24 {
//-
// Return which 16-byte unit of its row a copy of 8 rows of 64 values has put at each place, row by row.
static std::vector<double> units_after_copy(bool swizzled) {
  std::vector<bf16> matrix(kTileValues);
  for (int i = 0; i < kTileValues; ++i)
    matrix[i] = bf16::from_float(static_cast<float>(i % kTileColumns / 8));
  const cuda::TensorMap map = map_of(matrix, kTileRows, swizzled);
  std::vector<double> units;
  cuda::model::run_grid(1, 1, sizeof(Stages<1>), [&] {
    auto& shared = cuda::shared_memory<Stages<1>>();
    cuda::ptx::barrier_init(shared.full[0], 1);
    cuda::ptx::fence_barrier_init();
    cuda::ptx::barrier_arrive_expecting(shared.full[0], sizeof shared.tile[0]);
    cuda::ptx::tma_load(shared.tile[0], map, 0, 0, 0, shared.full[0]);
    cuda::ptx::barrier_wait(shared.full[0], 0);
    for (int i = 0; i < kTileValues; i += 8) units.push_back(shared.tile[0][i].to_float());
  });
  return units;
}
//+

void lesson_24(Page& page) {
  const Guess guess = page.predict(
      "Unit 3 of eight rows of 32 words. A bank serves one word per round. How many rounds?", "");
  // `place` says where unit u of row r lies in its row; a row has `words` words.
  const auto square = [](int words, const auto& place) {
    return access_of([&](int i) { return i / 4 * words + 4 * place(i / 4, 3) + i % 4; }).rounds();
  };
  const auto plain = [](int, int u) { return u; };
  page.answer(guess, static_cast<double>(square(32, plain)));

  // Unit 3 is words 12 to 15 of its row, so all eight units lie in banks 12 to 15. Four banks work,
  // and the other 28 rest.
  //
  // Lesson 22 made rows longer. With 36 words, 16-byte units stay aligned, and eight rows begin in eight
  // groups of banks. But the TMA brings a box without gaps, and `wgmma` (lesson 25) reads rows of 128
  // bytes here (it has modes for 64, 32 and 16 as well). Rows stay as long as they are, and their units move.
  //
  // ## Exclusive or
  //
  // A *swizzle* stores unit u of row r at place u xor (r mod 8). In C++:
  const auto swizzled = [](int r, int u) { return u ^ (r % 8); };

  // The TMA does so by itself if it is asked to. This is what it has brought to the model's memory: a
  // line is a row of the tile, and the number at a place is the unit that lies there.
  const std::vector<double> units = units_after_copy(/*swizzled=*/true);
  page.print(matrix(units, 8, 0));
  Drawing banks;
  const auto show_tile = [&](const std::string& what, const std::vector<double>& places) {
    banks.heading(what);
    banks.strip("bank", Drawing::cells(8, [](int p) { return std::pair(Drawing::kQuiet, 4 * p); }));
    for (int r = 0; r < 8; ++r) {
      const auto cell = [&](int p) {
        const int unit = static_cast<int>(places[static_cast<std::size_t>(8 * r + p)]);
        return std::pair(unit, unit);
      };
      banks.strip("row " + std::to_string(r), Drawing::cells(8, cell));
    }
  };
  show_tile("plain: unit 3 is in the same banks", units_after_copy(/*swizzled=*/false));
  show_tile("swizzled: it is in all banks", units);
  page.picture("banks.svg", "Where the units of eight rows lie", banks);

  // In a line every unit occurs once, because xor with one number swaps units in pairs. Down a column
  // of the picture every unit occurs once, too. Unit 3 of eight rows lies at eight different places,
  // in all 32 banks:
  Table rounds({"what a warp reads", "plain rows", "rows of 36 words", "swizzled"});
  const auto row_of_units = [](int words) {
    return access_of([=](int i) { return 5 * words + i; });
  };
  const auto column = [](int words, const auto& place) {
    return access_of([&](int i) { return i * words + 4 * place(i, 3); }).rounds();
  };
  rounds.row("a whole row", row_of_units(32).rounds(), row_of_units(36).rounds(),
             row_of_units(32).rounds());
  rounds.row("a square: a unit from each of 8 rows", square(32, plain), square(36, plain),
             square(32, swizzled));
  rounds.row("a number from each of 32 rows", column(32, plain), column(36, plain),
             column(32, swizzled));
  page.table(rounds);

  // A row is as fast as before, because its units are all there, in another order. A number from each of
  // 32 rows takes four rounds even so, since the pattern repeats after eight rows. That is why threads
  // read squares: the instruction `ldmatrix` hands its numbers out as `mma` wants them (lesson 23).
  //
  // ## Everybody must know
  //
  // Nothing in memory says that a tile is swizzled. The TMA, each thread that reads or writes the tile,
  // and `wgmma` must follow the same rule. If one does not, there is no error.
  int in_place = 0;
  for (int i = 0; i < 64; ++i) in_place += units.at(i) == i % 8;
  page.predict("A kernel reads the tile above as if it were plain. How many of 64 units are right?",
               "units", in_place);

  // Only row 0 is. A test with one row, or with equal numbers in each row, does not notice.
  //
  // ## On paper
  page.predict("Where does unit 5 of row 6 lie?", "", swizzled(6, 5));
  page.predict("Which unit lies at place 0 of row 15?", "", swizzled(15, 0));

  // ## Checks
  //-
  bool as_formula = true;
  for (int r = 0; r < 8; ++r)
    for (int u = 0; u < 8; ++u) as_formula &= units.at(8 * r + swizzled(r, u)) == u;
  page.check("The TMA of the model follows the formula", as_formula);

  // ## Exercise
  //
  // A head of 128 numbers is two such tiles, one behind the other. Write where number `column` of
  // row `row` lies: `lessons/24_gpu_swizzle/exercise.h`. `./ringscope lesson 24 --check` lets the TMA
  // bring the tiles, and looks there.
}

}  // namespace ringscope::lessons::chapter_24
