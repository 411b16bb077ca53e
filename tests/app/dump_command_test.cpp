// `ringscope run --dump DIR` shows what the loop held at every step, and `--trace DIR/` gives each
// rank a file that Holistic Trace Analysis reads.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>

#include "tests/app/program.h"

namespace ringscope {
namespace {

constexpr int kRanks = 4;
constexpr std::size_t kBatch = 2, kHeads = 4, kHeadsKv = 2, kSeqlen = 50, kDim = 8;

class DumpTest : public ProgramTest {
 protected:
  // The values after the header, which ends with a line.
  template <class T>
  std::vector<T> values_of(const std::string& file) const {
    const std::string bytes = contents_of(path(file));
    const std::size_t at = bytes.find('\n') + 1;
    std::vector<T> values((bytes.size() - at) / sizeof(T));
    std::memcpy(values.data(), bytes.data() + at, values.size() * sizeof(T));
    return values;
  }
  std::vector<double> array(const rapidjson::Value& entry) const {
    const std::string file = std::string("d/") + entry["name"].GetString();
    if (std::string(entry["dtype"].GetString()) == "f64") return values_of<double>(file);
    const std::vector<float> values = values_of<float>(file);
    return {values.begin(), values.end()};
  }

  // Run and return the manifest of d.
  rapidjson::Document dump(const Strings& more) const {
    std::filesystem::remove_all(path("d"));
    run_well(
        "run --random --batch 2 --heads 4 --heads-kv 2 --seqlen 50 --head-dim 8 --mask causal "
        "--partition zigzag --dump d --out o.npy --lse l.npy" +
        more);
    return json_of(contents_of(path("d/manifest.json")));
  }

