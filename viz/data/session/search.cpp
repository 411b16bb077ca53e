#include "viz/data/session/search.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/text.h"
#include "viz/data/analysis/wait_reason.h"

namespace ringscope::viz {
namespace {

constexpr std::string_view kSigns = ":=<>!";

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// A number that a field compares; it is negative where a slice has none.
struct Number {
  std::string_view name;
  bool is_time;
  std::int64_t (*of)(int rank, const TraceEvent& slice);
};
constexpr Number kNumbers[] = {
    {"rank", false, [](int rank, const TraceEvent&) { return std::int64_t{rank}; }},
    {"step", false, [](int, const TraceEvent& s) { return std::int64_t{s.step}; }},
    {"owner", false, [](int, const TraceEvent& s) { return std::int64_t{s.kv_owner}; }},
    {"peer", false, [](int, const TraceEvent& s) { return std::int64_t{s.peer()}; }},
    {"for", false,
     [](int, const TraceEvent& s) { return std::int64_t{s.lane == Lane::wait ? s.peer() : -1}; }},
    {"pairs", false, [](int, const TraceEvent& s) { return s.pairs; }},
    {"flops", false, [](int, const TraceEvent& s) { return s.flops; }},
    {"bytes", false, [](int, const TraceEvent& s) { return s.bytes; }},
    {"dur", true, [](int, const TraceEvent& s) { return s.duration_ns(); }},
    {"begin", true, [](int, const TraceEvent& s) { return s.begin_ns; }}};

const Number* number_of(std::string_view name) {
  const auto found = std::find_if(std::begin(kNumbers), std::end(kNumbers),
                                  [name](const Number& number) { return number.name == name; });
  return found == std::end(kNumbers) ? nullptr : found;
}

// A slice is found if it meets every test of one of the alternatives.
using Test = std::function<bool(int rank, const TraceEvent& slice)>;
using Alternatives = std::vector<std::vector<Test>>;

using Compare = bool (*)(double x, double bound);
constexpr std::pair<std::string_view, Compare> kComparisons[] = {
    {":", [](double x, double bound) { return x == bound; }},
    {"=", [](double x, double bound) { return x == bound; }},
    {"!=", [](double x, double bound) { return x != bound; }},
    {"<", [](double x, double bound) { return x < bound; }},
    {"<=", [](double x, double bound) { return x <= bound; }},
    {">", [](double x, double bound) { return x > bound; }},
    {">=", [](double x, double bound) { return x >= bound; }}};

Compare compare_of(std::string_view signs) {
  for (const auto& [text, compare] : kComparisons)
    if (text == signs) return compare;
  return nullptr;
}

// Set `test` to what a field, a comparison and a value mean, or return a complaint.
std::string_view read_field(const Trace& trace, std::string_view field, Compare compare,
                            std::string_view value, Test& test) {
  if (const Number* const number = number_of(field)) {
    const auto whole = parse_number<std::int64_t>(value);
    if (!number->is_time && !whole)
      return "a whole number follows rank:, step:, owner:, for:, peer:, pairs:, flops: and bytes:";
    const auto time = number->is_time ? duration_ns(value) : static_cast<double>(*whole);
    if (!time) return "a time such as 250us or 1ms follows dur and begin, as in dur>1ms";
    test = [number, compare, bound = std::round(*time * 1e3) / 1e3,
            base = field == "begin" ? trace.begin_ns : 0](int rank, const TraceEvent& slice) {
      const std::int64_t has = number->of(rank, slice) - base;
      return has >= 0 && compare(static_cast<double>(has), bound);
    };
    return "";
  }
  if (field == "kind") {
    for (int k = 0; k < kLaneKinds; ++k)
      if (name_of(static_cast<Lane>(k)) == value) {
        test = [k](int, const TraceEvent& s) { return s.lane == static_cast<Lane>(k); };
        return "";
      }
    return "kind: is one of compute, send, recv, wait, communication, other";
  }
  if (field == "pass") {
    for (const Pass pass : kAllPasses)
      if (name_of(pass) == value) {
        test = [pass](int, const TraceEvent& s) { return s.step >= 0 && s.pass == pass; };
        return "";
      }
    return "pass: is forward or backward";
  }
  return "fields are rank: step: owner: kind: for: peer: pass: pairs: flops: bytes: dur: begin:";
}

Test part_of_name(const Trace& trace, std::string_view part) {
  std::vector<bool> fits;
  for (const std::string& name : trace.names)
    fits.push_back(lowered(name).find(part) != std::string::npos);
  return [fits = std::move(fits)](int, const TraceEvent& slice) { return fits[slice.name]; };
}

// Set `test` to what a word means. A field stands before a colon or a comparison, but "aten::add",
// "add<float>" and the like are parts of names.
std::string_view read_word(const Trace& trace, std::string_view word, Test& test) {
  const std::size_t at = std::min(word.find_first_of(kSigns), word.size());
  const std::size_t end = std::min(word.find_first_not_of(kSigns, at), word.size());
  const std::string_view field = word.substr(0, at), signs = word.substr(at, end - at);
  const bool is_word = !field.empty() && std::all_of(field.begin(), field.end(),
                                                     [](char c) { return c >= 'a' && c <= 'z'; });
  const Compare compare = compare_of(signs);
  if (is_word && compare != nullptr && (signs == ":" || number_of(field) != nullptr))
    return read_field(trace, field, compare, word.substr(end), test);
  test = part_of_name(trace, word);
  return "";
}

// Split a text at blanks, but not around the comparison of a number's field, as in "dur > 1ms".
std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t", at), text.size());
    at = std::min(text.find_first_of(" \t", begin), text.size());
    if (begin == at) break;
    const std::string_view word = text.substr(begin, at - begin);
    const std::size_t name = words.empty() ? 0 : words.back().find_first_of(kSigns);
    const bool compares = kSigns.find(word[0]) != std::string_view::npos;
    const bool is_open =
        !words.empty() && number_of(words.back().substr(0, name)) != nullptr &&
        (name == std::string::npos ? compares
                                   : kSigns.find(words.back().back()) != std::string_view::npos);
    if (is_open)
      words.back() += word;
    else
      words.emplace_back(word);
  }
  return words;
}

