// A gpu-check on a pack of fakes: what it runs and in which order, what it makes of each way to
// fail, and that it always leaves a results file.
#include <algorithm>
#include <cmath>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "tests/gpu_check/fake_pack.h"

namespace ringscope {
namespace {

namespace fs = std::filesystem;

double figure(const rapidjson::Document& results, const std::string& name) {
  for (const auto& one : results["figures"].GetArray())
    if (one["name"].GetString() == name) return one["value"].GetDouble();
  return -1;
}

class GpuCheck : public testing::Test {
 protected:
  void SetUp() override { skip_without_python(); }
  // The one results file.
  rapidjson::Document results() const { return pack.results(); }
  // How long a run takes in which all is well.
  double seconds_of_a_run() const {
    const std::int64_t begin = monotonic_ns();
    EXPECT_EQ(pack.run().status, 0);
    pack.remove_results();
    return seconds_since(begin);
  }
  static int kernel_passes(const rapidjson::Document& results, int number) {
    for (const auto& one : results["kernels"].GetArray())
      if (one["number"].GetInt() == number) return one["pass"].GetBool() ? 1 : 0;
    return -1;
  }
  FakePack pack;
};

TEST_F(GpuCheck, WhenAllIsWell) {
  std::ofstream(pack.root / "logs/tests-list.out") << "OfAnOldPack.\n  Test\n";
  const ProgramResult ended = pack.run("--out run.json");
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  const auto r = pack.results("run.json");
  ASSERT_TRUE(r.IsObject());
  EXPECT_TRUE(r["passed"].GetBool());
  EXPECT_TRUE(r["complete"].GetBool());
  EXPECT_STREQ(r["commit"].GetString(), "123abc");
  EXPECT_STREQ(r["device"]["name"].GetString(), "NVIDIA Fake 1");
  EXPECT_STREQ(r["device"]["driver"].GetString(), "1.2");
  EXPECT_EQ(kernel_passes(r, 2), 1);
  EXPECT_EQ(kernel_passes(r, 5), 1);
  EXPECT_EQ(kernel_passes(r, 6), 0) << "its tests were skipped";
  EXPECT_EQ(figure(r, "forward bf16/d128/8192/full: over cudnn"), 0.5);
  EXPECT_EQ(figure(r, "forward bf16/d128/8192/full: TFLOP/s of 05_tensor_cores 128x64"), 300);
  EXPECT_EQ(figure(r, "backward bf16/d128/8192/full: over cudnn"), 0.5);
  EXPECT_EQ(figure(r, "carried state at 16384 rows full, 05_tensor_cores"), 0.03);
  EXPECT_EQ(figure(r, "8 ranks, causal: contiguous / zigzag, 05_tensor_cores"), 1.81);
  EXPECT_EQ(figure(r, "8 ranks, causal: zigzag's share of its ceiling, 05_tensor_cores"), 0.9);
  EXPECT_NE(ended.out.find("all passed"), std::string::npos) << ended.out;
  EXPECT_EQ(figure(r, "4 ranks, 16384 rows causal: one launch / its steps, 12_fused_ring"), 1.05);
  // Logs become one archive beside the results.
  EXPECT_NE(ended.out.find("run.logs.tar.gz"), std::string::npos) << ended.out;
  const std::string list = "tar -tzf '" + (pack.root / "out/run.logs.tar.gz").string() + "' >'" +
                           (pack.root / "list").string() + "'";
  ASSERT_EQ(std::system(list.c_str()), 0);
  EXPECT_NE(contents_of(pack.root / "list").find("./device.out\n"), std::string::npos);
}

TEST_F(GpuCheck, ClocksOfEachPartAndCountersOfTheBestKernels) {
  pack.program("path/nvidia-smi",
               "echo '1980, 600.5, 50'; echo '1755, 690.5, 60'; echo '17'; exec sleep 9");
  pack.program("path/ncu", R"(echo '==PROF== Connected'; case "$*" in *one_pass*) exit 1 ;; esac
echo '"ID","Kernel Name","sm__throughput.avg.pct","gpu__time_duration.sum"'
echo '"","","%","us"'; echo '"0","hopper_overlap","81.5","1,234.5"')");
  pack.run("--parts smoke,counters");
  const auto r = results();
  EXPECT_EQ(r["parts"][0]["sm_mhz"].GetDouble(), (1980 + 1755) / 2.0);
  EXPECT_EQ(r["parts"][0]["watts"].GetDouble(), 645.5);
  ASSERT_EQ(r["counters"].Size(), 1u);
  EXPECT_STREQ(r["counters"][0]["kernel"].GetString(), "hopper_overlap");
  EXPECT_EQ(r["counters"][0]["gpu__time_duration.sum [us]"].GetDouble(), 1234.5);
  EXPECT_EQ(detail(r, "counters"), "backward_one_pass: exit status 1");
}

TEST_F(GpuCheck, OnlyThePartsThatAreAskedFor) {
  EXPECT_EQ(pack.run("--parts 'smoke,kernel tests'").status, 1) << "not all was checked";
  const auto r = results();
  EXPECT_EQ(status(r, "smoke"), "passed");
  EXPECT_EQ(status(r, "kernel tests"), "passed");
  EXPECT_EQ(status(r, "agreement"), "not run");
  EXPECT_EQ(detail(r, "agreement"), "not asked for");
  EXPECT_FALSE(r["complete"].GetBool());
  EXPECT_FALSE(r["passed"].GetBool());
}

TEST_F(GpuCheck, NamesItsFileByGpuAndDateAndOverwritesNone) {
  for (int i = 0; i < 2; ++i) pack.run("--parts library");
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(pack.root / "out"))
    if (file.path().extension() == ".json") names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  ASSERT_EQ(names.size(), 2u);
  EXPECT_TRUE(names[0].starts_with("nvidia-fake-1-2")) << names[0];
  EXPECT_TRUE(names[0].ends_with("-2.json")) << names[0];
}

TEST_F(GpuCheck, WithoutAGpu) {
  pack.program("bin/gpu_device", "echo 'no NVIDIA driver is there' >&2; exit 3");
  const ProgramResult ended = pack.run();
  EXPECT_EQ(ended.status, 3);
  EXPECT_EQ(ended.err, "gpu-check: no GPU: no NVIDIA driver is there\n");
  EXPECT_EQ(ended.out, "");
  EXPECT_TRUE(fs::is_empty(pack.root / "out"));
}

// Nobody knows which kernel such a crash was about, or such a failure of a test of several.
TEST_F(GpuCheck, ACrashElsewhereLeavesNoKernelVerified) {
  for (const char* const how : {"crashes", "fails"}) {
    pack.run("--out r.json --parts 'smoke,kernel tests'",
             std::string("FAKE_TESTS='") + how + "=Backward.*'");
    EXPECT_EQ(kernel_passes(results(), 2), 0) << how;
    EXPECT_EQ(kernel_passes(results(), 5), 0) << how;
  }
}

// A test that waits for the test before it would never end.
TEST_F(GpuCheck, KernelsAreTriedSideBySide) {
  pack.program("bin/cuda_tests",
               "case \"$*\" in *06*) touch \"$0.met\" ;; *02*) [ -e \"$0.met\" ] || "
               "for i in 1 2 3 4 5 6 7 8 9; do sleep 1; [ ! -e \"$0.met\" ] || break; done; "
               "[ -e \"$0.met\" ] || exit 1 ;; esac\nexec \"$0.of_before\" \"$@\"");
  FakePack plain;
  fs::copy(plain.root / "bin/cuda_tests", pack.root / "bin/cuda_tests.of_before");
  pack.run("--parts smoke");
  EXPECT_EQ(status(results(), "smoke"), "passed") << detail(results(), "smoke");
}

// What has run counts, also when the check is killed from outside.
TEST_F(GpuCheck, ResultsAreWrittenAfterEachGroup) {
  pack.run("--parts 'kernel tests'", "FAKE_TESTS='kills=Backward.*'");
  const auto r = results();
  ASSERT_TRUE(r.IsObject());
  EXPECT_EQ(status(r, "kernel tests"), "cut off");
  EXPECT_EQ(detail(r, "kernel tests"), "was running when the check ended");
  // Groups run side by side, and whichever ends first has been written, perhaps alone.
  EXPECT_TRUE(kernel_passes(r, 2) == 1 || kernel_passes(r, 5) == 1);
}

TEST_F(GpuCheck, WhatMeasuresMayLackTime) {
  const double enough = 3 + 10 * seconds_of_a_run();
  pack.program("bin/gpu_carried_state", "sleep 10000");
  // Small problems have no other limit, which on a busy machine would end before this one.
  const ProgramResult ended = pack.run("--small --seconds " + std::to_string(enough + enough / 3));
  EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
  const auto r = results();
  EXPECT_TRUE(r["passed"].GetBool());
  EXPECT_FALSE(r["complete"].GetBool());
  EXPECT_EQ(status(r, "ring"), "passed");
  EXPECT_EQ(status(r, "carried state"), "cut off");
  EXPECT_EQ(status(r, "more backward"), "not run");
}

TEST_F(GpuCheck, WithoutKernelTests) {
  pack.program("bin/cuda_tests", R"(
for a; do
  case $a in
    --gtest_list_tests) printf 'Backward.\n  One\n'; exit 0 ;;
    --gtest_output=json:*)
      echo '{"testsuites": [{"name": "S", "testsuite": [
        {"name": "x", "classname": "S", "result": "COMPLETED"}]}]}' >"${a#*:}" ;;
  esac