  // Call f(index in the whole tensor, index in the array) for every value of an entry.
  template <class F>
  void for_values(const rapidjson::Value& entry, std::size_t all_heads, F&& f) const {
    const auto& shape = entry["shape"];
    const auto heads = shape[1].GetUint64(), rows = shape[2].GetUint64();
    const std::size_t width = shape.Size() == 4 ? shape[3].GetUint64() : 1;
    const auto positions =
        values_of<std::int64_t>(std::string("d/") + entry["positions"].GetString());
    const std::size_t first = entry["rows"][0].GetUint64();
    std::size_t at = 0;
    for (std::size_t b = 0; b < shape[0].GetUint64(); ++b)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t row = 0; row < rows; ++row)
          for (std::size_t x = 0; x < width; ++x, ++at)
            f(((b * all_heads + entry["first_head"].GetUint64() + h) * kSeqlen +
               static_cast<std::size_t>(positions.at(first + row))) *
                      width +
                  x,
              at);
  }
};

bool is(const rapidjson::Value& entry, const char* key, const std::string& value) {
  return value == entry[key].GetString();
}

// After the last step, out_accum / row_sum is the output, to the bit of one division, and
// row_max + log(row_sum) the lse. The sum that is sent last is dk or dv, to the bit.
TEST_F(DumpTest, OfARingHoldsTheOutputsAfterItsLastSteps) {
  const auto manifest = dump("--backward --dk dk.npy --dv dv.npy");
  const auto out = values_of<float>("o.npy"), lse = values_of<float>("l.npy");
  std::map<std::string, std::vector<float>> gradients{{"dk", values_of<float>("dk.npy")},
                                                      {"dv", values_of<float>("dv.npy")}};
  std::map<std::pair<int, std::string>, std::vector<double>> last;
  std::size_t normalised = 0, sums = 0;
  for (const auto& entry : manifest["arrays"].GetArray()) {
    if (entry["step"].GetInt() != kRanks - 1) continue;
    const std::string what = entry["what"].GetString();
    const std::vector<double> values = array(entry);
    const int rank = entry["rank"].GetInt();
    if (is(entry, "operation", "attend") && is(entry, "pass", "forward")) {
      last[{rank, what}] = values;
      if (what != "out_accum") continue;
      const auto& m = last[{rank, "row_max"}];
      const auto& l = last[{rank, "row_sum"}];
      for_values(entry, kHeads, [&](std::size_t whole, std::size_t at) {
        EXPECT_FLOAT_EQ(static_cast<float>(values[at] / l[at / kDim]), out[whole]);
        EXPECT_FLOAT_EQ(static_cast<float>(m[at / kDim] + std::log(l[at / kDim])),
                        lse[whole / kDim]);
        ++normalised;
      });
    } else if (is(entry, "operation", "add")) {
      EXPECT_EQ(entry["kv_owner"].GetInt(), (rank + 1) % kRanks);
      for_values(entry, kHeadsKv, [&](std::size_t whole, std::size_t at) {
        EXPECT_EQ(static_cast<float>(values[at]), gradients[what][whole]);
        ++sums;
      });
    }
  }
  EXPECT_EQ(normalised, kBatch * kHeads * kSeqlen * kDim);
  EXPECT_EQ(sums, 2 * kBatch * kHeadsKv * kSeqlen * kDim);
  EXPECT_NE(std::string(manifest["provenance"]["command"].GetString()).find("--dump d"),
            std::string::npos);
}

// Whatever travels: every output value is in the dump of one finish, and where a rank keeps states of
// its own for each block (pass-q), merging these gives the lse.
TEST_F(DumpTest, OfEverySchemeHoldsEveryOutputOnce) {
  for (const char* scheme : {"bidirectional", "pass-q", "allgather:2", "ulysses", "hybrid:2",
                             "two-level:2", "mesh:2x2"}) {
    SCOPED_TRACE(scheme);
    const auto manifest = dump(Strings{"--scheme", scheme});
    const auto out = values_of<float>("o.npy"), lse = values_of<float>("l.npy");
    std::vector<int> seen(out.size(), 0);
    std::vector<double> parts(lse.size(), 0), row_max;
    for (const auto& entry : manifest["arrays"].GetArray()) {
      const std::vector<double> values = array(entry);
      if (is(entry, "what", "out"))
        for_values(entry, kHeads, [&](std::size_t whole, std::size_t at) {
          EXPECT_EQ(static_cast<float>(values[at]), out[whole]);
          ++seen[whole];
        });
      if (!is(entry, "operation", "attend")) continue;
      if (is(entry, "what", "row_max")) row_max = values;
      if (is(entry, "what", "row_sum"))
        for_values(entry, kHeads, [&](std::size_t whole, std::size_t at) {
          parts[whole] += std::exp(row_max[at]) * values[at];
        });
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(seen.size()));
    for (std::size_t i = 0; std::string(scheme) == "pass-q" && i < lse.size(); ++i)
      EXPECT_NEAR(std::log(parts[i]), lse[i], 1e-5);
  }
}

TEST_F(DumpTest, IsWholeOrNotAtAll) {
  std::filesystem::create_directory(path("full"));
  write_text("full/mine", "kept");
  write_text("file", "kept");
  for (const char* place : {"full", "file", "not/there"})
    expect_refused(Strings("run --random --seqlen 32 --dump") + Strings{place},
                   {"--dump", place, "accepted:"});
  expect_refused("run --random --seqlen 32 --dump d --inject scale", {"--dump", "--inject"});
  if (why_no_mpi().empty())
    expect_refused("run --random --seqlen 32 --dump d --backend mpi", {"--dump", "cpu"});
  const auto before = files();
  const ProgramResult failed = run("run --random --seqlen 32 --dump d --inject killed-rank@1:1");
  expect_ended(failed, 3, {"rank 1"});
  const ProgramResult disk =
      run_after("ulimit -f 1", "run --random --seqlen 4096 --head-dim 8 --mask window:2 --dump d");
  expect_ended(disk, 3, {"writing failed"});
  EXPECT_EQ(files(), before);
  expect_refused(Strings{"run", "--random", "--seqlen", "32", "--dump", ""},
                 {"--dump", "''", "accepted:"});
  std::filesystem::create_directory(path("d"));
  std::filesystem::permissions(path("d"), std::filesystem::perms::owner_all);
  run_well("run --random --seqlen 32 --dump d/");
  EXPECT_EQ(std::filesystem::status(path("d")).permissions(), std::filesystem::perms::owner_all);
  EXPECT_TRUE(std::filesystem::exists(path("d/manifest.json")));
  std::filesystem::create_directory(path("empty"));
  std::filesystem::create_symlink("empty", path("link"));
  run_well("run --random --seqlen 32 --dump link");
  EXPECT_TRUE(std::filesystem::exists(path("empty/manifest.json")));
}

// What Holistic Trace Analysis 0.5.0 goes by: the file's first "rank", a stream in the arguments of
// what ran on a device, and names of kernels that begin with nccl and have Kernel in them for
// communication; all others with a stream count as computation.
TEST_F(DumpTest, TracesOfRanksHaveKernelsThatHtaKnows) {
  run_well("run --random --seqlen 256 --backward --mask causal --trace tr/ --out o.npy");
  for (int rank = 0; rank < kRanks; ++rank) {
    SCOPED_TRACE(rank);
    const std::string file = path("tr/rank" + std::to_string(rank) + ".json");
    const std::string text = contents_of(file);
    std::smatch first;
    ASSERT_TRUE(std::regex_search(text, first, std::regex("\"rank\":\\s+(\\d+)")));
    EXPECT_EQ(first[1], std::to_string(rank));
    const auto json = json_of(text);
    EXPECT_STREQ(json["provenance"]["seed"].GetString(), "0");
    double computing = 0, moving = 0, sent = 0;
    for (const auto& event : json["traceEvents"].GetArray()) {
      EXPECT_EQ(event["pid"].GetInt(), rank);
      if (std::string(event["ph"].GetString()) != "X") continue;
      const std::string cat = event["cat"].GetString();
      if (cat == "send" || cat == "recv") sent += event["dur"].GetDouble();
      if (!event["args"].HasMember("stream")) continue;
      const bool nccl = std::regex_search(event["name"].GetString(), std::regex("^nccl.*Kernel"));
      (nccl ? moving : computing) += event["dur"].GetDouble();
      EXPECT_EQ(cat, nccl ? "kernel" : "compute");
    }
    EXPECT_GT(computing, 0);
    EXPECT_NEAR(moving, sent, 1e-9 * sent + 1e-6);
    EXPECT_GT(moving, 0);
    EXPECT_EQ(run(Strings{"explain", file}).status, 0);
    if (has_viewer() && rank == 1)
      run_well(Strings{"view", file, "--screenshot", "r.png", "--size", "640x400"});
  }
  expect_refused("run --random --seqlen 32 --trace tr/", {"--trace", "not empty"});
}

}  // namespace
}  // namespace ringscope