// Add the tests of a lower-case text, or return a complaint.
std::string_view read_text(const Trace& trace, std::string_view text, Alternatives& any) {
  bool negated = false;
  any.emplace_back();
  for (const std::string& word : words_in(text)) {
    if (word == "or") {
      any.emplace_back();
    } else if (word == "not") {
      negated = !negated;
    } else {
      Test test;
      if (const auto complaint = read_word(trace, word, test); !complaint.empty()) return complaint;
      if (std::exchange(negated, false))
        test = [test](int rank, const TraceEvent& slice) { return !test(rank, slice); };
      any.back().push_back(std::move(test));
    }
  }
  std::erase_if(any, [](const std::vector<Test>& all) { return all.empty(); });
  return "";
}

// Return the first slice of the rank's lane for the same block in the same pass that `fits`.
template <class Fits>
std::optional<SliceId> about_block(const Trace& trace, SliceId id, Lane lane, Fits&& fits) {
  const TraceEvent& about = trace.slice(id);
  const int rank = trace.rank_of_row(id.row);
  return find_slice(trace, rank, lane, [&](const TraceEvent& s) {
    return s.pass == about.pass && s.kv_owner == about.kv_owner && fits(s);
  });
}

std::optional<SliceId> message(const Trace& trace, SliceId id, Lane lane, Payload payload) {
  return about_block(trace, id, lane, [&](const TraceEvent& s) { return s.payload == payload; });
}

// Return what is computed with a block, which is once on every rank. A gradient is added to what
// the rank has just computed for the block; once it is home, to nothing.
std::optional<SliceId> compute_with(const Trace& trace, SliceId id, std::int32_t step) {
  const bool gradient = trace.slice(id).payload == Payload::dkv;
  return about_block(trace, id, Lane::compute,
                     [&](const TraceEvent& s) { return !gradient || s.step == step; });
}

