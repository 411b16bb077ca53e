// Traces of PyTorch's profiler: the fields that Kineto writes, on two ranks that pass blocks on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/viz_data/trace_loader_text.h"

namespace ringscope::viz {
namespace {

// A kernel as Kineto writes it, with NCCL's args when `collective` is given.
std::string kernel(const std::string& name, int stream, const std::string& ts, int dur,
                   const std::string& collective = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "kernel", "name": "{}", "pid": 0, "tid": {}, "ts": {}, "dur": {},
  "args": {{"External id": 29840, "queued": 0, "device": 0, "context": 1, "stream": {},
    "correlation": 29840, "registers per thread": 96, "shared memory": 47456,
    "blocks per SM": 0.133333, "warps per SM": inf, "grid": [2, 1, 1], "block": [288, 1, 1],
    "est. achieved occupancy %": 2{}}}}})",
      name, stream, ts, dur, stream, collective);
}

std::string message(const std::string& what, int peer, int values, const std::string& dtype) {
  return fmt::format(
      R"(, "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": 2,
    "dtype": "{}", "Process Group Name": "0", "Process Group Description": "default_pg",
    "Process Group Ranks": "[0, 1]", "{} Rank": {}, "Seq": 3)",
      what, values, values, dtype, what == "send" ? "Dst" : "Src", peer);
}

// Rank 0 sends two blocks to rank 1, which receives them; both compute and reduce.
std::string profile(int rank, const std::string& base_time, bool with_info = true) {
  const std::string nccl = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";
  const std::string what = rank == 0 ? "send" : "recv";
  std::string text = "{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [{\"id\": 0}],\n";
  if (with_info)
    text += fmt::format(
        "  \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {}, \"world_size\": 2, "
        "\"pg_count\": 1, \"pg_config\": [{{\"pg_name\": \"0\", \"ranks\": [0, 1]}}], "
        "\"nccl_version\": \"2.21.5\"}},\n",
        rank);
  text += "  \"displayTimeUnit\": \"ms\",\n";
  if (!base_time.empty()) text += "  \"baseTimeNanoseconds\": " + base_time + ",\n";
  text += "  \"traceEvents\": [\n";
  text += R"({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 4242, "tid": 4242,
  "ts": 90.125, "dur": 20.5, "args": {"External id": 29840, "Collective name": "send",
    "In msg nelems": 64, "Dst Rank": 1, "dtype": "Half"}},
{"ph": "X", "cat": "user_annotation", "name": "nccl:send 0->1", "pid": 4242, "tid": 4242,
  "ts": 89.000, "dur": 25.000, "args": {}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": 4242, "tid": 4242,
  "ts": 95, "dur": 3, "args": {"correlation": 29840}},
)";
  text += kernel(nccl, 20, "100.250", 50, message(what, 1 - rank, 1024, "Half")) + ",\n";
  text += kernel(nccl, 20, "200", 50, message(what, 1 - rank, 512, "Float")) + ",\n";
  text += kernel(nccl, 20, "300", 10) + ",\n";
  text += kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20,
                 "400", 10,
                 R"(, "Collective name": "allreduce", "In msg nelems": 10, "Out msg nelems": 10,
    "Group size": 2, "dtype": "Double")") +
          ",\n";
  text += kernel("void cutlass::Kernel2<sgemm>(Params)", 7, "120", 100) + ",\n";
  text +=
      R"json({"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0,
  "tid": 7, "ts": 250, "dur": 2, "args": {"bytes": 4096, "memory bandwidth (GB/s)": 2.0}},
{"ph": "s", "id": 29840, "pid": 4242, "tid": 4242, "ts": 95, "cat": "ac2g", "name": "ac2g"},
{"ph": "f", "id": 29840, "pid": 0, "tid": 20, "ts": 100.250, "cat": "ac2g", "name": "ac2g",
  "bp": "e"},
{"name": "process_name", "ph": "M", "ts": 89.000, "pid": 4242, "tid": 0, "args": {"name": "python"}},
{"name": "process_labels", "ph": "M", "ts": 89.000, "pid": 4242, "tid": 0, "args": {"labels": "CPU"}},
{"name": "process_sort_index", "ph": "M", "ts": 89.000, "pid": 4242, "tid": 0,
  "args": {"sort_index": 4242}},
{"name": "process_name", "ph": "M", "ts": 89.000, "pid": 0, "tid": 0, "args": {"name": "python"}},
{"name": "process_labels", "ph": "M", "ts": 89.000, "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
{"name": "process_sort_index", "ph": "M", "ts": 89.000, "pid": 0, "tid": 0,
  "args": {"sort_index": 5000000}},
{"name": "thread_name", "ph": "M", "ts": 89.000, "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
{"name": "thread_sort_index", "ph": "M", "ts": 89.000, "pid": 0, "tid": 7, "args": {"sort_index": 7}},
{"name": "thread_name", "ph": "M", "ts": 89.000, "pid": 0, "tid": 20, "args": {"name": "stream 20 "}},
{"name": "thread_sort_index", "ph": "M", "ts": 89.000, "pid": 0, "tid": 20,
  "args": {"sort_index": 20}},
{"name": "thread_name", "ph": "M", "ts": 89.000, "pid": 4242, "tid": 4242,
  "args": {"name": "thread 4242 (python)"}},
{"ph": "X", "cat": "Trace", "ts": 88.000, "dur": 400.000, "pid": "Spans", "tid": "PyTorch Profiler",
  "name": "PyTorch Profiler (0)", "args": {"Op count": 0}},
{"name": "process_sort_index", "ph": "M", "ts": 88.000, "pid": "Spans", "tid": 0,
  "args": {"sort_index": 536870912}},
{"name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces",
  "tid": "Trace PyTorch Profiler", "ts": 88.000}
], "traceName": "rank.json"})json";
  return text;
}

