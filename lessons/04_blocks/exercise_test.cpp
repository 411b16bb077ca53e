// Sizes that divide, that don't, that are smaller than a tile, and nothing at all.
#include "lessons/book/exercise_test.h"

#include <string>
#include <vector>

#include RINGSCOPE_EXERCISE

namespace {

std::string text_of(const std::vector<Tile>& all) {
  std::string text;
  for (const Tile& t : all)
    text += "[" + std::to_string(t.first_query) + "," + std::to_string(t.last_query) + ")x[" +
            std::to_string(t.first_key) + "," + std::to_string(t.last_key) + ") ";
  return text;
}

}  // namespace

int main() {
  ringscope::lessons::Exercise exercise;
  const auto expect = [&](const std::string& what, const std::vector<Tile>& yours,
                          const std::string& expected) {
    const std::string text = text_of(yours);
    exercise.holds(text == expected ? what : what + ": yours " + text + ", expected " + expected,
                   text == expected);
  };
  expect("4 x 6 in tiles of 2 x 3", tiles(4, 6, 2, 3),
         "[0,2)x[0,3) [0,2)x[3,6) [2,4)x[0,3) [2,4)x[3,6) ");
  expect("3 x 5 in tiles of 2 x 3", tiles(3, 5, 2, 3),
         "[0,2)x[0,3) [0,2)x[3,5) [2,3)x[0,3) [2,3)x[3,5) ");
  expect("1 x 1 in tiles of 48 x 256", tiles(1, 1, 48, 256), "[0,1)x[0,1) ");
  expect("no queries", tiles(0, 5, 2, 3), "");
  expect("no keys", tiles(5, 0, 2, 3), "");
  // 1,000 x 1,000 in 48 x 256: as many pairs as there are, in 21 x 4 tiles.
  double pairs = 0;
  const std::vector<Tile> large = tiles(1000, 1000, 48, 256);
  for (const Tile& t : large)
    pairs += static_cast<double>(t.last_query - t.first_query) * (t.last_key - t.first_key);
  exercise.equal("tiles of 1,000 x 1,000", static_cast<int>(large.size()), 84);
  exercise.equal("pairs in them", pairs, 1000000);
  return exercise.finish();
}
