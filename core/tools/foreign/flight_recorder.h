// Reads what NCCL's flight recorder in PyTorch leaves of a hang, one pickle or JSON text per rank, and
// says which rank the others wait for. A pickle is a program; the reader here knows only the
// instructions that build plain values, and runs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tools/explain/diagnosis.h"

namespace ringscope {

// One operation that a rank asked for, in the order of asking.
struct FlightOp {
  std::string group;          // name of the process group
  std::string name;           // "all_gather", "send 0->3": ranks within the group
  std::int64_t group_id = 0;  // the rank's own number of the group
  std::int64_t sequence = 0;  // within the group; of a send or receive: its call's number
  bool completed = false;
  bool is_p2p = false;
};

// What one rank left.
struct FlightDump {
  int rank = 0;
  std::string file;
  std::map<std::string, std::vector<int>> groups;       // members, by the group's name
  std::map<std::int64_t, std::int64_t> last_completed;  // of collectives, by group_id
  std::vector<FlightOp> ops;
};

// Return whether a file that begins with these bytes may be a dump.
constexpr bool may_be_flight_dump(std::string_view bytes) {
  if (bytes.size() > 2 && bytes[0] == '\x80') return bytes[1] >= 2 && bytes[1] <= 5;
  const auto has = [&](std::string_view key) { return bytes.find(key) != std::string_view::npos; };
  return bytes.starts_with('{') && !has("\"traceEvents\"") &&
         (has("\"pg_config\"") || has("\"pg_status\"") || has("\"collective_seq_id\""));
}

inline constexpr std::int64_t kMaxFlightBytes = 64 << 20;

// Read the bytes of a dump. They may be hostile: InputError names the byte offset of what is wrong.
// Memory stays below a bound that does not depend on what the bytes claim.
FlightDump parse_flight_dump(std::string_view bytes, int rank);

// Read a file, whose name ends with its rank ("nccl_trace_rank_3", "_dump_3"). Throw InputError
// that names `path`.
FlightDump read_flight_dump(const std::string& path);

// Say whom the ranks wait for. Each finding is a fault with a rank, the one that most ranks wait for
// first; one without a rank, and with little confidence, if ranks wait but no culprit can be told.
// There is no finding if no operation is pending. Throw InputError for two dumps of one rank.
Explanation explain_hang(const std::vector<FlightDump>& dumps);

}  // namespace ringscope
