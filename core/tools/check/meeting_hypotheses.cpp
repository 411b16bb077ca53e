// The mistakes in which queries meet which keys, and how often, in a forward pass or a backward pass:
// blocks that are missing, doubled or others; other masks, masks a position off, and masks that follow
// a rank's own rows instead of the positions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/text.h"
#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

using Parts = std::vector<std::string>;
using Allows = std::function<bool(Index, Index)>;

// Return what a mask allows.
Allows allowed_by(const Knowledge& known, const std::string& text) {
  const auto spec =
      std::make_shared<const MaskSpec>(MaskSpec::parse(text));  // the mask refers to it
  return [spec, mask = spec->for_seqlen(known.seqlen())](Index i, Index j) {
    return mask.allows(i, j);
  };
}

// Return the parts of the stated mask, a sink with its window; and a mask of parts.
Parts parts_of(const Knowledge& known) {
  Parts parts;
  const std::string name = known.problem.mask.name();
  if (name == "full") return parts;
  for (const std::string_view part : mask_parts(name))
    if (part.starts_with("sink") && !parts.empty())
      parts.back().append("+").append(part);
    else
      parts.emplace_back(part);
  return parts;
}
std::string parts_text(const Parts& parts) {
  return parts.empty() ? "full" : fmt::format("{}", fmt::join(parts, "+"));
}
Parts without(Parts parts, std::size_t which) {
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(which));
  return parts;
}

// Call f(part) for a documents part whose ends lie a position away, all or one of them, or one of
// which is left out.
template <class F>
void for_other_documents(const std::string& part, F&& f) {
  std::vector<Index> ends;
  for (const std::string_view length : split(std::string_view(part).substr(10), ','))
    ends.push_back((ends.empty() ? 0 : ends.back()) + std::stol(std::string(length)));
  const auto take = [&](const std::vector<Index>& changed) {
    std::vector<Index> lengths;
    Index before = 0;
    for (const Index end : changed) {
      lengths.push_back(end - before);
      if (lengths.back() < 1) return;
      before = end;
    }
    f(fmt::format("documents:{}", fmt::join(lengths, ",")));
  };
  const auto moved = [&](std::size_t first, std::size_t last, Index by) {
    std::vector<Index> changed = ends;
    for (std::size_t d = first; d < last; ++d) changed[d] += by;
    return changed;
  };
  constexpr std::size_t kMost = 32;
  const std::size_t inner = ends.size() - 1, looked_at = inner <= kMost ? inner : 0;
  for (const Index by : {1, -1}) {
    take(moved(0, inner, by));
    for (std::size_t d = 0; d < looked_at; ++d) take(moved(d, d + 1, by));
  }
  std::vector<Index> with_last = moved(0, inner + 1, -1);
  with_last.push_back(ends.back());
  take(with_last);
  for (std::size_t d = 0; d < looked_at; ++d) {
    std::vector<Index> fewer;
    for (std::size_t end = 0; end <= inner; ++end)
      if (end != d) fewer.push_back(ends[end]);
    take(fewer);
  }
}

// Return the causal mask with the window or the documents that the first head's outputs seem to
// follow, or "": for rows evenly spread, the first key from which on the softmax of the keys up to the
// row's own is nearest to what is given.
std::string seen_mask(const Knowledge& known) {
  if (known.mine.out.empty()) return "";
  const std::vector<Index>& sample = known.options.rows;
  const Index width = known.width(), of = sample.empty() ? known.seqlen() : std::ssize(sample),
              count = min_of(of, 192);
  std::map<Index, int> starts, windows;
  int fits = 0, inside = 0;
  for (Index r = 0; r < count; ++r) {
    const Index i = sample.empty() ? r * of / count : sample[r * of / count];
    const double* const given = known.row_of(known.mine.out, 0, i);
    const QueryRow row = query_row(known, 0, i, false);
    const double m = *std::max_element(row.scores.begin(), row.scores.begin() + i + 1);
    double l = 0, nearest = std::numeric_limits<double>::infinity();
    Index start = 0;
    Values acc(width);
    for (Index j = i; j >= 0; --j) {
      const double p = std::exp(row.scores[j] - m);
      double distance = 0;
      l += p;
      for (Index c = 0; c < width; ++c) {
        acc[c] += p * row.values[j * width + c];
        distance += (acc[c] / l - given[c]) * (acc[c] / l - given[c]);
      }
      if (distance < nearest) std::tie(nearest, start) = std::pair(distance, j);
    }
    constexpr double kNear = 0.02;  // beyond the rounding of bf16
    if (!(nearest <= kNear * kNear * dot_of(given, given, width))) continue;
    ++fits;
    ++starts[start];
    if (start == 0) continue;
    ++inside;
    ++windows[i - start + 1];
  }
  if (2 * fits < count || inside < 3) return "";
  const auto often =
      std::ranges::max_element(windows, [](auto& a, auto& b) { return a.second < b.second; });
  if (2 * often->second > inside) return fmt::format("causal+window:{}", often->first);
  std::vector<Index> lengths;
  Index before = 0;
  for (const auto& [start, votes] : starts)
    if (start > 0 && votes > 1) {
      lengths.push_back(start - before);
      before = start;
    }
  lengths.push_back(known.seqlen() - before);
  return fmt::format("causal+documents:{}", fmt::join(lengths, ","));
}

