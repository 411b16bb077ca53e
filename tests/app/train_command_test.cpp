// `train` as people call it: what it writes, how it goes on, what it refuses.
#include <gtest/gtest.h>

#include <cmath>

#include "core/trace/chrome_trace.h"
#include "core/training/checkpoint.h"
#include "core/training/training.h"
#include "tests/app/train_case.h"
#include "tests/core/training/checkpoint_case.h"

namespace ringscope {
namespace {

TEST_F(TrainCommandTest, WritesTheLossOfEveryStepAndSaysWhatItCost) {
  const rapidjson::Document json =
      run_for_json(kTiny + "--steps 12 --loss-csv l.csv --world-size 3");
  const std::vector<double> curve = losses("l.csv");
  ASSERT_EQ(curve.size(), 12u);
  EXPECT_EQ(bytes("l.csv").rfind("step,loss,version,commit,command,seed,machine,time\n1,", 0), 0u);
  EXPECT_LT(curve.back(), curve.front());
  EXPECT_DOUBLE_EQ(json["loss_first"].GetDouble(), curve.front());
  EXPECT_DOUBLE_EQ(json["loss_last"].GetDouble(), curve.back());
  EXPECT_DOUBLE_EQ(json["unigram_entropy"].GetDouble(), unigram_entropy(text_));
  EXPECT_EQ(json["settings"]["heads_kv"].GetInt(), 1);
  EXPECT_EQ(json["settings"]["lr"].GetDouble(), 0.01);
  EXPECT_STREQ(json["partition"].GetString(), "zigzag");
  EXPECT_GT(json["step_s"].GetDouble(), 0);
  EXPECT_NEAR(json["tokens_per_s"].GetDouble(), 60 / json["step_s"].GetDouble(), 1e-6);
  ASSERT_EQ(json["ranks"].Size(), 3u);
  Index sent = 0;
  for (const auto& rank : json["ranks"].GetArray()) {
    EXPECT_GT(rank["attention_forward_s"].GetDouble(), 0);
    EXPECT_LT(rank["attention_share"].GetDouble(), 1);
    // K and V of a third of the positions, in f32, to each of two others.
    EXPECT_EQ(rank["attention_forward_bytes"].GetInt64(), 2 * (2 * 2 * 10 * 8 * 4));
    sent += rank["bytes_sent"].GetInt64();
  }
  EXPECT_EQ(json["bytes_sent"].GetInt64(), sent);
  const std::string said = run_well(kTiny + "--steps 2");
  expect_has(said, {"unigram entropy", "loss", "a step", "sent a step"});
}

TEST_F(TrainCommandTest, StoppedAndTakenUpAgainIsAsIfItHadNotStopped) {
  run_well(kTiny + "--steps 8 --checkpoint whole.ckpt --loss-csv whole.csv");
  run_well(kTiny + "--steps 5 --checkpoint half.ckpt --loss-csv half.csv");
  EXPECT_NE(bytes("half.ckpt"), bytes("whole.ckpt"));
  EXPECT_EQ(losses("half.csv").size(), 5u);
  // No setting is given: they are the checkpoint's.
  run_well(
      "train --text t.txt --resume half.ckpt --steps 8 --checkpoint half.ckpt --loss-csv rest.csv");
  EXPECT_TRUE(bytes("half.ckpt") == bytes("whole.ckpt"));
  const std::vector<Row> whole = rows("whole.csv"), rest = rows("rest.csv");
  EXPECT_EQ(rest, std::vector<Row>(whole.begin() + 5, whole.end()));
  // The first row says where the rows come from.
  for (const Row& row : rest) EXPECT_EQ(row.origin.empty(), row.step != 6) << row.step;
  expect_has(rest[0].origin, {"--resume half.ckpt", "--loss-csv rest.csv,of the checkpoint,"});
  // Nothing is left to do.
  run_well("train --text t.txt --resume half.ckpt --steps 8 --checkpoint same.ckpt");
  EXPECT_TRUE(bytes("same.ckpt") == bytes("whole.ckpt"));
}

TEST_F(TrainCommandTest, IsTakenUpByOtherRanksAndWithOtherSettings) {
  run_well(kTiny + "--steps 3 --checkpoint c.ckpt");
  const Strings resume = "train --text t.txt --resume c.ckpt --steps 5";
  const rapidjson::Document other = run_for_json(resume + "--world-size 5 --partition striped");
  EXPECT_EQ(other["steps_before"].GetInt(), 3);
  const rapidjson::Document same = run_for_json(resume);
  EXPECT_NEAR(other["loss_last"].GetDouble(), same["loss_last"].GetDouble(),
              1e-4 * same["loss_last"].GetDouble());
  // A size of the model may be said again; other settings may change.
  const rapidjson::Document changed = run_for_json(resume + "--layers 1 --lr 0.5 --batch 3");
  EXPECT_EQ(changed["settings"]["lr"].GetDouble(), 0.5);
  EXPECT_EQ(changed["settings"]["batch"].GetInt(), 3);
  EXPECT_EQ(changed["settings"]["width"].GetInt(), 16);
  expect_refused(resume + "--width 24", {"--width", "24", "c.ckpt", "has 16", "accepted"});
  expect_refused(resume + "--heads-kv 2", {"--heads-kv", "2", "has 1"});
  expect_refused("train --text t.txt --resume c.ckpt --steps 2", {"--steps", "2", "has done 3"});
}

TEST_F(TrainCommandTest, SplitsHeadsRowsAndBatchesAtOnce) {
  const Strings tiny = tiny_with_kv_heads() + "--steps 4 --loss-csv";
  run_well(tiny + "one.csv --world-size 1 --checkpoint one.ckpt");
  const rapidjson::Document json = run_for_json(
      tiny +
      "all.csv --tensor 2 --data 2 --checkpoint all.ckpt --checkpoint-every 3 --trace t.json");
  const std::vector<double> one = losses("one.csv"), all = losses("all.csv");
  for (int step = 0; step < 4; ++step) EXPECT_NEAR(all.at(step), one.at(step), 1e-4 * one[step]);
  EXPECT_EQ(json["tensor"].GetInt() * json["world_size"].GetInt() * json["data"].GetInt(), 8);
  ASSERT_EQ(json["ranks"].Size(), 8u);
  for (const auto& rank : json["ranks"].GetArray()) {
    // Rows of 15 positions of a sequence, twice by attention and twice by the MLP.
    EXPECT_EQ(rank["tensor_bytes"].GetInt64(), 4 * (15 * 16 * 4));
    EXPECT_EQ(rank["peak_bytes"].GetDouble(), json["bill_bytes"].GetDouble());
  }
  EXPECT_EQ(read_chrome_trace(path("t.json")).info.world_size, 2);
  expect_has(run_well("train --text t.txt --resume all.ckpt --steps 5 --dtype bf16 --tensor 2"),
             {"4 ranks (2 tensor x 2 context x 1 data)", "bf16"});
}

// What a rank holds is what `plan` says of the same shape and what `train` says itself, to the byte.
TEST_F(TrainCommandTest, HoldsWhatPlanSays) {
  double last = 1e18;
  for (const char* chunks : {"--chunks 1", "--chunks 4"}) {
    const rapidjson::Document run = run_for_json(
        Strings(
            "train --text t.txt --layers 3 --width 16 --heads 2 --heads-kv 1 --head-dim 8 "
            "--hidden 24 --batch 2 --seqlen 30 --steps 3 --world-size 2 --checkpoint some.ckpt") +
        chunks);
    const Strings planned =
        Strings(
            "plan --gpu A100 --link NVLink3 --dtype f32 --world-size 2 --seqlen 30 --batch 2 "
            "--layers 3 --width 16 --heads 2 --heads-kv 1 --head-dim 8 --hidden 24 --vocab 256 "
            "--mask causal --backward --scheme ring --partition zigzag") +
        chunks;
    const rapidjson::Document plan = run_for_json(planned);
    // Twice as many ranks, for the group of those that share a sequence.
    const rapidjson::Document groups = run_for_json(planned + "--data 2");
    const double held = run["ranks"][0]["peak_bytes"].GetDouble();
    EXPECT_EQ(held, plan["chosen"]["peak_bytes"].GetDouble()) << chunks;
    EXPECT_EQ(held, run["bill_bytes"].GetDouble()) << chunks;
    EXPECT_LT(held, last) << chunks;
    last = held;
    const auto sent_by = [&](int rank) {
      return run["ranks"][rank]["attention_forward_bytes"].GetDouble() +
             run["ranks"][rank]["attention_backward_bytes"].GetDouble();
    };
    EXPECT_EQ(sent_by(0), 3 * plan["chosen"]["bytes_sent"].GetDouble());
    EXPECT_EQ((sent_by(0) + sent_by(1)) / 2,
              groups["groups"]["groups"][1]["bytes_a_step"].GetDouble());
    // Taken up by a run that keeps all.
    run_well("train --text t.txt --resume some.ckpt --steps 4 --world-size 3");
  }
  // Of unequal ranks the bill is the largest one's.
  const rapidjson::Document odd = run_for_json(
      "train --text t.txt --layers 3 --width 16 --heads 2 --head-dim 8 --hidden 24 --batch 1 "
      "--seqlen 3 --steps 1 --world-size 2");
  EXPECT_LT(odd["ranks"][0]["peak_bytes"].GetDouble(), odd["bill_bytes"].GetDouble());
  EXPECT_EQ(odd["ranks"][1]["peak_bytes"].GetDouble(), odd["bill_bytes"].GetDouble());
}

// A disk that has room for the losses alone: they are kept.
TEST_F(TrainCommandTest, WhatCannotBeSavedEndsTheRun) {
  const ProgramResult result = run_after(
      "ulimit -f 1", kTiny + "--steps 6 --checkpoint c.ckpt --checkpoint-every 4 --loss-csv l.csv");
  expect_ended(result, 3, "--checkpoint");
  EXPECT_EQ(losses("l.csv").size(), 4u);
  EXPECT_EQ(files().count("c.ckpt"), 0u);
}

// A table that can't be written costs neither the model nor the recording.
TEST_F(TrainCommandTest, AFailingOutputCostsNoOther) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ProgramResult result =
      run(kTiny + "--steps 2 --loss-csv /dev/full --checkpoint c.ckpt --trace t.json");
  expect_ended(result, 3, {"--loss-csv /dev/full"});
  expect_has(result.out, {"sent a step"});
  EXPECT_EQ(files().count("t.json"), 1u);
  EXPECT_EQ(load_checkpoint(path("c.ckpt")).step, 2);
}

TEST_F(TrainCommandTest, RecordsAStep) {
  run_well(kTiny + "--steps 4 --trace t.json --trace-step 3");
  const Recording recording = read_chrome_trace(path("t.json"));
  EXPECT_EQ(recording.info.world_size, 2);
  EXPECT_EQ(recording.info.training->train_step, 3);
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_FALSE(recording.events[1].empty());
}

TEST_F(TrainCommandTest, AsksForMemoryBeforeItTakesIt) {
  const ProgramResult large = run("train --text t.txt --world-size 2000000000");
  expect_ended(large, 3, "memory");
  EXPECT_EQ(large.out, "");
}

// What was learned before is not lost, and nothing useless takes its place.
TEST_F(TrainCommandTest, EndsWhenTrainingHasDiverged) {
  run_well(kTiny + "--steps 3 --checkpoint m.ckpt");
  const std::string good = bytes("m.ckpt");
  const ProgramResult result =
      run("train --text t.txt --resume m.ckpt --checkpoint m.ckpt --loss-csv l.csv --steps 40 "
          "--lr 1e9");
  expect_ended(result, 3, {"diverged: at step "});
  EXPECT_TRUE(bytes("m.ckpt") == good);
  const std::vector<Row> kept = rows("l.csv");
  ASSERT_FALSE(kept.empty());
  EXPECT_EQ(kept[0].step, 4);
  for (const Row& row : kept) EXPECT_TRUE(std::isfinite(row.loss)) << row.step;
}

}  // namespace
}  // namespace ringscope
