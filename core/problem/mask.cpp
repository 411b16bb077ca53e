#include "core/problem/mask.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

// A file's slices may be cut into so many at most, where their ranges of queries cross.
constexpr std::size_t kMostSlices = std::size_t{1} << 20;

constexpr const char* kSliceKinds[] = {"full", "causal", "inverse"};
constexpr std::size_t kNumbers = 5;  // of a slice: q0, q1, k0, k1, kind
constexpr const char* kAcceptedSlice =
    "q0 q1 k0 k1 full|causal|inverse, with 0 <= q0 < q1 and 0 <= k0 < k1";

[[noreturn]] void refuse(std::string_view part, const std::string& accepted) {
  throw InputError("'" + std::string(part) + "' given; accepted: " + accepted);
}

// Parse all of `digits` as a number of at least `least`. Throw InputError when it is not one.
Index parse_count(std::string_view part, std::string_view digits, Index least,
                  const std::string& accepted) {
  const std::optional<Index> value = parse_size(digits);
  if (!value || *value < least) refuse(part, accepted);
  return *value;
}

// Return the five numbers of the slice that `words` spell, or none.
std::optional<std::vector<Index>> slice_of(const std::vector<std::string>& words) {
  if (words.size() != kNumbers) return std::nullopt;
  std::vector<Index> numbers;
  for (std::size_t k = 0; k + 1 < kNumbers; ++k) {
    const std::optional<Index> value = parse_number<Index>(words[k]);
    if (!value || *value < 0) return std::nullopt;
    numbers.push_back(*value);
  }
  const auto kind = std::find(std::begin(kSliceKinds), std::end(kSliceKinds), words.back());
  if (kind == std::end(kSliceKinds) || numbers[0] >= numbers[1] || numbers[2] >= numbers[3])
    return std::nullopt;
  numbers.push_back(kind - std::begin(kSliceKinds));
  return numbers;
}

Slice slice_from_numbers(const Index* numbers) {
  Slice slice{{numbers[0], numbers[1]}, {numbers[2], numbers[3]}};
  if (numbers[4] == 1) slice.last_offset = slice.keys.last - slice.queries.last + 1;
  if (numbers[4] == 2) slice.first_offset = slice.keys.first - slice.queries.first;
  return slice;
}

}  // namespace

std::vector<std::string_view> mask_parts(std::string_view text) {
  static constexpr std::string_view kKinds[] = {"full",   "causal",    "window", "sink",
                                                "prefix", "documents", "ranges"};
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(text, '+')) {
    const bool is_part = std::find(std::begin(kKinds), std::end(kKinds),
                                   part.substr(0, part.find(':'))) != std::end(kKinds);
    if (!is_part && !parts.empty() && parts.back().starts_with("ranges:"))
      parts.back() = {parts.back().data(), parts.back().size() + 1 + part.size()};
    else
      parts.push_back(part);
  }
  return parts;
}

MaskSpec MaskSpec::parse(std::string_view text) { return parse_parts(text, nullptr); }

MaskSpec MaskSpec::recorded(std::string_view text, const std::vector<Index>& slices) {
  return parse_parts(text, &slices);
}

MaskSpec MaskSpec::parse_parts(std::string_view text, const std::vector<Index>* recorded_slices) {
  MaskSpec spec;
  std::vector<std::string_view> seen;
  for (const std::string_view part : mask_parts(text)) {
    const std::size_t colon = part.find(':');
    const std::string_view kind = part.substr(0, colon);
    for (const std::string_view other : seen)
      if (kind == other)
        refuse(text, "each kind of mask at most once ('" + std::string(kind) + "' is there twice)");
    seen.push_back(kind);

    const bool has_value = colon != std::string_view::npos;
    const std::string_view value = has_value ? part.substr(colon + 1) : std::string_view();
    if (kind == "full" && !has_value) {
      // It allows everything, so there is nothing to note.
    } else if (kind == "causal" && !has_value) {
      spec.causal_ = true;
    } else if (kind == "window" && has_value) {
      spec.window_ = parse_count(part, value, 1, "window:W with an integer W of at least 1");
    } else if (kind == "sink" && has_value) {
      spec.sink_ = parse_count(part, value, 0, "sink:K with an integer K of at least 0");
    } else if (kind == "prefix" && has_value) {
      spec.prefix_ = parse_count(part, value, 0, "prefix:P with an integer P of at least 0");
    } else if (kind == "documents" && has_value) {
      const std::string accepted =
          "documents:L1,L2,... with integer lengths of at least 1 that sum up to seqlen";
      Index end = 0;
      for (const std::string_view length : split(value, ',')) {
        if (__builtin_add_overflow(end, parse_count(part, length, 1, accepted), &end))
          refuse(part, accepted);
        spec.document_ends_.push_back(end);
      }
    } else if (kind == "ranges" && has_value && !value.empty()) {
      spec.ranges_file_ = value;
      if (recorded_slices == nullptr) {
        spec.read_slices();
      } else {
        spec.set_slices(*recorded_slices, {});
      }
    } else {
      refuse(part, kAcceptedMasks);
    }
  }
  if (spec.sink_ >= 0 && spec.window_ == 0)
    refuse(text, "sink:K together with window:W, whose queries then see the first K keys, too");
  return spec;
}

