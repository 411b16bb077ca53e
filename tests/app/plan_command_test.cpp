// `ringscope plan` as a program: what it answers, and how bad input is refused.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.h"
#include "tests/app/program.h"

namespace ringscope {
namespace {

const Strings kPlan = "plan --gpu H100 --link NVLink4 --world-size 8 --seqlen 131072";

Strings plan_with(const Strings& more) { return kPlan + more; }

class PlanCommandTest : public ProgramTest {};

// Every number from the formulas, written out here.
TEST_F(PlanCommandTest, JsonHoldsTheNumbers) {
  const auto json = run_for_json(plan_with("--mask causal --heads-kv 8"));
  EXPECT_TRUE(json["feasible"].GetBool());
  EXPECT_STREQ(json["chosen"]["partition"].GetString(), "zigzag");
  EXPECT_STREQ(json["chosen"]["scheme"].GetString(), "ring");
  const double flops = json["machine"]["forward_flops"].GetDouble();
  EXPECT_DOUBLE_EQ(flops, 989.4e12 * 0.65);
  const double pairs = 131072.0 * 131073 / 2;
  EXPECT_NEAR(json["chosen"]["forward"]["compute_s"].GetDouble(), 4 * 32 * 128 * pairs / 8 / flops,
              1e-9);
  EXPECT_NEAR(json["overlap_forward"]["threshold_rows"].GetDouble(), flops / 450e9 * 8 / 32 / 0.5,
              0.1);
  EXPECT_DOUBLE_EQ(json["chosen"]["bytes_sent"].GetDouble(), 2.0 * 7 * 16384 * 8 * 128 * 2);
  EXPECT_EQ(json["chosen"]["hops"].GetDouble(), 7);
  double memory = 0;
  for (const auto& part : json["memory"].GetArray()) memory += part["bytes"].GetDouble();
  EXPECT_DOUBLE_EQ(memory, json["chosen"]["peak_bytes"].GetDouble());
  ASSERT_EQ(json["choices"].Size(), 9u);
  int best = 0;
  for (const auto& choice : json["choices"].GetArray()) best += choice["best"].GetBool() ? 1 : 0;
  EXPECT_EQ(best, 1);
}

// Rings that leave the same node share its links to others.
TEST_F(PlanCommandTest, RingsShareTheLinksOfTheirNodes) {
  const auto exposed = [&](const char* more) {
    return run_for_json(Strings("plan --gpu H100 --link 400,0 --seqlen 65536 --mask causal "
                                "--scheme ring --partition "
                                "zigzag --backward") +
                        more)["chosen"]["exposed_s"]
        .GetDouble();
  };
  // 4 rings with 2 ranks on a node and a quarter of the heads each.
  const std::string rings = "--heads 32 --world-size 4 --tensor 4 --between 50,0 --nics ";
  const std::string alone = "--heads 8 --world-size 4 --nodes 2 --between ";
  EXPECT_GT(exposed((rings + "1").c_str()), 0);
  EXPECT_NEAR(exposed((rings + "1").c_str()), exposed((alone + "12.5,0").c_str()), 1e-9);
  EXPECT_NEAR(exposed((rings + "4").c_str()), exposed((alone + "50,0").c_str()), 1e-9);
  // Two ranks a ring stay on their node.
  EXPECT_EQ(exposed("--heads 32 --world-size 2 --tensor 4 --between 50,0"),
            exposed("--heads 8 --world-size 2"));
}

TEST_F(PlanCommandTest, ComparesContextGroupsOfAllSizes) {
  const Strings plan =
      "plan --model llama3-8b --gpu H100 --link NVLink4 --seqlen 131072 --mask causal "
      "--backward --recompute layer --zero 3 --world-size 16 --sequences 4 --context";
  const auto json = run_for_json(plan + "all");
  std::vector<int> sizes;
  for (const auto& row : json["contexts"].GetArray()) {
    const int context = row["context"].GetInt();
    sizes.push_back(context);
    const auto one = run_for_json(plan + Strings{std::to_string(context)});
    EXPECT_EQ(row["data"].GetInt(), 16 / context);
    EXPECT_EQ(row["total_s"].GetDouble(), one["model"]["total_s"].GetDouble());
    EXPECT_EQ(row["peak_bytes"].GetDouble(), one["chosen"]["peak_bytes"].GetDouble());
    EXPECT_LE(json["model"]["total_s"].GetDouble(), row["total_s"].GetDouble());
  }
  EXPECT_EQ(sizes, (std::vector{4, 8, 16}));  // 4 sequences do not suffice for 8 replicas
  expect_has(run_well(plan + "all"), {"context   data", "The best of these", "limited by"});
}

// What it took to train Llama 3, as published: bench/README.md's table, each line of which has its flags.
TEST_F(PlanCommandTest, PublishedStepsOfLargeModels) {
  std::istringstream page(contents_of(RINGSCOPE_SOURCE_DIR "/bench/README.md"));
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    const std::size_t begin = line.find("| `--model "), end = line.find("` | ", begin);
    if (begin == line.npos) continue;
    ++rows;
    const auto json = run_for_json(
        "plan --gpu H100 --link NVLink4 --between InfiniBand-NDR --nics 8 --mask causal --backward "
        "--sequence-parallel --zero 1" +
        Strings(line.substr(begin + 3, end - begin - 3)));
    const bool is_share = line.find("% MFU") != line.npos;
    const double ours =
        is_share ? 100 * json["model"]["mfu"].GetDouble() : json["model"]["total_s"].GetDouble();
    const double published = std::stod(line.substr(end + 4));
    EXPECT_LE(std::abs(ours / published - 1), 0.15) << line;
    expect_has(line, {is_share ? fmt::format("| {:.1f} % MFU | {:.2f} |", ours, ours / published)
                               : fmt::format("| {:.2f} s | {:.2f} |", ours, ours / published)});
  }
  EXPECT_EQ(rows, 9);
}

// What others measured beside the plan of the same run, by bench/README.md's table. A figure is within
// 20 %, or its row says why not.
TEST_F(PlanCommandTest, PlansBesidePublishedRuns) {
  std::istringstream page(contents_of(RINGSCOPE_SOURCE_DIR "/bench/README.md"));
  int rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.find("| `plan --model ") == line.npos) continue;
    ++rows;
    std::vector<std::string>
        cells;  // run, command, and published, ours, ratio of both figures, why not
    for (const std::string_view cell : split(line, '|'))
      cells.emplace_back(cell.substr(std::min<std::size_t>(1, cell.size())));
    ASSERT_EQ(cells.size(), 11u) << line;
    const std::string& command = cells[2];
    const auto json = run_for_json(Strings(command.substr(1, command.size() - 3)));
    const double ranks =
        (json.HasMember("groups") ? json["groups"]["ranks"] : json["world_size"]).GetDouble();
    const std::pair<int, double> figures[] = {
        {3, json["model"]["tokens_per_s"].GetDouble() / ranks},
        {6, json["chosen"]["peak_bytes"].GetDouble() / (1 << 30)}};
    bool is_near = true;
    for (const auto& [at, ours] : figures) {
      if (cells[at] == " ") continue;  // not published
      const double ratio = ours / std::stod(cells[at]);
      is_near = is_near && std::abs(ratio - 1) <= 0.2;
      EXPECT_EQ(
          cells[at + 1] + cells[at + 2],
          fmt::format(at == 3 && ours > 1000 ? "{:.0f} {:.2f} " : "{:.1f} {:.2f} ", ours, ratio))
          << line;
    }
    EXPECT_EQ(cells[9] == " ", is_near) << line;
  }
  EXPECT_EQ(rows, 18);
}