TEST(Kineto, OneRankWithItsStreams) {
  const Trace trace = parse_trace(profile(1, "1000"));
  EXPECT_FALSE(trace.is_ring);
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.ranks[0].name, "rank 1");
  EXPECT_EQ(trace.ranks[0].pid, 1);
  ASSERT_EQ(trace.lanes.size(), 4u);
  EXPECT_EQ(trace.lanes[0].name, "stream 7");
  EXPECT_EQ(trace.lanes[1].name, "stream 20");
  EXPECT_EQ(trace.lanes[2].name, "thread 4242 (python)");
  EXPECT_EQ(trace.lanes[3].name, "thread PyTorch Profiler");

  const std::span<const TraceEvent> compute = trace.slices(trace.lanes[0].first_row);
  ASSERT_EQ(compute.size(), 2u);
  EXPECT_EQ(compute[0].lane, Lane::compute);
  EXPECT_EQ(compute[1].lane, Lane::other);  // a copy
  EXPECT_EQ(compute[1].bytes, 4096);

  const std::span<const TraceEvent> nccl = trace.slices(trace.lanes[1].first_row);
  ASSERT_EQ(nccl.size(), 4u);
  EXPECT_EQ(nccl[0].lane, Lane::recv);
  EXPECT_EQ(nccl[0].peer(), 0);
  EXPECT_EQ(nccl[0].bytes, 1024 * 2);
  EXPECT_EQ(nccl[0].begin_ns, 100250);
  EXPECT_EQ(nccl[1].lane, Lane::recv);
  EXPECT_EQ(nccl[1].bytes, 512 * 4);
  EXPECT_EQ(nccl[2].lane, Lane::communication);  // grouped: only the name says so
  EXPECT_EQ(nccl[2].peer(), -1);
  EXPECT_EQ(nccl[2].bytes, 0);
  EXPECT_EQ(nccl[3].lane, Lane::communication);
  EXPECT_EQ(nccl[3].bytes, 80);

  // What the host did to communicate is not the communication.
  for (std::uint32_t row = trace.lanes[2].first_row; row < trace.rows.size(); ++row)
    for (const TraceEvent& slice : trace.slices(row)) EXPECT_EQ(slice.lane, Lane::other);
}

TEST(Kineto, WithoutDistributedInfo) {
  const Trace trace = parse_trace(profile(0, "", false));
  ASSERT_EQ(trace.ranks.size(), 3u);  // processes
  EXPECT_EQ(trace.ranks[0].name, "python 4242");
  EXPECT_EQ(trace.ranks[1].name, "python 0");
  EXPECT_EQ(trace.lanes[trace.ranks[1].first_lane].name, "stream 7");
  EXPECT_EQ(trace.ranks[2].name, "Spans");
}

class KinetoFiles : public TraceFile {};

