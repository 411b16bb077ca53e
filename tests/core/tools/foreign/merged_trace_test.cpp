// The file for Perfetto: what its importer asks of a trace, and that nothing of the recordings is lost.
#include "core/tools/foreign/merged_trace.h"

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/files.h"
#include "core/tools/sim/recording.h"
#include "core/trace/trace.h"

namespace ringscope {
namespace {

Trace simulated(const char* name) {
  Scenario ring;
  ring.job.world_size = 4;
  ring.job.shape = {1, 1, 1, 4096, 64};
  ring.job.mask = MaskSpec::parse("causal");
  ring.rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  return to_trace(record(ring).recording, name);
}

rapidjson::Document written(const std::vector<Trace>& traces) {
  const std::string path =
      testing::TempDir() + "merged_trace_" + std::to_string(::getpid()) + ".json";
  AtomicFile file(path);
  write_merged_trace(file, traces);
  file.commit();
  rapidjson::Document document;
  document.Parse(read_file(path, "trace").c_str());
  ::unlink(path.c_str());
  EXPECT_FALSE(document.HasParseError());
  return document;
}

std::int64_t ns_of(const rapidjson::Value& us) { return std::llround(us.GetDouble() * 1000); }

TEST(MergedTrace, HoldsNamesSlicesFlowsAndCounters) {
  const std::vector<Trace> traces{simulated("d/a.json"), simulated("d/b.json")};
  const rapidjson::Document document = written(traces);
  std::map<int, std::string> processes;
  std::set<std::pair<int, int>> named_threads;
  std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> slices;
  std::map<int, std::vector<std::tuple<std::string, std::pair<int, int>, std::int64_t>>> flows;
  std::map<std::string, std::int64_t> at_last, most;
  for (const auto& event : document["traceEvents"].GetArray()) {
    const std::string phase = event["ph"].GetString(), name = event["name"].GetString();
    const std::pair place(event["pid"].GetInt(), event["tid"].GetInt());
    EXPECT_GT(place.first, 0);
    if (name == "process_name") processes[place.first] = event["args"]["name"].GetString();
    if (name == "thread_name") named_threads.insert(place);
    if (phase == "X")
      slices[place].emplace_back(ns_of(event["ts"]), ns_of(event["ts"]) + ns_of(event["dur"]));
    if (phase == "s" || phase == "f")
      flows[event["id"].GetInt()].emplace_back(phase, place, ns_of(event["ts"]));
    if (phase == "C") {
      const std::string counter = processes.at(place.first) + " " + name;
      at_last[counter] = event["args"]["value"].GetInt64();
      most[counter] = std::max(most[counter], at_last[counter]);
    }
  }
  EXPECT_EQ(processes.size(), 2u * (4 + 1));
  EXPECT_EQ(processes.at(2), "a.json \u00b7 rank 1");

  std::size_t count = 0;
  for (const auto& [place, of_thread] : slices) {
    EXPECT_TRUE(named_threads.contains(place));
    count += of_thread.size();
    std::vector<std::int64_t> ends;
    for (const auto& [begin, end] : of_thread) {
      while (!ends.empty() && ends.back() <= begin) ends.pop_back();
      EXPECT_TRUE(ends.empty() || end <= ends.back()) << "slices must nest";
      ends.push_back(end);
    }
  }
  EXPECT_EQ(count, 2 * traces[0].slice_count);

  EXPECT_EQ(flows.size(), 2 * traces[0].flows.size());
  EXPECT_GT(flows.size(), 0u);
  for (const auto& [id, ends] : flows) {
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(std::get<0>(ends[0]), "s");
    EXPECT_EQ(std::get<0>(ends[1]), "f");
    EXPECT_LE(std::get<2>(ends[0]), std::get<2>(ends[1]));
    for (const auto& [phase, place, at] : ends) {
      const auto& of_thread = slices.at(place);
      EXPECT_TRUE(std::any_of(of_thread.begin(), of_thread.end(), [at = at](const auto& slice) {
        return slice.first <= at && at <= slice.second;
      }));
    }
  }
  for (const auto& [counter, value] : at_last) EXPECT_EQ(value, 0) << counter;
  EXPECT_EQ(most.at("a.json \u00b7 all ranks ranks that compute"), 4);
  EXPECT_GT(most.at("b.json \u00b7 all ranks bytes on their way"), 0);
}

// Files of one name in two folders go by their paths.
TEST(MergedTrace, TellsFilesOfOneNameApart) {
  const rapidjson::Document document = written({simulated("d/a.json"), simulated("e/a.json")});
  std::set<std::string> processes;
  for (const auto& event : document["traceEvents"].GetArray())
    if (event["name"] == "process_name") processes.insert(event["args"]["name"].GetString());
  EXPECT_EQ(processes.size(), 2u * (4 + 1));
  EXPECT_TRUE(processes.contains("e/a.json \u00b7 rank 1"));
}

// Slices of one lane that overlap without nesting go to threads of their own.
TEST(MergedTrace, OverlappingSlicesAreKept) {
  Trace trace;
  trace.ranks.push_back({.pid = 7, .name = "trainer \"7\""});
  trace.events.resize(1);
  trace.names = {"kernel"};
  for (const auto& [begin, end] : {std::pair(0, 100), {10, 50}, {40, 120}, {200, 201}}) {
    TraceEvent slice = plain_slice();
    slice.begin_ns = begin;
    slice.end_ns = end;
    trace.events[0].push_back(slice);
  }
  append_lane(trace, 3, "stream 3", 0, 4);
  measure_extent(trace);
  std::map<int, int> slices;  // by thread
  const rapidjson::Document document = written({trace});
  for (const auto& event : document["traceEvents"].GetArray()) {
    if (event["name"] == "process_name") {
      EXPECT_STREQ(event["args"]["name"].GetString(), "trainer \"7\"");
    }
    if (event["ph"] == "X") ++slices[event["tid"].GetInt()];
  }
  EXPECT_EQ(slices, (std::map<int, int>{{1, 3}, {2, 1}}));
}

}  // namespace
}  // namespace ringscope
