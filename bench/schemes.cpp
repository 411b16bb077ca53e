// Writes bench/schemes.md: which scheme and which deal take the least time for six jobs, by simulation
// on H100 nodes. Every line is one simulation per deal, of which the fastest counts. Its argument is the
// commit to name. It measures nothing; bench/predicted compares simulations with runs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/cost/hardware.h"
#include "core/sim/scenario.h"

namespace ringscope {
namespace {

struct Job {
  const char* title;
  AttentionShape shape;
  std::string mask;
  int world_size, nodes;
  std::vector<std::string> schemes;
};

struct Way {
  std::string scheme, deal;
  Figures figures;
};

constexpr Granularity kTile{128, 128};

// Simulate one deal, or return why not.
std::string simulate_into(const Job& job, const std::string& scheme, const std::string& deal,
                          std::vector<Way>& ways) {
  Scenario scenario;
  Problem& problem = scenario.job;
  problem.shape = job.shape;
  problem.dtype = DType::bf16;
  problem.mask = MaskSpec::parse(job.mask);
  problem.world_size = job.world_size;
  problem.backward = true;
  scenario.granularity = kTile;
  scenario.pace = Pace::buffers;
  scenario.searched = deal == kSearched;
  const Link inside = find_link("NVLink4");
  scenario.rates = rates_of(find_gpu("H100"), inside, problem.dtype);
  scenario.between = find_link("InfiniBand-NDR");
  scenario.nics = 8;
  try {
    set_scheme(problem, scheme);
    problem.nodes = job.nodes;
    check_scheme(problem);
    if (!scenario.searched) {
      problem.partition = PartitionSpec::parse(deal);
      problem.deal_out();
    }
    if (auto why = obstacle(scenario)) return *why;
    ways.push_back({scheme, deal, run_scenario(scenario, work_of(scenario))});
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void write(const Job& job) {
  fmt::print("\n## {}\n\n{} ranks on {} node{}, seqlen {}, {} heads, {} kv heads, mask `{}`\n\n",
             job.title, job.world_size, job.nodes, job.nodes == 1 ? "" : "s", job.shape.seqlen,
             job.shape.num_heads, job.shape.num_heads_kv,
             job.mask.rfind("ranges:", 0) == 0 ? "ranges:FILE" : job.mask);
  if (job.mask.rfind("ranges:", 0) == 0)
    fmt::print(
        "A problem has as many queries as keys, so the queries of the cache's positions travel as "
        "well, though they attend nothing: pass-q shows less than it would save.\n\n");
  std::vector<std::string> deals{"contiguous", "zigzag", "striped", "fold"};
  if (job.mask.find("documents") != std::string::npos) deals.emplace_back("documents:zigzag");
  std::vector<Way> best;
  std::string missing;
  for (const std::string& scheme : job.schemes) {
    std::vector<Way> ways;
    std::string why;
    for (const std::string& deal : deals) why = simulate_into(job, scheme, deal, ways);
    if (scheme == "ring") simulate_into(job, scheme, std::string(kSearched), ways);
    if (ways.empty()) {
      missing += fmt::format("- `{}`: {}\n", scheme, why);
      continue;
    }
    best.push_back(*std::min_element(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
      return a.figures.wall_s < b.figures.wall_s;
    }));
  }
  std::sort(best.begin(), best.end(),
            [](const Way& a, const Way& b) { return a.figures.wall_s < b.figures.wall_s; });
  fmt::print(
      "| scheme | best deal | time of a layer | efficiency | exposed | memory |\n"
      "|---|---|---|---|---|---|\n");
  for (const Way& way : best)
    fmt::print("| `{}` | {} | {} | {:.1f} % | {} | {} |\n", way.scheme, way.deal,
               seconds_text(way.figures.wall_s), 100 * way.figures.efficiency,
               seconds_text(way.figures.exposed_s), gib_text(way.figures.peak_bytes));
  if (!missing.empty()) fmt::print("\nNot possible:\n\n{}", missing);
  std::fflush(stdout);
}

std::string prefill_mask(Index seqlen, Index queries) {
  const std::string path =
      (std::filesystem::temp_directory_path() / "ringscope-prefill.txt").string();
  std::ofstream(path) << fmt::format("{} {} 0 {} causal\n", seqlen - queries, seqlen, seqlen);
  return "ranges:" + path;
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) {
  using namespace ringscope;
  const std::vector<std::string> one_node{"ring",      "bidirectional", "pass-q",
                                          "allgather", "ulysses",       "hybrid:2",
                                          "hybrid:4",  "mesh:2x4",      "mesh:4x2"};
  std::vector<std::string> two_nodes{"ring",        "bidirectional", "pass-q",   "allgather",
                                     "ulysses",     "hybrid:2",      "hybrid:4", "hybrid:8",
                                     "two-level:2", "mesh:2x8",      "mesh:4x4"};
  constexpr Index kDim = 128, kK = 1024;
  const Job jobs[] = {
      {"Long and causal", {1, 32, 32, 1024 * kK, kDim}, "causal", 8, 1, one_node},
      {"8 kv heads on 16 ranks", {1, 64, 8, 256 * kK, kDim}, "causal", 16, 2, two_nodes},
      {"Packed documents",
       {1, 32, 8, 128 * kK, kDim},
       "causal+documents:65536,32768,16384,8192,4096,2048,1024,512,512",
       8,
       1,
       one_node},
      {"A window", {1, 32, 8, 256 * kK, kDim}, "causal+window:4096", 8, 1, one_node},
      {"Two nodes", {1, 32, 32, 128 * kK, kDim}, "causal", 16, 2, two_nodes},
      {"A prefill on a cache: the last 8,192 positions query all",
       {1, 32, 8, 256 * kK, kDim},
       prefill_mask(256 * kK, 8 * kK),
       8,
       1,
       one_node}};
  fmt::print(
      "# Schemes and deals, compared\n\n"
      "Which scheme and which deal take the least time for six jobs, forward and backward, bf16, "
      "head_dim 128, on H100 with NVLink4 inside a node and 8 x InfiniBand-NDR between nodes. "
      "Written by `build/release/bench/schemes` at commit {}; every time is simulated, none is "
      "measured. The loops are those that run, with two KV buffers in a ring; ulysses is its "
      "closed form where heads divide evenly. Kernels compute tiles of 128 x 128. A line shows "
      "the scheme's fastest deal of "
      "contiguous, zigzag, striped and fold, of documents:zigzag where there are documents, and "
      "of a searched one in a ring.\n",
      argc > 1 ? argv[1] : "unknown");
  for (const Job& job : jobs) write(job);
  return 0;
}
