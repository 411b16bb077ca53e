#include "core/training/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/problem/shape.h"
#include "core/training/rank_groups.h"

namespace ringscope {

Parameter ParameterLayout::add_matrix(std::string name, Index rows, Index columns, double deviation,
                                      Split split) {
  return add({std::move(name), {size_, rows, columns}, deviation, split});
}

Parameter ParameterLayout::add_gain(std::string name, Index columns) {
  return add({std::move(name), {size_, 1, columns}, 0});
}

Parameter ParameterLayout::add(NamedParameter parameter) {
  size_ += parameter.place.size();
  all_.push_back(std::move(parameter));
  return all_.back().place;
}

void validate(const ModelShape& shape) {
  constexpr Index kMost = 1 << 16;
  require_between("layers", shape.layers, 0, 1 << 10);
  require_between("width", shape.width, 1, kMost);
  require_between("heads", shape.num_heads, 1, kMost);
  require_between("heads-kv", shape.num_heads_kv, 1, kMost);
  require_between("head-dim", shape.head_dim, 2, kMost);
  require_between("hidden", shape.hidden, 1, kMost);
  require_between("vocab", shape.vocab, 1, 256);
  if (shape.num_heads % shape.num_heads_kv != 0)
    throw InputError(fmt::format("heads-kv: {} given, a divisor of heads ({}) accepted",
                                 shape.num_heads_kv, shape.num_heads));
  if (shape.num_heads * shape.head_dim > kMost)
    throw InputError(fmt::format("heads x head-dim: {} given, at most {} accepted",
                                 shape.num_heads * shape.head_dim, kMost));
  if (shape.head_dim % 2 != 0)
    throw InputError(fmt::format("head-dim: {} given, an even number accepted", shape.head_dim));
  if (!(shape.rotary_base > 1) || !(shape.norm_epsilon > 0))
    throw InputError(
        fmt::format("rotary-base, norm-epsilon: {}, {} given, above 1 and above 0 "
                    "accepted",
                    shape.rotary_base, shape.norm_epsilon));
}

Problem attention_problem(const ModelShape& shape, Index batch, Index seqlen, MaskSpec mask,
                          PartitionKind partition, int world_size) {
  return {.shape = {batch, shape.num_heads, shape.num_heads_kv, seqlen, shape.head_dim},
          .mask = std::move(mask),
          .partition = partition,
          .world_size = world_size,
          .backward = true};
}

ModelShape share_of(const ModelShape& whole, int tensor) {
  validate(whole);
  check_tensor_split(whole.num_heads, whole.num_heads_kv, tensor, whole.hidden);
  ModelShape share = whole;
  share.num_heads /= tensor;
  share.num_heads_kv /= tensor;
  share.hidden /= tensor;
  return share;
}

ModelWeights::ModelWeights(const ModelShape& whole, int tensor) : shape(share_of(whole, tensor)) {
  const Index q_width = shape.num_heads * shape.head_dim;
  const Index kv_width = shape.num_heads_kv * shape.head_dim;
  // A projection of `inputs` values of variance 1 gives values of variance 1. What is added to the
  // residual is smaller, so that all layers together add about as much as the embedding.
  const auto of_inputs = [](Index inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); };
  const double added = 1 / std::sqrt(2.0 * static_cast<double>(max_of(shape.layers, 1)));
  // Logits are products of a normalised row with rows of the head.
  const double of_head = 0.5 * of_inputs(shape.width);
  embedding = layout.add_matrix("embedding", shape.vocab, shape.width, of_head);
  for (Index i = 0; i < shape.layers; ++i) {
    const auto name = [i](const char* of) { return fmt::format("layer.{}.{}", i, of); };
    LayerWeights& layer = layers.emplace_back();
    layer.attention_gain = layout.add_gain(name("attention_norm"), shape.width);
    const double in = of_inputs(shape.width);
    const auto columns = [&](const char* of, Index count) {
      return layout.add_matrix(name(of), shape.width, count, in, Split::columns);
    };
    const auto rows = [&](const char* of, Index count) {
      return layout.add_matrix(name(of), count, shape.width,
                               added * of_inputs(count * tensor) * of_head, Split::rows);
    };
    layer.query = columns("query", q_width);
    layer.key = columns("key", kv_width);
    layer.value = columns("value", kv_width);
    layer.output = rows("output", q_width);
    layer.mlp_gain = layout.add_gain(name("mlp_norm"), shape.width);
    layer.gate = columns("gate", shape.hidden);
    layer.up = columns("up", shape.hidden);
    layer.down = rows("down", shape.hidden);
  }
  final_gain = layout.add_gain("final_norm", shape.width);
  head = shape.tied_head ? embedding : layout.add_matrix("head", shape.vocab, shape.width, of_head);
}

ParameterStore::ParameterStore(const ParameterLayout& layout, std::uint64_t seed,
                               MemoryMeter* meter, const TensorPlace& place)
    : size_(layout.size()), values_(meter, size_), gradients_(meter, size_ + 1) {
  constexpr std::uint64_t kFirstStream = 16;  // attention's inputs use those below (random.h)
  std::uint64_t stream = kFirstStream;
  for (const NamedParameter& parameter : layout.all()) {
    float* const to = values_.data() + parameter.place.offset;
    if (parameter.is_gain()) std::fill_n(to, parameter.place.size(), 1.0f);
    // A uniform distribution in +-sqrt(3) has deviation 1.
    const double scale = parameter.deviation * std::sqrt(3.0);
    for (Index i = 0; !parameter.is_gain() && i < parameter.place.size(); ++i) {
      const auto number = static_cast<std::uint64_t>(parameter.in_whole(i, place));
      const std::uint64_t bits = random_bits(seed, stream, number);
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
  if (!(settings.rate > 0) || !std::isfinite(settings.rate))
    throw InputError(fmt::format("rate: {} given, a number above 0 accepted", settings.rate));
  const auto below_one = [](double beta) { return beta >= 0 && beta < 1; };
  if (!below_one(settings.beta1) || !below_one(settings.beta2) || !(settings.epsilon > 0) ||
      !(settings.decay >= 0) || !(settings.longest_gradient >= 0) || settings.warmup_steps < 0)
    throw InputError(
        "AdamW: betas from 0 to below 1, an epsilon above 0 and no negative numbers accepted");
}

AdamW::AdamW(const ParameterLayout& layout, const AdamWSettings& settings, MemoryMeter* meter)
    : layout_(layout), settings_(settings), moments_(meter, 2 * layout.size()) {
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
    const Index begin = parameter.place.offset;
    float *const w = store.values() + begin, *const m = moments_.data() + begin,
                 *const v = m + layout_.size();
    const float* const gradients = store.gradients() + begin;
    for (Index i = 0; i < parameter.place.size(); ++i) {
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
