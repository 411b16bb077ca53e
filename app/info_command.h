// `ringscope info`: what this build and this machine can do, and why not the rest.
#pragma once

namespace ringscope {

// Prints it on stdout; returns 0. Throws RunError when stdout can't be written to.
int info_command();

}  // namespace ringscope
