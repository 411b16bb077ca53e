// `train` as people call it: what it writes, how it goes on, what it refuses.
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/checkpoint.h"
#include "core/model/training.h"
#include "core/trace/chrome_trace.h"
#include "tests/app/train_case.h"
#include "tests/core/model/checkpoint_case.h"

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
  // Rows beyond the checkpoint, as of a run that was killed later, are replaced.
  write_text("half.csv", bytes("half.csv") + "6,99,,,,,,\n7,99,,,,,,\n");
  // No setting is given: they are the checkpoint's.
  run_well(
      "train --text t.txt --resume half.ckpt --steps 8 --checkpoint half.ckpt --loss-csv half.csv");
  EXPECT_TRUE(bytes("half.ckpt") == bytes("whole.ckpt"));
  EXPECT_EQ(losses("half.csv"), losses("whole.csv"));
  // Each run's first row says where its rows come from.
  for (const Row& row : rows("half.csv")) {
    EXPECT_EQ(row.origin.empty(), row.step != 1 && row.step != 6) << row.step;
    if (row.step == 1) expect_has(row.origin, {"--steps 5", "--loss-csv half.csv,0,"});
    if (row.step == 6) expect_has(row.origin, {"--resume half.ckpt"});
  }
  // Nothing is left to do.
  run_well("train --text t.txt --resume half.ckpt --steps 8 --checkpoint same.ckpt");
  EXPECT_TRUE(bytes("same.ckpt") == bytes("whole.ckpt"));
}

// A run that was killed at step 4 of 7 goes on to step 7.
TEST_F(TrainCommandTest, ResumesToTheStepsThatItWasToDo) {
  run_well(kTiny + "--steps 7 --checkpoint whole.ckpt");
  run_well(kTiny + "--steps 4 --checkpoint c.ckpt");
  Checkpoint killed = load_checkpoint(path("c.ckpt"));
  EXPECT_EQ(killed.planned_steps, 4);
  killed.planned_steps = 7;
  save_checkpoint(path("c.ckpt"), killed);
  const rapidjson::Document resumed =
      run_for_json("train --text t.txt --resume c.ckpt --checkpoint c.ckpt");
  EXPECT_EQ(resumed["steps"].GetInt(), 7);
  EXPECT_TRUE(bytes("c.ckpt") == bytes("whole.ckpt"));
}

TEST_F(TrainCommandTest, WarnsOfAnotherText) {
  run_well(kTiny + "--steps 2 --checkpoint c.ckpt");
  const ProgramResult same = run("train --text t.txt --resume c.ckpt --steps 3");
  EXPECT_EQ(same.err.find("warning"), std::string::npos) << same.err;
  write_text("other.txt", bytes("t.txt") + "?");
  const ProgramResult other = run("train --text other.txt --resume c.ckpt --steps 3");
  EXPECT_EQ(other.status, 0);
  expect_has(other.err, {"warning", "--text", "other.txt", "c.ckpt"});
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

// What a rank holds is what `plan` says of the same shape and what `train` says itself, to the byte.
TEST_F(TrainCommandTest, HoldsWhatPlanSays) {
  double last = 1e18;
  for (const char* chunks : {"--chunks 1", "--chunks 4"}) {
    const rapidjson::Document run = run_for_json(
        Strings(
            "train --text t.txt --layers 3 --width 16 --heads 2 --heads-kv 1 --head-dim 8 "
            "--hidden 24 --batch 2 --seqlen 30 --steps 3 --world-size 2 --checkpoint some.ckpt") +
        chunks);
    const rapidjson::Document plan = run_for_json(
        Strings("plan --gpu A100 --link NVLink3 --dtype f32 --world-size 2 --seqlen 30 --batch 2 "
                "--layers 3 --width 16 --heads 2 --heads-kv 1 --head-dim 8 --hidden 24 --vocab 256 "
                "--mask causal --backward --scheme ring --partition zigzag --data 2") +
        chunks);
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
              plan["groups"]["groups"][1]["bytes_a_step"].GetDouble());
    // Taken up by a run that keeps all.
    run_well("train --text t.txt --resume some.ckpt --steps 4 --world-size 3");
  }
  // Of unequal ranks the bill is the largest one's.
  const rapidjson::Document odd = run_for_json(
      "train --text t.txt --layers 3 --width 16 --heads 2 --head-dim 8 --hidden 24 --batch 1 "
      "--seqlen 3 --steps 1 --world-size 2");
  EXPECT_LT(odd["ranks"][0]["peak_bytes"].GetDouble(), odd["bill_bytes"].GetDouble());
  EXPECT_EQ(odd["ranks"][1]["peak_bytes"].GetDouble(), odd["bill_bytes"].GetDouble());
  expect_refused(kTiny + "--chunks 0", {"--chunks", "0"});
}