done)");
  EXPECT_EQ(pack.run("--parts 'smoke,kernel tests'").status, 1);
  EXPECT_EQ(status(results(), "smoke"), "failed");
  EXPECT_EQ(status(results(), "kernel tests"), "failed");
  EXPECT_EQ(detail(results(), "kernel tests"),
            "1 passed, 0 failed, 0 skipped; no kernel tests found");
}

TEST_F(GpuCheck, ARingThatIsWrong) {
  for (const char* const how : {"wrong", "uneven"}) {
    pack.run("--out ring.json --parts ring", std::string("FAKE_RING=") + how);
    EXPECT_EQ(status(results(), "ring"), "failed") << how;
  }
}

// Each test of the ring over NCCL has a program of its own. Where none runs, nothing is measured.
TEST_F(GpuCheck, TheRingOverNccl) {
  const auto run_with = [&](const std::string& result, int status) {
    pack.program("bin/nccl_tests", R"(
case "$*" in *--gtest_list_tests*) echo 'NcclRing.'; echo '  Two'; echo '  Four'; exit 0 ;; esac
for a; do case $a in --gtest_output=json:*) out=${a#*:} ;; esac; done
echo '{"testsuites": [{"testsuite": [{"name": "x", "classname": "c", )" +
                                       result +
                                       R"(}]}]}' >"$out"
exit )" + std::to_string(status));
    pack.remove_results();
    pack.run("--out r.json --parts nccl");
  };
  pack.run("--out r.json --parts nccl");
  EXPECT_EQ(status(results(), "nccl"), "not measured");
  run_with(R"("result": "COMPLETED")", 0);
  EXPECT_EQ(status(results(), "nccl"), "passed");
  EXPECT_EQ(detail(results(), "nccl"), "2 passed, 0 failed, 0 skipped");
  run_with(R"("result": "SKIPPED")", 0);
  EXPECT_EQ(status(results(), "nccl"), "not measured");
  run_with(R"("result": "COMPLETED", "failures": [{"failure": "wrong"}])", 1);
  EXPECT_EQ(status(results(), "nccl"), "failed");
  EXPECT_NE(detail(results(), "nccl").find("NcclRing.Four"), std::string::npos);
  run_with(R"("result": "COMPLETED")", 3);  // it ended badly after its report
  EXPECT_EQ(status(results(), "nccl"), "failed");
}

