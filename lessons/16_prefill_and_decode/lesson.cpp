// # Prefill and decode: keys stay, results travel
// > A model that writes has one query at a time. Keys and values stay where they are, every rank
// > answers that query from what it holds, and the answers are merged.
//
// **You know** merging (lesson 3), the ring (6), grouped heads (10), and that hops cost nothing if enough
// queries meet each block (12). **You will see** what a token costs when a model writes, why it has too
// few queries for a ring, and what travels instead of K and V.
//
// ## One row at a time
//
// A model answers in two phases. **Prefill** reads the prompt: all its rows at once, with K and V
// going round, as in all lessons before. Then the model writes token by token: each adds one query,
// which attends all keys so far. That is *decode*. Under a causal mask no earlier row sees a later
// one, so earlier rows do not change, and each layer keeps their keys and values, in the *KV cache*.
#include "core/training/generate.h"
#include "core/training/merge.h"
#include "lessons/book/model_rank.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons::chapter_16 {
void lesson_16(Page& page) {
  // ## How much each byte is used
  //
  // A query meets each number of K in one multiplication and one addition, and each of V too. H query
  // heads share G KV heads, so what is read once serves H/G of them. A number has e bytes:
  //
  //     FLOPs per byte = 2 · queries · (H/G) / e
  page.predict("Decode in bf16, H/G = 4. How many FLOPs per byte read?", "FLOPs", 2.0 * 1 * 4 / 2);

  const Gpu gpu = find_gpu("H100");  // its data sheet says how much it could do meanwhile:
  Table roofline({"", "FLOPs per byte", "the " + gpu.name + " could do", "of its peak, at most"});
  const auto add = [&](const char* what, DType dtype, Index queries, Index g) {
    const double flops = 2.0 * static_cast<double>(queries * g) / bytes_of(dtype);
    const double could = gpu.peak_flops(dtype) / gpu.memory_bytes_per_s.value();
    roofline.row(what, flops, std::round(could), percent(std::min(1.0, flops / could)));
  };
  add("decode, f32, H/G = 4", DType::f32, 1, 4);
  add("decode, bf16, H/G = 4", DType::bf16, 1, 4);
  add("prefill, bf16, H/G = 4, 4,096 queries", DType::bf16, 4096, 4);
  page.table(roofline);

  // Decode leaves the arithmetic waiting: it is **bound by bandwidth**. The prefill is not, since
  // thousands of queries use what is read once. A token takes as long as reading the cache and the
  // weights. Say a model has 8 · 10⁹ weights and 32 layers, each with 32 query heads and 8 KV heads of
  // 128 numbers in bf16, and 131,072 tokens were read:
  const double layers = 32, heads = 32, heads_kv = 8, head_dim = 128, tokens = 131072;
  const double cache = layers * tokens * heads_kv * 2 * head_dim * 2;
  const double flops = layers * tokens * heads * 4 * head_dim;
  const double per_ms = gpu.memory_bytes_per_s.value() / 1e3;
  const double reading_ms = cache / per_ms, weights_ms = 8e9 * 2 / per_ms;
  page.value("the cache", bytes(cache));
  page.value("to read it, and the weights", numbers({reading_ms, weights_ms}, 2), "ms");
  page.value("to compute the attention", fixed(1e3 * flops / gpu.peak_flops(DType::bf16), 2), "ms");

  // Each of eight ranks reads an eighth of the cache, in 0.64 ms, and its whole copy of the weights
  // (lesson 14). Eight ranks are 1.8 times as fast as one, not 8 times, and the merging below costs
  // some of that. Only tensor parallel ranks read just a part of the weights (lesson 15).
  //
  // ## The wrong way round
  //
  // The cache lies on eight ranks, as the prefill left it. A ring would send it round once more.
  const Guess guess = page.predict("Over NVLink4 at 450 GB/s: how long does a token take?", "ms");
  const double ring_bytes = cache * 7 / 8;  // from each rank
  const double ring_ms = 1e3 * ring_bytes / find_link("NVLink4").bytes_per_s;
  page.answer(guess, ring_ms);

  // One GPU that reads all of it is done sooner. Keys and values thus stay where they are. The query need
  // not travel either: all ranks have the weights, so each computes the token's row, and from it the
  // query, by itself. Then each attends its shard of the cache. Only its out and lse (lesson 2) travel:
  // 129 numbers in f32 per head, however long the text:
  const MergeCost ring = merge_cost(MergeKind::ring, 32, 128, 8);
  const MergeCost tree = merge_cost(MergeKind::tree, 32, 128, 8);
  Table ways({"for one token, 8 ranks", "bytes, one after the other", "on NVLink4",
              "rounds in all layers", "their start, 5 µs each"});
  for (const auto& [what, count, rounds] :
       {std::tuple{"K and V round a ring", ring_bytes, Index{7}},
        {"results round a ring", layers * static_cast<double>(ring.way_bytes), ring.rounds},
        {"results up a tree and down", layers * static_cast<double>(tree.way_bytes), tree.rounds}})
    ways.row(what, bytes(count),
             fmt::format("{:.3f} ms", 1e3 * count / find_link("NVLink4").bytes_per_s), 32 * rounds,
             fmt::format("{:.2f} ms", 0.005 * 32 * static_cast<double>(rounds)));
  page.table(ways);
  Drawing who;
  for (const bool prefill : {true, false}) {
    who.heading(prefill ? "prefill: queries stay, K and V move" : "decode: results move");
    for (int rank = 0; rank < 4; ++rank) {
      const int owner = prefill ? (rank + 3) % 4 : rank;
      who.strip(fmt::format("rank {}", rank),
                {{0, prefill ? 0.4 : 0.04, prefill ? rank : 4, fmt::format("Q of {}", rank)},
                 {0.42, 1, owner, fmt::format("K, V of {}", owner)}},
                prefill ? "" : "out, lse");
    }
  }
  who.key(4, "the one query, which all ranks have");
  page.picture("travel.svg", "What stays, and what moves", who);

  // In a layer a row of K and V has 4,096 bytes, and a query's results have 16,512. The prefill has as
  // many queries as rows of K and V, so K and V are less. Decode has one query for a rank's 16,384 rows,
  // so the results are less. Whichever is less should travel.
  //
  // ## Merging
  //
  // Two results over different keys become one, as in lesson 3. Say that one rank has the first two
  // of the four keys there, and another the last two. Each sends its out, and its lse, m + log(l):
  const PartOfKeys some = over_keys(0, 2), others = over_keys(2, 4);
  page.value("out, lse, out, lse", numbers({some.out, some.lse, others.out, others.lse}, 2));

  // exp of the difference of the two lse says how much the second result weighs relative to the first:
  // 6.83 times as much. (18.81 + 6.83 · 39.53) / 7.83 is 36.88, the output over all four. A result without
  // keys has lse = -∞ and no weight. (In the code `merge_by_lse` does this.) Any order will do:
  //
  // - **Ring**: the heads form N groups. A reduce-scatter merges each group in N - 1 hops; an all-gather
  //   then returns the result in N - 1 more.
  // - **Tree**: every second rank sends its heads to its neighbour, which merges them. Every second one of
  //   those sends on, until one rank has the result. It goes back the same way.
  page.picture("rounds.svg", "Eight ranks merge: a ring takes 14 rounds, a tree 6");

  // A ring takes 2 (N - 1) rounds and a tree 2 log₂ N. The ring splits the bytes over the ranks. But
  // messages this short cost hardly anything but their start, which the last column counts. There the
  // tree wins, with 0.96 ms against 2.24. Both take longer than reading the shards.
  //
  // ## Where new rows go
  //
  // The new token's key and value belong to the cache, too. The ranks take turns:
  page.region("core/training/decode_attention.cpp", "append");

  // Shares differ by one row at most. The newest query sees all keys, so no rank is idle.
  //
  // ## A prompt in chunks
  //
  // Between one query and all of them is a chunk of a prompt, as servers read them: 2,048 queries, the
  // last positions, over the keys of all earlier chunks. What one rank sends in a layer:
  Problem chunk = layer_job(131072, 8, 8);
  chunk.shape.seqlen_q = 2048;
  const double blocks_sent = traffic_of(chunk, 0).forward_bytes;
  set_scheme(chunk, "pass-q");
  const double queries_sent = traffic_of(chunk, 0).forward_bytes;
  page.value("K, V; or Q, results", numbers({blocks_sent / 1e6, queries_sent / 1e6}, 0), "MB");
  // Queries should therefore travel here. Late ones see nearly all keys, so no partition has to balance them.
  //
  // ## A model that writes
  //
  // This model has memorised a line and is prompted with its first word. For each token and layer, four
  // ranks append, attend and merge:
  //-
  double lse = some.lse, merged = some.out;
  merge_by_lse<double>(lse, {&merged, 1}, others.lse, {&others.out, 1});
  const std::string line = "keys stay, and results travel.";
  const std::string trained = line + " ";
  ModelShape small = small_model();
  small.vocab = 128;
  const TrainingSettings settings{small, {.rate = 5e-3}, 4, 2 * static_cast<Index>(trained.size())};
  const Checkpoint model =
      train_on_threads({settings, {PartitionKind::contiguous, 1}, nullptr, 150},
                       trained + trained + trained + trained)
          .end;
  const auto written = [&](int ranks) {
    const GenerateOptions options{.prompt = "keys", .bytes = 26, .sampling = {.temperature = 0}};
    return "keys" + generate_on_threads(model, {PartitionKind::zigzag, ranks}, options).text;
  };
  const std::string by_one = written(1), by_four = written(4);
  page.print(by_four);

  // ## On paper
  page.predict("A chunk of 16 queries in place of 2,048: a ring sends how many MB?", "MB",
               std::round(blocks_sent / 1e6));

  // ## Checks
  page.equal("Eight ranks read their shards in 0.64 ms", fixed(reading_ms / 8, 2), "0.64");
  page.equal("and are 1.8 times as fast",
             fixed((reading_ms + weights_ms) / (reading_ms / 8 + weights_ms), 1), "1.8");
  page.check("One that reads all of it is done before a ring", reading_ms < ring_ms);
  page.equal("The second weighs 6.83 times", fixed(std::exp(others.lse - some.lse), 2), "6.83");
  page.equal("Merged, they are 36.88", fixed(merged, 2), "36.88");
  page.check("A row of K and V is 4,096 bytes, a query's results 16,512",
             2 * heads_kv * head_dim * 2 == 4096 && heads * (head_dim + 1) * 4 == 16512);
  page.check("5 µs each: 0.96 and 2.24 ms", tree.rounds * 160 == 960 && ring.rounds * 160 == 2240);
  page.check("One rank and four write the line", by_one == line && by_four == line);

  // ## Exercise
  //
  // Write the merge of two states, and a tree of messages that merges those of all ranks, in
  // `my_ring/16_prefill_and_decode.h`. `./ringscope lesson 16 --check` lets your ring decode. Then train
  // a model on a text of yours, and let it write:
  //
  //     ./ringscope train --text FILE --checkpoint MODEL
  //     ./ringscope generate --checkpoint MODEL --prompt "keys" --world-size 4
}

}  // namespace ringscope::lessons::chapter_16
