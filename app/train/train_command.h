// `ringscope train`: a small language model learns a text, with the ring inside.
#pragma once

#include "app/train/train_options.h"

namespace ringscope {

class TrainJournal;
struct TrainSetup;

// Returns the exit status. Throws InputError, RunError, std::bad_alloc.
int train_command(const TrainOptions& options);

// What comes after the last step, wherever the ranks were: files, text from the model, the report.
// `seconds`: from the first step to the last. Tries all of them; throws RunError with the first
// that failed.
void conclude_training(const TrainOptions& options, const TrainSetup& setup, TrainJournal& journal,
                       const FinishedTraining& finished, double seconds);

// From the monotonic clock: what a run's time is counted from.
class Stopwatch {
 public:
  Stopwatch();
  double seconds() const;

 private:
  std::int64_t begin_ns_;
};

}  // namespace ringscope