// A disk that has room for the losses alone: they are kept.
TEST_F(TrainCommandTest, WhatCannotBeSavedEndsTheRun) {
  const ProgramResult result = run_after(
      "ulimit -f 1", kTiny + "--steps 6 --checkpoint c.ckpt --checkpoint-every 4 --loss-csv l.csv");
  expect_ended(result, 3, "--checkpoint");
  EXPECT_EQ(losses("l.csv").size(), 4u);
  EXPECT_EQ(files().count("c.ckpt"), 0u);
}

// Killed wherever it is: what it saved is whole, and going on from there leads to where it was led.
TEST_F(TrainCommandTest, GoesOnAfterBeingKilled) {
  ASSERT_NO_FATAL_FAILURE(run_until_there_is(
      "c.ckpt",
      kTiny + "--steps 1000000 --checkpoint c.ckpt --checkpoint-every 1 --loss-csv l.csv"));
  const Index step = load_checkpoint(path("c.ckpt")).step;
  EXPECT_GE(losses("l.csv").size(), static_cast<std::size_t>(step));
  const std::string steps = std::to_string(step + 2);
  run_well({"train", "--text", "t.txt", "--resume", "c.ckpt", "--steps", steps, "--checkpoint",
            "c.ckpt", "--loss-csv", "l.csv"});
  run_well(kTiny + Strings{"--steps", steps, "--checkpoint", "whole.ckpt", "--loss-csv", "w.csv"});
  EXPECT_TRUE(bytes("c.ckpt") == bytes("whole.ckpt")) << "after " << step;
  EXPECT_EQ(losses("l.csv"), losses("w.csv"));
}

TEST_F(TrainCommandTest, LosesFewLossesWhenItIsKilled) {
  ASSERT_NO_FATAL_FAILURE(run_until_there_is("l.csv", kTiny + "--steps 1000000 --loss-csv l.csv"));
  const std::size_t kept = losses("l.csv").size();
  EXPECT_GE(kept, 100u);
  EXPECT_EQ(kept % 100, 0u);
}

// A pipe's reader gets one table, of the steps of this run.
TEST_F(TrainCommandTest, WritesLossesToAPipeOnce) {
  run_well(kTiny + "--steps 1 --checkpoint c.ckpt");
  const ProgramResult result =
      run_words({"/bin/sh", "-c",
                 "mkfifo p && { timeout 20 cat p > l.csv & } && timeout 20 \"$0\" \"$@\"; s=$?; "
                 "wait; exit $s",
                 RINGSCOPE_PROGRAM, "train", "--text", "t.txt", "--resume", "c.ckpt", "--steps",
                 "4", "--checkpoint", "c.ckpt", "--checkpoint-every", "1", "--loss-csv", "p"});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::vector<Row> written = rows("l.csv");
  ASSERT_EQ(written.size(), 3u);
  EXPECT_EQ(written.front().step, 2);
}

