// `ringscope train` trains a small language model on a text, with ring attention inside.
#pragma once

#include "app/train/train_options.h"

namespace ringscope {

class TrainJournal;
struct TrainSetup;

// Return the exit status. Throw InputError, RunError, std::bad_alloc.
int train_command(const TrainOptions& options);

// Write the files, generate text from the model and print the report, wherever the ranks were.
// `seconds` lasts from the first step to the last. Try all of them, then throw RunError for the
// first that failed.
void conclude_training(const TrainOptions& options, const TrainSetup& setup, TrainJournal& journal,
                       const FinishedTraining& finished, double seconds);

// Measures a run's time by the monotonic clock.
class Stopwatch {
 public:
  Stopwatch();
  double seconds() const;

 private:
  std::int64_t begin_ns_;
};

}  // namespace ringscope
