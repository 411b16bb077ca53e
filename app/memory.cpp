#include "app/memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "app/verify.h"
#include "core/base/error.h"

namespace ringscope {
namespace {

// The number that a file holds, if it holds one ("max" is none).
std::optional<Index> number_in(const std::string& path) {
  std::ifstream file(path);
  Index value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// kB after `key` in a file of "key: value kB" lines.
std::optional<Index> kilobytes_in(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with(key)) continue;
    std::istringstream rest(line.substr(key.size()));
    Index value = 0;
    if (rest >> value) return value * 1024;
  }
  return std::nullopt;
}

// The control groups of this process, innermost first, as folders. Lines of /proc/self/cgroup read
// "0::/path" (version 2) or "n:…memory…:/path" (version 1).
std::vector<std::string> control_groups() {
  std::vector<std::string> folders;
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && controllers.find("memory") == std::string::npos) continue;
    const std::string root = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    std::string path = line.substr(second + 1);
    // In a container the path may be the host's, and only the root is there to be read.
    for (; !path.empty() && path != "/"; path = path.substr(0, path.rfind('/')))
      folders.push_back(root + path);
    folders.push_back(root);
  }
  return folders;
}

Index product(Index a, Index b) { return checked_product(a, b, "memory"); }

Index sum(std::initializer_list<Index> terms) {
  Index total = 0;
  for (const Index term : terms)
    if (__builtin_add_overflow(total, term, &total))
      throw InputError("memory: the bytes of this run don't fit in 64 bits; give smaller sizes");
  return total;
}

// What the ranks hold beside the tensors of the whole sequence.
Index ranks_bytes(const RingConfig& config) {
  Index total = 0;
  for (int rank = 0; rank < config.world_size; ++rank)
    total = sum({total, predicted_rank_bytes(config, rank)});
  return total;
}

// Room for the events of every step, of both passes: at most a compute slice, and for each of two
// payloads a wait, a send and a recv. Held twice for a moment, by the recorders and by the
// recording.
Index recording_bytes(const RingConfig& config) {
  constexpr Index kEventsPerStep = 2 * 7, kSamplesPerStep = 3;
  return 2 * Index{config.world_size} * config.world_size *
         (kEventsPerStep * static_cast<Index>(sizeof(TraceEvent)) +
          kSamplesPerStep * static_cast<Index>(sizeof(SoftmaxSample)));
}

}  // namespace

MemoryLimit available_memory() {
  MemoryLimit limit{INT64_MAX, "no limit found"};
  const auto consider = [&limit](std::optional<Index> bytes, const std::string& source) {
    if (bytes && *bytes < limit.bytes) limit = {std::max<Index>(*bytes, 0), source};
  };
  consider(kilobytes_in("/proc/meminfo", "MemAvailable:"), "free on this machine");
  for (const std::string& folder : control_groups())
    for (const auto& [most, now] : {std::pair{"/memory.max", "/memory.current"},
                                    {"/memory.limit_in_bytes", "/memory.usage_in_bytes"}})
      if (const auto bytes = number_in(folder + most))
        consider(*bytes - number_in(folder + now).value_or(0),
                 "left in the control group " + folder);
  rlimit address_space{};
  if (::getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    consider(static_cast<Index>(address_space.rlim_cur) -
                 kilobytes_in("/proc/self/status", "VmSize:").value_or(0),
             "left of this process's address space limit");
  return limit;
}

Index run_bytes(const RingConfig& config, bool dout_given, bool verify) {
  const AttentionShape& shape = config.shape;
  const Index query = checked_values(shape.batch, shape.num_heads, shape.seqlen, shape.head_dim);
  const Index kv = checked_values(shape.batch, shape.num_heads_kv, shape.seqlen, shape.head_dim);
  const Index rows = query / shape.head_dim;
  const Index inputs = sum({query, product(2, kv), dout_given ? query : 0});
  const Index outputs = sum({query, rows, config.backward ? sum({query, product(2, kv)}) : 0});
  const Index tensors = product(4, sum({inputs, outputs}));
  const Index run = sum({ranks_bytes(config), recording_bytes(config)});
  return sum({tensors, std::max(run, verify ? reference_bytes(config) : 0)});
}

std::string bytes_text(Index bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

void require_memory(Index needed) {
  const MemoryLimit limit = available_memory();
  if (needed <= limit.bytes) return;
  throw RunError(fmt::format("memory: {} needed, {} {}; give smaller sizes", bytes_text(needed),
                             bytes_text(limit.bytes), limit.source));
}

}  // namespace ringscope
