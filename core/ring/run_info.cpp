#include "core/ring/run_info.h"

#include <chrono>
#include <cmath>

#include "core/base/error.h"

namespace ringscope {

void check_config(const RingConfig& config) {
  validate(config.shape);
  if (config.world_size < 1)
    throw InputError("world-size: " + std::to_string(config.world_size) +
                     " given, at least 1 accepted");
  if (config.kv_buffers < 2)
    throw InputError("kv-buffers: " + std::to_string(config.kv_buffers) +
                     " given, at least 2 accepted");
  if (!(config.timeout_s > 0 && std::isfinite(config.timeout_s)))
    throw InputError("timeout: " + std::to_string(config.timeout_s) +
                     " given, seconds above 0 accepted");
  if (config.injection) check_injection(*config.injection, config.world_size);
}

RunInfo run_info(const RingConfig& config, std::string_view backend) {
  RunInfo info;
  info.backend = backend;
  info.partition = name_of(config.partition);
  info.mask = config.mask.name();
  info.scheme = name_of(config.scheme);
  info.dtype = name_of(config.dtype);
  info.shape = config.shape;
  info.kv_buffers = config.used_kv_buffers();
  info.world_size = config.world_size;
  info.clock_offset_ns.assign(static_cast<std::size_t>(config.world_size), 0);
  info.clock_error_ns.assign(static_cast<std::size_t>(config.world_size), 0);
  info.base_time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  return info;
}

}  // namespace ringscope
