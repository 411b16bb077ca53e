// How blocks get around: in a ring, one hop a step beside the computation, or all at once before
// it, which is what the ring is compared with.
#pragma once

#include <string_view>

namespace ringscope {

enum class Scheme { ring, allgather };

inline constexpr Scheme kAllSchemes[] = {Scheme::ring, Scheme::allgather};

constexpr std::string_view name_of(Scheme scheme) {
  return scheme == Scheme::ring ? "ring" : "allgather";
}

// Throws InputError that lists the accepted names.
Scheme parse_scheme(std::string_view text);

}  // namespace ringscope
