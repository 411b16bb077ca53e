// What a process must know to join a run's lifeline: where rank 0 listens, and two secrets. Who
// knocks shows the first, so that rank 0 knows a member of the run from a stranger; rank 0 answers
// with the second, so that a member knows rank 0 from whatever else has that port on another host.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ringscope {

using Secret = std::array<std::uint8_t, 16>;

struct Invitation {
  std::vector<std::string> addresses;  // numeric
  int port = 0;
  Secret knock{};
  Secret answer{};
};

// To this host: all its addresses but link-local ones, the loopback first; new secrets. Throws
// RunError.
Invitation invitation_to_this_host(int port, bool with_ipv6);

// "127.0.0.1,10.0.0.7/41234/<32 hex digits>/<32 hex digits>"
std::string to_text(const Invitation& invitation);
// Throws RunError.
Invitation invitation_from(const std::string& text);

}  // namespace ringscope