TEST_F(GpuCheck, WithoutPyTorch) {
  EXPECT_EQ(pack.run("", "FAKE_TORCH=no").status, 0);
  EXPECT_EQ(status(results(), "library"), "not measured");
  EXPECT_EQ(detail(results(), "library"), "no PyTorch");
  pack.program("path/python3", "exit 1");
  pack.run("--out r.json --parts library");
  EXPECT_EQ(status(pack.results("r.json"), "library"), "not measured");
}

TEST_F(GpuCheck, BenchmarksThatFail) {
  pack.benchmarks("gpu_backward", R"({"name": "main/09_x/iterations:1", "error_message": "NaN"})");
  pack.benchmarks(
      "gpu_forward",
      FakePack::benchmark("main/05_tensor_cores/bf16/d128/8192/full/64x64", "TFLOPs", 300) +
          ",\n    " +
          FakePack::benchmark("idea/07b_ping_pong/bf16/d128/8192/full/128x128", "TFLOPs", 900) +
          ",\n    {\n \"name\": \"main/cut",
      false);
  pack.remove("bin/gpu_ring_balance");
  pack.program("bin/gpu_carried_state", "exit 0");
  pack.run(
      "--parts 'library,forward ladder,backward ladder,forward ideas,carried state,ring balance'");
  const auto r = results();
  EXPECT_EQ(status(r, "forward ladder"), "passed") << "what a cut-off report has is kept";
  EXPECT_EQ(figure(r, "forward bf16/d128/8192/full: over cudnn"), 0.5);
  EXPECT_EQ(figure(r, "ideas, bf16/d128/8192/full: TFLOP/s of 07b_ping_pong 128x128"), 900)
      << "and no kernel of the comparison";
  EXPECT_EQ(status(r, "backward ladder"), "failed");
  EXPECT_EQ(status(r, "ring balance"), "failed");
  EXPECT_EQ(status(r, "carried state"), "failed") << "it wrote no report";
}

