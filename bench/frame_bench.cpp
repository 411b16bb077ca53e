// Times building and drawing the viewer's frames with one and ten million slices on 8 ranks, and the
// overview of 1,024 ranks with as many steps, 1600 x 900. `changing` is the worst case, because a
// changed view looks at every slice anew (in the overview: every cell); in `playing` only the
// playhead moves.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "viz/window/software_renderer.h"
#include "viz/window/viewer.h"

namespace ringscope::viz {
namespace {

constexpr int kWidth = 1600, kHeight = 900;

// Return `count` slices of random lengths, with gaps, on the four lanes of each rank.
Trace long_trace(std::size_t count, int ranks) {
  std::mt19937 random(1);
  Trace trace;
  trace.path = "long.json";
  trace.is_ring = true;
  trace.info.world_size = ranks;
  trace.info.mask = "causal";
  trace.info.shape.seqlen = 4096;
  for (int kind = 0; kind < kLaneKinds; ++kind)
    trace.names.emplace_back(name_of(static_cast<Lane>(kind)));
  const std::size_t a_row = count / (4 * static_cast<std::size_t>(ranks));
  trace.events.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<TraceEvent>& slices = trace.events[rank];
    trace.ranks.push_back(
        {rank, "rank " + std::to_string(rank), static_cast<std::uint32_t>(trace.lanes.size()), 4});
    for (const Lane lane : kAllLanes) {
      const auto number = static_cast<std::uint32_t>(trace.lanes.size());
      trace.lanes.push_back({static_cast<std::uint32_t>(rank), static_cast<std::int64_t>(lane),
                             std::string(name_of(lane)), number, 1});
      const std::size_t first = slices.size();
      trace.rows.push_back(
          {number, 0, static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(a_row)});
      slices.resize(first + a_row);
      std::int64_t now = 0;
      for (std::size_t i = 0; i < a_row; ++i) {
        TraceEvent& slice = slices[first + i];
        now += random() % 1000;
        slice.begin_ns = now;
        now += 1 + random() % 3000;
        slice.end_ns = now;
        slice.lane = static_cast<Lane>(lane);
        slice.name = static_cast<std::uint32_t>(slice.lane);
        slice.step = static_cast<std::int32_t>(i * static_cast<std::size_t>(ranks) / a_row);
        slice.kv_owner = ((rank - slice.step) % ranks + ranks) % ranks;
        slice.src = slice.waiting_for = (rank + ranks - 1) % ranks;
        slice.pairs = 100;
      }
      trace.end_ns = std::max(trace.end_ns, now);
      trace.slice_count += a_row;
    }
  }
  return trace;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// A viewer, and the picture that its frames are drawn into.
class Stage {
 public:
  Stage(std::size_t slices, int ranks) {
    std::vector<Document> documents;
    documents.push_back(make_document(long_trace(slices, ranks)));
    viewer_.open(Session(std::move(documents)));
    for (int i = 0; i < 4; ++i) frame();
  }

  Session& session() { return viewer_.session(); }
  int triangles() const { return triangles_; }

  // Draw a frame. Return the milliseconds of building it, and of all of it.
  std::pair<double, double> frame() {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point begin) {
      return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    };
    const auto begin = Clock::now();
    const ImDrawData& data = viewer_.frame(FrameInput());
    const double built = since(begin);
    triangles_ = data.TotalIdxCount / 3;
    render(data, image_);
    return {built, since(begin)};
  }

 private:
  Viewer viewer_;
  Image image_ = Image(kWidth, kHeight);
  int triangles_ = 0;  // of the last frame
};

void measure(benchmark::State& state, bool changing) {
  Stage stage(static_cast<std::size_t>(state.range(0)), static_cast<int>(state.range(1)));
  Session& session = stage.session();
  const double length = session.length();
  std::vector<double> built, whole;
  int n = 0;
  for (auto _ : state) {
    ++n;
    if (changing) {
      session.view = fitted(length);
      session.view.end *= 1 - 1e-4 * (1 + n % 7);
      if (session.rank_map.shown) session.rank_map.by_deviation = n % 2 == 0;
    } else {
      session.seek(length * (n % 100) / 100);
    }
    const auto [build, all] = stage.frame();
    built.push_back(build);
    whole.push_back(all);
  }
  state.counters["build_median_ms"] = median(built);
  state.counters["frame_median_ms"] = median(whole);
  state.counters["triangles"] = stage.triangles();
}

void changing(benchmark::State& state) { measure(state, true); }
void playing(benchmark::State& state) { measure(state, false); }

// The last one opens with the overview: 1,024 ranks with 1,024 steps each.
void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({1'000'000, 8})->Args({10'000'000, 8})->Args({4 << 20, 1024});
  bench->Unit(benchmark::kMillisecond);
}
BENCHMARK(changing)->Apply(sizes);
BENCHMARK(playing)->Apply(sizes);

}  // namespace
}  // namespace ringscope::viz

BENCHMARK_MAIN();
