// The lanes that a rank's slices lie on, and the passes that they belong to.
#pragma once

#include <cstdint>
#include <string_view>

namespace ringscope {

enum class Lane : std::uint8_t { compute, send, recv, wait };
inline constexpr Lane kAllLanes[] = {Lane::compute, Lane::send, Lane::recv, Lane::wait};

enum class Pass : std::uint8_t { forward, backward };

constexpr std::string_view name_of(Lane lane) {
  constexpr std::string_view names[] = {"compute", "send", "recv", "wait"};
  return names[static_cast<int>(lane)];
}
constexpr std::string_view name_of(Pass pass) {
  return pass == Pass::forward ? "forward" : "backward";
}

}  // namespace ringscope
