// The commit that this program was built from.
#pragma once

#include <string>

namespace ringscope {

// Return git's hash at configure time, such as "1a2b3c4d5e6f", or "unknown" without git.
std::string build_commit();

}  // namespace ringscope
