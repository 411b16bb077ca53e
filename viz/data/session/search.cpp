#include "viz/data/session/search.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/text.h"

#include "viz/data/analysis/wait_reason.h"
namespace ringscope::viz {
namespace {

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

// A Query is all words as one test of a slice. What holds for whole ranks or names is decided once.
struct Query {
  bool contradicts = false;     // itself: nothing meets two different demands
  std::vector<bool> name_fits;  // by name
  std::optional<std::int64_t> rank, step, owner, peer, begin_ns;
  std::optional<Kind> kind;
  std::optional<Pass> pass;
  double longer_ns = -1, shorter_ns = INFINITY;
  bool only_waits = false;

  bool fits(const Slice& s) const {
    return name_fits[s.name] && (!kind || s.lane == *kind) && (!step || s.step == *step) &&
           (!owner || s.kv_owner == *owner) && (!peer || s.peer() == *peer) &&
           (!begin_ns || s.begin_ns == *begin_ns) && (!only_waits || s.lane == Kind::wait) &&
           (!pass || (s.step >= 0 && s.pass == *pass)) && s.duration_ns() > longer_ns &&
           s.duration_ns() < shorter_ns;
  }
};

// Add what field:value means to the query, or return a complaint. `value` is in lower case.
std::string_view add_field(Query& query, const Trace& trace, std::string_view field,
                           std::string_view value) {
  const auto demand = [&query](auto& wanted, auto given) {
    query.contradicts |= wanted && *wanted != given;
    wanted = given;
  };
  constexpr std::pair<std::string_view, std::optional<std::int64_t> Query::*> kNumbers[] = {
      {"step", &Query::step},
      {"owner", &Query::owner},
      {"peer", &Query::peer},
      {"for", &Query::peer},
      {"rank", &Query::rank}};
  for (const auto& [name, number] : kNumbers) {
    if (field != name) continue;
    query.only_waits |= field == "for";
    const auto given = parse_number<std::int64_t>(value);
    if (!given) return "a whole number follows rank:, step:, owner:, for: and peer:";
    demand(query.*number, *given);
    return "";
  }
  if (field == "kind") {
    for (int k = 0; k < kKindCount; ++k)
      if (name_of(static_cast<Kind>(k)) == value)
        return demand(query.kind, static_cast<Kind>(k)), "";
    return "kind: is one of compute, send, recv, wait, communication, other";
  }
  if (field == "pass") {
    for (const Pass pass : kAllPasses)
      if (name_of(pass) == value) return demand(query.pass, pass), "";
    return "pass: is forward or backward";
  }
  if (field == "longer" || field == "shorter" || field == "begin") {
    const auto bound = duration_ns(value);
    if (!bound) return "a time such as 250us or 1ms follows longer:, shorter: and begin:";
    if (field == "begin")
      query.begin_ns = trace.begin_ns + std::llround(*bound);
    else if (field == "longer")
      query.longer_ns = std::max(query.longer_ns, *bound);
    else
      query.shorter_ns = std::min(query.shorter_ns, *bound);
    return "";
  }
  return "fields are rank: step: owner: kind: for: peer: pass: longer: shorter: begin:";
}

void add_name(Query& query, const std::vector<std::string>& names, std::string_view part) {
  for (std::size_t name = 0; name < names.size(); ++name)
    if (query.name_fits[name] && names[name].size() < part.size())
      query.name_fits[name] = false;
    else if (query.name_fits[name])
      query.name_fits[name] = lowered(names[name]).find(part) != std::string::npos;
}

// Add a word. One before a colon is a field, but "aten::add" and the like are parts of names.
std::string_view add_word(Query& query, const Trace& trace, std::string_view word) {
  const std::size_t colon = word.find(':');
  const bool is_field = colon != 0 && colon != std::string_view::npos &&
                        word.substr(colon, 2) != "::" &&
                        std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(colon),
                                    [](char c) { return c >= 'a' && c <= 'z'; });
  if (is_field) return add_field(query, trace, word.substr(0, colon), word.substr(colon + 1));
  add_name(query, trace.names, word);
  return "";
}

// Return the first slice of the rank's lane for the same block in the same pass that `fits`.
template <class Fits>
std::optional<SliceId> about_block(const Trace& trace, SliceId id, RingLane lane, Fits&& fits) {
  const Slice& about = trace.slice(id);
  const int rank = trace.rank_of_row(id.row);
  return find_slice(trace, rank, lane, [&](const Slice& s) {
    return s.pass == about.pass && s.kv_owner == about.kv_owner && fits(s);
  });
}

std::optional<SliceId> message(const Trace& trace, SliceId id, RingLane lane, Payload payload) {
  return about_block(trace, id, lane, [&](const Slice& s) { return s.payload == payload; });
}

// Return what is computed with a block, which is once on every rank. A gradient is added to what
// the rank has just computed for the block; once it is home, to nothing.
std::optional<SliceId> compute_with(const Trace& trace, SliceId id, std::int32_t step) {
  const bool gradient = trace.slice(id).payload == Payload::dkv;
  return about_block(trace, id, RingLane::compute,
                     [&](const Slice& s) { return !gradient || s.step == step; });
}

// Return what a wait's rank attends next in the pass.
std::optional<SliceId> attended_after(const Trace& trace, SliceId wait) {
  const Slice& about = trace.slice(wait);
  return find_slice(trace, trace.rank_of_row(wait.row), RingLane::compute, [&](const Slice& s) {
    return s.pass == about.pass && s.begin_ns >= about.end_ns;
  });
}

// Take one step along the ring: a send leads to its receive, that to the computation with the
// block, and that to the send that passes on the block or, at the end, its gradient. A wait lies between
// the message that ended it and what its rank attends next.
std::optional<SliceId> flow_step(const Trace& trace, SliceId id, bool onwards) {
  const Slice& slice = trace.slice(id);
  if (slice.flow != 0) {
    const Flow& flow = trace.flows[slice.flow - 1];
    if (onwards && flow.from == id) return flow.to;
    if (!onwards && flow.to == id) return flow.from;
  }
  if (!trace.is_ring) return std::nullopt;
  switch (slice.lane) {
    case Kind::recv:
      return onwards ? compute_with(trace, id, slice.step + 1) : std::nullopt;
    case Kind::send:
      return onwards ? std::nullopt : compute_with(trace, id, slice.step);
    case Kind::wait:
      return onwards ? attended_after(trace, id) : message_that_ended(trace, id);
    case Kind::compute: {
      if (!onwards) return message(trace, id, RingLane::recv, Payload::kv);
      const auto block = message(trace, id, RingLane::send, Payload::kv);
      return block ? block : message(trace, id, RingLane::send, Payload::dkv);
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
  Query query;
  query.name_fits.assign(trace.names.size(), true);
  const std::string text = lowered(words);
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(" \t", at);
    if (begin == std::string::npos) break;
    at = std::min(text.find_first_of(" \t", begin), text.size());
    result.complaint = add_word(query, trace, std::string_view(text).substr(begin, at - begin));
    if (!result.complaint.empty()) return result;
    any = true;
  }
  if (!any) return result;

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
    if (query.contradicts || rank != query.rank.value_or(rank)) continue;
    const std::span<const Slice> slices = trace.slices(row);
    std::size_t in_row = 0;
    for (std::uint32_t i = 0; i < slices.size(); ++i) {
      if (!query.fits(slices[i])) continue;
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
