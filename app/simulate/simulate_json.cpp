// A simulation as JSON. Its keys are those of `run --json` where they mean the same.
#include <algorithm>
#include <optional>
#include <string_view>

#include "app/report/json_writer.h"
#include "app/simulate/simulate.h"
#include "core/cost/memory.h"

namespace ringscope {
namespace {

constexpr int kMostRanksInJson = 256;  // that are printed one by one
constexpr int kMostWithSteps = 64;     // world_size up to which each rank's steps are printed

std::string_view pace_name(const Scenario& scenario) {
  return has_buffers(scenario) ? "buffers" : "in-step";
}

void put_way(JsonWriter& json, const Scenario& scenario) {
  const Problem& job = scenario.job;
  json.put("world_size", Index{job.world_size});
  json.put("partition", partition_name(scenario));
  json.put("mask", std::string_view(job.mask.name()));
  json.put("scheme", name_of(job.scheme));
  json.put("pace", pace_name(scenario));
  has_buffers(scenario) ? json.put("kv_buffers", Index{job.kv_buffers}) : json.null("kv_buffers");
  json.put("dtype", name_of(job.dtype));
  put_shape(json, job.shape);
  json.put("backward", job.backward);
}

void put_machine(JsonWriter& json, const Scenario& scenario, const SimulatedHardware& hardware) {
  json.key("machine");
  json.object([&] {
    json.put("gpu", std::string_view(hardware.gpu));
    json.put("link", std::string_view(hardware.link));
    json.put("forward_flops", scenario.rates.forward_flops);
    json.put("backward_flops", scenario.rates.backward_flops);
    json.put("bytes_per_s", scenario.rates.bytes_per_s);
    json.put("latency_s", scenario.rates.latency_s);
    json.put("memory_bytes", hardware.memory_bytes);
    json.put("nodes", Index{scenario.job.nodes});
    if (scenario.job.nodes > 1 && !scenario.topology) {
      json.put("between", std::string_view(scenario.between.name));
      json.put("between_bytes_per_s", scenario.between.bytes_per_s);
      json.put("nics", Index{scenario.nics});
      json.put("placement", name_of(scenario.placement));
    }
    json.put("order",
             std::string_view(scenario.order == RingOrder::topology ? "topology" : "rank"));
    json.put("cores", Index{scenario.cores});
    json.put("step_s", scenario.step_s);
    json.put("tile_rows", scenario.granularity.rows);
    json.put("tile_keys", scenario.granularity.keys);
    json.put("jitter", scenario.jitter);
    json.put("hop_jitter", scenario.hop_jitter);
    put_seed(json, scenario.seed);
    json.array("stragglers", [&] {
      for (const Straggler& straggler : scenario.stragglers)
        json.object([&] {
          json.put("rank", Index{straggler.rank});
          json.put("speed", straggler.speed);
        });
    });
  });
}

void put_figures(JsonWriter& json, const Figures& f) {
  json.put("wall_s", f.wall_s);
  json.put("forward_s", f.forward_s);
  json.put("backward_s", f.backward_s);
  json.put("compute_s", f.compute_s);
  json.put("wait_s", f.wait_s);
  json.put("exposed_s", f.exposed_s);
  json.put("efficiency", f.efficiency);
  json.put("imbalance", f.imbalance);
  json.put("balance_ceiling", f.balance_ceiling);
  json.put("closed_form_s", f.closed_form_s);
  json.put("peak_bytes", f.peak_bytes);
}

void put_rank(JsonWriter& json, const Simulated& simulated, int number) {
  const Problem& job = simulated.scenario.job;
  const Work& work = *simulated.work;
  const SimulatedRank& rank = simulated.simulation.ranks[static_cast<std::size_t>(number)];
  json.object([&] {
    json.put("rank", Index{number});
    json.put("rows", work.rows(number));
    json.put("pairs", rank.pairs);
    json.put("compute_s", rank.compute_s);
    json.put("wait_s", rank.wait_s);
    json.put("exposed_s", rank.exposed_s);
    json.put("bytes_sent", rank.bytes_sent);
    json.put("hops", rank.hops);
    json.put("peak_bytes", total_bytes(memory_parts(job, static_cast<double>(work.rows(number)))));
    json.put("end_s", rank.end_s);
    const bool has_steps = job.scheme == Scheme::ring || job.scheme == Scheme::allgather;
    if (!has_steps || job.world_size > kMostWithSteps) return;
    json.array("pairs_by_step", [&] {
      for (int step = 0; step < job.world_size; ++step)
        json.value(work.pairs(number, (number + job.world_size - step) % job.world_size));
    });
  });
}

void put_path(JsonWriter& json, const CriticalPath& path) {
  json.key("critical_path");
  json.object([&] {
    json.put("compute_s", path.compute_s);
    json.put("hop_s", path.hop_s);
    json.array("ranks", [&] {
      for (const int rank : path.ranks) json.value(Index{rank});
    });
  });
}

// Put whether the way is possible, and its figures.
void put_outcome(JsonWriter& json, const std::optional<std::string>& why, const Figures& figures) {
  why ? json.put("why_not", std::string_view(*why)) : json.null("why_not");
  if (!why) put_figures(json, figures);
}

// Return all ranks if they are at most `most`, else an even sample.
std::vector<int> told_ranks(int world_size, int most) {
  const int count = std::min(world_size, most);
  std::vector<int> ranks;
  for (std::int64_t i = 0; i < count; ++i)
    ranks.push_back(
        count == 1 ? 0 : static_cast<int>(i * (std::int64_t{world_size} - 1) / (count - 1)));
  return ranks;
}

}  // namespace

std::string simulated_json(const Simulated& simulated) {
  const Scenario& scenario = simulated.scenario;
  JsonWriter json;
  json.object([&] {
    json.put("backend", std::string_view("sim"));
    put_way(json, scenario);
    put_machine(json, scenario, simulated.hardware);
    put_figures(json, simulated.figures);
    json.array("ranks", [&] {
      for (const int rank : told_ranks(scenario.job.world_size, kMostRanksInJson))
        put_rank(json, simulated, rank);
    });
    if (!simulated.simulation.path.ranks.empty()) put_path(json, simulated.simulation.path);
    json.array("ring_order", [&] {
      for (const int rank : simulated.ring) json.value(Index{rank});
    });
    json.put("recorded_ranks", Index{simulated.recorded_ranks});
    json.put("steps", simulated.simulation.steps);
    json.put("simulated_in_s", simulated.simulated_in_s);
  });
  return json.text() + "\n";
}

std::string ways_json(const std::vector<SimulatedWay>& ways, const SimulatedHardware& hardware) {
  JsonWriter json;
  json.object([&] {
    json.put("backend", std::string_view("sim"));
    put_machine(json, ways.front().scenario, hardware);
    json.array("schemes", [&] {
      for (const SimulatedWay& way : ways)
        json.object([&] {
          put_way(json, way.scenario);
          put_outcome(json, way.why, way.figures);
        });
    });
  });
  return json.text() + "\n";
}

std::string sweep_json(const SweepTable& table, const SimulatedHardware& hardware) {
  JsonWriter json;
  json.object([&] {
    json.put("backend", std::string_view("sim"));
    put_machine(json, table.points.front().scenario, hardware);
    json.array("sweep", [&] {
      for (const SweepPoint& point : table.points)
        json.object([&] {
          put_way(json, point.scenario);
          json.put("bytes_per_s", point.scenario.rates.bytes_per_s);
          json.put("jitter", point.scenario.jitter);
          put_outcome(json, point.why, point.figures);
        });
    });
  });
  return json.text() + "\n";
}

}  // namespace ringscope
