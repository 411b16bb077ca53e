// Which Ringscope this is.
#pragma once

#include <string>

namespace ringscope {

// "0.1.0, commit 1a2b3c4d5e6f", or "0.1.0" when it was not built from a git checkout.
std::string version_text();

}  // namespace ringscope
