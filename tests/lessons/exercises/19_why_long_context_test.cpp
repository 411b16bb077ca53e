// Small whole keys and values, so that every sum is exact: after each key, the answer is the sum
// over all keys so far, and the memory has not grown.
#include <string>
#include <vector>

#include "tests/lessons/exercises/exercise_test.h"

namespace {

using Numbers = std::vector<double>;

Numbers numbers(std::size_t count, int seed) {
  Numbers all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = (static_cast<int>(i) * 7 + seed * 5) % 11 - 5;
  return all;
}

}  // namespace

void check(Exercise& exercise) {
  for (const std::size_t width : {1u, 3u}) {
    Memory memory;
    std::vector<Numbers> keys, values;
    std::size_t first_size = 0;
    for (int i = 0; i < 20; ++i) {
      keys.push_back(numbers(4, i));
      values.push_back(numbers(width, 3 * i + 1));
      remember(memory, keys.back(), values.back());
      if (i == 0) first_size = memory.numbers.size();
      const Numbers query = numbers(4, 2 * i + 3);
      Numbers expected(width);
      for (std::size_t j = 0; j < keys.size(); ++j) {
        double agreement = 0;
        for (std::size_t x = 0; x < 4; ++x) agreement += query[x] * keys[j][x];
        for (std::size_t y = 0; y < width; ++y) expected[y] += agreement * values[j][y];
      }
      exercise.holds("after " + std::to_string(i + 1) + " keys, values of " +
                         std::to_string(width) + " numbers",
                     recall(memory, query, width) == expected);
    }
    exercise.equal("numbers in the memory at the end", static_cast<double>(memory.numbers.size()),
                   static_cast<double>(first_size));
  }
}