TEST_F(GpuCheck, BadUsage) {
  for (const char* const arguments :
       {"--what x", "--seconds", "--seconds zero", "--seconds -1", "--parts smoke,what"}) {
    const ProgramResult ended = pack.run(arguments);
    EXPECT_EQ(ended.status, 2) << arguments;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  }
  EXPECT_EQ(pack.run("--out /proc/nothing/here.json").status, 3);
}

// The tables in cuda/README.md are what the script prints of an H100's results whose name is the last.
TEST(GpuCheckTables, StandInThePage) {
  skip_without_python();
  if (testing::Test::IsSkipped()) return;
  const std::string source = RINGSCOPE_SOURCE_DIR;
  std::string last;
  for (const auto& file : fs::directory_iterator(source + "/bench/results"))
    if (file.path().filename().string().starts_with("nvidia-h100"))
      last = std::max(last, file.path().string());
  const FakePack place;
  const std::string out = (place.root / "table").string();
  ASSERT_EQ(std::system(("python3 -B '" + source + "/bench/gpu_check/measured.py' '" + last +
                         "' >'" + out + "'")
                            .c_str()),
            0);
  const std::string page = contents_of(source + "/cuda/README.md"), begin = "<!-- measured -->\n";
  const std::size_t from = page.find(begin) + begin.size();
  EXPECT_EQ(page.substr(from, page.find("<!-- /measured -->") - from), contents_of(out));

  // And the lesson about them has the same figures.
  rapidjson::Document results;
  results.Parse(contents_of(last).c_str());
  const std::string lesson = contents_of(source + "/lessons/26_gpu_measured/README.md");
  int found = 0;
  for (const auto& measured : results["benchmarks"].GetArray()) {
    const std::string name = measured["name"].GetString();
    if (!name.starts_with("main/0") || name.find("/d128/8192/full/") == std::string::npos) continue;
    if (name >= "main/08") continue;
    const std::string kernel(split(name, '/').at(1));
    const std::string tflops = std::to_string(std::lround(measured["TFLOPs"].GetDouble()));
    const std::size_t line = lesson.find("| `" + kernel + "` |");
    ASSERT_NE(line, std::string::npos) << kernel;
    EXPECT_LT(lesson.find(" | " + tflops + " | ", line), lesson.find('\n', line))
        << kernel << tflops;
    ++found;
  }
  EXPECT_EQ(found, 3);
}

