// Which commit this program was built from.
#pragma once

#include <string>

namespace ringscope::cuda {

// "1a2b3c4d5e6f" as git had it when the build was configured, or "unknown" without git.
std::string build_commit();

}  // namespace ringscope::cuda
