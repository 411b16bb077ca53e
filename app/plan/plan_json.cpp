// The plan as JSON for programs.
#include <string_view>

#include "app/plan/plan.h"
#include "app/report/json_writer.h"
#include "core/cost/traffic.h"
#include "core/sim/scenario.h"

namespace ringscope {
namespace {

void put_machine(JsonWriter& json, const Plan& plan) {
  json.key("machine");
  json.object([&] {
    json.put("gpu", std::string_view(plan.gpu.name));
    json.put("link", std::string_view(plan.link.name));
    json.put("measured", plan.options.hardware.measure);
    json.put("forward_flops", plan.rates.forward_flops);
    json.put("backward_flops", plan.rates.backward_flops);
    json.put("bytes_per_s", plan.rates.bytes_per_s);
    json.put("latency_s", plan.rates.latency_s);
    json.put("memory_bytes", plan.gpu.memory_bytes);
    json.put("memory_limit_bytes", plan.memory_limit);
  });
}

void put_problem(JsonWriter& json, const Problem& job) {
  json.put("world_size", Index{job.world_size});
  json.put("mask", std::string_view(job.mask.name()));
  json.put("dtype", name_of(job.dtype));
  json.put("backward", job.backward);
  json.put("layers", job.layers);
  put_shape(json, job.shape);
}

void put_pass(JsonWriter& json, std::string_view name, const PassTime& time) {
  json.key(name);
  json.object([&] {
    json.put("total_s", time.total());
    json.put("compute_s", time.compute);
    json.put("imbalance_s", time.imbalance);
    json.put("exposed_s", time.exposed);
  });
}

void put_choice(JsonWriter& json, const Choice& choice, std::string_view partition, bool is_best) {
  json.object([&] {
    json.put("scheme", name_of(choice.job.scheme));
    json.put("partition", partition);
    json.put("best", is_best);
    json.put("feasible", !choice.obstacle);
    choice.obstacle ? json.put("why", std::string_view(*choice.obstacle)) : json.null("why");
    json.put("total_s", choice.time.total());
    put_pass(json, "forward", choice.time.forward);
    if (choice.job.backward) put_pass(json, "backward", choice.time.backward);
    json.put("imbalance", choice.balance.imbalance());
    json.put("balance_ceiling", choice.balance.ceiling());
    json.put("sampled", choice.balance.sampled);
    json.put("peak_bytes", choice.peak_bytes);
    const Traffic traffic = traffic_of(choice.job, 0);
    json.put("bytes_sent", traffic.bytes());
    json.put("hops", traffic.hops);
  });
}

bool is_same_way(const Problem& a, const Problem& b) {
  return a.scheme == b.scheme && a.partition == b.partition;
}

void put_overlap(JsonWriter& json, std::string_view name, const Overlap& overlap) {
  json.key(name);
  json.object([&] {
    json.put("threshold_rows", overlap.threshold_rows);
    json.put("headroom", overlap.headroom);
  });
}

}  // namespace

std::string plan_json(const Plan& plan) {
  const Choice& chosen = plan.chosen;
  JsonWriter json;
  json.object([&] {
    json.put("feasible", !chosen.obstacle);
    chosen.obstacle ? json.put("why", std::string_view(*chosen.obstacle)) : json.null("why");
    put_problem(json, chosen.job);
    put_machine(json, plan);
    json.key("chosen");
    put_choice(
        json, chosen, plan.searched ? kSearched : name_of(chosen.job.partition),
        !plan.searched && plan.best && is_same_way(plan.choices[*plan.best].job, chosen.job));
    if (plan.searched) put_searched(json, *plan.searched);
    json.array("memory", [&] {
      for (const MemoryPart& part : plan.memory)
        json.object([&] {
          json.put("part", std::string_view(part.name));
          json.put("bytes", part.bytes);
          json.put("formula", std::string_view(part.formula));
        });
    });
    if (plan.model) put_model(json, plan);
    json.put("rows", plan.rows);
    json.put("share", plan.share);
    if (chosen.job.world_size > 1) {
      put_overlap(json, "overlap_forward", plan.forward);
      if (chosen.job.backward) put_overlap(json, "overlap_backward", plan.backward);
    }
    json.array("choices", [&] {
      for (std::size_t i = 0; i < plan.choices.size(); ++i)
        put_choice(json, plan.choices[i], name_of(plan.choices[i].job.partition), plan.best == i);
    });
    json.put("largest_seqlen", plan.largest_seqlen);
    plan.smallest_world_size ? json.put("smallest_world_size", Index{*plan.smallest_world_size})
                             : json.null("smallest_world_size");
    plan.hidden_seqlen ? json.put("hidden_seqlen", *plan.hidden_seqlen)
                       : json.null("hidden_seqlen");
    if (plan.options.explain) json.put("explanation", std::string_view(plan_explanation(plan)));
  });
  return json.text() + "\n";
}

}  // namespace ringscope