// A pack as the launcher makes it, of programs that are fakes.
class GpuCheckPack : public testing::Test {
 protected:
  GpuCheckPack() {
    fs::copy(kFolder + "gpu-check.sh", pack.root / "gpu-check");
    std::ofstream(pack.root / "commit") << "456def\n";
  }
  int status_of(const std::string& command) const {
    const int status = std::system(("cd '" + pack.root.string() + "' && " + command).c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  const std::string kFolder = RINGSCOPE_SOURCE_DIR "/bench/gpu_check/";
  const FakePack pack;
};

TEST_F(GpuCheckPack, UnpacksItsProgramsAndRunsThem) {
  skip_without_python();
  if (IsSkipped()) return;
  fs::create_directory(pack.root / "lib");
  for (const char* const script : {"gpu_check.py", "reports.py"})
    fs::copy(kFolder + script, pack.root / "bin" / script);
  ASSERT_EQ(
      status_of("bash -c 'progress() { :; }; source " + kFolder + "pack.sh; compress_pack .'"), 0);
  EXPECT_FALSE(fs::exists(pack.root / "bin"));
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(status_of("./gpu-check --out run.json --logs logs >stdout 2>&1"), 0)
        << contents_of(pack.root / "stdout");
    EXPECT_NE(contents_of(pack.root / "run.json").find("456def"), std::string::npos);
    fs::remove(pack.root / "run.json");
    fs::remove(pack.root / "programs.tar.xz");  // the second time all is there
  }
  fs::remove_all(pack.root / "bin");
  std::ofstream(pack.root / "programs.tar.xz") << "cut off";
  EXPECT_EQ(status_of("./gpu-check 2>stderr"), 3);
  const std::string said = contents_of(pack.root / "stderr");
  EXPECT_TRUE(said.starts_with("gpu-check: can't unpack ")) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(GpuCheckPack, WithoutPython) {
  pack.program("path/python3", "exit 127");
  EXPECT_EQ(status_of("PATH=\"$PWD/path:/usr/bin:/bin\" ./gpu-check 2>stderr"), 2);
  EXPECT_EQ(contents_of(pack.root / "stderr"), "gpu-check: missing: python3, 3.7 or later\n");
}

// The launcher says so before it builds anything.
TEST(GpuCheckLauncher, WithoutADriver) {
  for (const char* const file : {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"})
    if (fs::exists(file)) GTEST_SKIP() << "this machine has a driver";
  const TemporaryFolder folder;
  const std::string err = folder.path("err");
  const int status =
      std::system((RINGSCOPE_SOURCE_DIR "/ringscope gpu-check 2>'" + err + "'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 3);
  const std::string said = contents_of(err);
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("no NVIDIA driver"), std::string::npos) << said;
}

// Results files become the kernel table's `verified` when a build is configured.
class VerifiedRuns : public ProgramTest {
 protected:
  VerifiedRuns() {
    fs::create_directories(root / "bench/results");
    std::ofstream(root / "CMakeLists.txt")
        << "cmake_minimum_required(VERSION 3.22)\nproject(x NONE)\ninclude(" RINGSCOPE_SOURCE_DIR
           "/cuda/kernels/verified.cmake)\n";
  }

  void add(const std::string& file, const std::string& date, const std::string& kernels,
           const std::string& gpu = "NVIDIA H1") const {
    std::ofstream(root / "bench/results" / file)
        << R"({"commit": "abc123+changes", "date": ")" << date << R"(", "device": {"name": ")"
        << gpu << R"(", "driver": "580.1"}, "kernels": [)" << kernels << "]}";
  }
  std::string configured() const {
    const std::string command = "cmake -G Ninja -S '" + root.string() + "' -B '" +
                                (root / "b").string() + "' >'" + (root / "log").string() + "' 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << contents_of(root / "log");
    return contents_of(root / "b/verified.cpp");
  }

  const fs::path root = path("");
};

TEST_F(VerifiedRuns, NewestThatPassedOfEachKernel) {
  EXPECT_EQ(configured().find("580.1"), std::string::npos);
  add("b-1.json", "2026-02-01", R"({"number": 5, "pass": true}, {"number": 6, "pass": true})");
  add("a-2.json", "2026-03-01", R"({"number": 5, "pass": true}, {"number": 6, "pass": false})");
  add("c-0.json", "2026-01-01", R"({"number": 5, "pass": true}, {"number": 7, "pass": true})");
  const std::string source = configured();
  const auto line = [](int number, const std::string& date) {
    return "{" + std::to_string(number) + R"(, "NVIDIA H1", "580.1", "abc123+changes", ")" + date +
           "\"},";
  };
  EXPECT_NE(source.find(line(5, "2026-03-01")), std::string::npos) << source;
  EXPECT_NE(source.find(line(6, "2026-02-01")), std::string::npos) << source;
  EXPECT_NE(source.find(line(7, "2026-01-01")), std::string::npos) << source;
  EXPECT_EQ(source.find("\"2026-02-01\"", source.find(line(6, "2026-02-01")) + 60),
            std::string::npos);
}

