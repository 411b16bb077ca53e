#include "core/trace/story_reader.h"

#include <utility>

namespace ringscope {
namespace {

template <class T, std::size_t N>
std::optional<T> choice_of(const TraceFields& fields, TraceKey key, const T (&all)[N]) {
  if (!fields.has(key)) return std::nullopt;
  std::string accepted;
  for (const T value : all) {
    if (fields.text_or_empty(key) == name_of(value)) return value;
    accepted += fmt::format("{}\"{}\"", accepted.empty() ? "" : ", ", name_of(value));
  }
  fields.refuse(key, "one of " + accepted);
}

}  // namespace

void StoryReader::begin(std::size_t at) {
  if (begun_) complain(at, "a second \"story\"; one accepted");
  begun_ = true;
}

void StoryReader::begin_step() { fields_ = TraceFields(); }

void StoryReader::set(TraceKey key, TraceValue::Kind kind, std::string_view text, std::size_t at) {
  // A longer text is refused anyway, so its exact length need not be kept.
  if (!complaint_) fields_.set(key, kind, text.substr(0, kMaxStoryText + 1), at);
}

void StoryReader::end_step(std::size_t end) {
  if (complaint_) return;
  if (steps_.size() == kMaxStorySteps)
    return complain(end, fmt::format("a story of more than {} paragraphs", kMaxStorySteps));
  try {
    steps_.push_back(step(end));
  } catch (const InputError& error) {
    complaint_ = error;
  }
}

void StoryReader::refuse(std::size_t at) {
  complain(at, "no list of objects given for \"story\"; one accepted");
}

void StoryReader::complain(std::size_t at, std::string_view complaint) {
  if (complaint_) return;
  try {
    fail_at(at, complaint);
  } catch (const InputError& error) {
    complaint_ = error;
  }
}

StoryStep StoryReader::step(std::size_t end) {
  constexpr Pass kPasses[] = {Pass::forward, Pass::backward};
  StoryStep step;
  step.text = fields_.string(TraceKey::story_text, end);
  if (step.text.empty() || step.text.size() > kMaxStoryText)
    fail_at(fields_.at(TraceKey::story_text),
            fmt::format("a text of {} bytes given; 1 to {} accepted",
                        step.text.empty() ? "0" : fmt::format("more than {}", kMaxStoryText),
                        kMaxStoryText));
  step.pass = choice_of(fields_, TraceKey::story_pass, kPasses);
  step.step = below_world_size(TraceKey::story_step, end);
  step.rank = below_world_size(TraceKey::story_rank, end);
  step.lane = choice_of(fields_, TraceKey::story_lane, kAllLanes);
  step.figure = choice_of(fields_, TraceKey::story_figure, kAllFigures);
  return step;
}

int StoryReader::below_world_size(TraceKey key, std::size_t end) {
  if (!fields_.has(key)) return -1;
  const std::int64_t value = fields_.integer(key, 0, INT32_MAX, end);
  if (value > highest_) {
    highest_ = value;
    highest_at_ = fields_.at(key);
  }
  return static_cast<int>(value);
}

std::vector<StoryStep> StoryReader::take(int world_size) {
  if (complaint_) throw InputError(*complaint_);
  if (highest_ >= world_size)
    fail_at(highest_at_, fmt::format("{} given in \"story\"; ranks and steps below world_size {} "
                                     "accepted",
                                     highest_, world_size));
  return std::exchange(steps_, {});
}

}  // namespace ringscope
