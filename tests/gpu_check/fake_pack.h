// A pack whose programs are shell scripts, so that a gpu-check runs where there is no GPU, and what
// goes wrong in it can be chosen.
#pragma once

#include <sys/stat.h>

#include "tests/app/program.h"

namespace ringscope {

// The machines that build and test may have no Python; those with a GPU and PyTorch have one.
inline void skip_without_python() {
  static const bool is_there = std::system("command -v python3 >/dev/null 2>&1") == 0;
  if (!is_there) GTEST_SKIP() << "there is no python3";
}

class FakePack {
 public:
  FakePack() {
    for (const char* const folder : {"bin", "path", "out", "logs"})
      std::filesystem::create_directories(root / folder);
    program("bin/gpu_device",
            R"(echo '{"name": "NVIDIA Fake 1", "architecture": 90, "driver": "1.2"}')");
    program("bin/cuda_tests", kTests);
    program("bin/ringscope", kRingscope);
    benchmarks("gpu_forward",
               benchmark("main/05_tensor_cores/bf16/d128/8192/full/64x64", "TFLOPs", 100) + "," +
                   benchmark("main/05_tensor_cores/bf16/d128/8192/full/128x64", "TFLOPs", 300) +
                   "," + benchmark("main/02_online_softmax/f32/d128/4096/full/1x1", "TFLOPs", 3) +
                   "," +
                   R"({"name": "main/06_hopper/x/iterations:1/manual_time", "error_occurred": true,
                       "error_message": "skipped: needs another device"})");
    benchmarks("gpu_backward",
               benchmark("main/09_backward_tensor_cores/bf16/d128/8192/full/64x64", "TFLOPs", 200));
    benchmarks(
        "gpu_carried_state",
        benchmark("carried_state/05_tensor_cores/bf16/d128/16384/full/64x64", "carry_cost", 0.08) +
            "," +
            benchmark("carried_state/05_tensor_cores/bf16/d128/16384/full/128x64", "carry_cost",
                      0.03));
    benchmarks(
        "gpu_ring_balance",
        R"({"name": "ring_balance/05_tensor_cores/iterations:1/manual_time", "real_time": 2.0,
                   "time_unit": "ms", "contiguous_over_zigzag": 1.81, "zigzag_balance": 0.9,
                   "zigzag_ceiling": 1.0},
            )" +
            benchmark("fused/12_fused_ring/bf16/d128/16384/causal/4", "over_launches", 1.05));
    program("path/python3", R"(
while [ $# -gt 1 ]; do [ "$1" != --out ] || out=$2; shift; done
[ "$FAKE_TORCH" != no ] || { echo '{"not_measured": "no PyTorch"}' >"$out"; exit 0; }
cat >"$out" <<END
{"torch": "2.0", "cudnn": 9, "measurements": [
 {"name": "cudnn/forward/bf16/d128/8192/full", "ms": 2.0, "TFLOPs": 600.0},
 {"name": "cudnn/backward/bf16/d128/8192/full", "ms": 2.0, "TFLOPs": 400.0},
 {"name": "flash/bf16/d128/8192/full", "problem": "not there"}]}
END)");
  }
  FakePack& operator=(const FakePack&) = delete;

  void program(const std::string& name, const std::string& script) const {
    std::ofstream(root / name) << "#!/bin/sh\n" << script << "\n";
    ::chmod((root / name).c_str(), 0755);
  }
  void remove(const std::string& name) const { std::filesystem::remove(root / name); }

  // Makes a benchmark program that writes this report.
  void benchmarks(const std::string& name, const std::string& all, bool whole = true) const {
    program("bin/" + name, R"(for a; do case $a in --benchmark_out=*) out=${a#*=} ;; esac; done
cat >"$out" <<'END'
{"context": {}, "benchmarks": [
)" + all + (whole ? "\n]}" : "") +
                               "\nEND");
  }
  static std::string benchmark(const std::string& name, const std::string& figure, double value) {
    return "    {\n\"name\": \"" + name +
           "/iterations:1/manual_time\", \"iterations\": 1, \"real_time\": 1.5, \"time_unit\": "
           "\"ms\", \"" +
           figure + "\": " + std::to_string(value) + "\n    }";
  }

  ProgramResult run(const std::string& arguments = "", const std::string& environment = "") const {
    const std::string command =
        "cd '" + (root / "out").string() +
        "' && python=$(python3 -c 'import sys; print(sys.executable)') && env PATH='" +
        (root / "path").string() + ":/usr/bin:/bin' " + environment +
        " $python -B '" RINGSCOPE_SOURCE_DIR "/bench/gpu_check/gpu_check.py' --bin '" +
        (root / "bin").string() + "' --logs '" + (root / "logs").string() + "' --commit 123abc " +
        arguments + " >'" + (root / "stdout").string() + "' 2>'" + (root / "stderr").string() + "'";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents_of(root / "stdout"),
            contents_of(root / "stderr")};
  }

  // The results file of this name, or the last one that is there.
  rapidjson::Document results(const std::string& name = "") const {
    rapidjson::Document document;
    for (const auto& file : std::filesystem::directory_iterator(root / "out"))
      if (file.path().extension() == ".json" && (name.empty() || file.path().filename() == name))
        document.Parse(contents_of(file.path()).c_str());
    return document;
  }
  void remove_results() const {
    std::filesystem::remove_all(root / "out");
    std::filesystem::create_directory(root / "out");
  }

  const TemporaryFolder temporary;
  const std::filesystem::path root = temporary.path();

 private:
  // FAKE_TESTS says what happens, in words: fails=TEST, crashes=TEST, hangs=TEST; kills=TEST kills the
  // check, once its file says that a kernel passed.
  static constexpr const char* kTests = R"(
