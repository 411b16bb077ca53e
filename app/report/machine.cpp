#include "app/report/machine.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "app/run/report.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/sim/graph.h"

namespace ringscope {

namespace {

// More than a process gets of 64-bit addresses.
constexpr Index kAddressSpace = Index{1} << 48;

// Return the number that a file holds, or none if it holds no number (such as "max").
std::optional<Index> number_in_file(const std::string& path) {
  std::ifstream file(path);
  Index value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

// Return the number after `key` in a file of lines "key number" or "key: number kB", or 0.
Index number_after(const std::string& key, const std::string& path) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string first;
    Index value = 0;
    if (words >> first >> value && first == key) return value;
  }
  return 0;
}

// Return the folders of this process's control groups, innermost first. Lines of /proc/self/cgroup
// read "0::/path" (version 2) or "n:…memory…:/path" (version 1).
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
    // In a container the path may be the host's, so only the root can be read.
    for (; !path.empty() && path != "/"; path = path.substr(0, path.rfind('/')))
      folders.push_back(root + path);
    folders.push_back(root);
  }
  return folders;
}

// The names of the files in the two versions of control groups, and the key in memory.stat for the
// bytes of files not used recently. These bytes count as used, but are given up when memory gets
// short.
struct GroupFiles {
  const char *limit, *used, *reclaimable;
};
constexpr GroupFiles kGroupFiles[] = {
    {"/memory.max", "/memory.current", "inactive_file"},
    {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"}};

// All sums are floating point, which can't overflow; whole bytes don't matter.

double input_bytes(const Problem& config, bool dout_given) {
  const auto [query, kv, rows] = sizes_of(config.shape);
  return 4 * (query + 2 * kv + (dout_given ? query : 0));
}

// Return the bytes of the outputs as f32.
double output_bytes(const Problem& config) {
  const auto [query, kv, rows] = sizes_of(config.shape);
  return 4 * (query + rows + (config.backward ? query + 2 * kv : 0));
}

// Return what the ranks of this process hold besides the tensors of the whole sequence.
double ranks_bytes(const Problem& config, const std::optional<int>& only) {
  double total = 0;
  for (int rank = only.value_or(0); rank < (only ? *only + 1 : config.world_size); ++rank)
    total += static_cast<double>(predicted_rank_bytes(config, rank));
  return total;
}

// Return what a recording has at least: no rank of any scheme is done in fewer steps than those of a
// square mesh. Unlike recording_bytes() this takes no time, however many ranks there are.
double least_recording_bytes(const Problem& config) {
  const double ranks = config.world_size;
  return 2 * ranks * std::sqrt(ranks) * static_cast<double>(sizeof(TraceEvent));
}

// Count the events of every step, in both passes: at most a compute slice and, for each of two
// payloads, a wait, a send and a recv. Each pass ends with one more wait. In other schemes than the
// ring, count what the last rank does, of which no rank does much more.
double recording_bytes(const Problem& config) {
  const double ranks = config.world_size;
  if (!is_plain(config)) {
    const LoopCounts counts = count_loop(config, config.world_size - 1, false);
    return ranks * (static_cast<double>(counts.events * sizeof(TraceEvent)) +
                    static_cast<double>(counts.samples * sizeof(SoftmaxSample)));
  }
  return ranks * (2 * (7 * ranks + 1) * static_cast<double>(sizeof(TraceEvent)) +
                  3 * ranks * static_cast<double>(sizeof(SoftmaxSample)));
}

void require(double needed, const MemoryLimit& limit,
             const std::string& advice = "smaller sizes or fewer ranks") {
  if (needed <= static_cast<double>(limit.bytes)) return;
  throw RunError(fmt::format("memory: {} needed, {} {}; give {}", bytes_text(needed),
                             bytes_text(static_cast<double>(limit.bytes)), limit.source, advice));
}

}  // namespace

std::string machine_text() {
  std::string processor = "unknown processor", line;
  for (std::ifstream file("/proc/cpuinfo"); std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != line.npos) {
      processor = line.substr(line.find(": ") + 2);
      break;
    }
  utsname system{};
  ::uname(&system);
  return fmt::format("{}, {}, {} {}", processor, count_text(cores(), "core"), system.sysname,
                     system.release);
}

MemoryLimit available_memory() {
  MemoryLimit limit{kAddressSpace, "of address space"};
  const auto consider = [&limit](Index bytes, const std::string& source) {
    if (bytes < limit.bytes) limit = {std::max<Index>(bytes, 0), source};
  };
  if (const Index free = number_after("MemAvailable:", "/proc/meminfo"); free > 0)
    consider(free * 1024, "free on this machine");
  for (const std::string& folder : control_groups())
    for (const GroupFiles& files : kGroupFiles)
      if (const auto most = number_in_file(folder + files.limit)) {
        const Index used = number_in_file(folder + files.used).value_or(0);
        const Index reclaimable = number_after(files.reclaimable, folder + "/memory.stat");
        consider(*most - std::max<Index>(used - reclaimable, 0),
                 "left in the control group " + folder);
      }
  rlimit address_space{};
  if (::getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    const auto most = std::min(address_space.rlim_cur, static_cast<rlim_t>(kAddressSpace));
    consider(static_cast<Index>(most) - number_after("VmSize:", "/proc/self/status") * 1024,
             "left of this process's address space limit");
  }
  return limit;
}

CpuFigures measured_kernels(const Problem& job, int ranks) {
  const double block_bytes = block_values(job.shape, job.max_rows()) * job.storage_bytes();
  return measure_cpu({.head_dim = job.shape.mean_width(),
                      .dtype = job.dtype,
                      .backward = job.backward,
                      .threads = std::min(2 * cores(), ranks),
                      .world_size = std::min(job.world_size, 8),
                      .block_bytes = static_cast<Index>(std::min(block_bytes, 8.0 * (1 << 20)))});
}

// ---
// How much memory a run needs. Outputs and the recording (in the recorders, and gathered) are there
// throughout; beside them first inputs and ranks, and then inputs and a Reference. Loading inputs never
// takes the most, because a text and its hashes take 9 bytes a token and the ranks at least 18.

void require_memory(const Problem& config, const MemoryUse& use) {
  const MemoryLimit limit = available_memory();
  const double processes = use.rank ? config.world_size : 1;
  require(least_recording_bytes(config) / processes, limit);
  const double inputs = input_bytes(config, use.dout_given), outputs = output_bytes(config);
  const double recorders = recording_bytes(config) / processes;
  const double gathered = use.rank.value_or(0) == 0 ? recording_bytes(config) : 0;
  const double held = (use.gathers_outputs ? outputs : 0) + recorders + gathered;
  // Check this first, because ranks_bytes() loops over the ranks and counts in 64 bits. If inputs and
  // recording fit into a machine, that loop is fast and does not overflow.
  require(held + inputs / processes, limit);
  const double text =
      use.makes_text ? static_cast<double>(config.shape.seqlen) * (config.shape.batch + 8.0) : 0;
  const double reference = use.keeps_reference ? 2 * outputs : 0;  // the outputs in f64
  const double run = (use.reads_inputs ? inputs : 0) + text + reference +
                     (use.ranks_elsewhere ? 0 : ranks_bytes(config, use.rank));
  const double comparing = use.verify ? inputs + static_cast<double>(reference_bytes(config)) : 0;
  require(held + std::max(run, comparing), limit);
}

void require_bytes(double needed, const std::string& advice) {
  require(needed, available_memory(), advice);
}

void require_memory_to_simulate(const Problem& job, double task_bytes) {
  const double ranks = job.world_size;
  require_bytes(task_bytes * expected_tasks(job) + 16 * ranks * ranks, "fewer ranks");
}

void require_stack() {
  constexpr double kLeast = 256 << 10;
  rlimit stack{};
  if (::getrlimit(RLIMIT_STACK, &stack) == 0 && static_cast<double>(stack.rlim_cur) < kLeast)
    require(kLeast, {static_cast<Index>(stack.rlim_cur), "of stack allowed"}, "a larger ulimit -s");
}

TensorSizes sizes_of(const AttentionShape& shape) {
  const auto seqlen = static_cast<double>(shape.seqlen);
  const auto queries = static_cast<double>(shape.queries());
  return {std::max(query_values(shape, queries), out_values(shape, queries)),
          block_values(shape, seqlen) / 2, row_values(shape, queries)};
}

}  // namespace ringscope