TEST_F(VerifiedRuns, OddFilesCountForNothing) {
  std::ofstream(root / "bench/results/no.json") << "{";
  add("gpu.json", "2026-02-01", R"({"number": 5, "pass": true})", R"(x\", 1}, {\")");
  add("date.json", "yesterday", R"({"number": 5, "pass": true})");
  add("number.json", "2026-02-01", R"({"number": "5;6", "pass": true}, {"pass": true}, 3)");
  EXPECT_EQ(configured().find("{5"), std::string::npos);
}

// The whole check with the real programs, whose kernels run on the model of a GPU, down to the
// kernel table of the next build.
class Rehearsal : public VerifiedRuns {
 protected:
  Rehearsal() {
    for (const char* const name : {"gpu_device", "gpu_forward", "gpu_backward", "gpu_carried_state",
                                   "gpu_ring_balance", "ringscope"})
      rehearse(name, "");
    pack.program("bin/cuda_tests", R"(
case "$*" in *--gtest_list_tests*) set -- "$@" '--gtest_filter=Ladder/EveryKernel.*:KernelTable.*' ;; esac
exec ')" RINGSCOPE_MODEL_TESTS R"(' "$@")");
  }
  void SetUp() override { skip_without_python(); }
  // Have the real program run, after `first`.
  void rehearse(const std::string& name, const std::string& first) const {
    pack.program("bin/" + name, first + "\nexec '" RINGSCOPE_REHEARSAL "/" + name + "' \"$@\"");
  }
  // Return how long the tests of all kernels took.
  double run_without_faults() const {
    const ProgramResult ended = pack.run("--small --seconds 3600 --out run.json", "FAKE_TORCH=no");
    EXPECT_EQ(ended.status, 0) << ended.out << ended.err;
    double seconds = 1;
    const auto r = pack.results("run.json");
    if (!r.IsObject()) return seconds;
    EXPECT_TRUE(r["complete"].GetBool()) << ended.out;
    for (const auto& part : r["parts"].GetArray()) {
      const std::string how = part["status"].GetString(), name = part["name"].GetString();
      EXPECT_TRUE(how == "passed" || how == "not measured") << ended.out;
      if (name == "smoke" || name == "kernel tests") seconds += part["seconds"].GetDouble();
    }
    const std::string source = table_of_run();
    for (const int number : kNumbers)
      EXPECT_NE(source.find(line_of(number)), std::string::npos) << number << "\n" << source;
    return seconds;
  }
  // The table that a build makes of a run, if it had been on a GPU.
  std::string table_of_run() const {
    std::string report = contents_of(pack.root / "out/run.json");
    std::ofstream(root / "bench/results/run.json") << report;
    EXPECT_EQ(configured().find("host model"), std::string::npos) << "a model verifies nothing";
    const std::string name = "host model";
    report.replace(report.find(name), name.size(), "NVIDIA H1");
    std::ofstream(root / "bench/results/run.json") << report;
    return configured();
  }
  static std::string line_of(int number) {
    return "{" + std::to_string(number) + ", \"NVIDIA H1\"";
  }

  static constexpr int kNumbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11};
  FakePack pack;
};

