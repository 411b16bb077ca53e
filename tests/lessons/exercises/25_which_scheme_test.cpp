// The project's own loops say which side sends less, and which grid.
#include "core/cost/amounts.h"
#include "lessons/book/exercise_test.h"

void check(Exercise& exercise) {
  using namespace ringscope;
  for (const Layer& layer :
       {Layer{32, 8, 128, 2}, {32, 32, 128, 2}, {8, 1, 64, 4}, {1, 1, 128, 2}}) {
    const std::string name =
        std::to_string(layer.heads) + " heads, " + std::to_string(layer.heads_kv) + " of K and V: ";
    Problem job{.shape = {1, layer.heads, layer.heads_kv, 64 * 16, layer.head_dim},
                .dtype = layer.bytes == 2 ? DType::bf16 : DType::f32};
    for (const int ranks : {4, 16, 64}) {
      job.world_size = ranks;
      int best = 1;
      double least = 0;
      for (int r = 1; r <= ranks; r *= 2) {
        set_scheme(job, "mesh:" + std::to_string(r) + "x" + std::to_string(ranks / r));
        const double sent = traffic_of(job, 0).forward_bytes;
        if (r == 1 || sent < least) best = r, least = sent;
      }
      exercise.equal(name + "a mesh of " + std::to_string(ranks), best_rows(layer, ranks), best);
    }
    // A hop of each: from loops of two ranks, with one of which pass-Q sends a state less.
    job.world_size = 2;
    set_scheme(job, "ring");
    const double kv = traffic_of(job, 0).forward_bytes / 512;
    const double state = layer.heads * (4.0 * layer.head_dim + 12);
    set_scheme(job, "pass-q");
    const double query = traffic_of(job, 0).forward_bytes / 512 - state;
    for (const long keys : {100, 1000, 100000}) {
      const long equal = static_cast<long>(static_cast<double>(keys) * kv / query);
      exercise.holds(name + "queries below the balance travel",
                     queries_travel(layer, equal - 1, keys));
      exercise.holds(name + "queries above it stay", !queries_travel(layer, equal + 1, keys));
    }
  }
  exercise.holds("as many queries as keys stay", !queries_travel({32, 8, 128, 2}, 4096, 4096));
  exercise.holds("one query travels", queries_travel({32, 8, 128, 2}, 1, 16384));
  // A query has 780 bytes a head: 24,960. A key and its value have 4,096.
  exercise.holds("as many bytes are not fewer",
                 !queries_travel(Layer{32, 8, 128, 2}, 4096, 24960) &&
                     queries_travel(Layer{32, 8, 128, 2}, 4095, 24960));
}
