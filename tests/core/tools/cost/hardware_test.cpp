// The table of hardware: what is in it, what a file may say, and how a bad one is refused.
#include "core/tools/cost/hardware.h"

#include <gtest/gtest.h>

#include <tuple>

#include "core/base/error.h"
#include "core/tools/cost/time.h"
#include "tests/core/base/thrown.h"
#include "tests/temporary_folder.h"

namespace ringscope {
namespace {

std::string complaint_about(const std::string& text) {
  return input_error_of([&] { parse_hardware(text, "table.txt"); });
}

TEST(Hardware, KnowsWhatPeopleHave) {
  for (const char* name : {"A100", "H100", "H200", "B200", "GB200", "B300", "GB300", "TPUv4"}) {
    const Gpu gpu = find_gpu(name);
    EXPECT_EQ(gpu.name, name);
    EXPECT_GT(gpu.peak_flops(DType::bf16), 1e14);
    EXPECT_EQ(gpu.peak_flops(DType::bf16), gpu.peak_flops(DType::f16));
    EXPECT_GT(gpu.memory_bytes, 30e9);
    EXPECT_LE(gpu.forward_share, 1);
  }
  EXPECT_GT(find_gpu("laptop-2core").peak_flops(DType::f32), 1e9);
  EXPECT_THROW(calibrated_costs(find_gpu("laptop-2core")), InputError);
  for (const char* name : {"NVLink3", "NVLink4", "NVLink5", "PCIe4", "PCIe5", "InfiniBand-HDR",
                           "InfiniBand-NDR", "Ethernet-100G"})
    EXPECT_GT(find_link(name).bytes_per_s, 1e10) << name;
  EXPECT_EQ(find_gpu("h100").name, "H100");  // in any case
  EXPECT_EQ(find_link("nvlink4").name, "NVLink4");
}

TEST(Hardware, EveryFigureOfTheTableHasItsSource) {
  std::ifstream file(RINGSCOPE_SOURCE_DIR "/core/tools/cost/hardware.txt");
  std::string line;
  int figures = 0;
  while (std::getline(file, line)) {
    if (!line.starts_with("  ")) continue;
    ++figures;
    const std::size_t comment = line.find('#');
    EXPECT_NE(comment, std::string::npos) << line;
    EXPECT_GT(line.size(), comment + 10) << line;
  }
  EXPECT_GT(figures, 30);
}

TEST(Hardware, ReadsFigures) {
  const HardwareTable table = parse_hardware(
      "# mine\n"
      "gpu big   # a comment\r\n"
      "\ttflops_16bit 1.5\n"
      "memory_gb 2e1\n"
      "memory_gb_per_s 1500\n"
      "call_us 2\n"
      "merge_ps 30\n"
      "backward_share 0.5\n"
      "link wire\n"
      "gb_per_s 0.25\n"
      "latency_us 3",
      "table.txt");
  ASSERT_EQ(table.gpus.size(), 1u);
  ASSERT_EQ(table.links.size(), 1u);
  const auto& gpu = table.gpus[0];
  EXPECT_EQ(
      std::tuple(gpu.name, gpu.peak_flops(DType::f16), gpu.memory_bytes, gpu.memory_bytes_per_s),
      std::tuple("big", 1.5e12, 20e9, 1500e9));
  EXPECT_EQ(std::pair(gpu.forward_share, gpu.backward_share), std::pair(1.0, 0.5));
  EXPECT_DOUBLE_EQ(calibrated_costs(gpu).call_s, 2e-6);
  EXPECT_DOUBLE_EQ(calibrated_costs(gpu).merge_s, 30e-12);
  EXPECT_THROW(gpu.peak_flops(DType::f32), InputError);
  EXPECT_EQ(table.links[0].bytes_per_s, 0.25e9);
  EXPECT_DOUBLE_EQ(table.links[0].latency_s, 3e-6);
}

// Each complaint names file, line and field or word.
TEST(Hardware, RefusesBadTables) {
  const std::string gpu = "gpu a\ntflops_16bit 1\n";
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"", {"no entry"}},
      {"memory_gb 1\n", {"line 1", "memory_gb"}},
      {"gpu\n", {"line 1", "gpu"}},
      {"gpu a b\n", {"line 1", "gpu"}},
      {"gpu a\x01\n", {"line 1", "characters"}},
      {gpu, {"line 1", "memory_gb"}},
      {"gpu a\nmemory_gb 1\n", {"line 1", "tflops_16bit"}},
      {"link a\n", {"line 1", "gb_per_s"}},
      {"link a\nlatency_us 0\nlink b\ngb_per_s 1\n", {"line 1", "gb_per_s"}},
      {gpu + "memory_gb 0\n", {"line 3", "memory_gb", "'0'"}},
      {gpu + "memory_gb nan\n", {"line 3", "memory_gb", "'nan'"}},
      {gpu + "memory_gb 1e999\n", {"line 3", "memory_gb"}},
      {gpu + "memory_gb 4GB\n", {"line 3", "memory_gb", "'4GB'"}},
      {gpu + "memory_gb\n", {"line 3", "memory_gb"}},
      {gpu + "memory_gb 4 5\n", {"line 3", "memory_gb"}},
      {gpu + "memory_gb 4\nmemory_gb 4\n", {"line 4", "memory_gb", "twice"}},
      {gpu + "forward_share 1.01\n", {"line 3", "forward_share"}},
      {gpu + "memory_gb_per_s 0\n", {"line 3", "memory_gb_per_s", "'0'"}},
      {gpu + "gb_per_s 4\n", {"line 3", "gb_per_s", "tflops_16bit"}},
      {gpu + "memory_gb 4\ngpu a\n", {"line 4", "'a'", "twice"}},
      {"link a\ngb_per_s -1\n", {"line 2", "gb_per_s"}},
      {"link a\ngb_per_s 1\nlatency_us -1\n", {"line 3", "latency_us"}},
      {"link a\ntflops_f32 1\n", {"line 2", "tflops_f32", "gb_per_s"}},
      {std::string("gpu a\0\n", 7), {"line 1", "characters"}},
  };
  for (const auto& [text, words] : cases) {
    const std::string complaint = complaint_about(text);
    EXPECT_TRUE(complaint.starts_with("table.txt: ")) << text << "\n" << complaint;
    expect_contains(complaint, "accepted: ");
    for (const std::string& word : words) expect_contains(complaint, word);
  }
}

TEST(Hardware, FindsEntriesOfFiles) {
  const TemporaryFolder folder;
  folder.write("table",
               "gpu one\ntflops_f32 1\nmemory_gb 1\n"
               "link slow\ngb_per_s 1\nlink fast\ngb_per_s 2\n");
  const std::string path = folder.path("table");
  EXPECT_EQ(find_gpu(path).name, "one");
  EXPECT_EQ(find_gpu(path + ":ONE").name, "one");
  EXPECT_EQ(find_link(path + ":fast").bytes_per_s, 2e9);
  EXPECT_THROW(find_link(path), InputError);  // which of the two?
  EXPECT_THROW(find_gpu(path + ":two"), InputError);
  EXPECT_THROW(find_gpu("no such thing"), InputError);
  EXPECT_THROW(find_gpu(folder.path()), InputError);
}

}  // namespace
}  // namespace ringscope
