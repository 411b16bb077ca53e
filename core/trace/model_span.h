// What a rank did around attention, where more than a ring was recorded: a training step, part by
// part, on a lane of its own. Spans of one rank nest or don't overlap.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/trace/lane.h"

namespace ringscope {

// `attention` is all of a layer's: norm, projections, and the ring inside, which is a span of its
// own within it.
enum class ModelPart : std::uint8_t { embedding, attention, ring, mlp, head, reduction, update };
inline constexpr ModelPart kAllModelParts[] = {
    ModelPart::embedding, ModelPart::attention, ModelPart::ring,  ModelPart::mlp,
    ModelPart::head,      ModelPart::reduction, ModelPart::update};

constexpr std::string_view name_of(ModelPart part) {
  constexpr std::string_view names[] = {"embedding",     "attention",          "ring", "MLP",
                                        "head and loss", "gradient reduction", "AdamW"};
  return names[static_cast<int>(part)];
}

// The category of their slices, and the name of their lane, which comes after a rank's other ones.
inline constexpr std::string_view kModelLane = "model";
inline constexpr int kModelTid = 4;

struct ModelSpan {
  ModelPart part = ModelPart::embedding;
  Pass pass = Pass::forward;
  std::int32_t layer = -1;  // -1: not of a layer
  std::int64_t begin_ns = 0;
  std::int64_t end_ns = 0;
  std::int64_t bytes = 0;  // reduction: that the rank sends

  bool operator==(const ModelSpan&) const = default;
};

// Which part of a training run a recording is of.
struct RecordedLayer {
  std::int64_t train_step = 0;  // counted from 1
  std::int32_t layer = 0;       // whose ring is recorded slice by slice
  std::int32_t layers = 1;

  bool operator==(const RecordedLayer&) const = default;
};

}  // namespace ringscope
