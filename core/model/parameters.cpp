#include "core/model/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace ringscope {

Parameter ParameterLayout::add_matrix(std::string name, Index rows, Index columns,
                                      double deviation) {
  return add({std::move(name), {size_, rows, columns}, deviation});
}

Parameter ParameterLayout::add_gain(std::string name, Index columns) {
  return add({std::move(name), {size_, 1, columns}, 0});
}

Parameter ParameterLayout::add(NamedParameter parameter) {
  size_ += parameter.place.size();
  all_.push_back(std::move(parameter));
  return all_.back().place;
}

ParameterStore::ParameterStore(const ParameterLayout& layout, std::uint64_t seed,
                               MemoryMeter* meter)
    : size_(layout.size()), values_(meter, size_ + 1), gradients_(meter, size_ + 1) {
  values_[size_] = 0;
  constexpr std::uint64_t kFirstStream = 16;  // attention's inputs use those below (random.h)
  std::uint64_t stream = kFirstStream;
  for (const NamedParameter& parameter : layout.all()) {
    float* const to = values_.data() + parameter.place.offset;
    if (parameter.is_gain()) std::fill_n(to, parameter.place.size(), 1.0f);
    // A uniform distribution in +-sqrt(3) has deviation 1.
    const double scale = parameter.deviation * std::sqrt(3.0);
    for (Index i = 0; !parameter.is_gain() && i < parameter.place.size(); ++i) {
      const std::uint64_t bits = random_bits(seed, stream, static_cast<std::uint64_t>(i));
      to[i] = static_cast<float>(scale * (2 * unit_interval(bits) - 1));
    }
    ++stream;
  }
}

// The sum is taken in f64 from four sums that a processor can add side by side.
double ParameterStore::squares(const Run& run) const {
  double sums[4] = {};
  const float* const g = gradients_.data() + run.first;
  for (Index i = 0; i < run.count; ++i) sums[i % 4] += static_cast<double>(g[i]) * g[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// The bits of an f32 without its sign are in the order of magnitudes, with infinity and, above it,
// NaN as the largest, and a processor finds the largest of several integers at once.
bool ParameterStore::is_finite() const {
  constexpr std::uint32_t kInfinity = 0x7f800000, kAllButSign = 0x7fffffff;
  std::uint32_t largest = 0;
  for (Index i = 0; i < size_; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(values_[i]) & kAllButSign);
  return largest < kInfinity;
}

void validate(const AdamWSettings& settings) {
  const auto accept = [](bool fits, const char* name, double value, const char* accepted) {
    if (!fits) throw InputError(fmt::format("{}: {} given, {} accepted", name, value, accepted));
  };
  const auto below_one = [](double beta) { return beta >= 0 && beta < 1; };
  accept(settings.rate > 0 && std::isfinite(settings.rate), "rate", settings.rate,
         "a number above 0");
  accept(below_one(settings.beta1), "beta1", settings.beta1, "0 to below 1");
  accept(below_one(settings.beta2), "beta2", settings.beta2, "0 to below 1");
  accept(settings.epsilon > 0, "epsilon", settings.epsilon, "a number above 0");
  accept(settings.decay >= 0, "decay", settings.decay, "0 or more");
  accept(settings.longest_gradient >= 0, "longest-gradient", settings.longest_gradient,
         "0 or more");
  accept(settings.warmup_steps >= 0, "warmup-steps", static_cast<double>(settings.warmup_steps),
         "0 or more");
}

AdamW::AdamW(const ParameterLayout& layout, const AdamWSettings& settings, MemoryMeter* meter,
             const Run& slice, Index room)
    : layout_(layout), settings_(settings), slice_(slice), moments_(meter, 2 * room) {
  moments_.fill(0);
}

void AdamW::update(ParameterStore& store, double length) {
  ++steps_;
  const AdamWSettings& s = settings_;
  const auto t = static_cast<double>(steps_);
  const bool too_long = s.longest_gradient > 0 && length > s.longest_gradient;
  const double shrink = too_long ? s.longest_gradient / length : 1;
  const double warmed = std::min(1.0, t / static_cast<double>(max_of(s.warmup_steps, 1)));
  const double rate = s.rate * warmed;
  const double unbias1 = 1 / (1 - std::pow(s.beta1, t)), unbias2 = 1 / (1 - std::pow(s.beta2, t));
  for (const NamedParameter& parameter : layout_.all()) {
    const double decay = parameter.is_gain() ? 0 : s.decay;
    const Index begin = max_of(parameter.place.offset, slice_.first);
    const Index end = parameter.place.offset + parameter.place.size();
    const Index count = min_of(end, slice_.first + slice_.count) - begin;
    float *const w = store.values() + begin, *const m = moments(0) + (begin - slice_.first),
                 *const v = moments(1) + (begin - slice_.first);
    const float* const gradients = store.gradients() + begin;
    for (Index i = 0; i < count; ++i) {
      const double g = shrink * gradients[i];
      const double mean = s.beta1 * m[i] + (1 - s.beta1) * g;
      const double square = s.beta2 * v[i] + (1 - s.beta2) * g * g;
      const double step = mean * unbias1 / (std::sqrt(square * unbias2) + s.epsilon);
      m[i] = static_cast<float>(mean);
      v[i] = static_cast<float>(square);
      w[i] = static_cast<float>(w[i] - rate * (step + decay * w[i]));
    }
  }
}

}  // namespace ringscope
