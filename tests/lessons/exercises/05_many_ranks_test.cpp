// Lengths that divide and that don't, more ranks than rows, one rank alone.
#include <string>

#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  const auto equal = [&](const std::string& what, long yours, long expected) {
    exercise.equal(what, static_cast<double>(yours), static_cast<double>(expected));
  };
  equal("8 rows on 4 ranks: rows of rank 3", rows_of(8, 4, 3), 2);
  equal("10 rows on 4 ranks: rows of rank 1", rows_of(10, 4, 1), 3);
  equal("10 rows on 4 ranks: rows of rank 2", rows_of(10, 4, 2), 2);
  equal("2 rows on 4 ranks: rows of rank 3", rows_of(2, 4, 3), 0);
  equal("8 rows on 4 ranks: received", bytes_to_receive(8, 4, 0, 512), 6 * 512);
  equal("10 rows on 4 ranks: received by rank 0", bytes_to_receive(10, 4, 0, 512), 7 * 512);
  equal("10 rows on 4 ranks: received by rank 3", bytes_to_receive(10, 4, 3, 512), 8 * 512);
  equal("one rank: received", bytes_to_receive(10, 1, 0, 512), 0);
  equal("all-gather, 8 rows on 4 ranks: held", bytes_held(Way::all_gather, 8, 4, 1, 512), 8 * 512);
  equal("ring, 8 rows on 4 ranks: held", bytes_held(Way::ring, 8, 4, 1, 512), 4 * 512);
  equal("ring, 10 rows on 4 ranks: held by rank 3", bytes_held(Way::ring, 10, 4, 3, 512), 6 * 512);
  equal("ring, one rank: held", bytes_held(Way::ring, 10, 1, 0, 512), 10 * 512);
}
