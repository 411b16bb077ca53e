// What a process must know to join a run's lifeline: where rank 0 listens, and two secrets. A
// process that connects shows the first, so rank 0 can tell the run's members from strangers. Rank
// 0 answers with the second, so a member can tell rank 0 from another host's program at that port.
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
  Secret join_secret{};
  Secret answer{};
};

// Return an invitation to this host, with new secrets and all its addresses except link-local ones,
// the loopback first. Throw RunError.
Invitation invitation_to_this_host(int port, bool with_ipv6);

// Return a text such as "127.0.0.1,10.0.0.7/41234/<32 hex digits>/<32 hex digits>".
std::string to_text(const Invitation& invitation);
// Return the invitation in `text`. Throw RunError.
Invitation invitation_from(const std::string& text);

}  // namespace ringscope