// One rank alone holds all of the scores, or none of them.
TEST_F(PlanCommandTest, HasBaselinesOfOneRank) {
  const auto json = run_for_json(kPlan);
  const auto alone = run_for_json("plan --gpu H100 --link NVLink4 --world-size 1 --seqlen 131072");
  const auto &flash = json["alone"][0], &naive = json["alone"][1];
  EXPECT_EQ(flash["bytes"].GetDouble(), alone["chosen"]["peak_bytes"].GetDouble());
  EXPECT_EQ(flash["largest_seqlen"].GetInt64(), alone["largest_seqlen"].GetInt64());
  EXPECT_EQ(naive["bytes"].GetDouble() - flash["bytes"].GetDouble(), 32.0 * 131072 * 131072 * 2);
  const double longest = naive["largest_seqlen"].GetDouble();
  EXPECT_NEAR(longest, std::sqrt(json["machine"]["memory_limit_bytes"].GetDouble() / 64), 600);
}

TEST_F(PlanCommandTest, AgreesWithSimulateOnNodes) {
  const Strings machine = "--gpu H100 --link NVLink4 --nodes 2 --between 50,10 --world-size 8";
  const Strings job = machine + "--seqlen 4096 --backward --mask causal --heads 8 --heads-kv 4";
  for (const char* nics : {"1", "4"})
    for (const char* scheme : {"ring", "allgather", "ulysses", "hybrid:4", "two-level:2"}) {
      SCOPED_TRACE(std::string(scheme) + " " + nics);
      const Strings way = job + "--partition zigzag --scheme" + scheme + "--nics" + nics;
      const auto planned = run_for_json("plan" + way);
      EXPECT_NEAR(planned["chosen"]["total_s"].GetDouble(),
                  run_for_json("simulate" + way)["wall_s"].GetDouble(), 1e-15);
    }
}