void MaskSpec::read_slices() {
  const std::string text = read_table(ranges_file_, "file of slices");
  std::vector<Index> numbers, lines;
  Index number = 0;
  for_each_line(text, [&](std::string_view line) {
    ++number;
    const std::vector<std::string> words = words_of(line);
    if (words.empty()) return;
    const auto slice = slice_of(words);
    if (!slice) {
      std::string given;
      for (const char c : line.substr(0, 60)) given += c >= ' ' && c <= '~' ? c : '?';
      throw InputError(ranges_file_ + ", line " + std::to_string(number) + ": '" + given +
                       "' given; accepted: " + kAcceptedSlice);
    }
    numbers.insert(numbers.end(), slice->begin(), slice->end());
    lines.push_back(number);
  });
  set_slices(std::move(numbers), lines);
}

// Go over the queries from one end of a slice to the next and keep the slices that hold them, by
// their keys. Overlapping ones meet as neighbours there.
void MaskSpec::set_slices(std::vector<Index> numbers, const std::vector<Index>& lines) {
  if (numbers.empty() || numbers.size() % kNumbers != 0)
    throw InputError(ranges_file_ + ": no slice found; accepted: lines of " + kAcceptedSlice);
  std::vector<Slice> whole;
  std::map<Index, std::vector<std::size_t>> begins, ends;  // by query
  for (std::size_t at = 0; at < numbers.size(); at += kNumbers) {
    const Slice slice = slice_from_numbers(&numbers[at]);
    if (slice.queries.size() == 0 || slice.keys.size() == 0 || slice.queries.first < 0 ||
        slice.keys.first < 0 || numbers[at + 4] < 0 || numbers[at + 4] > 2)
      throw InputError(ranges_file_ + ": an impossible slice found; accepted: " + kAcceptedSlice);
    begins[slice.queries.first].push_back(whole.size());
    ends[slice.queries.last].push_back(whole.size());
    begins[slice.queries.last];  // a band may begin here
    whole.push_back(slice);
  }
  const auto line_of = [&](std::size_t slice) {
    return std::to_string(lines.empty() ? static_cast<Index>(slice) + 1 : lines[slice]);
  };
  std::map<Index, std::size_t> held;  // by first key
  for (auto band = begins.begin(); band != begins.end(); ++band) {
    if (const auto ending = ends.find(band->first); ending != ends.end())
      for (const std::size_t slice : ending->second) held.erase(whole[slice].keys.first);
    for (const std::size_t slice : band->second) {
      const Interval keys = whole[slice].keys;
      const auto after = held.lower_bound(keys.first);
      auto other = after != held.end() && after->first < keys.last ? after : held.end();
      if (other == held.end() && after != held.begin() &&
          keys.first < whole[std::prev(after)->second].keys.last)
        other = std::prev(after);
      if (other != held.end())
        throw InputError(
            ranges_file_ + ", lines " + line_of(std::min(slice, other->second)) + " and " +
            line_of(std::max(slice, other->second)) +
            ": slices that overlap given; accepted: slices that share no query and key");
      held.emplace(keys.first, slice);
    }
    if (held.empty()) continue;
    const Interval queries{band->first, std::next(band)->first};
    if (slices_.size() + held.size() > kMostSlices)
      throw InputError(ranges_file_ + ": slices that cut each other into more than " +
                       std::to_string(kMostSlices) + " given; accepted: fewer");
    for (const auto& [key, slice] : held) {
      slices_.push_back(whole[slice]);
      slices_.back().queries = queries;
    }
  }
  slice_numbers_ = std::move(numbers);
}

Mask MaskSpec::for_seqlen(Index seqlen) const {
  Mask mask;
  mask.seqlen = seqlen;
  mask.causal = causal_;
  // A wider window or a longer prefix than seqlen allows nothing more. They are limited so that
  // adding a position to them does not overflow.
  mask.window = min_of(window_, seqlen);
  mask.prefix = min_of(prefix_, seqlen);
  mask.sink = clamp(sink_, 0, seqlen);
  if (!document_ends_.empty()) {
    if (document_ends_.back() != seqlen)
      throw InputError("document lengths that sum up to " + std::to_string(document_ends_.back()) +
                       " given; accepted: lengths that sum up to seqlen (" +
                       std::to_string(seqlen) + ")");
    mask.document_ends = document_ends_.data();
    mask.num_documents = static_cast<Index>(document_ends_.size());
  }
  for (std::size_t at = 0; at < slice_numbers_.size(); at += kNumbers)
    if (slice_numbers_[at + 1] > seqlen || slice_numbers_[at + 3] > seqlen) {
      std::string given;
      for (std::size_t k = 0; k + 1 < kNumbers; ++k)
        given += std::to_string(slice_numbers_[at + k]) + " ";
      throw InputError("slice '" + given + kSliceKinds[slice_numbers_[at + 4]] +
                       "' given; accepted: slices within seqlen (" + std::to_string(seqlen) + ")");
    }
  mask.slices = slices_.data();
  mask.num_slices = static_cast<Index>(slices_.size());
  return mask;
}

std::string MaskSpec::identity() const {
  return has_ranges() ? name() + " with the hash " + std::to_string(hash_of(slice_numbers_))
                      : name();
}

std::string MaskSpec::name() const {
  std::string name;
  const auto add = [&name](const std::string& part) { name += (name.empty() ? "" : "+") + part; };
  if (causal_) add("causal");
  if (prefix_ >= 0) add("prefix:" + std::to_string(prefix_));
  if (window_ > 0) add("window:" + std::to_string(window_));
  if (sink_ >= 0) add("sink:" + std::to_string(sink_));
  if (!document_ends_.empty()) {
    std::string lengths;
    Index begin = 0;
    for (const Index end : document_ends_) {
      lengths += (begin == 0 ? "" : ",") + std::to_string(end - begin);
      begin = end;
    }
    add("documents:" + lengths);
  }
  if (!ranges_file_.empty()) add("ranges:" + ranges_file_);
  return name.empty() ? "full" : name;
}

}  // namespace ringscope
