// A training run as a file, from which it goes on as if it had never stopped: settings, weights,
// and what AdamW remembers. It says nothing of ranks, so it can be taken up by another number of
// them.
//
// 64-bit words, little-endian: a magic number, a header of counts and settings, the mask's text,
// the weights and the moments as f32, and a checksum of all of it. The header says how long the
// file is, so one that was cut short is known at once; the checksum finds every damaged word.
//
// It is written as a file without a name that takes its place when it is whole and on the disk
// (AtomicFile): whoever is killed meanwhile leaves the one before it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/train/training_settings.h"

namespace ringscope {

struct Checkpoint {
  TrainingSettings settings;
  Index step = 0;              // done so far
  std::vector<float> values;   // as in ParameterStore
  std::vector<float> moments;  // as in AdamW
};

// What the file holds, for whoever hands it to another process. The first throws
// std::invalid_argument unless there are as many values and moments as the shape has weights; the
// second InputError as load_checkpoint, but for the path.
std::string to_bytes(const Checkpoint& checkpoint);
Checkpoint checkpoint_from(std::string_view bytes);

// Throws as to_bytes, and as AtomicFile: InputError when the place cannot be written to, RunError
// when the disk is full.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Throws InputError that names the path and what is wrong with the file; never believes a size that
// the file does not have.
Checkpoint load_checkpoint(const std::string& path);

}  // namespace ringscope