// Calls and merging, in a ring that hides its hops: a call a step, and all blocks' results but the
// first are merged. An all-to-all has one call, and a gather as many.
TEST_F(PlanCommandTest, CountsCallsAndMergingWhenCalibrated) {
  const Strings sizes = "--link NVLink4 --world-size 8 --seqlen 131072";
  const auto simulated = [&](const char* job, const Strings& more = {}) {
    return run_for_json("simulate --gpu H100" + sizes + job + more);
  };
  const auto of = [](const rapidjson::Document& json, const char* key) {
    return json[key].GetDouble();
  };
  const char* const ring = "--mask causal --scheme ring --partition zigzag --backward";
  const auto plain = simulated(ring), counted = simulated(ring, "--calibrated");
  const double step = 200e-6 + 7.0 / 8 * 10.4e-12 * 131072 / 8 * 32 * 128;
  EXPECT_NEAR(of(counted, "forward_s") - of(plain, "forward_s"), 8 * step, 1e-9);
  EXPECT_NEAR(of(counted, "compute_s") - of(plain, "compute_s"), 8 * 2.3 * step, 1e-9);
  EXPECT_NEAR(of(counted, "efficiency"), of(plain, "compute_s") / of(counted, "wall_s"), 1e-9);
  EXPECT_LT(of(counted, "efficiency"), 0.97 * of(plain, "efficiency"));
  EXPECT_DOUBLE_EQ(
      run_for_json("plan --gpu H100 --calibrated" + sizes + ring)["chosen"]["total_s"].GetDouble(),
      of(counted, "wall_s"));
  for (const char* scheme : {"--scheme ulysses", "--scheme allgather"})
    EXPECT_NEAR(of(simulated(scheme, "--calibrated"), "wall_s") - of(simulated(scheme), "wall_s"),
                200e-6, 1e-9)
        << scheme;
}

// Sums of gradients take all links of a node, up to what a link inside carries; hops of a ring take one.
// A ring whose work is even waits for its links alone.
TEST_F(PlanCommandTest, SeveralLinksCarryGradients) {
  const Strings plan =
      "plan --model llama3-8b --gpu H100 --link 4,0 --nodes 2 --between 0.5,0 --world-size 16 "
      "--seqlen 131072 --mask causal --backward --scheme ring --partition zigzag";
  const auto seconds = [&](const char* nics) {
    return run_for_json(plan + "--nics" + nics)["model"]["reduction_s"].GetDouble();
  };
  EXPECT_NEAR(seconds("1"), 4 * seconds("4"), 1e-12);
  EXPECT_NEAR(seconds("8"), seconds("16"), 1e-12);
  const auto forward = run_for_json(plan)["chosen"]["forward"].GetObject();
  EXPECT_GT(forward["exposed_s"].GetDouble(), 0);
  EXPECT_LT(forward["imbalance_s"].GetDouble(), 1e-3 * forward["total_s"].GetDouble());
}

// What does not fit is told with a change that was tried.
TEST_F(PlanCommandTest, NamesWhatLimitsAndWhatToChange) {
  const Strings plan =
      "plan --model llama3-8b --gpu H100 --link NVLink4 --seqlen 131072 --backward";
  const auto json = run_for_json(plan + "--world-size 16");
  EXPECT_FALSE(json["feasible"].GetBool());
  EXPECT_EQ(std::string(json["limited_by"].GetString()).rfind("memory, ", 0), 0u);
  const std::string change = json["change_first"].GetString();
  ASSERT_EQ(change.find("still too much"), std::string::npos) << change;
  const Strings changed{change.substr(0, change.find(':'))};
  EXPECT_TRUE(run_for_json(plan + "--world-size 16" + Strings(changed.front().c_str()))["feasible"]
                  .GetBool());
}

