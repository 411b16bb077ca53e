// The next byte of a text, drawn from a model's logits: byte i with probability in proportion to
// e^(logit_i / temperature). Temperature 0 takes the likeliest, which is what that tends to.
//
// A pure function: what is drawn at a place of the text depends on seed and place, not on what was
// drawn before, so every rank draws the same byte by itself, and a text can be gone on with.
#pragma once

#include <cstdint>

#include "core/base/math.h"

namespace ringscope {

struct Sampling {
  double temperature = 1;
  std::uint64_t seed = 0;
};

// Throws InputError that names the temperature: not finite, or below 0.
void validate(const Sampling& sampling);

// logits: [vocab], vocab in [1, 256]; `place` numbers the draws of one seed. Of equally likely
// bytes temperature 0 takes the first. Throws RunError when a logit is NaN or infinite.
std::uint8_t sample(const Sampling& sampling, Index vocab, const float* logits,
                    std::uint64_t place);

}  // namespace ringscope
