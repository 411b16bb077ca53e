// What every kind of run says about itself in its recording, and what it must be right about before
// it starts.
#pragma once

#include <string_view>

#include "core/ring/config.h"
#include "core/trace/event.h"

namespace ringscope {

// Throws InputError for an impossible config.
void check_config(const RingConfig& config);

// With no offsets between the ranks' clocks, and now as its base time.
RunInfo run_info(const RingConfig& config, std::string_view backend);

}  // namespace ringscope