// plan, simulate and run say the same of a scheme, wherever they say it.
TEST_F(PlanCommandTest, AgreesWithSimulateAndRunOnEveryScheme) {
  const Strings machine = "--gpu H100 --link NVLink4";
  const Strings any_heads =
      "--world-size 4 --seqlen 104 --head-dim 8 --dtype bf16 --backward --mask causal";
  const Strings job = any_heads + "--partition zigzag --heads 8 --heads-kv 4";
  for (const char* scheme :
       {"ring", "bidirectional", "multi-ring:2", "pass-q", "allgather", "allgather:2", "ulysses",
        "ulysses:2", "hybrid:2", "two-level:2", "mesh:2x2", "mesh:4x1"}) {
    SCOPED_TRACE(scheme);
    const Strings of_scheme = job + "--scheme" + scheme;
    const auto planned = run_for_json("plan" + machine + of_scheme);
    const auto simulated = run_for_json("simulate" + machine + of_scheme);
    const auto& chosen = planned["chosen"];
    EXPECT_STREQ(chosen["scheme"].GetString(), scheme);
    EXPECT_NEAR(chosen["total_s"].GetDouble(), simulated["wall_s"].GetDouble(), 1e-15);
    if (scheme == std::string("ring")) {
      EXPECT_EQ(simulated["closed_form_s"].GetDouble(), chosen["total_s"].GetDouble());
      EXPECT_NEAR(simulated["compute_s"].GetDouble() / simulated["closed_form_s"].GetDouble(),
                  simulated["efficiency"].GetDouble(), 1e-9);
    }
    EXPECT_EQ(chosen["balance_ceiling"].GetDouble(), simulated["balance_ceiling"].GetDouble());
    EXPECT_EQ(chosen["bytes_sent"].GetDouble(), simulated["ranks"][0]["bytes_sent"].GetDouble());
    EXPECT_EQ(chosen["peak_bytes"].GetDouble(), simulated["peak_bytes"].GetDouble());
    if (std::string(scheme) == "ulysses") {
      // Its closed form rounds results. Where heads don't divide, its loop is followed.
      const Strings uneven = any_heads + "--heads 6 --heads-kv 2 --scheme ulysses";
      const auto told = run_for_json("plan" + machine + uneven);
      EXPECT_NEAR(told["chosen"]["total_s"].GetDouble(),
                  run_for_json("simulate" + machine + uneven)["wall_s"].GetDouble(), 1e-15);
      EXPECT_EQ(told["chosen"]["bytes_sent"].GetDouble(),
                run_for_json("run --random" + uneven)["ranks"][0]["bytes_sent"].GetDouble());
      // 2, 1, 2 and 1 of the 6 heads: no ranks wait but for the slowest.
      EXPECT_NEAR(told["chosen"]["balance_ceiling"].GetDouble(), 0.75, 1e-12);
      continue;
    }
    const auto run = run_for_json("run --random" + of_scheme);
    EXPECT_EQ(chosen["bytes_sent"].GetDouble(), run["ranks"][0]["bytes_sent"].GetDouble());
    double peak = 0, sent = 0;
    for (const auto& rank : run["ranks"].GetArray()) {
      peak = std::max(peak, rank["peak_bytes"].GetDouble());
      sent += rank["bytes_sent"].GetDouble();
    }
    EXPECT_EQ(chosen["peak_bytes"].GetDouble(), peak);
    if (std::string(scheme) != "ring") continue;
    EXPECT_EQ(chosen["hops"].GetDouble(), run["ranks"][0]["hops"].GetDouble());
    EXPECT_DOUBLE_EQ(chosen["balance_ceiling"].GetDouble(),
                     run["predicted_balance_ceiling"].GetDouble());
    const auto grouped = run_for_json("plan" + machine + of_scheme + "--data 2");
    EXPECT_NEAR(grouped["groups"]["groups"][1]["bytes_a_step"].GetDouble(), sent / 4, 1e-6);
  }
}