TEST_F(Rehearsal, OnTheModelOfAGpu) {
  const double seconds = run_without_faults();
  pack.remove_results();

  // 03 never ends, 06 is wrong, 07 ends by the watchdog of its waits, and 09 crashes. What the others
  // measure takes long on the model, and is made up.
  const FakePack made_up;
  for (const char* const name : {"gpu_forward", "gpu_backward"}) {
    fs::copy(made_up.root / "bin" / name, pack.root / "bin" / (name + std::string(".made_up")));
    rehearse(name,
             R"(case "$*" in *agreement/0[69]_*|*main/07*|*main/09*|*main/11*) ;;
*) exec "$0.made_up" "$@" ;; esac)");
  }
  for (const char* const name : {"gpu_carried_state", "gpu_ring_balance", "ringscope"})
    fs::copy(made_up.root / "bin" / name, pack.root / "bin" / name,
             fs::copy_options::overwrite_existing);
  const ProgramResult ended =
      pack.run("--small --seconds 3600 --out run.json --hangs-after " + std::to_string(3 * seconds),
               "RINGSCOPE_FAULTS='hangs=3 wrong=6 waits=7 crashes=9'");
  EXPECT_EQ(ended.status, 1) << ended.out << ended.err;
  const auto r = pack.results("run.json");
  ASSERT_TRUE(r.IsObject());
  EXPECT_TRUE(r["complete"].GetBool()) << ended.out;
  EXPECT_FALSE(r["passed"].GetBool());
  EXPECT_TRUE(fs::exists(pack.root / "out/run.logs.tar.gz"));
  const auto says = [&](const std::string& part, const std::string& what) {
    EXPECT_EQ(status(r, part), "failed");
    EXPECT_NE(detail(r, part).find(what), std::string::npos) << part << ": " << detail(r, part);
  };
  const std::string test = "Ladder/EveryKernel.IsRightOnEveryShapeClass/";
  const std::string words =
      "07_hopper_overlap hung: block (3, 0), thread 128 waits at shared address 1024 for parity 1";
  for (const char* const part : {"smoke", "kernel tests"}) {
    says(part, test + "03 cut off after ");
    says(part, test + "06");
    says(part, test + "07: " + words);
    says(part, test + "09 ended by signal 11");
  }
  says("agreement", "agreement/06_hopper/bf16/d128/8192/full/128x128: differs from kernel 5");
  says("agreement", "agreement/09_ ended by signal 11");
  says("best forward", words);
  says("best backward", "main/09 ended by signal 11");
  for (const char* const part : {"ring", "carried state", "more backward"})
    EXPECT_EQ(status(r, part), "passed");
  EXPECT_GT(figure(r, "backward bf16/d128/16384/full: TFLOP/s of 11_backward_one_pass 64x128"), 0)
      << "what 09 does is not told of 11: " << detail(r, "best backward");
  const std::string source = table_of_run();
  for (const int number : kNumbers) {
    const bool is_faulty = number == 3 || number == 6 || number == 7 || number == 9;
    EXPECT_EQ(source.find(line_of(number)) == std::string::npos, is_faulty) << number;
  }
}

}  // namespace
}  // namespace ringscope