// Return what a wait's rank attends next in the pass.
std::optional<SliceId> attended_after(const Trace& trace, SliceId wait) {
  const TraceEvent& about = trace.slice(wait);
  return find_slice(trace, trace.rank_of_row(wait.row), Lane::compute, [&](const TraceEvent& s) {
    return s.pass == about.pass && s.begin_ns >= about.end_ns;
  });
}

// Take one step along the ring: a send leads to its receive, that to the computation with the
// block, and that to the send that passes on the block or, at the end, its gradient. A wait lies between
// the message that ended it and what its rank attends next.
std::optional<SliceId> flow_step(const Trace& trace, SliceId id, bool onwards) {
  const TraceEvent& slice = trace.slice(id);
  if (slice.flow != 0) {
    const TraceFlow& flow = trace.flows[slice.flow - 1];
    if (onwards && flow.from == id) return flow.to;
    if (!onwards && flow.to == id) return flow.from;
  }
  if (!trace.is_ring) return std::nullopt;
  switch (slice.lane) {
    case Lane::recv:
      return onwards ? compute_with(trace, id, slice.step + 1) : std::nullopt;
    case Lane::send:
      return onwards ? std::nullopt : compute_with(trace, id, slice.step);
    case Lane::wait:
      return onwards ? attended_after(trace, id) : message_that_ended(trace, id);
    case Lane::compute: {
      if (!onwards) return message(trace, id, Lane::recv, Payload::kv);
      const auto block = message(trace, id, Lane::send, Payload::kv);
      return block ? block : message(trace, id, Lane::send, Payload::dkv);
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<double> duration_ns(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty() || unit == "ns") return value;
  if (unit == "us" || unit == "µs") return value * 1e3;
  if (unit == "ms") return value * 1e6;
  if (unit == "s") return value * 1e9;
  return std::nullopt;
}

SearchResult search(const Trace& trace, std::string_view words, std::size_t limit) {
  SearchResult result;
  Alternatives any;
  result.complaint = read_text(trace, lowered(words), any);
  if (!result.complaint.empty() || any.empty()) return result;
  const auto fits = [&](int rank, const TraceEvent& slice) {
    return std::any_of(any.begin(), any.end(), [&](const std::vector<Test>& all) {
      return std::all_of(all.begin(), all.end(),
                         [&](const Test& test) { return test(rank, slice); });
    });
  };

  const auto by_begin = [&](const SliceId& a, const SliceId& b) {
    return std::tuple(trace.slice(a).begin_ns, a.row, a.index) <
           std::tuple(trace.slice(b).begin_ns, b.row, b.index);
  };
  std::vector<SliceId>& hits = result.slices;
  const auto keep_first = [&] {
    const auto kept = hits.begin() + static_cast<std::ptrdiff_t>(std::min(limit, hits.size()));
    std::partial_sort(hits.begin(), kept, hits.end(), by_begin);
    hits.erase(kept, hits.end());
  };
  for (std::uint32_t row = 0; row < trace.rows.size(); ++row) {
    const int rank = trace.rank_of_row(row);
    const std::span<const TraceEvent> slices = trace.slices(row);
    std::size_t in_row = 0;
    for (std::uint32_t i = 0; i < slices.size(); ++i) {
      if (!fits(rank, slices[i])) continue;
      ++result.total;
      if (in_row++ < limit) hits.push_back({row, i});
    }
    if (hits.size() > 8 * limit) keep_first();
  }
  keep_first();
  return result;
}

bool next_slice(const Trace& trace, SliceId& id) {
  if (id.index + 1 >= trace.slices(id.row).size()) return false;
  ++id.index;
  return true;
}

bool previous_slice(const Trace&, SliceId& id) {
  if (id.index == 0) return false;
  --id.index;
  return true;
}

bool follow_flow(const Trace& trace, SliceId& id, bool onwards) {
  const auto next = flow_step(trace, id, onwards);
  if (!next) return false;
  id = *next;
  return true;
}

}  // namespace ringscope::viz
