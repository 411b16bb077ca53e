// How the loss fell, for the picture of a training run.
#pragma once

#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

struct LossCurve {
  std::vector<double> losses;  // step by step, in nats a byte
  Index first_step = 1;        // of losses[0]
  // Of the text, in nats a byte: what a model reaches that knows only how often each byte occurs.
  double unigram_entropy = 0;
  std::string title;  // of which run
};

// ---
// The loss of every step as a table for other programs: `step,loss`, a row a step, in the order of
// steps. Losses have the nine digits that tell all f32 apart, so reading gives back what was
// written.

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
