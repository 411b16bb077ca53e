#include "core/process/invitation.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/random.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::size_t kMaxAddresses = 64;
constexpr std::string_view kDigits = "0123456789abcdef";

Secret new_secret() {
  Secret secret;
  // The system delivers up to 256 bytes at once.
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
    throw RunError("the system gives no random numbers");
  return secret;
}

// Return the numeric address; empty for one that others could not reach.
std::string address_of(const ifaddrs& entry, bool with_ipv6) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_UP) == 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(*entry.ifa_addr);
    (void)::inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
  } else if (entry.ifa_addr->sa_family == AF_INET6 && with_ipv6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(*entry.ifa_addr);
    if (!IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr))
      (void)::inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
  }
  return text;
}

[[noreturn]] void refuse() { throw RunError("the invitation of rank 0 came damaged"); }

Secret secret_from(std::string_view text) {
  Secret secret;
  if (text.size() != 2 * secret.size()) refuse();
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const std::size_t high = kDigits.find(text[2 * i]), low = kDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) refuse();
    secret[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return secret;
}

}  // namespace

Invitation invitation_to_this_host(int port, bool with_ipv6) {
  Invitation invitation;
  invitation.port = port;
  invitation.join_secret = new_secret();
  invitation.answer = new_secret();
  invitation.addresses = {"127.0.0.1"};
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return invitation;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const std::string address = address_of(*entry, with_ipv6);
    std::vector<std::string>& known = invitation.addresses;
    if (!address.empty() && known.size() < kMaxAddresses &&
        std::find(known.begin(), known.end(), address) == known.end())
      known.push_back(address);
  }
  return invitation;
}

std::string to_text(const Invitation& invitation) {
  return fmt::format("{}/{}/{:02x}/{:02x}", fmt::join(invitation.addresses, ","), invitation.port,
                     fmt::join(invitation.join_secret, ""), fmt::join(invitation.answer, ""));
}

Invitation invitation_from(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() != 4) refuse();
  Invitation invitation;
  for (const std::string_view address : split(parts[0], ','))
    invitation.addresses.emplace_back(address);
  invitation.port = parse_number<int>(parts[1]).value_or(0);
  if (invitation.addresses.size() > kMaxAddresses || invitation.port < 1 || invitation.port > 65535)
    refuse();
  invitation.join_secret = secret_from(parts[2]);
  invitation.answer = secret_from(parts[3]);
  return invitation;
}

}  // namespace ringscope
