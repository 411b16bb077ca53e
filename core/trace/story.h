// A story is told beside a recording: paragraphs in order, each of which may point at slices of the
// run. A reader that knows no stories passes over it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/trace/event.h"

namespace ringscope {

// The picture of a recording that a paragraph is about.
enum class Figure : std::uint8_t { timeline, ring, mask, balance, softmax };
inline constexpr Figure kAllFigures[] = {Figure::timeline, Figure::ring, Figure::mask,
                                         Figure::balance, Figure::softmax};

constexpr std::string_view name_of(Figure figure) {
  constexpr std::string_view names[] = {"timeline", "ring", "mask", "balance", "softmax"};
  return names[static_cast<int>(figure)];
}

// One paragraph, and what it points at: the slices that agree with all of pass, step, rank and lane
// that are given. With none of them it is about the whole run.
struct StoryStep {
  // UTF-8, 1 to kMaxStoryText bytes. `code`, **strong** and *emphasis* are set apart; an empty line
  // begins a new block, a line that begins with "- " is an item of a list.
  std::string text;
  std::optional<Pass> pass = std::nullopt;
  int step = -1;  // ring step, below world_size; -1: all
  int rank = -1;  // below world_size; -1: all
  std::optional<Lane> lane = std::nullopt;
  std::optional<Figure> figure = std::nullopt;  // where to look

  bool operator==(const StoryStep&) const = default;
};

// More is neither written nor read.
inline constexpr std::size_t kMaxStorySteps = 200;
inline constexpr std::size_t kMaxStoryText = 2000;

}  // namespace ringscope
