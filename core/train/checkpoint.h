// A training run as a file, from which it goes on as if it had never stopped: settings, weights,
// and what AdamW remembers. It doesn't mention ranks, so another number of them can take it up.
//
// It consists of 64-bit words, little-endian: a magic number, a header of counts, the text's mark and settings, the
// mask's text, the weights and the moments as f32, and a checksum of all of it. The header gives
// the file's length, so a file cut short is recognised at once; the checksum finds any damaged
// word.
//
// The file is written without a name, and takes its place when it is whole and on the disk
// (AtomicFile). A process that is killed meanwhile leaves the previous file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/train/training_settings.h"

namespace ringscope {

struct Checkpoint {
  TrainingSettings settings;
  Index step = 0;               // training steps done so far
  std::vector<float> values;    // as in ParameterStore
  std::vector<float> moments;   // as in AdamW
  Index planned_steps = 0;      // that the run was to do in all; 0: not known
  std::uint64_t text_mark = 0;  // text_mark() of what it learned; 0: not known
};

// Return a number that tells texts apart, never 0.
std::uint64_t text_mark(std::string_view text);

// Convert to and from the bytes of the file, for example to hand them to another process.
// to_bytes() throws std::invalid_argument unless there are as many values and moments as the shape
// has weights. checkpoint_from() throws InputError as load_checkpoint() does, without the path.
std::string to_bytes(const Checkpoint& checkpoint);
Checkpoint checkpoint_from(std::string_view bytes);

// Throw as to_bytes() and AtomicFile do: InputError when the place cannot be written to, RunError
// when the disk is full.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Throw InputError that names the path and what is wrong with the file. A size that the file
// doesn't have is never believed.
Checkpoint load_checkpoint(const std::string& path);

}  // namespace ringscope
