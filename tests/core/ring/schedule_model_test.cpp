// Every scheme's loop, checked in every order of its operations (schedule_model.h), and mistakes that
// the checker finds. RINGSCOPE_SCHEDULES=FOLDER writes the table and the mistakes' recordings there.
#include "tests/core/ring/schedule_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/clock.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/ring/ring_case.h"

namespace ringscope::schedule_model {
namespace {

using Kind = Mistake::Kind;

// 11 rows are unevenly dealt, and from three ranks on kv heads are shared.
constexpr AttentionShape kShape{1, 6, 2, 11, 2, 3};

AttentionInputs inputs_of() {
  const Tensors<float> drawn = random_tensors(kShape, 3);
  return {drawn.q, drawn.k, drawn.v, drawn.dout};
}

Problem job_of(const std::string& scheme, int world_size, int kv_buffers) {
  Problem job;
  job.shape = kShape;
  job.partition = PartitionKind::zigzag;
  job.world_size = world_size;
  job.kv_buffers = kv_buffers;
  job.backward = true;
  if (scheme == "groupcast" || scheme.starts_with("ring, ")) {
    job.mask = MaskSpec::parse(scheme == "groupcast" ? "causal+window:5" : scheme.substr(6));
    job.partition = PartitionKind::contiguous;
    job.hops = Hops::needed;
  }
  set_scheme(job, scheme.substr(0, scheme.find(',')));
  return job;
}

std::vector<std::string> schemes_of(int n) {
  std::vector<std::string> schemes{"ring",
                                   "bidirectional",
                                   "pass-q",
                                   "allgather",
                                   "allgather:2",
                                   "ulysses",
                                   "groupcast",
                                   "tree",
                                   "ring, causal",
                                   "ring, causal+window:5",
                                   "ring, window:3",
                                   "ring, causal+window:3+sink:1",
                                   "ring, causal+documents:3,4,4"};
  if (2 * n <= kShape.num_heads) schemes.push_back("ulysses:2");
  if (most_rings(n) >= 3) schemes.push_back("multi-ring:3");
  for (int part = 1; part <= n; ++part)
    if (n % part == 0)
      for (const std::string& scheme :
           {fmt::format("hybrid:{}", part), fmt::format("two-level:{}", part),
            fmt::format("mesh:{}x{}", part, n / part)})
        schemes.push_back(scheme);
  return schemes;
}

const char* folder_to_write() { return std::getenv("RINGSCOPE_SCHEDULES"); }

TEST(Schedules, OfEverySchemeAreProven) {
  const AttentionInputs inputs = inputs_of();
  std::string table =
      "| scheme | N | K | operations | states | seconds |\n|---|---|---|---|---|---|\n";
  for (int n = 1; n <= (kThreadSanitizer ? 3 : 5); ++n)
    for (const std::string& scheme : schemes_of(n))
      for (const int buffers : {2, 3}) {
        Problem job = job_of(scheme, n, buffers);
        const bool rotates =
            job.scheme == scheme_named("ring") || job.scheme == scheme_named("two-level");
        if (buffers == 3 && !rotates) continue;
        // Without the backward pass, blocks of a ring come into the own block's buffer, too.
        for (const bool backward : {false, true}) {
          job.backward = backward;
          const std::int64_t begin_ns = monotonic_ns();
          const AttentionOutputs expected = run_on_threads(job, inputs).outputs;
          std::uint64_t states = 0;
          std::size_t operations = 0;
          for (const bool posts_late : {false, true}) {
            SCOPED_TRACE(testing::Message()
                         << scheme << " on " << n << ", " << buffers
                         << " buffers, backward: " << backward << ", posts late: " << posts_late);
            Schedules schedules(job, inputs, posts_late);
            const Verdict verdict = schedules.check_reduced(expected);
            ASSERT_EQ(verdict.mistake, "");
            states += verdict.states;
            operations = schedules.nodes().size();
          }
          if (!backward) continue;
          table += fmt::format("| {} | {} | {} | {} | {} | {:.2f} |\n", scheme, n,
                               rotates ? std::to_string(buffers) : "", operations, states,
                               seconds_since(begin_ns));
        }
      }
  if (const char* folder = folder_to_write())
    std::ofstream(std::string(folder) + "/table.md") << table;
}

// Without the argument that reduces them, in problems that are small enough.
TEST(Schedules, AreProvenInEveryStateOfSmallProblems) {
  const AttentionInputs inputs = inputs_of();
  for (const char* scheme : {"ring", "bidirectional", "pass-q", "allgather", "mesh:1x2"}) {
    SCOPED_TRACE(scheme);
    Problem job = job_of(scheme, 2, 2);
    job.backward = std::string(scheme) == "ring";
    Schedules schedules(job, inputs, false);
    const Verdict verdict = schedules.check_all(std::size_t{1} << 20);
    EXPECT_EQ(verdict.mistake, "");
    EXPECT_GT(verdict.states, schedules.nodes().size());
  }
}

struct MistakeCase {
  const char* name;
  const char* scheme;
  int world_size, kv_buffers;
  Mistake mistake;
  const char* found;  // part of what the checker says
};

const MistakeCase kMistakes[] = {
    {"arrival_not_awaited", "ring", 4, 2, {Kind::arrival_not_awaited, 1, 1}, "written while"},
    {"arrival_not_awaited_backward", "ring", 3, 2, {Kind::arrival_not_awaited, 0, 4}, "written"},
    // Only a rank that computes for longer than two hops take sees its block overwritten.
    {"buffer_not_awaited", "ring", 4, 2, {Kind::buffer_not_awaited, 2, 2}, "written while"},
    {"buffer_not_awaited_of_three",
     "ring",
     5,
     3,
     {Kind::buffer_not_awaited, 2, 3},
     "written while"},
    {"one_buffer", "ring", 3, 1, {}, "written while"},
    {"ends_swapped", "ring", 3, 2, {Kind::ends_swapped, 1, 0}, ""},
    {"hops_reordered", "ring", 4, 2, {Kind::hops_reordered, 1, 0}, "not sent to it"},
    {"hop_left_out", "ring", 3, 2, {Kind::hop_left_out, 1, 6}, "wait forever"},
    {"hops_reordered_over_a_wait", "two-level:2", 4, 2, {Kind::hops_reordered, 1, 2}, ""},
    {"columns_not_awaited", "mesh:2x2", 4, 2, {Kind::arrival_not_awaited, 3, 2}, "written while"},
    {"halves_not_awaited",
     "bidirectional",
     4,
     2,
     {Kind::buffer_not_awaited, 0, 4},
     "written while"},
};

class MistakesInSchedules : public testing::TestWithParam<MistakeCase> {};

TEST_P(MistakesInSchedules, AreFoundAndRecorded) {
  const MistakeCase& given = GetParam();
  const AttentionInputs inputs = inputs_of();
  const AttentionOutputs expected =
      run_on_threads(job_of(given.scheme, given.world_size, std::max(given.kv_buffers, 2)), inputs)
          .outputs;
  Schedules schedules(job_of(given.scheme, given.world_size, given.kv_buffers), inputs, false,
                      given.mistake);
  const Verdict verdict = schedules.check_reduced(expected);
  ASSERT_NE(verdict.mistake, "");
  EXPECT_NE(verdict.mistake.find(given.found), std::string::npos) << verdict.mistake;

  const char* folder = folder_to_write();
  const std::string path =
      (folder != nullptr ? std::filesystem::path(folder) : std::filesystem::temp_directory_path()) /
      fmt::format("{}{}.json", given.name, folder != nullptr ? "" : fmt::format("-{}", getpid()));
  write_chrome_trace(path, schedules.recording(verdict));
  const Recording read = read_chrome_trace(path);
  ASSERT_TRUE(read.info.failure.has_value());
  EXPECT_EQ(read.info.failure->message, verdict.mistake);
  std::size_t events = 0;
  for (const auto& rank : read.events) events += rank.size();
  EXPECT_GE(events, verdict.order.size() + verdict.overlapping.size());
  if (folder == nullptr) std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(All, MistakesInSchedules, testing::ValuesIn(kMistakes),
                         [](const auto& given) { return std::string(given.param.name); });

// The reduction finds what the search of all states finds.
TEST(Schedules, AreReducedToWhatFindsTheSameMistakes) {
  const AttentionInputs inputs = inputs_of();
  Problem job = job_of("ring", 2, 2);
  const AttentionOutputs expected = run_on_threads(job, inputs).outputs;
  int found = 0;
  for (const Kind kind : {Kind::arrival_not_awaited, Kind::buffer_not_awaited})
    for (int rank = 0; rank < 2; ++rank)
      for (int operation = 0; operation < 4; ++operation) {
        const Mistake mistake{kind, rank, operation};
        SCOPED_TRACE(testing::Message()
                     << static_cast<int>(kind) << " by " << rank << " at " << operation);
        Schedules schedules(job, inputs, false, mistake);
        const bool reduced = !schedules.check_reduced(expected).mistake.empty();
        EXPECT_EQ(reduced, !schedules.check_all(std::size_t{1} << 20).mistake.empty());
        found += reduced;
      }
  EXPECT_GE(found, 4);
}

}  // namespace
}  // namespace ringscope::schedule_model
