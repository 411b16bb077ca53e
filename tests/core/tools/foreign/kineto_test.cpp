#include "core/tools/foreign/kineto.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "core/tools/explain/explain.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/base/thrown.h"
#include "tests/core/tools/foreign/profile_text.h"

namespace ringscope {
namespace {

// A ring as the profiler shows it; microseconds.
struct RingScript {
  bool causal = false, overlap = true, backward = false, device = true;
  int layers = 1, way = 1, slow = -1;
  int skewed = -1;  // whose clock is 5 ms behind
  bool names_peers = false;
  std::string deal = {};      // its lengths are recorded; "": no lengths
  bool gradients = false;     // go back beside the blocks
  bool ends_late = false;     // of the notes of transfers, which end when they are waited for
  bool has_shapes = false;    // of operations other than attention
  bool names_causal = false;  // the kernel of a rank's own block has a name of its own
  double sleep = 0;           // of the slow rank, behind its attention, which takes no longer then
  std::vector<double> starts = {};  // of the ranks
  int world = 4;

  int wrap(int rank) const { return (rank + 2 * world) % world; }
  int owner_at(int rank, int step) const { return wrap(rank - way * step); }
};
constexpr int kRows = 64;  // a rank, if the lengths are recorded

// Return the lengths of a step's queries and keys, and whether its mask is causal.
std::tuple<int, int, bool> lengths_of(const std::string& deal, int rank, int owner) {
  const bool halves = deal == "zigzag" && owner != rank;
  return {halves && owner > rank ? kRows / 2 : kRows, halves && owner < rank ? kRows / 2 : kRows,
          owner == rank || deal == "striped"};
}

std::string lengths_text(const std::string& deal, int rank, int owner) {
  if (deal.empty()) return "";
  const auto [queries, keys, causal] = lengths_of(deal, rank, owner);
  return fmt::format(
      R"("Input Dims":[[1,4,{},8],[1,2,{},8],[],[]],"Concrete Inputs":["","","","0.","{}","",""])",
      queries, keys, causal ? "True" : "False");
}

// Add an event, as of a device if it is a kernel.
void add_event(profiles::ProfileText& text, const std::string& category, const std::string& name,
               double ts, double dur, const std::string& args = "") {
  category == "kernel" ? text.kernel(name, ts, dur, 7, args)
                       : text.add(category, name, ts, dur, 7, args);
}

// Returns the files' texts.
std::vector<std::string> texts_of(const RingScript& script) {
  std::vector<profiles::ProfileText> texts(script.world);
  std::vector<double> ready(script.world, 10000);
  for (std::size_t i = 0; i < script.starts.size(); ++i) ready[i] += script.starts[i];
  const std::string category = script.device ? "kernel" : "cpu_op";
  for (int layer = 0; layer < script.layers; ++layer)
    for (int pass = 0; pass < (script.backward ? 2 : 1); ++pass)
      for (int step = 0; step < script.world; ++step) {
        const std::vector<double> began = ready;
        const bool moves = step + 1 < script.world;
        const auto owner_of = [&](int rank) { return script.owner_at(rank, step); };
        const auto lasts = [&](int rank) {
          return script.causal && owner_of(rank) > rank     ? 0
                 : rank == script.slow && script.sleep == 0 ? 200
                                                            : 100;
        };
        const auto busy = [&](int rank) {
          return lasts(rank) + (rank == script.slow ? script.sleep : 0);
        };
        // A transfer begins before the attention, or after it.
        const auto sets_off = [&](int rank) {
          rank = script.wrap(rank);
          return began[rank] + (script.overlap ? 0 : busy(rank));
        };
        for (int rank = 0; rank < script.world; ++rank) {
          const double off = rank == script.skewed ? -5000 : 0;
          auto& text = texts[rank];
          const double from = began[rank], sent = sets_off(rank);
          const double moved =
              moves ? std::max({sets_off(rank - 1), sent, sets_off(rank + 1)}) + 20 : from;
          const auto attend = [&] {
            if (lasts(rank) == 0) return;
            const char* const name =
                script.device ? pass > 0 ? "void flash_bwd_dq_dk_dv_loop()"
                                : script.names_causal && step == 0 ? "void flash_fwd_kernel<true>()"
                                                                   : "void flash_fwd_kernel<F>()"
                : pass == 0   ? "aten::_scaled_dot_product_flash_attention_for_cpu"
                              : "aten::_scaled_dot_product_flash_attention_for_cpu_backward";
            add_event(text, category, name, from + off, lasts(rank),
                      lengths_text(script.deal, rank, owner_of(rank)));
            add_event(text, category, script.device ? "elementwise_kernel" : "aten::empty",
                      from + off, 1, script.has_shapes ? R"("Input Dims":[[3]])" : "");
          };
          if (!script.overlap) attend();
          if (moves && script.sleep > 0) {  // it waits for what it sent, then for what it receives
            double end = from + busy(rank);
            for (const int peer : {script.way, -script.way}) {
              end = std::max({end, sent + 20, sets_off(rank + peer) + 20});
              add_event(text, "cpu_op", peer == script.way ? "gloo:send" : "gloo:recv", sent + off,
                        end - sent);
            }
          } else if (moves) {
            add_event(text, script.device ? "kernel" : "user_annotation",
                      script.device ? "ncclDevKernel_SendRecv(x)" : "gloo:send", sent + off,
                      (script.ends_late ? std::max(moved, from + lasts(rank)) : moved) - sent);
          }
          const int to = script.wrap(rank + script.way);
          if (moves && script.names_peers && script.sleep > 0)
            add_event(text, "cpu_op", "c10d::send", sent + off, 1,
                      fmt::format(R"("Concrete Inputs":["","","{}",""])", to));
          else if (moves && script.names_peers)
            add_event(text, "user_annotation", fmt::format("nccl:send {}->{}", rank, to),
                      sent + off, 1);
          if (script.overlap) attend();
          double& done = ready[rank];
          done = std::max(moved, from + busy(rank));
          if (!script.gradients || pass == 0) continue;
          add_event(text, "kernel", "ncclDevKernel_SendRecv(x)", done + off, 30);
          done += 30;
        }
      }
  std::vector<std::string> files;
  for (int rank = 0; rank < script.world; ++rank)
    files.push_back(texts[rank].text(rank, script.world));
  return files;
}

std::vector<RankProfile> profiles_of(const std::vector<std::string>& texts) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("kineto_{}", getpid());
  std::filesystem::create_directories(folder);
  std::vector<RankProfile> profiles;
  for (const std::string& text : texts) {
    const auto path = folder / "rank.pt.trace.json";
    std::ofstream(path) << text;
    profiles.push_back(read_profile(path.string()).value());
  }
  std::filesystem::remove_all(folder);
  return profiles;
}

using profiles::notes_of;
bool has_note(const InferredRing& ring, const std::string& part) {
  return notes_of(ring).find(part) != std::string::npos;
}

TEST(Kineto, InfersStepsOwnersAndDirection) {
  const struct {
    const char* what;
    RingScript script;
  } cases[] = {
      {"full", {}},
      {"causal", {.causal = true}},
      {"causal, the other way", {.causal = true, .way = -1}},
      {"without overlap", {.causal = true, .overlap = false}},
      {"full, without overlap", {.overlap = false}},
      {"on a CPU", {.causal = true, .device = false}},
      {"two layers", {.causal = true, .layers = 2}},
      {"backward", {.backward = true}},
      {"two layers, backward, causal", {.causal = true, .backward = true, .layers = 2}},
      {"named peers", {.way = -1, .names_peers = true}},
      {"a slow rank and a clock behind", {.slow = 2, .skewed = 3}},
      {"zigzag", {.device = false, .way = -1, .names_peers = true, .deal = "zigzag"}},
      {"striped", {.device = false, .deal = "striped"}},
      {"all steps of contiguous", {.device = false, .deal = "contiguous"}},
      {"gradients", {.backward = true, .layers = 2, .gradients = true}},
      {"three ranks, the other way", {.causal = true, .overlap = false, .way = -1, .world = 3}},
      {"late ends", {.causal = true, .device = false, .ends_late = true}},
      {"shapes of other operations", {.causal = true, .has_shapes = true}},
      {"a kernel for the own block", {.names_causal = true}}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    const InferredRing ring = infer_ring(profiles_of(texts_of(c.script)));
    ASSERT_TRUE(ring.recording) << notes_of(ring);
    EXPECT_EQ(ring.recording->info.world_size, c.script.world);
    const bool has_lengths = !c.script.deal.empty();
    const bool is_causal = c.script.causal || c.script.names_causal || has_lengths;
    EXPECT_EQ(ring.recording->info.mask, is_causal ? "causal" : "full");
    if (has_lengths) {
      EXPECT_EQ(ring.recording->info.partition, c.script.deal);
      EXPECT_EQ(ring.recording->info.shape.seqlen, c.script.world * kRows);
      EXPECT_EQ(ring.recording->info.shape.num_heads_kv, 2);
    }
    EXPECT_EQ(has_note(ring, "seen to end only after"), c.script.ends_late) << notes_of(ring);
    EXPECT_EQ(has_note(ring, "record_shapes=True"), !has_lengths && !c.script.has_shapes);
    EXPECT_EQ(ring.recording->info.lacks_shape, !has_lengths);
    expect_contains(notes_of(ring), fmt::format("{} layer", c.script.layers));
    expect_contains(notes_of(ring), "transfer a step (confidence 0.9)");
    EXPECT_EQ(has_note(ring, "Clocks were moved"), c.script.skewed >= 0) << notes_of(ring);
    if (c.script.device) expect_contains(notes_of(ring), "elementwise_kernel");
    std::set<std::tuple<Pass, int, int, int>> found, expected;
    int hops = 0;
    for (int rank = 0; rank < c.script.world; ++rank) {
      std::int64_t last = 0;
      for (const TraceEvent& e : ring.recording->events[rank]) {
        EXPECT_LE(e.begin_ns, e.end_ns);
        if (e.lane == Lane::send) {
          ++hops;
          EXPECT_EQ(e.dst, c.script.wrap(rank + c.script.way));
        }
        if (e.lane != Lane::compute || e.pairs == 0) continue;
        found.insert({e.pass, rank, e.step, e.kv_owner});
        EXPECT_EQ(e.end_ns - e.begin_ns, rank == c.script.slow ? 200'000 : 100'000);
        if (has_lengths) {
          const auto [queries, keys, causal] = lengths_of(c.script.deal, rank, e.kv_owner);
          EXPECT_EQ(e.pairs, causal ? kRows * (kRows + 1) / 2 : queries * keys);
        }
        EXPECT_GE(e.begin_ns, last);
        last = e.end_ns;
      }
      for (const Pass pass : kAllPasses)
        for (int step = 0; step < c.script.world && (pass == Pass::forward || c.script.backward);
             ++step) {
          const int owner = c.script.owner_at(rank, step);
          if (!c.script.causal || owner <= rank) expected.insert({pass, rank, step, owner});
        }
    }
    EXPECT_EQ(found, expected);
    const int passes = c.script.backward ? 2 : 1;
    EXPECT_EQ(hops, c.script.world *
                        (passes * (c.script.world - 1) + c.script.gradients * c.script.world));
    // What was inferred is a recording that can be written and read.
    std::ostringstream out;
    write_chrome_trace(out, *ring.recording);
    EXPECT_EQ(std::ssize(parse_chrome_trace(out.str()).events), c.script.world);
  }
}

TEST(Kineto, NamesTheRankThatSleeps) {
  for (const bool overlap : {true, false})
    for (const int way : {1, -1}) {
      SCOPED_TRACE(fmt::format("overlap {}, way {}", overlap, way));
      const auto explained = [&](int layers, double sleep, std::vector<double> starts = {}) {
        const RingScript script{.overlap = overlap,
                                .device = false,
                                .layers = layers,
                                .way = way,
                                .slow = 2,
                                .names_peers = true,
                                .sleep = sleep,
                                .starts = std::move(starts)};
        Explanation why = explain(infer_ring(profiles_of(texts_of(script))).recording.value());
        EXPECT_EQ(profiles::finding_of(why, Cause::no_overlap).saved_s > 0, !overlap);
        std::erase_if(why.findings, [](const auto& one) { return one.cause == Cause::no_overlap; });
        return why;
      };
      const Explanation why = explained(3, 600);
      ASSERT_EQ(why.findings.size(), 1u);
      EXPECT_EQ(std::pair(why.findings[0].cause, why.findings[0].rank),
                std::pair(Cause::slow_rank, 2));
      EXPECT_NEAR(why.findings[0].saved_s, 1800e-6, 180e-6);
      EXPECT_TRUE(explained(3, 1e-3).findings.empty());
      // Ranks that begin late, as their profilers do, are no chance, and hide no slow rank. With
      // overlap, they may: nobody sees whether it sleeps or waits.
      if (overlap) continue;
      const std::vector<double> starts = {2200, 0, 0, 1900};
      const Explanation late = explained(1, 600, starts);
      ASSERT_EQ(late.findings.size(), 2u);
      EXPECT_EQ(
          late.findings[0].evidence,
          "Rank 0 begins 2.20 ms late, and is as fast as the others from then on. So does rank 3 "
          "(1.90 ms).");
      EXPECT_EQ(late.findings[1].cause, Cause::slow_rank);
      const double wall[] = {explained(1, 600).wall_s, explained(1, 1e-3, starts).wall_s};
      for (int i = 0; i < 2; ++i)
        EXPECT_NEAR(late.findings[i].saved_s, late.wall_s - wall[i], 0.1 * (late.wall_s - wall[i]));
    }
}

TEST(Kineto, SaysWhyThereIsNoRing) {
  const std::vector<RankProfile> good = profiles_of(texts_of({}));
  const auto because = [&](const char* part, void (*change)(std::vector<RankProfile>&)) {
    auto changed = good;
    change(changed);
    const InferredRing ring = infer_ring(changed);
    EXPECT_FALSE(ring.recording);
    expect_contains(notes_of(ring), "No ring was inferred");
    expect_contains(notes_of(ring), part);
  };
  because("2 of 4 ranks' files", [](auto& ranks) { ranks.resize(2); });
  because("give rank 1, both of them", [](auto& ranks) { ranks[2] = ranks[1]; });
  because("no attention was found", [](auto& ranks) {
    for (RankProfile& rank : ranks) rank.attention[1].clear();
  });
  because("no sends and receives", [](auto& ranks) {
    for (RankProfile& rank : ranks) rank.transfers[1].clear();
  });
  because("rank 0 has 4 attention kernels", [](auto& ranks) { ranks[1].attention[1].pop_back(); });
  because("rank 2 has 4 attention kernels, 2 transfers",
          [](auto& ranks) { ranks[2].transfers[1].pop_back(); });
  because("not its neighbour", [](auto& ranks) { ranks[2].sends_to = 0; });
  because("weeks apart", [](auto& ranks) { ranks[3].base_time_ns -= 1'000'000'000'000'000'000; });
  because("weeks apart", [](auto& ranks) { ranks[3].base_time_ns = 0; });
  EXPECT_TRUE(infer_ring({}).notes.empty());
}

// Four ranks, in each layer a hop beside each attention but the last. `slow` takes 300 us longer, and the
// others wait for it without a trace of that.
std::vector<profiles::ProfileText> in_step(int layers, int slow, double growth = 0) {
  std::vector<profiles::ProfileText> texts(4);
  double now = 1000;
  for (int layer = 0; layer < layers; ++layer)
    for (int step = 0; step < 4; ++step) {
      for (int rank = 0; rank < 4; ++rank) {
        auto& text = texts[static_cast<std::size_t>(rank)];
        if (step < 3) text.kernel(profiles::kSendRecv, now + 5, 100, 20);
        text.kernel(profiles::kAttention, now, 500 + growth * layer + 300 * (rank == slow), 7);
      }
      now += 510 + growth * layer + 300 * (slow >= 0);
    }
  return texts;
}

TEST(Kineto, NamesASlowRankForWhichOthersWaitWithoutATrace) {
  for (const int slow : {0, 2, 3}) {
    const Explanation why = explain(profiles::ring_of(in_step(3, slow)).recording.value());
    ASSERT_FALSE(why.findings.empty());
    EXPECT_EQ(std::pair(why.findings[0].cause, why.findings[0].rank),
              std::pair(Cause::slow_rank, slow));
    EXPECT_NEAR(why.findings[0].saved_s, 1200e-6, 60e-6);
  }
}

TEST(Kineto, TablesAllLayersAndIterations) {
  auto texts = in_step(6, 1, 20);
  for (auto& text : texts)
    for (const double at : {900, 10'955})  // of three layers each
      text.add("user_annotation", "ProfilerStep#7", at, 5, 1);
  const InferredRing ring = profiles::ring_of(texts);
  ASSERT_EQ(ring.layers.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    const ProfiledLayer& layer = ring.layers[i];
    EXPECT_EQ(std::pair(layer.iteration, layer.layer), std::pair(int(i / 3), int(i % 3)));
    EXPECT_NEAR(layer.seconds, 1e-6 * (4 * (810 + 20.0 * i) - 10), 1e-7);
    EXPECT_EQ(layer.slowest_rank, 1);
    EXPECT_NEAR(layer.slowness, (800 + 20.0 * i) / (500 + 20.0 * i), 1e-6);
  }
  EXPECT_EQ(ring.shown, 3u);  // the median of those behind the first
  const InferredRing other = profiles::ring_of(texts, 5);
  EXPECT_EQ(other.shown, 5u);
  EXPECT_TRUE(has_note(other, "Shown is layer 2 of iteration 1, and layer 0 of iteration 1 is the"))
      << notes_of(other);
  EXPECT_NEAR(explain(other.recording.value()).wall_s, ring.layers[5].seconds, 1e-7);
  EXPECT_TRUE(has_note(ring, "layer 0 of iteration 1, the median of the 5 layers after the first"))
      << notes_of(ring);
  EXPECT_TRUE(has_note(ring, "the slowest of them is layer 2 of iteration 1")) << notes_of(ring);
  EXPECT_TRUE(has_note(ring, "the last third takes 10 % longer")) << notes_of(ring);
}

// A profile that does not say its rank may have it in its name.
TEST(Kineto, TakesRanksFromNames) {
  for (const auto& [name, rank] : {std::pair{"rank3.pt.trace.json", 3},
                                   {"run/rank_12/trace.json", 12},
                                   {"trace_rank-0.json.gz", 0},
                                   {"host_4000.1767.pt.trace.json", -1},
                                   {"rank_of_worker1.pt.trace.json", -1},
                                   {"rank2/rank5.json", 5},
                                   {"rank", -1}})
    EXPECT_EQ(rank_in_name(name), rank) << name;
  std::vector<RankProfile> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(parse_profile(in_step(2, -1)[static_cast<std::size_t>(rank)].whole(""),
                                  fmt::format("rank{}.json", 3 - rank))
                        .value());
  const InferredRing ring = infer_ring(ranks);
  ASSERT_TRUE(ring.recording) << notes_of(ring);
  EXPECT_TRUE(has_note(ring, "taken as 4, the number of files")) << notes_of(ring);
  // Its times count from something else than a date.
  EXPECT_EQ(ring.recording->info.base_time_ns, 0);
}

TEST(Kineto, SaysThatAFileIsOfSeveralRanks) {
  profiles::ProfileText both;
  for (const int pid : {4, 6}) both.kernel(profiles::kAttention, 1000, 500, 7, "", pid);
  EXPECT_TRUE(has_note(profiles::ring_of({both, both}), "2 devices or processes (pids 4, 6)"));
  // Pieces of two files lie in each other.
  profiles::ProfileText first, second;
  for (int i = 0; i < 20; ++i) {
    first.kernel(profiles::kAttention, 1000 + 600 * i, 500, 7, "", 4);
    second.kernel(profiles::kAttention, 1000 + 600 * i, 500, 7, "", 6);
  }
  const std::string a = first.text(0, 2), b = second.text(1, 2);
  expect_contains(input_error_of([&] {
                    profiles_of({a.substr(0, 1203) + b.substr(900, 1300) + a.substr(1203)});
                  }),
                  "pieces of several ranks' files lie in it (pids 4, 6)");
  EXPECT_EQ(input_error_of([&] {
              profiles_of({a.substr(0, 1203) + "]" + a.substr(1203)});
            }).find("pieces"),
            std::string::npos);
}

// One of two ranks attends twice as often, but not what lower ranks have.
TEST(Kineto, LengthsContradictCounts) {
  const auto ring_with = [](int calls) {
    std::vector<RankProfile> ranks =
        profiles_of(texts_of({.device = false, .layers = 2, .deal = "zigzag", .world = 2}));
    auto& spans = ranks[1].attention[0];
    for (Index i = std::ssize(spans); calls > 1 && i-- > 0;)
      spans.insert(spans.begin() + i, ProfiledSpan(spans[static_cast<std::size_t>(i)]));
    return infer_ring(ranks);
  };
  EXPECT_TRUE(ring_with(1).recording);
  const InferredRing extra = ring_with(2);
  EXPECT_FALSE(extra.recording) << notes_of(extra);
  EXPECT_TRUE(has_note(extra, "rank 1 has 8 attention kernels")) << notes_of(extra);
  EXPECT_TRUE(has_note(extra, "of such lengths")) << notes_of(extra);
}

TEST(Kineto, ReadsWhatIsWholeOfACutFile) {
  const std::string text = texts_of({})[0];
  const std::size_t all = profiles_of({text})[0].attention[1].size();
  const RankProfile cut = profiles_of({text.substr(0, text.size() - 300)})[0];
  EXPECT_TRUE(cut.cut_short);
  EXPECT_LT(cut.attention[1].size(), all);
  EXPECT_GT(cut.attention[1].size(), 0u);
  EXPECT_EQ(cut.world_size, 4);
  expect_contains(notes_of(infer_ring({cut})), "ranks' files");
  EXPECT_EQ(profiles_of({"[{},"})[0].rank, -1);
  EXPECT_THROW(profiles_of({"hello"}), InputError);
}

// A packed file that is cut off is read likewise, but none that is damaged.
TEST(Kineto, TellsAPackedFileThatIsCutFromOneThatIsDamaged) {
  // gzip's bytes of {"distributedInfo": {"rank": 1}, "traceEvents": [{"ph": "M"}, {"ph": "M"}]}.
  constexpr char kPacked[] =
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x4a\xc9\x2c\x2e\x29\xca"
      "\x4c\x2a\x2d\x49\x4d\xf1\xcc\x4b\xcb\x57\xb2\x52\xa8\x56\x2a\x4a\xcc\xcb"
      "\x06\x32\x0c\x6b\x75\x14\x94\x4a\x8a\x12\x93\x53\x5d\xcb\x52\xf3\x4a\x8a"
      "\x81\x42\xd1\xd5\x4a\x05\x19\x40\x5a\xc9\x57\x09\x28\x89\xc4\x89\xad\x05"
      "\x00\xdb\xa3\x2e\xb2\x4b\x00\x00\x00";
  const std::string packed(kPacked, sizeof kPacked - 1);
  const auto read = [](const std::string& bytes) { return profiles_of({bytes})[0]; };
  try {
    EXPECT_FALSE(read(packed).cut_short);
  } catch (const InputError& error) {
    GTEST_SKIP() << error.what();
  }
  const RankProfile cut = read(packed.substr(0, packed.size() - 10));
  EXPECT_TRUE(cut.cut_short);
  EXPECT_EQ(cut.rank, 1);
  for (const std::size_t at : {packed.size() - 20, packed.size() - 6}) {
    std::string damaged = packed;
    damaged[at] ^= 0x55;
    EXPECT_THROW(read(damaged), InputError) << at;
  }
}

}  // namespace
}  // namespace ringscope
