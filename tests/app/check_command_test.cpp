// `ringscope check`: outputs of `ringscope run`, right and spoiled, in the layouts and types that
// users have; and the layouts of run itself.
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/base/dtype.h"
#include "tests/app/program.h"

namespace ringscope {
namespace check_command_test {

class CheckCommandTest : public ProgramTest {
 protected:
  // Write Q, K and V of 2 batch entries, 4 heads (2 kv), 60 positions and head_dim 8, and what run
  // makes of them.
  void SetUp() override {
    for (const char* name : {"q", "k", "v"}) {
      const Index heads = *name == 'q' ? 4 : 2;
      write_tensor(std::string(name) + ".npy", {2, heads, 60, 8}, [&](Index i) {
        return std::sin(0.37 * static_cast<double>(i) * (1 + i % 13) + *name);
      });
    }
    run_well("run " + inputs + problem +
             " --backward --out o.npy --lse l.npy --dq dq.npy --dk dk.npy --dv dv.npy");
  }

  std::vector<float> values(const std::string& name, Index heads = 4) const {
    return read_values(name, static_cast<std::size_t>(2 * heads * 60 * 8));
  }

  const std::string inputs = "--q q.npy --k k.npy --v v.npy ";
  const std::string problem = "--mask causal --partition zigzag --world-size 4";
};

TEST_F(CheckCommandTest, CallsARightResultExact) {
  const auto json = run_for_json(
      "check --out o.npy --lse l.npy --dq dq.npy --dk dk.npy --dv dv.npy " + inputs + problem);
  EXPECT_STREQ(json["verdict"].GetString(), "exact");
  EXPECT_TRUE(json["suspects"].Empty());
  for (const char* tensor : {"out", "lse", "dq", "dk", "dv"}) {
    const auto& worst = json["tensors"][tensor]["worst_row"];
    EXPECT_LE(worst["error"].GetDouble(), worst["tolerance"].GetDouble());
    EXPECT_LE(worst["error"].GetDouble(), json["tensors"][tensor]["max_abs"].GetDouble());
    EXPECT_LE(json["tensors"][tensor]["rms"].GetDouble(),
              json["tensors"][tensor]["max_abs"].GetDouble());
  }
}

TEST_F(CheckCommandTest, NamesTheRankWhoseRowsAreOthers) {
  std::vector<float> out = values("o.npy");
  // Rank 1 of 4 holds positions 8 to 15 and 46 to 52; it gets those of rank 2, 16 to 23 and 39 to 45.
  for (Index head = 0; head < 8; ++head)
    for (Index row = 8; row < 53; ++row)
      for (Index c = 0; c < 8; ++c)
        if (row < 16 || row >= 46)
          out[static_cast<std::size_t>((head * 60 + row) * 8 + c)] =
              out[static_cast<std::size_t>((head * 60 + (row < 16 ? row + 8 : row - 7)) * 8 + c)];
  write_tensor("mine.npy", {2, 4, 60, 8},
               [&](Index i) { return out[static_cast<std::size_t>(i)]; });
  const ProgramResult result = run("check --json --out mine.npy " + inputs + problem);
  EXPECT_EQ(result.status, 1) << result.err;
  const auto json = json_of(result.out);
  EXPECT_STREQ(json["verdict"].GetString(), "wrong");
  ASSERT_FALSE(json["suspects"].Empty());
  EXPECT_STREQ(json["suspects"][0]["mistake"].GetString(), "rows-of-other-rank");
  EXPECT_EQ(json["suspects"][0]["rank"].GetInt(), 1);
  EXPECT_GT(json["rms_error"]["out"]["by_rank_and_chunk"][1][0].GetDouble(), 0.01);
  EXPECT_LE(json["rms_error"]["out"]["by_rank_and_chunk"][2][0].GetDouble(), 1e-5);

  const ProgramResult text = run("check --lse l.npy --out mine.npy " + inputs + problem);
  EXPECT_EQ(text.status, 1);
  expect_has(text.out, {"right: lse; wrong: out", "likely mistake: rows-of-other-rank, on rank 1"});
}

// bf16 outputs are rounding by their own looks, and by the flags that say so; not if f32 is asked
// for.
TEST_F(CheckCommandTest, JudgesBf16ByItsRounding) {
  run_well("run " + inputs + problem + " --dtype bf16 --out o16.npy");
  const std::vector<float> out = values("o16.npy");
  std::string bits;
  for (const float x : out) {
    const std::uint16_t word = bf16::from_float(x).bits;
    bits.append(reinterpret_cast<const char*>(&word), 2);
  }
  std::string header = npy_header({2, 4, 60, 8}, false);
  header.replace(header.find("<f4"), 3, "<u2");
  write_text("bits.npy", header + bits);
  for (const char* arguments : {"--out o16.npy", "--out bits.npy", "--out o16.npy --dtype bf16",
                                "--out bits.npy --reference mine-is-bf16"}) {
    const auto json = run_for_json("check " + inputs + problem + " " + arguments);
    EXPECT_STREQ(json["verdict"].GetString(), "rounding") << arguments;
    EXPECT_STREQ(json["dtype"].GetString(), "bf16");
  }
  const auto remarks = run_for_json("check " + inputs + problem + " --out o16.npy");
  const std::string remark = remarks["remarks"][remarks["remarks"].Size() - 1].GetString();
  expect_has(remark, {"out: exact for bf16, ", " times too coarse for f32"});
  expect_has(run("check " + inputs + problem + " --out o16.npy").out, {remark});
  EXPECT_EQ(run("check " + inputs + problem + " --out o16.npy --dtype f32").status, 1);
}

// What NaN among the inputs makes is right if it is NaN, and tells of no mistake if it is not.
TEST_F(CheckCommandTest, NamesNoMistakeForWhatNaNInputsReach) {
  std::vector<float> q = values("q.npy");
  q[77] = std::numeric_limits<float>::quiet_NaN();
  write_tensor("q.npy", {2, 4, 60, 8}, [&](Index i) { return q[static_cast<std::size_t>(i)]; });
  const std::string check = "check --out o.npy " + inputs + problem;
  const ProgramResult kept = run(check);
  EXPECT_EQ(kept.status, 1);
  expect_has(kept.out, {"No known mistake explains the error; NaN and infinite inputs"});
  expect_has(kept.err, {"--q: 1 NaN"});
  EXPECT_TRUE(json_of(run(check + " --json").out)["suspects"].Empty());
  run("run " + inputs + problem + " --out o.npy");
  EXPECT_EQ(run(check).status, 0);
}

TEST_F(CheckCommandTest, TakesOtherLayouts) {
  // The same tensors as [batch, seqlen, heads, head_dim].
  const auto turned = [&](const std::string& name, Index heads) {
    const std::vector<float> from = values(name, heads);
    write_tensor("t" + name, {2, 60, heads, 8}, [&](Index i) {
      const Index c = i % 8, head = i / 8 % heads, row = i / 8 / heads % 60, b = i / 8 / heads / 60;
      return from[static_cast<std::size_t>(((b * heads + head) * 60 + row) * 8 + c)];
    });
  };
  turned("q.npy", 4);
  turned("o.npy", 4);
  for (const char* name : {"k.npy", "v.npy"}) turned(name, 2);
  const std::string turned_inputs = "--q tq.npy --k tk.npy --v tv.npy --layout bshd ";
  EXPECT_STREQ(run_for_json("check --out to.npy " + turned_inputs + problem)["verdict"].GetString(),
               "exact");
  run_well("run " + turned_inputs + problem + " --out again.npy");
  EXPECT_EQ(contents_of(path("again.npy")), contents_of(path("to.npy")));

  // Without a word of the layout: the key heads show that something is off.
  expect_refused("run --q tq.npy --k tk.npy --v tv.npy", {"--layout bshd"});
  write_tensor("x.npy", {1, 90, 4, 8}, [](Index i) { return 0.01 * static_cast<double>(i % 17); });
  const ProgramResult doubted = run("run --q x.npy --k x.npy --v x.npy");
  EXPECT_EQ(doubted.status, 0);
  expect_has(doubted.err, {"90 heads of 4 positions", "--layout bshd"});

  write_tensor("y.npy", {90, 4, 8}, [](Index i) { return 0.01 * static_cast<double>(i % 17); });
  run_well("run --layout thd --q y.npy --k y.npy --v y.npy --out yo.npy");
  EXPECT_STREQ(
      run_for_json("check --layout thd --q y.npy --k y.npy --v y.npy --out yo.npy")["verdict"]
          .GetString(),
      "exact");
}

// [seqlen, batch, heads, head_dim], and a file per rank, say the same as whole files.
TEST_F(CheckCommandTest, TakesRowsFirstAndFilesOfRanks) {
  for (const char* name : {"q.npy", "k.npy", "v.npy", "o.npy"}) {
    const Index heads = *name == 'q' || *name == 'o' ? 4 : 2;
    const std::vector<float> from = values(name, heads);
    write_tensor(std::string("s") + name, {60, 2, heads, 8}, [&](Index i) {
      const Index c = i % 8, head = i / 8 % heads, b = i / 8 / heads % 2, row = i / 8 / heads / 2;
      return from[static_cast<std::size_t>(((b * heads + head) * 60 + row) * 8 + c)];
    });
    for (Index rank = 0; rank < 4; ++rank)
      write_tensor(fmt::format("{}.{}", rank, name), {2, heads, 15, 8}, [&](Index i) {
        const Index c = i % 8, row = i / 8 % 15, head = i / 8 / 15;
        return from[static_cast<std::size_t>((head * 60 + 4 * row + rank) * 8 + c)];
      });
  }
  const std::string rows_first = "--layout sbhd --q sq.npy --k sk.npy --v sv.npy ";
  const std::string ranks = "--q {r}.q.npy --k {r}.k.npy --v {r}.v.npy --mask causal ";
  for (const std::string& arguments :
       {rows_first + "--mask causal --out so.npy", ranks + "--out {r}.o.npy --partition striped"})
    EXPECT_STREQ(run_for_json("check " + arguments)["verdict"].GetString(), "exact") << arguments;
  EXPECT_EQ(run("check --out {r}.o.npy --partition contiguous " + ranks).status, 1);
  expect_refused("check --out {r}.o.npy --world-size 5 " + ranks, {"--q", "4.q.npy"});
  run_well("run " + rows_first + problem + " --out again.npy");
  EXPECT_TRUE(contents_of(path("again.npy")) == contents_of(path("so.npy")));

  write_tensor("x.npy", {90, 1, 4, 8}, [](Index i) { return 0.01 * static_cast<double>(i % 17); });
  expect_has(run("check --layout bshd --q x.npy --k x.npy --v x.npy --out x.npy").err,
             {"90 batch entries of 1 position", "--layout sbhd"});
}

TEST_F(CheckCommandTest, LooksAtASampleOfRows) {
  const std::string check = "check --rows 20 --lse l.npy --dq dq.npy " + inputs + problem;
  const auto json = run_for_json(check + " --out o.npy");
  EXPECT_STREQ(json["verdict"].GetString(), "exact");
  EXPECT_EQ(json["rows"].GetInt(), 20);
  EXPECT_TRUE(json["sampled"].GetBool());
  EXPECT_FALSE(run_for_json("check --out o.npy " + inputs + problem)["sampled"].GetBool());
  EXPECT_STREQ(json["remarks"][0].GetString(), "a sample of 20 of the 60 query rows of each head");
  expect_has(run(check + " --out o.npy").out, {"exact: ", ", in the rows of the sample"});
  run("run " + inputs + problem + " --inject scale --out wrong.npy --lse wl.npy");
  const auto wrong = json_of(
      run("check --json --rows 20 --seed 3 --out wrong.npy --lse wl.npy " + inputs + problem).out);
  ASSERT_FALSE(wrong["suspects"].Empty());
  EXPECT_STREQ(wrong["suspects"][0]["mistake"].GetString(), "scale");
  EXPECT_EQ(wrong["tensors"]["lse"]["wrong_rows"].GetInt(), 20);
  expect_has(run("check --rows 20 --seed 3 --out wrong.npy " + inputs + problem).out,
             {"a sample shows no single rows that have moved"});
  // Among two ranks the own block alone is the other's block missing, so a sample leaves it open.
  run("run " + inputs + "--world-size 2 --inject own-block-only --out own.npy");
  for (const char* const rows : {"", " --rows 12"}) {
    const auto own = json_of(run("check --json --world-size 2 --out own.npy " + inputs + rows).out);
    ASSERT_FALSE(own["suspects"].Empty());
    EXPECT_STREQ(own["suspects"][0]["mistake"].GetString(), "own-block-only");
    EXPECT_EQ(own["suspects"][0]["sure"].GetBool(), *rows == '\0');
  }
}

TEST_F(CheckCommandTest, TakesCumulativeLengths) {
  run_well("run " + inputs + "--mask causal+documents:13,30,17 --out d.npy");
  const auto write_ends = [&](const std::string& name, const std::vector<std::int64_t>& ends) {
    std::string header = npy_header({static_cast<Index>(ends.size())}, false);
    header.replace(header.find("<f4"), 3, "<i8");
    write_text(name, header + std::string(reinterpret_cast<const char*>(ends.data()),
                                          ends.size() * sizeof(std::int64_t)));
  };
  write_ends("cu.npy", {0, 13, 43, 60});
  write_ends("from1.npy", {1, 13, 43, 60});
  write_ends("off.npy", {0, 14, 44, 60});
  const std::string check = "check --out d.npy --mask causal " + inputs;
  EXPECT_STREQ(run_for_json(check + "--cu-seqlens cu.npy")["verdict"].GetString(), "exact");
  const auto json = json_of(run(check + "--json --cu-seqlens off.npy").out);
  EXPECT_STREQ(json["suspects"][0]["mistake"].GetString(), "wrong-mask");
  EXPECT_STREQ(json["suspects"][0]["mask"].GetString(), "causal+documents:13,30,17");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  write_ends("falls.npy", {0, kMost, -kMost, 60});
  write_ends("long.npy", {0, 13, kMost});
  write_ends("none.npy", {0});
  expect_refused(check + "--cu-seqlens from1.npy", {"--cu-seqlens", "from 1"});
  for (const char* const bad : {"falls.npy", "long.npy", "none.npy", "o.npy", "absent.npy"})
    EXPECT_EQ(run(check + "--cu-seqlens " + bad).status, 2) << bad;
}

// A .safetensors file has a length, a JSON object, and raw values.
TEST_F(CheckCommandTest, TakesSafetensorsAndRefusesTorchFiles) {
  const auto raw = [&](const std::string& name, Index heads) {
    const std::vector<float> from = values(name, heads);
    return std::string(reinterpret_cast<const char*>(from.data()), from.size() * sizeof(float));
  };
  const auto write = [&](const std::string& name, const std::string& object,
                         const std::string& bytes) {
    const std::uint64_t length = object.size();
    write_text(name, std::string(reinterpret_cast<const char*>(&length), 8) + object + bytes);
  };
  constexpr const char* kTensor =
      R"("{}":{{"dtype":"F32","shape":[2,{},60,8],"data_offsets":[{},{}]}})";
  const std::string q = raw("q.npy", 4), k = raw("k.npy", 2), v = raw("v.npy", 2);
  const std::size_t end = q.size() + k.size();
  const std::string object = fmt::format(R"({{"__metadata__":{{"format":"pt"}},{},{},{}}})",
                                         fmt::format(kTensor, "q", 4, 0, q.size()),
                                         fmt::format(kTensor, "k", 2, q.size(), end),
                                         fmt::format(kTensor, "v", 2, end, end + v.size()));
  write("all.safetensors", object, q + k + v);
  write("out.safetensors", fmt::format("{{{}}}", fmt::format(kTensor, "x", 4, 0, q.size())),
        raw("o.npy", 4));
  const std::string check =
      "check --q all.safetensors:q --k all.safetensors:k --v all.safetensors:v " + problem;
  EXPECT_STREQ(run_for_json(check + " --out out.safetensors")["verdict"].GetString(), "exact");
  expect_refused(check + " --out all.safetensors", {"--out", "3 tensors", "q, k, v"});
  expect_refused(check + " --out all.safetensors:o", {"no tensor 'o'"});
  write("cut.safetensors", object, q);
  expect_refused(check + " --out cut.safetensors:v", {"data_offsets"});
  // Headers that lie, and none at all.
  const std::string good = fmt::format(kTensor, "x", 4, 0, q.size());
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string text = good;
    return "{" + text.replace(text.find(part), part.size(), other) + "}";
  };
  const std::string deep(100000, '[');
  for (const std::string& bad :
       {std::string(),
        std::string("{}"),
        std::string("[]"),
        good,
        deep,
        "{\"x\":" + deep,
        std::string(R"({"x":7})"),
        std::string(R"({"\u0000":{}})"),
        with("F32", "I64"),
        with("\"F32\"", "{}"),
        with("[2,", "[0,"),
        with("[2,", "[-2,"),
        with("[2,", "[2.5,"),
        with("[2,", "[1e300,"),
        with("[2,", "[9223372036854775807,"),
        with("[2,", "[1,1,1,"),
        with("shape", "shapes"),
        with("data_offsets\":[0,", "data_offsets\":[1,"),
        with("data_offsets\":[0,", "data_offsets\":[-9223372036854775808,"),
        with("data_offsets\":[0,", "data_offsets\":[")}) {
    write("bad.safetensors", bad, raw("o.npy", 4));
    const ProgramResult result = run(check + " --out bad.safetensors");
    EXPECT_EQ(result.status, 2) << bad.substr(0, 200) << result.err;
    EXPECT_LT(result.err.size(), 1000u);
  }
  write_text("bad.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}");
  expect_refused(check + " --out bad.safetensors", {"truncated"});
  write_text("bad.safetensors", "1234");
  expect_refused(check + " --out bad.safetensors", {"truncated"});
  write_text("q.pt", "PK");
  const ProgramResult torch = run("check --out o.npy --q q.pt --k k.npy --v v.npy");
  EXPECT_EQ(torch.status, 2);
  expect_has(torch.err, {"torch.load('q.pt'", "numpy.save('q.npy'", "accepted"});
}

// An lse with its axes the other way round is read, and it is said how.
TEST_F(CheckCommandTest, SaysHowItReadAnLse) {
  const std::vector<float> lse = read_values("l.npy", 2 * 4 * 60);
  write_tensor("oblong.npy", {2, 60, 4}, [&](Index i) {
    return lse[static_cast<std::size_t>((i / 240 * 4 + i % 4) * 60 + i / 4 % 60)];
  });
  const auto json = run_for_json("check --lse oblong.npy " + inputs + problem);
  EXPECT_STREQ(json["verdict"].GetString(), "exact");
  expect_has(json["remarks"][0].GetString(),
             {"(2, 60, 4) is read as [batch, seqlen, heads]", "lse-axes-swapped"});
  EXPECT_TRUE(run_for_json("check --lse l.npy " + inputs + problem)["remarks"].Empty());
}

TEST_F(CheckCommandTest, RefusesOtherSizes) {
  expect_refused("check --out dk.npy " + inputs, {"--out", "dk.npy", "4 heads"});
}

}  // namespace check_command_test
}  // namespace ringscope