// Other masks: the stated one without some of its parts or with causal besides, with documents that
// end elsewhere, and the one that the rows seem to follow.
void add_wrong_masks(const Knowledge& known, Hypotheses& table) {
  const std::string stated = known.problem.mask.name();
  std::set<std::string> tried{stated};
  const auto add = [&](const std::string& text, double penalty = 1) {
    const std::string name = MaskSpec::parse(text).name();
    if (!tried.insert(name).second) return;
    table.meet(Mistake::wrong_mask, penalty,
               fmt::format("the mask is {}, and not {}", name, stated), allowed_by(known, name));
    table.back().mask = name;
  };
  const Parts given = parts_of(known);
  Parts parts = given;
  for (std::size_t dropped = parts.size(); dropped-- > 0;) add(parts_text(without(parts, dropped)));
  if (std::ranges::find(parts, "causal") == parts.end()) parts.emplace_back("causal");
  for (unsigned kept_parts = 0; kept_parts < 1u << parts.size(); ++kept_parts) {
    Parts rest;
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (kept_parts >> p & 1) rest.push_back(parts[p]);
    add(parts_text(rest));
  }
  for (std::size_t p = 0; p < given.size(); ++p)
    if (given[p].starts_with("documents:"))
      for_other_documents(given[p], [&](const std::string& changed) {
        Parts rest = without(given, p);
        rest.push_back(changed);
        add(parts_text(rest));
      });
  if (const std::string seen = seen_mask(known); !seen.empty()) add(seen, 1.02);
}

// Every part of the mask, and the whole, with one or both of its ends a position away. (Ends of
// documents are among the wrong masks.)
void add_shifted_masks(const Knowledge& known, Hypotheses& table) {
  const Parts parts = parts_of(known);
  const Index last = known.seqlen() - 1;
  for (std::size_t changed = 0; changed <= parts.size(); ++changed) {
    const bool is_whole = changed == parts.size();
    if (is_whole ? parts.size() < 2 : parts[changed].starts_with("documents")) continue;
    const std::string part = is_whole ? parts_text(parts) : parts[changed];
    const Allows mask = allowed_by(known, part),
                 rest = allowed_by(known, is_whole ? "full" : parts_text(without(parts, changed)));
    const auto add = [&](const std::string& how, double penalty, const auto& allows) {
      table.meet(Mistake::mask_off_by_one, penalty * (is_whole ? 1.01 : 1), how + " of " + part,
                 [=](Index i, Index j) { return rest(i, j) && allows(i, j); });
    };
    // Whether the part allows a pair, with positions outside of the sequence like the nearest.
    const auto at = [=](Index i, Index j) { return mask(clamp(i, 0, last), clamp(j, 0, last)); };
    for (const Index by : {1, -1}) {
      const std::string end = by > 0 ? " at the upper end" : " at the lower end";
      add("one key less" + end, 1,
          [=](Index i, Index j) { return at(i, j) && at(i, j + by) && (by < 0 || j < last); });
      add("one key more" + end, 1, [=](Index i, Index j) { return at(i, j) || at(i, j - by); });
    }
    add("one key less at both ends", 1,
        [=](Index i, Index j) { return at(i, j) && at(i, j - 1) && at(i, j + 1); });
    add("one key more at both ends", 1,
        [=](Index i, Index j) { return at(i, j) || at(i, j - 1) || at(i, j + 1); });
    for (const Index by : {-1, 1}) {
      add(fmt::format("keys shifted by {}", by), 1.02,
          [=](Index i, Index j) { return at(i, j + by); });
      add(fmt::format("queries and keys shifted by {}", by), 1.02,
          [=](Index i, Index j) { return at(i + by, j + by); });
    }
    // A window or a prefix, one more or less.
    const std::size_t colon = part.find(':');
    if (is_whole || colon == std::string::npos || part.find('+') != std::string::npos ||
        part.starts_with("ranges"))
      continue;
    for (const long by : {-1, 1}) {
      const long number = std::stol(part.substr(colon + 1)) + by;
      if (number < 1) continue;
      const std::string other = part.substr(0, colon + 1) + std::to_string(number);
      add(other + " in place", 1, allowed_by(known, other));
    }
  }
}

