#include "core/decode/sampling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/random.h"

namespace ringscope {
namespace {

constexpr std::uint64_t kStream = 0x73616d70;  // no other's

}  // namespace

void validate(const Sampling& sampling) {
  if (!(sampling.temperature >= 0) || !std::isfinite(sampling.temperature))
    throw InputError(
        fmt::format("temperature: {} given, 0 or above accepted", sampling.temperature));
}

std::uint8_t sample(const Sampling& sampling, Index vocab, const float* logits,
                    std::uint64_t place) {
  for (Index i = 0; i < vocab; ++i)
    if (!std::isfinite(logits[i]))
      throw RunError(fmt::format("the logit of byte {} is {}", i, logits[i]));
  const float* const largest = std::max_element(logits, logits + vocab);
  const auto likeliest = static_cast<std::uint8_t>(largest - logits);
  if (sampling.temperature == 0) return likeliest;
  const auto weight = [&](Index i) {
    return std::exp((static_cast<double>(logits[i]) - *largest) / sampling.temperature);
  };
  double sum = 0;
  for (Index i = 0; i < vocab; ++i) sum += weight(i);
  double rest = unit_interval(random_bits(sampling.seed, kStream, place)) * sum;
  for (Index i = 0; i < vocab; ++i)
    if ((rest -= weight(i)) < 0) return static_cast<std::uint8_t>(i);
  return likeliest;  // rounding left a last bit of `rest`
}

}  // namespace ringscope