TEST_F(KinetoFiles, RanksOfOneJobBecomeOneTrace) {
  const std::string one = write("1.json", profile(1, "1700000000000005000"));
  const std::string zero = write("0.json", profile(0, "1700000000000000000"));
  const std::vector<Trace> traces = load_traces({one, zero});
  ASSERT_EQ(traces.size(), 1u);
  const Trace& trace = traces[0];
  EXPECT_EQ(trace.path, one);
  ASSERT_EQ(trace.ranks.size(), 2u);
  EXPECT_EQ(trace.ranks[0].name, "rank 0");
  EXPECT_EQ(trace.ranks[1].name, "rank 1");
  ASSERT_EQ(trace.lanes.size(), 8u);
  EXPECT_EQ(trace.ranks[1].first_lane, 4u);
  EXPECT_EQ(trace.lanes[5].rank, 1u);
  EXPECT_EQ(trace.lanes[5].name, "stream 20");
  EXPECT_EQ(trace.slice_count, 20u);

  const std::uint32_t send_row = trace.lanes[1].first_row, recv_row = trace.lanes[5].first_row;
  EXPECT_EQ(trace.rank_of_row(recv_row), 1);
  EXPECT_EQ(trace.slices(send_row)[0].begin_ns, 100250);
  EXPECT_EQ(trace.slices(recv_row)[0].begin_ns, 105250);  // its clock began 5 us later
  EXPECT_EQ(trace.begin_ns, 88000);
  EXPECT_EQ(trace.end_ns, 488000 + 5000);
  EXPECT_EQ(trace.name(trace.slices(recv_row)[0]), trace.name(trace.slices(send_row)[0]));

  // Messages in order.
  ASSERT_EQ(trace.flows.size(), 2u);
  for (std::uint32_t k = 0; k < 2; ++k) {
    const TraceEvent& send = trace.slices(send_row)[k];
    const TraceEvent& recv = trace.slices(recv_row)[k];
    EXPECT_EQ(send.lane, Lane::send);
    EXPECT_EQ(send.peer(), 1);
    EXPECT_EQ(send.flow, recv.flow);
    ASSERT_NE(send.flow, 0u);
    EXPECT_EQ(trace.flows[send.flow - 1].from, (SliceId{send_row, k}));
    EXPECT_EQ(trace.flows[send.flow - 1].to, (SliceId{recv_row, k}));
  }
  EXPECT_TRUE(trace.notices.empty());
}

TEST_F(KinetoFiles, UnequalMessagesAreNotJoined) {
  const std::string zero = write(
      "a0.json", with(profile(0, "0"), "\"Dst Rank\": 1, \"Seq\"", "\"Dst Rank\": 5, \"Seq\""));
  const std::string one = write("a1.json", profile(1, "0"));
  const std::vector<Trace> traces = load_traces({zero, one});
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_TRUE(traces[0].flows.empty());
  EXPECT_EQ(traces[0].notices,
            (std::vector<std::string>{"1 sends of rank 0 to rank 1, but 2 receives: not joined",
                                      "1 sends of rank 0 to rank 5, but 0 receives: not joined"}));
}

TEST_F(KinetoFiles, FilesThatAreNotOneJob) {
  const std::string zero = write("b0.json", profile(0, "0")),
                    one = write("b1.json", profile(1, "0"));
  const std::string wide =
      write("b2.json", with(profile(1, "0"), "\"world_size\": 2", "\"world_size\": 4"));
  EXPECT_EQ(load_traces({zero})[0].notices.size(), 1u);  // which says that there should be more
  EXPECT_EQ(load_traces({zero, zero}).size(), 2u);       // one rank twice
  EXPECT_EQ(load_traces({zero, wide}).size(), 2u);       // another job
  EXPECT_EQ(load_traces({zero, one, zero, one}).size(), 2u);  // two runs
  const std::string ours = write("ours.json", trace_text_of(whole_recording()));
  const std::vector<Trace> mixed = load_traces({zero, ours, one});
  ASSERT_EQ(mixed.size(), 2u);
  EXPECT_EQ(mixed[0].ranks.size(), 2u);
  EXPECT_TRUE(mixed[1].is_ring);
}

TEST_F(KinetoFiles, ClocksWithoutABaseTime) {
  const std::string zero = write("c0.json", profile(0, "")), one = write("c1.json", profile(1, ""));
  const std::vector<Trace> traces = load_traces({zero, one});
  ASSERT_EQ(traces.size(), 1u);
  ASSERT_EQ(traces[0].notices.size(), 1u);
  EXPECT_NE(traces[0].notices[0].find("lack baseTimeNanoseconds"), std::string::npos);
  const std::string far = write("c2.json", profile(1, "9223372036854775807"));
  const std::string early = write("c3.json", profile(0, "-9223372036854775808"));
  EXPECT_THROW(load_traces({far, early}), InputError);
}

}  // namespace
}  // namespace ringscope::viz
