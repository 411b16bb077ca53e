// Writes the inputs that the fuzzers start from into FOLDER/npy, FOLDER/trace, FOLDER/view,
// FOLDER/flight and FOLDER/kineto.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "core/base/npy.h"
#include "core/trace/chrome_trace.h"
#include "tests/core/tools/foreign/pickle_text.h"
#include "tests/core/trace/sample_recording.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.close();
}

// A .npy image by hand, in the dialects that our writer does not use.
std::string npy_image(int version, const std::string& dict, std::size_t data_bytes) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
    text += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  return text + dict + std::string(data_bytes, '?');
}

void make_npy(const fs::path& folder) {
  write(folder / "f32", ringscope::npy_header({1, 2, 1, 2}, false) + std::string(16, '@'));
  write(folder / "f64", ringscope::npy_header({1, 1, 2, 1}, true) + std::string(16, '\x7f'));
  write(folder / "f64_nan", ringscope::npy_header({1, 1, 1, 1}, true) + std::string(8, '\xff'));
  write(folder / "truncated", ringscope::npy_header({1, 2, 3, 4}, false));
  write(folder / "three_dimensions", ringscope::npy_header({1, 2, 1}, false) + std::string(8, '@'));
  write(folder / "size_0", ringscope::npy_header({1, 0, 1, 1}, false));
  write(folder / "huge", ringscope::npy_header({INT64_MAX, 4, 1LL << 40, 3}, true));
  write(folder / "version_2",
        npy_image(2, "{'shape':(1,1,1,1),'fortran_order':False,'descr':'=f4'}", 4));
  write(folder / "version_3",
        npy_image(3, "{\"descr\":\"<f8\", \"shape\": (1L, 1L,\n1, 1,), 'fortran_order': False,}\n",
                  8));
  write(folder / "fortran",
        npy_image(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1, 1, 1)}", 4));
  write(folder / "big_endian",
        npy_image(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (1, 1, 1, 1)}", 4));
  write(folder / "integers",
        npy_image(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)}", 8));
  write(folder / "unsigned",
        npy_image(1, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", 3));
  write(folder / "fields",
        npy_image(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4));
}

void make_flights(const fs::path& folder) {
  using namespace ringscope::pickles;
  write(folder / "empty", dump("[0, 1]", 7, {}));
  write(folder / "collectives",
        dump("[0, 1]", 6,
             {entry(0, "all_reduce", 6, "completed"), entry(0, "all_reduce", 7, "scheduled")}));
  write(folder / "messages", dump("[0, 1]", 6,
                                  {entry(0, "send 0->1", 3, "scheduled", true),
                                   entry(0, "recv 0<-1", 3, "scheduled", true),
                                   entry(0, "coalesced", 3, "scheduled", true)}));
  write(folder / "protocol_4", "\x80\x04\x95" + little(9, 8) + "}\x94\x8c\x07" +
                                   "entries\x94]\x94h\x01" + "\x8a\x01" + "9\x86(N\x88lae0s.");
}

// A ring of two on a GPU and on a CPU.
void make_profiles(const fs::path& folder) {
  const auto profile = [&](const char* name, const char* category, const char* attention,
                           const char* back, const char* transfer) {
    std::ostringstream text;
    text
        << R"({"distributedInfo":{"rank":0,"world_size":2},"baseTimeNanoseconds":7,"traceEvents":[)";
    const char* const names[] = {transfer, attention, attention, transfer, back, back};
    for (int i = 0; i < 6; ++i)
      text << (i > 0 ? "," : "") << R"({"ph":"X","cat":")" << category << R"(","name":")"
           << names[i] << R"(","ts":)" << 10 * i << R"(,"dur":8,"args":{"correlation":)" << i + 1
           << R"(,"In msg nelems":6}})";
    text << "]}";
    write(folder / name, text.str());
  };
  profile("gpu", "kernel", "flash_fwd_kernel", "flash_bwd_dq", "ncclDevKernel_SendRecv");
  profile("forward", "kernel", "_attn_fwd", "gemm", "nccl:send 0->1");
  profile("cpu", "cpu_op", "scaled_dot_product", "for_cpu_backward", "gloo:send");
}

void make_traces(const fs::path& folder) {
  const auto write_trace = [&](const char* name, const ringscope::Recording& recording) {
    std::ostringstream out;
    write_chrome_trace(out, recording);
    write(folder / name, out.str());
  };
  using ringscope::sample_recording;
  ringscope::Recording empty;
  empty.events.resize(1);
  write_trace("empty", empty);
  write_trace("one_rank", sample_recording(1, false));
  write_trace("one_rank_backward", sample_recording(1, true));
  write_trace("two_ranks_backward", sample_recording(2, true));
  // One slice of each lane alone, so that small inputs reach everything.
  for (const ringscope::Lane lane : ringscope::kAllLanes) {
    ringscope::Recording one = empty;
    one.events[0].push_back({.lane = lane, .begin_ns = -1500, .end_ns = 1});
    write_trace(std::string(name_of(lane)).c_str(), one);
  }
  ringscope::Recording sample = empty;
  sample.samples = {{.row_max = -2.5f, .row_sum = 1e-41f, .lse = -1.0f / 0.0f, .lse_error = 3e38f}};
  sample.info.mask = "\"\\\n\xc3\xa4";
  write_trace("sample", sample);
  ringscope::Recording failed = empty;
  failed.info.failure = ringscope::RunEnd{"no \"progress\"\n\xc3\xa4", 0, 0};
  write_trace("failed", failed);
  ringscope::Recording told = empty;
  told.story = {{.text = "a\n- **b** `c`",
                 .pass = ringscope::Pass::forward,
                 .step = 0,
                 .rank = 0,
                 .lane = ringscope::Lane::wait,
                 .figure = ringscope::Figure::ring},
                {.text = "\xc3\xa4"}};
  write_trace("story", told);
  write(
      folder / "others",
      R"({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "pid": "Spans"}, [], null]})");
  write(folder / "deep", "{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}");
}

// Traces that are not ours, in the dialects that the viewer reads; and of ours, one with its head
// behind the events.
void make_views(const fs::path& folder) {
  write(
      folder / "slices",
      R"([{"ph":"X","pid":1,"tid":"a","ts":1.5,"dur":9},{"ph":"X","pid":1,"tid":"a","ts":"2","dur":1e1,"name":"\u00e4"},)"
      R"({"ph":"X","pid":1,"tid":"a","ts":3}])");
  write(
      folder / "begin_end",
      R"([{"ph":"B","name":"x","ts":1},{"ph":"B","ts":2},{"ph":"E","ts":3},{"ph":"E","ts":4},{"ph":"B","ts":5},)");
  write(
      folder / "flows",
      R"({"traceEvents":[{"ph":"X","tid":1,"ts":0,"dur":9},{"ph":"X","tid":2,"ts":5,"dur":9},{"ph":"s","id":1,"tid":1,"ts":3},)"
      R"({"ph":"t","id":1,"tid":1,"ts":4},{"ph":"f","id":1,"tid":2,"ts":6,"bp":"e"},{"ph":"f","id":"2","tid":2,"ts":4}]})");
  write(
      folder / "metadata",
      R"([{"ph":"M","name":"process_name","pid":"p","args":{"name":"n"}},{"ph":"M","name":"thread_sort_index","pid":"p","tid":2,)"
      R"("args":{"sort_index":-3}},{"ph":"X","pid":"p","tid":2,"ts":1},{"ph":"X","pid":"p","tid":1,"ts":1,"args":{"x":[NaN]}}])");
  write(
      folder / "profiler",
      R"({"distributedInfo":{"backend":"nccl","rank":1,"world_size":2},"baseTimeNanoseconds":5,"traceEvents":[{"ph":"X",)"
      R"("cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":7,"ts":1,"dur":2,"args":{"stream":7,"Collective name":)"
      R"("recv","In msg nelems":8,"Out msg nelems":8,"dtype":"Half","Src Rank":0}},{"ph":"X","cat":"gpu_memcpy","pid":0,)"
      R"("tid":7,"ts":4,"dur":1,"args":{"bytes":16}},{"ph":"X","cat":"cpu_op","pid":9,"tid":9,"ts":0,"dur":3}]})");
  std::ostringstream ours;
  ringscope::Recording recording = ringscope::sample_recording(2, true);
  recording.dropped.clear();  // then every send must have its receive
  recording.story = {{.text = "a", .step = 1, .rank = 1, .lane = ringscope::Lane::send}};
  write_chrome_trace(ours, recording);
  write(folder / "ours", ours.str());
  write(folder / "deep", std::string(70, '[') + std::string(70, ']'));
  // Of a failed run, in which a block was sent and never came.
  recording.info.failure = ringscope::RunEnd{"a", 1, -1};
  std::erase_if(recording.events[1],
                [](const ringscope::TraceEvent& e) { return e.lane == ringscope::Lane::recv; });
  std::ostringstream failed;
  write_chrome_trace(failed, recording);
  write(folder / "failed", failed.str());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "make_corpus: %d arguments given; FOLDER accepted\n", argc - 1);
    return 2;
  }
  const fs::path folder = argv[1];
  fs::create_directories(folder / "npy");
  fs::create_directories(folder / "trace");
  make_npy(folder / "npy");
  make_traces(folder / "trace");
  fs::create_directories(folder / "view");
  make_views(folder / "view");
  fs::create_directories(folder / "flight");
  make_flights(folder / "flight");
  fs::create_directories(folder / "kineto");
  make_profiles(folder / "kineto");
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_corpus: %s\n", error.what());
  return 2;
}
