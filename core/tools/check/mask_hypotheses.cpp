// The mistakes in which keys a row may see: other masks, masks a position off, and masks that follow a
// rank's own rows instead of the positions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/text.h"
#include "core/tools/check/hypotheses.h"

namespace ringscope {
namespace {

using Parts = std::vector<std::string>;
using KeptMask = std::shared_ptr<const Mask>;

// Return a mask that lives as long as somebody refers to it.
KeptMask kept(const Knowledge& known, const std::string& text) {
  struct Both {
    MaskSpec spec;
    Mask mask;
    Both(const std::string& spelled, Index seqlen)
        : spec(MaskSpec::parse(spelled)), mask(spec.for_seqlen(seqlen)) {}
  };
  const auto both = std::make_shared<Both>(text, known.seqlen());
  return {both, &both->mask};
}

// Return the parts of the stated mask, a sink with its window; and a mask of parts.
Parts parts_of(const Knowledge& known) {
  Parts parts;
  const std::string name = known.problem.mask.name();
  if (name == "full") return parts;
  for (const std::string_view part : split(name, '+'))
    if (part.starts_with("sink") && !parts.empty())
      parts.back().append("+").append(part);
    else
      parts.emplace_back(part);
  return parts;
}
std::string text_of(const Parts& parts) {
  return parts.empty() ? "full" : fmt::format("{}", fmt::join(parts, "+"));
}
Parts without(Parts parts, std::size_t which) {
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(which));
  return parts;
}

// Add a mask that a function of query and key describes.
void add_mask(Hypotheses& table, Mistake mistake, double penalty, const std::string& how,
              const Hypothesis::Allows& allows) {
  table.weigh(mistake, penalty, how, [allows](QueryRow& row) {
    for (Index key = 0; key < std::ssize(row.counts); ++key)
      row.counts[key] = allows(row.position, key) ? 1 : 0;
  });
  table.back().allows = allows;
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
  constexpr std::size_t kMost = 32;
  const std::size_t inner = ends.size() - 1, looked_at = inner <= kMost ? inner : 0;
  for (const Index by : {1, -1}) {
    std::vector<Index> shifted = ends;
    for (std::size_t d = 0; d < inner; ++d) shifted[d] += by;
    take(shifted);
    for (std::size_t d = 0; d < looked_at; ++d) {
      std::vector<Index> one = ends;
      one[d] += by;
      take(one);
    }
    if (by == 1) continue;
    shifted.back() -= 1;
    shifted.push_back(ends.back());
    take(shifted);
  }
  for (std::size_t d = 0; d < looked_at; ++d) {
    std::vector<Index> one = ends;
    one.erase(one.begin() + static_cast<std::ptrdiff_t>(d));
    take(one);
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
    const double* const q = known.row_of(known.inputs.q, 0, i);
    double m = -std::numeric_limits<double>::infinity(), l = 0,
           nearest = std::numeric_limits<double>::infinity();
    Index start = 0;
    Values scores, acc(width);
    for (Index j = 0; j <= i; ++j) {
      scores.push_back(known.problem.softmax_scale *
                       dot_of(q, known.row_of(known.inputs.k, 0, j), width));
      m = std::max(m, scores.back());
    }
    for (Index j = i; j >= 0; --j) {
      const double p = std::exp(scores[j] - m);
      const double* const v = known.row_of(known.inputs.v, 0, j);
      double distance = 0;
      l += p;
      for (Index c = 0; c < width; ++c) {
        acc[c] += p * v[c];
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
  const auto often = std::max_element(windows.begin(), windows.end(),
                                      [](auto& a, auto& b) { return a.second < b.second; });
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
    add_mask(table, Mistake::wrong_mask, penalty,
             fmt::format("the mask is {}, and not {}", name, stated),
             [mask = kept(known, name)](Index i, Index j) { return mask->allows(i, j); });
    table.back().mask = name;
  };
  const Parts given = parts_of(known);
  Parts parts = given;
  for (std::size_t dropped = parts.size(); dropped-- > 0;) add(text_of(without(parts, dropped)));
  if (std::find(parts.begin(), parts.end(), "causal") == parts.end()) parts.emplace_back("causal");
  for (unsigned kept_parts = 0; kept_parts < 1u << parts.size(); ++kept_parts) {
    Parts rest;
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (kept_parts >> p & 1) rest.push_back(parts[p]);
    add(text_of(rest));
  }
  for (std::size_t p = 0; p < given.size(); ++p)
    if (given[p].starts_with("documents:"))
      for_other_documents(given[p], [&](const std::string& changed) {
        Parts rest = without(given, p);
        rest.push_back(changed);
        add(text_of(rest));
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
    const std::string part = is_whole ? text_of(parts) : parts[changed];
    const KeptMask mask = kept(known, part),
                   rest = kept(known, is_whole ? "full" : text_of(without(parts, changed)));
    const auto add = [&](const std::string& how, double penalty, const auto& allows) {
      add_mask(table, Mistake::mask_off_by_one, penalty * (is_whole ? 1.01 : 1),
               how + " of " + part,
               [=](Index i, Index j) { return rest->allows(i, j) && allows(i, j); });
    };
    // Whether the part allows a pair, with positions outside of the sequence like the nearest.
    const auto at = [=](Index i, Index j) {
      return mask->allows(clamp(i, 0, last), clamp(j, 0, last));
    };
    const auto inside = [=](Index key) { return key >= 0 && key <= last; };
    add("one key less at the upper end", 1,
        [=](Index i, Index j) { return at(i, j) && inside(j + 1) && at(i, j + 1); });
    add("one key more at the upper end", 1,
        [=](Index i, Index j) { return at(i, j) || (inside(j - 1) && at(i, j - 1)); });
    add("one key less at the lower end", 1,
        [=](Index i, Index j) { return at(i, j) && at(i, j - 1); });
    add("one key more at the lower end", 1,
        [=](Index i, Index j) { return at(i, j) || (inside(j + 1) && at(i, j + 1)); });
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
      add(other + " in place", 1,
          [near = kept(known, other)](Index i, Index j) { return near->allows(i, j); });
    }
  }
}

// Causal masks that compare something else than positions.
void add_local_orders(const Knowledge& known, Hypotheses& table) {
  const std::string name = known.problem.mask.name();
  if (name.find("causal") == std::string::npos) return;
  const auto& places = known.deal.places;
  const auto add = [&](const std::string& how, double penalty, const auto& allows) {
    add_mask(table, Mistake::causal_in_local_order, penalty, how, allows);
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
  add("the mask is applied in the own block alone", 1.02, [&known, &places](Index i, Index j) {
    return places[i].rank != places[j].rank || known.mask.allows(i, j);
  });
}

void add_own_blocks(const Knowledge& known, Hypotheses& table) {
  if (known.ranks() < 2) return;
  const auto& places = known.deal.places;
  add_mask(table, Mistake::own_block_only, 1, "only the own block is attended",
           [&known, &places](Index i, Index j) {
             return places[i].rank == places[j].rank && known.mask.allows(i, j);
           });
  if (known.problem.mask.name() == "full") return;
  add_mask(table, Mistake::own_block_unmasked, 1, "the own block is attended without the mask",
           [&known, &places](Index i, Index j) {
             return places[i].rank == places[j].rank || known.mask.allows(i, j);
           });
}

// Under a zigzag deal all queries attend the lower chunk of a lower rank's block, and the queries of
// the upper chunk attend all of a higher rank's.
void add_halves(const Knowledge& known, Hypotheses& table) {
  Parts parts = parts_of(known);
  if (!known.is_zigzag() || known.ranks() < 2 || std::erase(parts, "causal") == 0) return;
  enum Wrong { keys = 1, queries = 2, both = 3, results = 4 };
  const auto add = [&](Wrong wrong, double penalty, const char* how) {
    table.weigh(Mistake::wrong_zigzag_half, penalty, how,
                [&known, wrong, others = kept(known, text_of(parts))](QueryRow& row) {
                  const bool upper = known.is_upper(row.position);
                  const auto& own = known.deal.positions[row.place.rank];
                  QueryRow other = row;
                  const Index partner = row.place.local_row + (std::ssize(own) + 1) / 2;
                  if (wrong == results && !upper && partner < std::ssize(own))
                    other.ask_as(row.head, own[partner]);
                  for (Index j = 0; j < known.seqlen(); ++j) {
                    const int owner = known.deal.places[j].rank;
                    if (owner == row.place.rank) continue;
                    const bool is_met = owner < row.place.rank
                                            ? known.is_upper(j) == ((wrong & keys) != 0)
                                            : upper == (wrong == keys);
                    row.counts[j] = is_met && others->allows(row.position, j) ? 1 : 0;
                    if (owner > row.place.rank) row.scores[j] = other.scores[j];
                  }
                });
  };
  add(keys, 1, "of lower ranks' blocks the upper chunk is attended, and not the lower");
  add(queries, 1, "the queries of the lower chunk attend higher ranks' blocks, not the upper's");
  add(both, 1.01, "both the keys' and the queries' chunks are the wrong ones");
  add(results, 1.02, "what the upper chunk's queries found goes to the rows of the lower");
}

}  // namespace

void add_masks(const Knowledge& known, Hypotheses& table) {
  add_wrong_masks(known, table);
  add_shifted_masks(known, table);
  add_local_orders(known, table);
  add_own_blocks(known, table);
  add_halves(known, table);
}

}  // namespace ringscope