// Neither at the end nor on the way does a table that can't be written cost the model.
TEST_F(TrainCommandTest, AFailingOutputCostsNoOther) {
  if (!std::filesystem::is_character_file("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ProgramResult at_end =
      run(kTiny + "--steps 2 --loss-csv /dev/full --checkpoint c.ckpt --trace t.json");
  expect_ended(at_end, 3, {"--loss-csv /dev/full"});
  expect_has(at_end.out, {"sent a step"});
  EXPECT_EQ(files().count("t.json"), 1u);
  Checkpoint checkpoint = load_checkpoint(path("c.ckpt"));
  EXPECT_EQ(checkpoint.step, 2);

  // A disk with room for the model, but not for so many losses.
  checkpoint.step = 30000;
  save_checkpoint(path("c.ckpt"), checkpoint);
  std::string before = "step,loss,version,commit,command,seed,machine,time\n";
  for (Index step = 1; step <= checkpoint.step; ++step)
    before += std::to_string(step) + ",1.5,,,,,,\n";
  write_text("l.csv", before);
  const ProgramResult on_the_way =
      run_after("ulimit -f 200",
                "train --text t.txt --resume c.ckpt --steps 30003 --checkpoint c.ckpt "
                "--checkpoint-every 1 --loss-csv l.csv");
  expect_ended(on_the_way, 3, {"--loss-csv l.csv"});
  EXPECT_EQ(load_checkpoint(path("c.ckpt")).step, 30001);
  EXPECT_EQ(bytes("l.csv"), before);
}

TEST_F(TrainCommandTest, RecordsAStep) {
  run_well(kTiny + "--steps 4 --trace t.json --trace-step 3");
  const Recording recording = read_chrome_trace(path("t.json"));
  EXPECT_EQ(recording.info.world_size, 2);
  EXPECT_EQ(recording.info.training->train_step, 3);
  ASSERT_EQ(recording.events.size(), 2u);
  EXPECT_FALSE(recording.events[1].empty());
  expect_refused(kTiny + "--steps 4 --trace u.json --trace-step 5",
                 {"--trace-step", "5", "1 to 4"});
}

TEST_F(TrainCommandTest, RefusesWhatIsNoCheckpoint) {
  run_well(kTiny + "--steps 1 --checkpoint c.ckpt");
  const std::string whole = bytes("c.ckpt");
  const auto refused = [&](const std::string& content, const std::string& why) {
    write_text("bad.ckpt", content);
    expect_refused("train --text t.txt --resume bad.ckpt", {"--resume", "bad.ckpt", why});
  };
  refused("", "0 bytes");
  refused(text_, "not a checkpoint");
  refused(whole.substr(0, whole.size() - 8), "cut short");
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 4);
  refused(flipped, "checksum");
}

TEST_F(TrainCommandTest, RefusesPlacesThatCannotBeWrittenTo) {
  for (const char* flag : {"--loss-csv", "--checkpoint", "--trace"}) {
    expect_refused(kTiny + Strings{flag, "t.txt"}, {flag, "t.txt", "input"});
  }
  expect_refused(kTiny + "--loss-csv x --checkpoint ./x", "--checkpoint x");
  run_well(kTiny + "--steps 1 --checkpoint c.ckpt");
  write_text("diary.csv", "dear diary\n");
  const Strings resume = "train --text t.txt --resume c.ckpt";
  expect_refused(resume + "--loss-csv diary.csv", {"--loss-csv", "diary.csv", "line 1"});
  EXPECT_EQ(bytes("diary.csv"), "dear diary\n");
  for (const char* row : {"x,2", "3", "3,", "3,x", "3,2 ", "2,1", "-1,1", ""}) {
    write_text("table.csv", "step,loss,version,commit,command,seed,machine,time\n2,1.5,,,,,,\n" +
                                std::string(row) + "\n");
    expect_refused(resume + "--loss-csv table.csv", {"--loss-csv", "table.csv", "line 3"});
  }
  expect_refused(resume + "--loss-csv c.ckpt", "--loss-csv c.ckpt");
}

TEST_F(TrainCommandTest, AsksForMemoryBeforeItTakesIt) {
  const ProgramResult large = run("train --text t.txt --world-size 2000000000");
  expect_ended(large, 3, "memory");
  EXPECT_EQ(large.out, "");
}

// What was learned before is not lost, and nothing useless takes its place.
TEST_F(TrainCommandTest, EndsWhenTrainingHasDiverged) {
  const Strings arguments = kTiny + "--checkpoint m.ckpt --loss-csv l.csv";
  run_well(arguments + "--steps 3");
  const std::vector<double> good = losses("l.csv");
  const ProgramResult result = run(
      kTiny + "--resume m.ckpt --checkpoint m.ckpt --loss-csv l.csv --steps 40 --weight-decay 1e9");
  expect_ended(result, 3, {"diverged: at step "});
  const std::vector<double> kept = losses("l.csv");
  ASSERT_GE(kept.size(), good.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    EXPECT_TRUE(std::isfinite(kept[i]));
    if (i < good.size()) {
      EXPECT_EQ(kept[i], good[i]);
    }
  }
  run_well(kTiny + "--resume m.ckpt --steps 4 --weight-decay 0.01");
}

// The loss is a number, but what the update makes of a weight is none: that is not saved.
TEST_F(TrainCommandTest, EndsWhenAWeightOverflows) {
  run_well(kTiny + "--steps 1 --checkpoint m.ckpt");
  Checkpoint large = load_checkpoint(path("m.ckpt"));
  large.values[0] = 1e22f;  // of a byte that the text has not
  save_checkpoint(path("large.ckpt"), large);
  const ProgramResult result =
      run("train --text t.txt --resume large.ckpt --steps 2 --warmup-steps 0 --lr 1e9 "
          "--weight-decay 1e9 --checkpoint end.ckpt --checkpoint-every 1");
  expect_ended(result, 3, {"diverged: at step 2 weights"});
  EXPECT_EQ(files().count("end.ckpt"), 0u);
}

// More ranks than positions: some have none.
TEST_F(TrainCommandTest, RanksMayHaveNothingToDo) {
  Strings arguments = kTiny + "--steps 2 --loss-csv l.csv --world-size";
  arguments[18] = "3";  // --seqlen
  run_well(arguments + "1");
  const std::vector<double> one = losses("l.csv");
  run_well(arguments + "7");
  EXPECT_NEAR(losses("l.csv").at(1), one.at(1), 1e-4 * one.at(1));
}

}  // namespace
}  // namespace ringscope
