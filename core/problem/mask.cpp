#include "core/problem/mask.h"

#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr const char* kAccepted =
    "full, causal, window:W, prefix:P, documents:L1,L2,..., and several of them joined by +";

[[noreturn]] void refuse(std::string_view part, const std::string& accepted) {
  throw InputError("'" + std::string(part) + "' given; accepted: " + accepted);
}

// Parse all of `digits` as a number of at least `least`. Throw InputError when it is not one.
Index parse_count(std::string_view part, std::string_view digits, Index least,
                  const std::string& accepted) {
  const std::optional<Index> value = parse_number<Index>(digits);
  if (!value || *value < least) refuse(part, accepted);
  return *value;
}

}  // namespace

MaskSpec MaskSpec::parse(std::string_view text) {
  MaskSpec spec;
  std::vector<std::string_view> seen;
  for (const std::string_view part : split(text, '+')) {
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
    } else {
      refuse(part, kAccepted);
    }
  }
  return spec;
}

Mask MaskSpec::for_seqlen(Index seqlen) const {
  Mask mask;
  mask.seqlen = seqlen;
  mask.causal = causal_;
  // A wider window or a longer prefix than seqlen allows nothing more. They are limited so that
  // adding a position to them does not overflow.
  mask.window = min_of(window_, seqlen);
  mask.prefix = min_of(prefix_, seqlen);
  if (!document_ends_.empty()) {
    if (document_ends_.back() != seqlen)
      throw InputError("document lengths that sum up to " + std::to_string(document_ends_.back()) +
                       " given; accepted: lengths that sum up to seqlen (" +
                       std::to_string(seqlen) + ")");
    mask.document_ends = document_ends_.data();
    mask.num_documents = static_cast<Index>(document_ends_.size());
  }
  return mask;
}

std::string MaskSpec::name() const {
  std::string name;
  const auto add = [&name](const std::string& part) { name += (name.empty() ? "" : "+") + part; };
  if (causal_) add("causal");
  if (prefix_ >= 0) add("prefix:" + std::to_string(prefix_));
  if (window_ > 0) add("window:" + std::to_string(window_));
  if (!document_ends_.empty()) {
    std::string lengths;
    Index begin = 0;
    for (const Index end : document_ends_) {
      lengths += (begin == 0 ? "" : ",") + std::to_string(end - begin);
      begin = end;
    }
    add("documents:" + lengths);
  }
  return name.empty() ? "full" : name;
}

}  // namespace ringscope
