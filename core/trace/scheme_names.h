// The one scheme that what reads recordings must tell from the others, by the name that they give it.
#pragma once

#include <string_view>

namespace ringscope {

// All blocks are gathered before anything is attended.
inline constexpr std::string_view kGathersFirst = "allgather";

}  // namespace ringscope
