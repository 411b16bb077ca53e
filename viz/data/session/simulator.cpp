#include "viz/data/session/simulator.h"

#include <fmt/format.h>

#include "core/tools/sim/scenario_rows.h"

namespace ringscope::viz {

Scenario ring_of(const Settings& settings) {
  Scenario ring;
  ring.job.shape = {1, 32, 8, 32768, 128};
  ring.job.dtype = DType::bf16;
  ring.job.hops = Hops::needed;
  ring.job.mask = MaskSpec::parse("causal");
  ring.job.world_size = 8;
  ring.rates = rates_of(find_gpu("H100"), find_link("NVLink4"), DType::bf16);
  for (const auto& [name, value] : settings) read_member(ring, name, value, "--" + name);
  return ring;
}

const std::vector<Slider>& sliders() {
  static const std::vector<Slider> all = {
      {"ranks", "world-size", {"2", "4", "8", "16", "32", "64"}, 2},
      {"positions", "seqlen", {"8k", "16k", "32k", "64k", "128k", "256k", "512k", "1M"}, 2},
      {"mask", "mask", {"full", "causal", "causal+window:4096"}, 1},
      {"partition", "partition", {"contiguous", "striped", "zigzag", "fold"}, 0},
      {"speed of rank 1", "straggler", {"0.3", "0.5", "0.7", "0.9", "1"}, 4, "1:", " \u00d7"},
      {"link of rank 1", "slow-link", {"0.01", "0.03", "0.1", "0.3", "1"}, 4, "1:", " \u00d7"}};
  return all;
}

Settings settings_at(const std::vector<int>& places) {
  Settings settings{{"kv-buffers", "2"}};
  for (std::size_t i = 0; i < places.size(); ++i)
    settings.emplace_back(sliders()[i].setting,
                          std::string(sliders()[i].before) + sliders()[i].values[places[i]]);
  return settings;
}

std::string command_at(const std::vector<int>& places) {
  std::string command = "ringscope simulate --gpu H100 --link NVLink4 --heads-kv 8";
  for (const auto& [name, value] : settings_at(places))
    command += fmt::format(" --{} {}", name, value);
  return command + " --trace ring.json";
}

}  // namespace ringscope::viz
