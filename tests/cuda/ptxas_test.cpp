// The launcher of the CUDA compiler fails where ptxas says that a kernel is not as it is meant to be.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ringscope::cuda {
namespace {

namespace fs = std::filesystem;

// cuda/ptxas_log.sh around a compiler that says what the test wants.
class PtxasLauncher : public testing::Test {
 protected:
  PtxasLauncher() {
    std::string pattern = (fs::temp_directory_path() / "ringscope-ptxas-XXXXXX").string();
    folder = mkdtemp(pattern.data());
  }
  ~PtxasLauncher() override { fs::remove_all(folder); }
  void SetUp() override {
    if (!fs::exists(RINGSCOPE_SOURCE_DIR "/cuda/ptxas_log.sh"))
      GTEST_SKIP() << "the source tree is not on this machine";
  }

  int compile(const std::string& says, int status) const {
    std::ofstream(folder / "says") << says;
    std::ofstream(folder / "nvcc")
        << "cat '" << (folder / "says").string() << "' >&2\ntouch x.cu.o\nexit " << status << "\n";
    const std::string command = "cd '" + folder.string() +
                                "' && sh " RINGSCOPE_SOURCE_DIR
                                "/cuda/ptxas_log.sh sh nvcc -c x.cu -o x.cu.o 2>stderr";
    return std::system(command.c_str()) >> 8;
  }
  std::string text_of(const char* name) const {
    std::ostringstream text;
    text << std::ifstream(folder / name).rdbuf();
    return text.str();
  }

  fs::path folder;
};

// As ptxas writes it.
const std::string kGood = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN9ringscope4cuda6kernelEPf' for 'sm_90a'
ptxas info    : Function properties for _ZN9ringscope4cuda6kernelEPf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers
ptxas info    : Compile time = 23.391 ms
)";

TEST_F(PtxasLauncher, KeepsWhatPtxasSaysAndShowsTheRest) {
  const std::string warning = "x.cu(3): warning #177-D: unused\n";
  EXPECT_EQ(compile(kGood + warning, 0), 0);
  EXPECT_EQ(text_of("x.cu.o.ptxas"), kGood + warning);
  EXPECT_EQ(text_of("stderr"), warning);
}

TEST_F(PtxasLauncher, FailsWhereAKernelIsNotAsMeant) {
  std::string spills = kGood, reads_back = kGood;
  spills.replace(spills.find("0 bytes spill stores"), 1, "8");
  reads_back.replace(reads_back.find("0 bytes spill loads"), 1, "16");
  for (const std::string& says :
       {spills, reads_back,
        kGood + "ptxas info    : (C7513) Potential Performance Loss: wgmma.mma_async instructions "
                "are serialized due to non wgmma instructions\n",
        kGood + "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored\n",
        kGood + "ptxas warning : Registers are spilled to local memory in function 'x'\n"}) {
    EXPECT_EQ(compile(says, 0), 1) << says;
    EXPECT_FALSE(fs::exists(folder / "x.cu.o")) << says;
    EXPECT_NE(text_of("stderr"), "") << says;
  }
}

TEST_F(PtxasLauncher, FailsWithTheCompiler) {
  EXPECT_EQ(compile(kGood + "x.cu(3): error\n", 2), 2);
  EXPECT_EQ(text_of("stderr"), kGood + "x.cu(3): error\n");
}

}  // namespace
}  // namespace ringscope::cuda