// Causal masks that compare something else than positions.
void add_local_orders(const Knowledge& known, Hypotheses& table) {
  const std::string name = known.problem.mask.name();
  if (name.find("causal") == std::string::npos) return;
  const auto add = [&](const std::string& how, double penalty, const Hypothesis::Pairs& pairs) {
    table.meet(Mistake::causal_in_local_order, penalty, how, pairs);
  };
  const std::vector<Belief> beliefs = wrong_positions(known);
  for (auto belief = beliefs.rbegin(); belief != beliefs.rend(); ++belief) {  // local rows first
    const auto causal = [of = belief->positions](Index i, Index j) { return of[j] <= of[i]; };
    const std::string how = "the causal mask compares the positions of " + belief->how;
    add(how, 1, causal);
    if (name == "causal") continue;
    // The other parts of the mask by position, or in the same order.
    add(how + ", the rest of the mask by position", 1.02, [=, &known](Index i, Index j) {
      return causal(i, j) && known.mask.allows(max_of(i, j), min_of(i, j));
    });
    add(how + ", as the rest of the mask", 1.02,
        [of = belief->positions, &known](Index i, Index j) {
          return known.mask.allows(of[i], of[j]);
        });
  }
  // Only the own block is compared; all of the others counts as earlier.
  add("the mask is applied in the own block alone", 1.02,
      [&known, &places = known.deal.places](Index i, Index j) {
        return places[i].rank != places[j].rank || known.mask.allows(i, j);
      });
}

// Masks, or parts of them, that compare the places of queries, or of keys, in another order with the
// positions of the others; or of both, where the mask has no causal part.
void add_dealt_orders(const Knowledge& known, Hypotheses& table) {
  if (known.problem.mask.name() == "full") return;
  Parts parts = parts_of(known);
  const bool is_causal = std::erase(parts, "causal") > 0, has_rest = !parts.empty();
  const Allows causal = allowed_by(known, is_causal ? "causal" : "full"),
               rest = allowed_by(known, parts_text(parts));
  std::vector<Belief> beliefs = wrong_positions(known);
  std::ranges::reverse(beliefs);
  if (beliefs.size() > 1) std::swap(beliefs[0], beliefs[1]);  // the dealt order first
  for (const Belief& belief : beliefs)
    for (const auto& [of_q, of_k] : {std::pair{true, false}, {false, true}, {true, true}})
      for (const bool whole : {true, false}) {
        if (!whole && !(is_causal && has_rest)) continue;
        if (of_q && of_k && whole && is_causal) continue;  // a causal mask in local order
        table.meet(Mistake::mask_in_dealt_order, 1.01 + 0.01 * (of_q && of_k),
                   fmt::format("{} compares the positions of {}{}",
                               whole ? "the mask" : parts_text(parts), belief.how,
                               of_q && of_k ? ""
                               : of_q       ? ", of queries alone"
                                            : ", of keys alone"),
                   [=, of_q = of_q, of_k = of_k, of = belief.positions](Index i, Index j) {
                     const Index query = of_q ? of[i] : i, key = of_k ? of[j] : j;
                     return rest(query, key) && (whole ? causal(query, key) : causal(i, j));
                   });
      }
}

