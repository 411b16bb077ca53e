// The loss curve of a training run: the data for its picture, and a table of it for other programs.
#pragma once

#include <string>
#include <vector>

#include "core/base/math.h"

namespace ringscope {

struct LossCurve {
  std::vector<double> losses;  // one per step, in nats per byte
  Index first_step = 1;        // step of losses[0]
  // Nats per byte of the text for a model that knows only how often each byte occurs.
  double unigram_entropy = 0;
  std::string title;  // names the run
};

// ---
// The loss of every step as a table for other programs: `step,loss`, one row per step in the order
// of steps. Losses have nine digits, which tell all f32 apart, so reading gives them back. Further
// columns say where the rows come from; they are filled in the first row of every run that went on
// with the table, so that a resumed run keeps what the one before it said.

struct StepLoss {
  Index step = 0;   // counted from 1
  double loss = 0;  // in nats per byte
  // "" or six fields of CSV, each after a comma: the version, commit, command, seed, machine and
  // time of the run that begins here.
  std::string origin = {};

  bool operator==(const StepLoss&) const = default;
};

// Write the file anew, whole or not at all. Throw as AtomicFile does.
void write_loss_csv(const std::string& path, const std::vector<StepLoss>& losses);

// Throw InputError that names the path, and the line that doesn't belong in such a table.
std::vector<StepLoss> read_loss_csv(const std::string& path);

}  // namespace ringscope