case "$*" in *--gtest_list_tests*)
  echo 'Running main() from somewhere'
  echo 'Backward.'
  echo '  One'
  echo '  Two'
  echo 'Ladder/EveryKernel.'
  echo '  IsRight/02  # GetParam() = 2'
  echo '  IsRight/05  # GetParam() = 5'
  echo '  IsRight/06  # GetParam() = 6'
  exit 0 ;;
esac
for a; do
  case $a in --gtest_filter=*) test=${a#*=} ;; --gtest_output=json:*) out=${a#*:} ;; esac
done
failures= result=COMPLETED kernel=
case $test in */0*) kernel=", \"kernel\": \"${test##*/0}\"" ;;
  Backward*) kernel=', "kernel": "2 5"' ;; esac
case $test in */06) result=SKIPPED ;; esac
case " $FAKE_TESTS " in
  *" fails=$test "*) failures=', "failures": [{"failure": "wrong"}]' ;;
  *" crashes=$test "*) kill -SEGV $$ ;;
  *" hangs=$test "*) sleep 1000 ;;
  *" kills=$test "*) until grep -q '"pass": true' *.json; do sleep 0.1; done; kill -KILL $PPID ;;
esac
[ -z "$out" ] || cat >"$out" <<END
{"testsuites": [{"name": "S", "testsuite": [
 {"name": "x", "classname": "$test", "result": "$result"$kernel$failures},
 {"name": "off", "result": "SUPPRESSED"}]}]}
END
[ -z "$failures" ])";

  // FAKE_RING=wrong: not verified; uneven: other pairs than the CPU's.
  static constexpr const char* kRingscope = R"(
pairs=7
case "$FAKE_RING $*" in
  "wrong "*"backend cuda"*) echo '{"verify": {"pass": false}, "ranks": []}'; exit 1 ;;
  "uneven "*"backend cuda"*) pairs=8 ;;
esac
echo "{\"verify\": {\"pass\": true}, \"ranks\": [{\"pairs_by_step\": [1, $pairs]}]}")";
};

// How a part ended, and what it says of that.
inline std::string member_of(const rapidjson::Document& results, const std::string& part,
                             const char* name) {
  for (const auto& one : results["parts"].GetArray())
    if (one["name"].GetString() == part && one.HasMember(name)) return one[name].GetString();
  return "";
}
inline std::string status(const rapidjson::Document& results, const std::string& part) {
  return member_of(results, part, "status");
}
inline std::string detail(const rapidjson::Document& results, const std::string& part) {
  return member_of(results, part, "detail");
}

}  // namespace ringscope