// Under a zigzag deal all queries attend the lower chunk of a lower rank's block, and the queries of
// the upper chunk attend all of a higher rank's.
void add_halves(const Knowledge& known, Hypotheses& table) {
  Parts parts = parts_of(known);
  if (!known.is_zigzag() || known.ranks() < 2 || std::erase(parts, "causal") == 0) return;
  const auto add = [&, others = allowed_by(known, parts_text(parts))](
                       bool keys, bool queries, double penalty, const char* how) {
    table.meet(Mistake::wrong_zigzag_half, penalty, how, [=, &known](Index i, Index j) {
      const int rank = known.deal.places[i].rank, owner = known.deal.places[j].rank;
      if (owner == rank) return known.mask.allows(i, j);
      return (owner < rank ? known.is_upper(j) == keys : known.is_upper(i) != queries) &&
             others(i, j);
    });
  };
  add(true, false, 1, "of lower ranks' blocks the upper chunk is attended, and not the lower");
  add(false, true, 1,
      "the queries of the lower chunk attend higher ranks' blocks, not the upper's");
  add(true, true, 1.01, "both the keys' and the queries' chunks are the wrong ones");
  add(false, true, 1.02, "what the upper chunk's queries found goes to the rows of the lower");
  table.back().weigh = [&known](QueryRow& row) {
    const auto& own = known.deal.positions[row.place.rank];
    const Index partner = row.place.local_row + (std::ssize(own) + 1) / 2;
    if (known.is_upper(row.position) || partner >= std::ssize(own)) return;
    QueryRow other = row;
    other.ask_as(row.head, own[partner]);
    for (Index j = 0; j < known.seqlen(); ++j)
      if (known.deal.places[j].rank > row.place.rank) row.scores[j] = other.scores[j];
  };
}

// KV blocks, or chunks of a zigzag deal's, that are not attended, or twice; and rows that aren't.
void add_blocks(const Knowledge& known, Hypotheses& table) {
  const int n = known.ranks();
  const auto& places = known.deal.places;
  for (const double times : {0.0, 2.0}) {
    const Mistake mistake = times == 0 ? Mistake::missing_block : Mistake::doubled_block;
    const std::string how = times == 0 ? "is missing" : "is attended twice";
    for (const int owner : known.numbers)
      table.add(mistake, 1, fmt::format("the block of owner {} {}", owner, how)).blocks =
          [=](int, int of) { return of == owner ? times : 1; };
    for (const int step : known.numbers)
      table.add(mistake, 1.05, fmt::format("the block of ring step {} {}", step, how)).blocks =
          [=](int rank, int of) { return of == owner_at(rank, step, n) ? times : 1; };
    for (int owner = 0; owner < n && known.is_zigzag() && n <= 16; ++owner)
      for (const bool upper : {false, true})
        table.meet(
            mistake, 1.08,
            fmt::format("the {} chunk of owner {} {}", upper ? "upper" : "lower", owner, how),
            [=, &known, &places](Index i, Index j) {
              const bool is_met = places[j].rank == owner && known.is_upper(j) == upper;
              return (is_met ? times : 1) * known.mask.allows(i, j);
            });
  }
  const Index end = known.seqlen() / n * n;
  if (end < known.seqlen())
    table.meet(
        Mistake::rows_dropped, 1,
        fmt::format("the rows from {} on are left out, as {} ranks don't divide the length", end,
                    n),
        [=, &known](Index i, Index j) { return i < end && j < end && known.mask.allows(i, j); });
  // Positions that end at 2^15 or 2^16.
  for (const Index last : kIndexEnds) {
    if (last >= known.seqlen()) continue;
    const auto add = [&](const char* how, const auto& allows) {
      table.meet(Mistake::index_overflow, 1, fmt::format("{} {}", how, last),
                 [=, &known](Index i, Index j) { return allows(i, j) && known.mask.allows(i, j); });
    };
    add("no key is attended from", [=](Index, Index j) { return j < last; });
    add("no query attends from", [=](Index i, Index) { return i < last; });
    table.meet(Mistake::index_overflow, 1.01,
               fmt::format("the mask compares positions modulo {}", last),
               [=, &known](Index i, Index j) { return known.mask.allows(i % last, j % last); });
  }
  if (n < 2) return;
  table.add(Mistake::own_block_only, 1, "only the own block is attended").blocks =
      [](int rank, int owner) { return rank == owner; };
  table.add(Mistake::own_block_only, 1.01, "every step attends the own block, under its mask")
      .blocks = [n](int rank, int owner) { return rank == owner ? n : 0; };
  // Hybrids, in which groups of `group` ranks share their rows before a ring turns between groups.
  for (int group = 2; group < n && n <= kManyRanks; ++group)
    for (const bool is_strided : {false, true})
      for (const bool every_step : {false, true})
        if (n % group == 0)
          table
              .add(Mistake::keys_never_rotate, 1 + 0.01 * is_strided + 0.005 * every_step,
                   fmt::format("only the blocks of the own group of {} ranks{} are attended{}",
                               group, is_strided ? fmt::format(", {} apart,", n / group) : "",
                               every_step ? ", at every step" : ""))
              .blocks = [=](int rank, int owner) {
            const bool is_own = is_strided ? rank % (n / group) == owner % (n / group)
                                           : rank / group == owner / group;
            return is_own ? (every_step ? n / group : 1) : 0;
          };
  if (known.problem.mask.name() != "full")
    table.meet(Mistake::own_block_unmasked, 1, "the own block is attended without the mask",
               [&known, &places](Index i, Index j) {
                 return places[i].rank == places[j].rank || known.mask.allows(i, j);
               });
}

