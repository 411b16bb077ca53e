// Who asked for it: what goes wrong below the command line is told with the flag that led there.
#pragma once

#include <string>

#include "core/base/error.h"

namespace ringscope {

// Returns f(). What it throws of InputError and RunError is thrown on with `flag` ("--q", or
// "--dtype:" where no file name follows) before the message.
template <class F>
auto for_flag(const std::string& flag, F&& f) {
  try {
    return f();
  } catch (const InputError& error) {
    throw InputError(flag + " " + error.what());
  } catch (const RunError& error) {
    throw RunError(flag + " " + error.what(), error.rank(), error.step());
  }
}

}  // namespace ringscope