// tests/core/tools/cost has the formulas; here flags ask for them, over the links that they take.
TEST_F(PlanCommandTest, DealsOutShardsAndExpertsAndMovesActivations) {
  const Strings dense =
      "plan --model llama3-8b --gpu H100 --link 400,0 --between 40,0 --seqlen 8192 --backward "
      "--world-size 16 --context 1 --zero 3";
  const auto all = run_for_json(dense), shards = run_for_json(dense + "--shard 8");
  const auto of = [](const rapidjson::Document& json, const char* key) {
    return json["model"][key].GetDouble();
  };
  // 7/8 of the weights over the links inside a node, in place of 15/16 over a card that 8 ranks share.
  EXPECT_NEAR(of(shards, "gathering_s") / of(all, "gathering_s"), 7.0 / 8 / (15.0 / 16) * 0.1,
              1e-9);
  const double weights = of(all, "weights");
  EXPECT_NEAR(of(shards, "reduction_s"), (7.0 / 8 / 400e9 + 2 * 0.5 / 8 / 40e9) * 4 * (weights + 1),
              1e-6);
  const double state = 16 * weights;
  EXPECT_NEAR(shards["chosen"]["peak_bytes"].GetDouble() - all["chosen"]["peak_bytes"].GetDouble(),
              state / 8 - state / 16, 0.001 * state);

  const Strings mixture =
      "plan --model qwen3-30b-a3b --gpu H100 --link 400,0 --between 40,0 --seqlen 8192 --backward "
      "--world-size 16 --context 1 --expert";
  const double rows = 2 * 2 * 48 * 8.0 * 8192 * 2048 * 2;  // there and back, in both passes
  EXPECT_NEAR(of(run_for_json(mixture + "8"), "experts_s"), rows * 7 / 8 / 400e9, 1e-6);
  EXPECT_NEAR(of(run_for_json(mixture + "16"), "experts_s"), rows * 15 / 16 / 40e9, 1e-6);
  EXPECT_EQ(of(run_for_json(mixture + "1"), "experts_s"), 0);

  const Strings layers = dense + "--recompute layer";
  const auto kept = run_for_json(layers), moved = run_for_json(layers + "--offload activations");
  EXPECT_DOUBLE_EQ(of(moved, "host_bytes"), 30.0 * 8192 * 4096 * 2);
  EXPECT_DOUBLE_EQ(
      kept["chosen"]["peak_bytes"].GetDouble() - moved["chosen"]["peak_bytes"].GetDouble(),
      of(moved, "host_bytes"));
  expect_has(run_well(layers + "--offload activations"), {"and on the host"});
}

// Every second layer of gpt-oss attends a window.
TEST_F(PlanCommandTest, TakesTheMeanOfTwoKindsOfLayers) {
  const Strings plan =
      "plan --gpu H100 --link NVLink4 --seqlen 65536 --mask causal --world-size 4 --scheme ring "
      "--partition zigzag --model gpt-oss-20b";
  const auto json = run_for_json(plan);
  const auto windowed = run_for_json(
      "plan --gpu H100 --link NVLink4 --seqlen 65536 --mask causal+window:128 --world-size 4 "
      "--scheme "
      "ring --partition zigzag --heads 64 --heads-kv 8 --head-dim 64");
  EXPECT_NEAR(
      json["model"]["attention_s"].GetDouble(),
      12 * (json["chosen"]["total_s"].GetDouble() + windowed["chosen"]["total_s"].GetDouble()),
      1e-12);
}

// tests/core/tools/cost has the bill's parts. Here flags ask for them, and what it says would fit does.
TEST_F(PlanCommandTest, CountsAWholeModelsMemory) {
  const Strings llama =
      "plan --gpu H100 --link NVLink4 --world-size 16 --seqlen 1048576 --layers 32 --width 4096 "
      "--hidden 14336 --vocab 128256 --heads-kv 8 --mask causal --backward";
  const auto json = run_for_json(llama);
  EXPECT_FALSE(json["feasible"].GetBool());
  expect_has(json["why"].GetString(), "memory");
  const auto bytes_of = [](const rapidjson::Value& plan, const std::string& what) {
    double sum = 0;
    for (const auto& part : plan["memory"].GetArray())
      if (std::string(part["part"].GetString()).starts_with(what)) sum += part["bytes"].GetDouble();
    return sum;
  };
  EXPECT_DOUBLE_EQ(bytes_of(json, ""), json["chosen"]["peak_bytes"].GetDouble());
  expect_has(run_well(llama), {"feasible", "no: ", "would fit", "MLP", "optimizer"});
  const double weights =
      128256.0 * 4096 + 4096 + 32 * (4096.0 * 128 * (64 + 16) + 3.0 * 4096 * 14336 + 2 * 4096);
  for (int stage = 0; stage < 4; ++stage) {
    const auto dealt = run_for_json(llama + Strings{"--zero", std::to_string(stage)});
    const double whole = stage == 0 ? 16 : stage == 1 ? 4 : stage == 2 ? 2 : 0;  // bytes a weight
    EXPECT_NEAR(bytes_of(dealt, "weights") + bytes_of(dealt, "gradients of weights") +
                    bytes_of(dealt, "optimizer"),
                (whole + (16 - whole) / 16) * weights, 16);
  }
  const auto fits = run_for_json(llama + "--zero 3 --recompute layer --memory-fraction 0.9");
  EXPECT_DOUBLE_EQ(bytes_of(fits, "MLP"), 3.0 * 14336 * 65536 * 2);  // of one layer
  EXPECT_GT(fits["largest_seqlen"].GetDouble(), 100000);
  EXPECT_LT(fits["model"]["mfu"].GetDouble(), 0.65);
  EXPECT_GT(fits["model"]["mfu"].GetDouble(), 0.1);
}

}  // namespace
}  // namespace ringscope