// Blocks that are attended in place of others, under the mask of those that should be there.
void add_other_blocks(const Knowledge& known, Hypotheses& table) {
  const int n = known.ranks();
  if (n < 2) return;
  // owners(rank, at) are those in whose place a rank attends the block of `at`.
  const auto add = [&](Mistake mistake, double penalty, const std::string& how, auto owners) {
    table.meet(mistake, penalty, how, [=, &known](Index i, Index j) {
      const Place& at = known.deal.places[j];
      const bool is_last = at.local_row + 1 == std::ssize(known.deal.positions[at.rank]);
      double times = 0;
      for (const int owner : owners(known.deal.places[i].rank, at.rank)) {
        const auto& rows = known.deal.positions[owner];
        // A shorter block's last row stands where it has none.
        const Index end = is_last ? std::ssize(rows) : min_of(at.local_row + 1, std::ssize(rows));
        for (Index row = at.local_row; row < end; ++row)
          times += known.mask.allows(i, rows[row]) ? 1 : 0;
      }
      return times;
    });
  };
  using Owners = std::vector<int>;
  Owners all(n);
  std::iota(all.begin(), all.end(), 0);
  add(Mistake::wrong_neighbour, 1.04,
      "blocks come from the next rank, and are taken for those of the rank before",
      [=](int rank, int at) { return Owners{(2 * rank - at + n) % n}; });
  add(Mistake::rows_of_other_rank, 1.05,
      "every step attends the own block, under the masks of the others",
      [=](int rank, int at) { return rank == at ? all : Owners(); });
  for (int group = 2; group < n && n <= kManyRanks; ++group)
    if (n % group == 0)
      add(Mistake::keys_never_rotate, 1.02,
          fmt::format("every step attends the blocks of the own group of {} ranks, under the masks "
                      "of the others",
                      group),
          [=](int rank, int at) {
            Owners owners;
            for (int owner = at % group; rank / group == at / group && owner < n; owner += group)
              owners.push_back(owner);
            return owners;
          });
  for (const int by : std::set<int>{1, n - 1}) {
    add(Mistake::rows_of_other_rank, 1.05,
        fmt::format("every step attends the block of owner o {} 1, under the mask of o",
                    by == 1 ? '+' : '-'),
        [=](int, int at) { return Owners{(at + n - by) % n}; });
    for (const int other : known.numbers)
      add(Mistake::rows_of_other_rank, 1.1,
          fmt::format("the block of owner {} stands in for that of owner {}", (other + by) % n,
                      other),
          [=](int, int at) {
            Owners owners;
            if (at != other) owners.push_back(at);
            if (at == (other + by) % n) owners.push_back(other);
            return owners;
          });
  }
}

}  // namespace

void add_meetings(const Knowledge& known, Hypotheses& table) {
  add_blocks(known, table);
  add_wrong_masks(known, table);
  add_shifted_masks(known, table);
  add_local_orders(known, table);
  add_dealt_orders(known, table);
  add_halves(known, table);
  add_other_blocks(known, table);
}

}  // namespace ringscope
