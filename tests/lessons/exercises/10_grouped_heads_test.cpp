// Every range of query heads, head by head.
#include <set>
#include <string>

#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  for (const auto& [heads, heads_kv] : {std::pair{8, 8}, {8, 2}, {12, 3}, {8, 1}}) {
    int wrong_heads = 0, wrong_sums = 0;
    for (int first = 0; first < heads; ++first)
      for (int last = first + 1; last <= heads; ++last) {
        std::set<int> needed;
        std::vector<double> copies, sums(static_cast<std::size_t>(heads_kv));
        for (int h = first; h < last; ++h) {
          int kv = 0;
          while ((kv + 1) * (heads / heads_kv) <= h) ++kv;
          needed.insert(kv);
          copies.push_back(1 << h);
          sums[static_cast<std::size_t>(kv)] += 1 << h;
        }
        const Heads kv = kv_heads_of({first, last}, heads, heads_kv);
        wrong_heads += kv.first != *needed.begin() || kv.last != *needed.rbegin() + 1;
        const std::vector<double> expected(sums.begin() + *needed.begin(),
                                           sums.begin() + *needed.rbegin() + 1);
        wrong_sums += gradients(copies, {first, last}, heads, heads_kv) != expected;
      }
    const std::string name =
        std::to_string(heads) + " heads, " + std::to_string(heads_kv) + " of K and V: ";
    exercise.equal(name + "ranges with other heads", wrong_heads, 0);
    exercise.equal(name + "wrong sums", wrong_sums, 0);
  }
}
