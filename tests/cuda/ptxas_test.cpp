// No kernel of this build spills, has its wgmma made serial, uses more registers than planned, or
// is missing. And the same check notices logs in which one does.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cuda/kernels/kernel_table.h"
#include "tests/cuda/ptxas_log.h"

namespace ringscope::ptxas {
namespace {

namespace fs = std::filesystem;

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// As ptxas writes it, for two kernels on two architectures.
const std::string kGood = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN9ringscope4cuda12_GLOBAL__N_14kernILi16EEEvPf' for 'sm_80'
ptxas info    : Function properties for _ZN9ringscope4cuda12_GLOBAL__N_14kernILi16EEEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 360 bytes cmem[0]
ptxas info    : Compile time = 23.391 ms
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN9ringscope4cuda12_GLOBAL__N_14kernILi16EEEvPf' for 'sm_90a'
ptxas info    : Function properties for _ZN9ringscope4cuda12_GLOBAL__N_14kernILi16EEEvPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers
ptxas info    : Compile time = 1.382 ms
)";
const std::string kSource = "cuda/kernels/05_x.cu";
const std::string kBudgets =
    "# comment\n05_x sm_80 32 kern<16>\n\n05_x sm_90a 168 kern<*>  # the accumulators\n";
const Expected kExpected = {{kSource, {"sm_80", "sm_90a"}}};

std::vector<std::string> complaints_about(const std::string& log,
                                          const std::string& budgets = kBudgets) {
  return complaints({parse_log(kSource, log)}, parse_budgets(budgets), kExpected);
}

std::string with(const std::string& what, const std::string& instead) {
  std::string text = kGood;
  text.replace(text.find(what), what.size(), instead);
  return text;
}

void expect_complaint(const std::string& log, const std::string& what,
                      const std::string& budgets = kBudgets) {
  const std::string all = joined(complaints_about(log, budgets));
  EXPECT_NE(all.find(what), std::string::npos) << "complaints:\n" << all;
}

TEST(PtxasCheck, AcceptsAGoodLog) {
  EXPECT_EQ(joined(complaints_about(kGood)), "");
  const Log log = parse_log(kSource, kGood);
  ASSERT_EQ(log.functions.size(), 2u);
  EXPECT_EQ(log.functions[1].name, "kern<16>");
  EXPECT_EQ(log.functions[1].architecture, "sm_90a");
  EXPECT_EQ(log.functions[1].registers, 168);
}

TEST(PtxasCheck, ReadsNames) {
  EXPECT_EQ(short_name("_ZN9ringscope4cuda12_GLOBAL__N_14kernILi16EEEvPf"), "kern<16>");
  EXPECT_EQ(short_name("_ZN9ringscope4cuda5plainEPf"), "plain");
  EXPECT_EQ(short_name("_ZN9ringscope4cuda4kernI6__halfLi64ELb1EEEvPKT_"),
            "kern<__half, 64, true>");
  EXPECT_EQ(short_name("_ZN9ringscope4cuda1kINS0_1CILi64EEEEEvv"), "k<C<64>>");
  EXPECT_EQ(short_name("no_mangled_name"), "no_mangled_name");
}

TEST(PtxasCheck, NoticesSpills) {
  expect_complaint(with("0 bytes spill stores", "8 bytes spill stores"),
                   "kern<16> for sm_80 spills 8");
  expect_complaint(with("0 bytes spill loads", "4 bytes spill loads"), "reads back 4");
  // Of a function that was not inlined, too.
  expect_complaint(kGood +
                       "ptxas info    : Function properties for _Z6calleev\n"
                       "    8 bytes stack frame, 8 bytes spill stores, 0 bytes spill loads\n",
                   "callee for sm_90a spills 8");
}

TEST(PtxasCheck, NoticesWarnings) {
  for (const char* const message :
       {"ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions are "
        "serialized due to non wgmma instructions defining accumulator registers",
        "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored to maintain "
        "minimum register requirements.",
        "ptxas warning : Registers are spilled to local memory in function 'x', 8 bytes",
        "ptxas warning : something new"})
    expect_complaint(kGood + message + "\n", message);
}

TEST(PtxasCheck, NoticesRegistersBeyondTheBudget) {
  expect_complaint(with("168 registers", "169 registers"), "uses 169 registers, budget 168");
  expect_complaint(with("Used 32 registers", "Used 33 registers"), "uses 33 registers, budget 32");
  expect_complaint(kGood, "has no line in registers.txt; it uses 168", "05_x sm_80 32 *\n");
  expect_complaint(kGood, "has no line in registers.txt", "06_x sm_90a 168 *\n05_x sm_80 32 *\n");
  expect_complaint(
      with("ptxas info    : Used 32 registers, used 0 barriers, 360 bytes cmem[0]\n", ""),
      "does not say how many registers");
}

TEST(PtxasCheck, NoticesBudgetsOfNoKernel) {
  expect_complaint(kGood, "no kernel of 05_x is called gone<*>",
                   kBudgets + "05_x sm_80 10 gone<*>\n");
}

TEST(PtxasCheck, NoticesMissingKernels) {
  expect_complaint(kGood.substr(0, kGood.find("sm_90a")), "no kernel was compiled for sm_90a");
  expect_complaint("", "no kernel was compiled for sm_80");
  EXPECT_NE(joined(complaints({}, {}, kExpected)).find("no log of its compilation"),
            std::string::npos);
}

TEST(PtxasCheck, WritesBudgetsThatTheLogsKeep) {
  Log log = parse_log(kSource, kGood);
  log.functions.push_back({"k<bf16>", "sm_80", true, 161, 0, 0, 0});
  log.functions.push_back({"k<f16>", "sm_80", true, 170, 0, 0, 0});
  log.functions.push_back({"k<f16>", "sm_90a", true, 253, 0, 0, 0});
  const std::string text = budgets_text({log});
  EXPECT_EQ(text,
            "05_x sm_80 176 k<*f16>\n05_x sm_80 32 kern<16>\n"
            "05_x sm_90a 255 k<*f16>\n05_x sm_90a 168 kern<16>\n");
  EXPECT_EQ(joined(complaints({log}, parse_budgets(text), kExpected)), "");
}

TEST(PtxasCheck, RefusesOddBudgets) {
  for (const char* const line : {"05_x", "05_x sm_80", "05_x sm_80 many *", "05_x sm_80 0 *",
                                 "05_x sm_80 256 *", "05_x 80 10 *", "05_x sm_80 10"})
    EXPECT_THROW(parse_budgets(line), std::runtime_error) << line;
}

#ifdef RINGSCOPE_SOURCE_DIR

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// cuda/ptxas_log.sh around a compiler that says what the test wants.
class PtxasLauncher : public testing::Test {
 protected:
  PtxasLauncher() {
    std::string pattern = (fs::temp_directory_path() / "ringscope-ptxas-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~PtxasLauncher() override { fs::remove_all(folder); }

  int compile(const std::string& says, int status) const {
    std::ofstream(folder / "says") << says;
    std::ofstream(folder / "nvcc")
        << "cat '" << (folder / "says").string() << "' >&2\nexit " << status << "\n";
    const std::string command = "cd '" + folder.string() +
                                "' && sh " RINGSCOPE_SOURCE_DIR
                                "/cuda/ptxas_log.sh sh nvcc -c x.cu -o x.cu.o 2>stderr";
    return std::system(command.c_str()) >> 8;
  }

  fs::path folder;
};

TEST_F(PtxasLauncher, KeepsWhatPtxasSaysAndShowsWhatMatters) {
  if (!fs::exists(RINGSCOPE_SOURCE_DIR "/cuda/ptxas_log.sh"))
    GTEST_SKIP() << "the source tree is not on this machine";
  const std::string serial = "ptxas info    : (C7513) Potential Performance Loss: serialized\n";
  const std::string warning = "x.cu(3): warning #177-D: unused\n";
  EXPECT_EQ(compile(kGood + serial + warning, 0), 0);
  EXPECT_EQ(text_of(folder / "x.cu.o.ptxas"), kGood + serial + warning);
  EXPECT_EQ(text_of(folder / "stderr"), serial + warning);
}

TEST_F(PtxasLauncher, LeavesNoLogOfAFailure) {
  if (!fs::exists(RINGSCOPE_SOURCE_DIR "/cuda/ptxas_log.sh"))
    GTEST_SKIP() << "the source tree is not on this machine";
  EXPECT_EQ(compile(kGood, 0), 0);
  EXPECT_EQ(compile(kGood + "x.cu(3): error\n", 2), 2);
  EXPECT_FALSE(fs::exists(folder / "x.cu.o.ptxas"));
  EXPECT_EQ(text_of(folder / "stderr"), kGood + "x.cu(3): error\n");
}

#endif

#if defined(RINGSCOPE_BUILD_DIR) && defined(RINGSCOPE_SOURCE_DIR)

// The newest log of each source file of the CUDA layer; logs of files that are gone don't count.
std::vector<Log> logs_of_this_build() {
  std::map<std::string, fs::path> newest;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(RINGSCOPE_BUILD_DIR) / "cuda")) {
    const std::string path = entry.path().generic_string();
    const std::size_t target = path.rfind(".dir/");
    if (!path.ends_with(".cu.o.ptxas") || target == std::string::npos) continue;
    const std::string relative = path.substr(target + 5);
    const std::string source =
        "cuda/" + relative.substr(0, relative.size() - std::string(".o.ptxas").size());
    if (!fs::exists(fs::path(RINGSCOPE_SOURCE_DIR) / source)) continue;
    const auto [at, is_new] = newest.emplace(source, entry.path());
    if (!is_new && fs::last_write_time(at->second) < entry.last_write_time())
      at->second = entry.path();
  }
  std::vector<Log> logs;
  for (const auto& [source, path] : newest) logs.push_back(parse_log(source, text_of(path)));
  return logs;
}

TEST(Ptxas, HasNothingToComplainOfInThisBuild) {
  const fs::path registers = fs::path(RINGSCOPE_SOURCE_DIR) / "cuda/kernels/registers.txt";
  if (!fs::exists(registers) || !fs::exists(RINGSCOPE_BUILD_DIR "/cuda"))
    GTEST_SKIP() << "the source tree or the build's logs are not on this machine";
  Expected expected;
  for (const cuda::Kernel& kernel : cuda::all_kernels()) {
    const std::string number = (kernel.number < 10 ? "0" : "") + std::to_string(kernel.number);
    std::vector<std::string>& architectures =
        expected["cuda/kernels/" + number + "_" + std::string(kernel.name) + ".cu"];
    if (!kernel.limits.hopper) architectures.push_back("sm_80");
    architectures.push_back("sm_90a");
  }
  const std::vector<Log> logs = logs_of_this_build();
  EXPECT_EQ(joined(complaints(logs, parse_budgets(text_of(registers)), expected)), "")
      << "registers.txt as this build would have it:\n"
      << budgets_text(logs);
}

#else

TEST(Ptxas, HasNothingToComplainOfInThisBuild) {
  GTEST_SKIP() << "these kernels were compiled for the host model, not by ptxas";
}

#endif

}  // namespace
}  // namespace ringscope::ptxas
