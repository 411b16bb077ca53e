// The loss of every step as a table for other programs: `step,loss`, a row a step, in the order of
// steps. Losses have the nine digits that tell all f32 apart, so reading gives back what was
// written.
#pragma once

#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

struct StepLoss {
  Index step = 0;   // counted from 1
  double loss = 0;  // in nats a byte

  bool operator==(const StepLoss&) const = default;
};

// Writes the file anew, whole or not at all. Throws as AtomicFile.
void write_loss_csv(const std::string& path, const std::vector<StepLoss>& losses);

// Throws InputError that names the path, and the line that no such table has.
std::vector<StepLoss> read_loss_csv(const std::string& path);

}  // namespace ringscope
