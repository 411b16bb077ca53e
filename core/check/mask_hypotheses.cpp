// The table of mistakes in which keys a row may see: other masks, masks a position off, and masks that
// follow a rank's own rows instead of the positions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/text.h"
#include "core/check/hypotheses.h"

namespace ringscope {
namespace {

class MaskTable : public HypothesisTable {
 public:
  explicit MaskTable(const Knowledge& known) : HypothesisTable(known) {}

  std::vector<Hypothesis> all() {
    add_wrong_masks();
    add_masks();
    add_local_orders();
    add_own_blocks();
    add_halves();
    return std::move(table_);
  }

 private:
  using Allows = std::function<bool(Index query, Index key)>;
  void add_mask(Mistake mistake, const std::string& how, Allows allows, double penalty = 1) {
    add_weighed(
        mistake, how,
        [this, allows = std::move(allows)](QueryRow& row) {
          for (Index key = 0; key < known_.seqlen(); ++key)
            row.counts[key] = allows(row.position, key) ? 1 : 0;
        },
        penalty);
  }

  void add_wrong_masks();
  template <class F>
  void add_documents(const std::string& part, F&& f) const;
  std::vector<std::string> seen_masks() const;

  // Parse a mask that lives as long as the table.
  const Mask& kept(const std::string& text) {
    specs_.push_back(MaskSpec::parse(text));
    masks_.push_back(specs_.back().for_seqlen(known_.seqlen()));
    return masks_.back();
  }

  // Return the parts of the stated mask, a sink with its window; and a mask of parts.
  std::vector<std::string> mask_parts() const {
    std::vector<std::string> parts;
    const std::string name = known_.problem.mask.name();
    if (name == "full") return parts;
    for (const std::string_view part : split(name, '+'))
      if (part.starts_with("sink") && !parts.empty())
        parts.back().append("+").append(part);
      else
        parts.emplace_back(part);
    return parts;
  }
  static std::string mask_of(const std::vector<std::string>& parts) {
    return parts.empty() ? "full" : fmt::format("{}", fmt::join(parts, "+"));
  }

  // Every part of the mask, and the whole, with one or both of its ends a position away. (Ends of
  // documents are among the wrong masks.)
  void add_masks() {
    const std::vector<std::string> parts = mask_parts();
    const Index last = known_.seqlen() - 1;
    for (std::size_t changed = 0; changed <= parts.size(); ++changed) {
      const bool is_whole = changed == parts.size();
      if (is_whole ? parts.size() < 2 : parts[changed].starts_with("documents")) continue;
      std::vector<std::string> others;
      for (std::size_t p = 0; p < parts.size() && !is_whole; ++p)
        if (p != changed) others.push_back(parts[p]);
      const std::string part = is_whole ? mask_of(parts) : parts[changed];
      const Mask &mask = kept(part), &rest = kept(mask_of(others));
      // Whether the part allows a pair, with positions outside of the sequence like the nearest.
      const auto at = [&mask, last](Index i, Index j) {
        return mask.allows(clamp(i, 0, last), clamp(j, 0, last));
      };
      const auto add_change = [&](const std::string& how, const auto& change, double penalty = 1) {
        add_mask(
            Mistake::mask_off_by_one, how + " of " + part,
            [&rest, change](Index i, Index j) { return rest.allows(i, j) && change(i, j); },
            penalty * (is_whole ? 1.01 : 1));
      };
      const auto inside = [last](Index key) { return key >= 0 && key <= last; };
      add_change("one key less at the upper end", [at, inside](Index i, Index j) {
        return at(i, j) && inside(j + 1) && at(i, j + 1);
      });
      add_change("one key more at the upper end", [at, inside](Index i, Index j) {
        return at(i, j) || (inside(j - 1) && at(i, j - 1));
      });
      add_change("one key less at the lower end",
                 [at](Index i, Index j) { return at(i, j) && at(i, j - 1); });
      add_change("one key more at the lower end", [at, inside](Index i, Index j) {
        return at(i, j) || (inside(j + 1) && at(i, j + 1));
      });
      add_change("one key less at both ends",
                 [at](Index i, Index j) { return at(i, j) && at(i, j - 1) && at(i, j + 1); });
      add_change("one key more at both ends",
                 [at](Index i, Index j) { return at(i, j) || at(i, j - 1) || at(i, j + 1); });
      for (const Index by : {-1, 1}) {
        add_change(
            fmt::format("keys shifted by {}", by),
            [at, by](Index i, Index j) { return at(i, j + by); }, 1.02);
        add_change(
            fmt::format("queries and keys shifted by {}", by),
            [at, by](Index i, Index j) { return at(i + by, j + by); }, 1.02);
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
        const Mask& near = kept(other);
        add_change(other + " in place", [&near](Index i, Index j) { return near.allows(i, j); });
      }
    }
  }

  void add_local_orders() {
    if (known_.problem.mask.name().find("causal") == std::string::npos) return;
    const auto add_order = [&](const std::string& how, const auto& place_of) {
      const auto causal = [place_of](Index i, Index j) { return place_of(j, i) <= place_of(i, i); };
      add_mask(Mistake::causal_in_local_order, how, causal);
      if (known_.problem.mask.name() == "causal") return;
      // The other parts of the mask by position, or in the same order.
      add_mask(
          Mistake::causal_in_local_order, how + ", the rest of the mask by position",
          [this, causal](Index i, Index j) {
            return causal(i, j) && known_.mask.allows(max_of(i, j), min_of(i, j));
          },
          1.02);
      add_mask(
          Mistake::causal_in_local_order, how + ", as the rest of the mask",
          [this, place_of](Index i, Index j) {
            return known_.mask.allows(min_of(place_of(i, i), known_.seqlen() - 1),
                                      min_of(place_of(j, i), known_.seqlen() - 1));
          },
          1.02);
    };
    const auto& places = known_.deal.places;
    add_order("local rows are compared in every block",
              [&places](Index p, Index) { return places[p].local_row; });
    std::vector<Index> before(1);
    for (const auto& rows : known_.deal.positions)
      before.push_back(before.back() + static_cast<Index>(rows.size()));
    add_order(
        "the ranks' rows are compared as if the deal were contiguous",
        [&places, before](Index p, Index) { return before[places[p].rank] + places[p].local_row; });
    // Only the own block is compared; all of the others counts as earlier.
    add_mask(
        Mistake::causal_in_local_order, "the mask is applied in the own block alone",
        [this, &places](Index i, Index j) {
          return places[i].rank != places[j].rank || known_.mask.allows(i, j);
        },
        1.02);
  }

  void add_own_blocks() {
    if (known_.ranks() < 2) return;
    add_weighed(Mistake::own_block_only, "only the own block is attended", [this](QueryRow& row) {
      for (Index j = 0; j < known_.seqlen(); ++j)
        if (known_.deal.places[j].rank != row.place.rank) row.counts[j] = 0;
    });
    if (known_.problem.mask.name() == "full") return;
    add_weighed(Mistake::own_block_unmasked, "the own block is attended without the mask",
                [this](QueryRow& row) {
                  for (const Index j : known_.deal.positions[row.place.rank]) row.counts[j] = 1;
                });
  }

  // Under a zigzag deal all queries attend the lower chunk of a lower rank's block, and the queries
  // of the upper chunk attend all of a higher rank's.
  void add_halves() {
    std::vector<std::string> rest = mask_parts();
    if (known_.problem.partition.kind != PartitionKind::zigzag || known_.ranks() < 2 ||
        std::erase(rest, "causal") == 0)
      return;
    const Mask& others = kept(mask_of(rest));
    enum Wrong { keys = 1, queries = 2, both = 3, results = 4 };
    const auto add_half = [&](int wrong, const char* how, double penalty) {
      add_weighed(
          Mistake::wrong_zigzag_half, how,
          [this, &others, wrong](QueryRow& row) {
            const bool upper = is_upper(row.position);
            const auto& own = known_.deal.positions[row.place.rank];
            QueryRow other = row;
            const Index partner = row.place.local_row + (std::ssize(own) + 1) / 2;
            if (wrong == results && !upper && partner < std::ssize(own)) {
              other.q = known_.copy_of(known_.inputs.q, row.head, own[partner]);
              rescore(known_, other);
            }
            for (Index j = 0; j < known_.seqlen(); ++j) {
              const int owner = known_.deal.places[j].rank;
              if (owner == row.place.rank) continue;
              const bool is_met = owner < row.place.rank
                                      ? is_upper(j) == ((wrong & keys) != 0)
                                      : upper == ((wrong & both) < queries && wrong != results);
              row.counts[j] = is_met && others.allows(row.position, j) ? 1 : 0;
              if (owner > row.place.rank) row.scores[j] = other.scores[j];
            }
          },
          penalty);
    };
    add_half(keys, "of lower ranks' blocks the upper chunk is attended, and not the lower", 1);
    add_half(queries, "the queries of the lower chunk attend higher ranks' blocks, not the upper's",
             1);
    add_half(both, "both the keys' and the queries' chunks are the wrong ones", 1.01);
    add_half(results, "what the upper chunk's queries found goes to the rows of the lower", 1.02);
  }

  std::deque<MaskSpec> specs_;
  std::deque<Mask> masks_;
};

// Other masks: the stated one without some of its parts or with causal besides, with documents that
// end elsewhere, and the one that the rows seem to follow.
void MaskTable::add_wrong_masks() {
  const std::string stated = known_.problem.mask.name();
  std::set<std::string> tried{stated};
  const auto add_text = [&](const std::string& text, double penalty = 1) {
    const std::string name = MaskSpec::parse(text).name();
    if (!tried.insert(name).second) return;
    const Mask& mask = kept(name);
    add_weighed(
        Mistake::wrong_mask, fmt::format("the mask is {}, and not {}", name, stated),
        [&mask](QueryRow& row) {
          std::fill(row.counts.begin(), row.counts.end(), 0.0);
          mask.for_allowed(row.position, [&](Interval keys) {
            std::fill(row.counts.begin() + keys.first, row.counts.begin() + keys.last, 1.0);
          });
        },
        penalty);
    table_.back().mask = name;
  };
  std::vector<std::string> parts = mask_parts();
  for (std::size_t dropped = parts.size(); dropped-- > 0;) {
    std::vector<std::string> rest = parts;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(dropped));
    add_text(mask_of(rest));
  }
  if (std::find(parts.begin(), parts.end(), "causal") == parts.end()) parts.emplace_back("causal");
  for (unsigned kept_parts = 0; kept_parts < 1u << parts.size(); ++kept_parts) {
    std::vector<std::string> rest;
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (kept_parts >> p & 1) rest.push_back(parts[p]);
    add_text(mask_of(rest));
  }
  for (const std::string& part : mask_parts())
    if (part.starts_with("documents:")) {
      std::vector<std::string> rest = mask_parts();
      std::erase(rest, part);
      add_documents(part, [&](const std::string& changed) {
        rest.push_back(changed);
        add_text(mask_of(rest));
        rest.pop_back();
      });
    }
  for (const std::string& seen : seen_masks()) add_text(seen, 1.02);
}

// Call f(part) for a documents part whose ends lie a position away, all or one of them, or one of
// which is left out.
template <class F>
void MaskTable::add_documents(const std::string& part, F&& f) const {
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
    if (before == known_.seqlen()) f(fmt::format("documents:{}", fmt::join(lengths, ",")));
  };
  constexpr std::size_t kMost = 32;
  const std::size_t inner = ends.size() - 1;
  for (const Index by : {1, -1}) {
    std::vector<Index> shifted = ends;
    for (std::size_t d = 0; d < inner; ++d) shifted[d] += by;
    take(shifted);
    for (std::size_t d = 0; d < inner && inner <= kMost; ++d) {
      std::vector<Index> one = ends;
      one[d] += by;
      take(one);
    }
    if (by == 1) continue;
    shifted.back() -= 1;
    shifted.push_back(ends.back());
    take(shifted);
  }
  for (std::size_t d = 0; d < inner && inner <= kMost; ++d) {
    std::vector<Index> one = ends;
    one.erase(one.begin() + static_cast<std::ptrdiff_t>(d));
    take(one);
  }
}

// Return causal masks with the window or the documents that the first head's outputs seem to follow:
// for rows evenly spread, the first key from which on the softmax of the keys up to the row's own is
// nearest to what is given.
std::vector<std::string> MaskTable::seen_masks() const {
  if (known_.mine.out.empty()) return {};
  const std::vector<Index>& sample = known_.options.rows;
  const Index width = known_.width(), of = sample.empty() ? known_.seqlen() : std::ssize(sample),
              count = min_of(of, 192);
  std::map<Index, int> starts, windows;
  int rows = 0, fits = 0, inside = 0;
  for (Index r = 0; r < count; ++r) {
    const Index i = sample.empty() ? r * of / count : sample[r * of / count];
    const double* const given = known_.row_of(known_.mine.out, 0, i);
    const double* const q = known_.row_of(known_.inputs.q, 0, i);
    double m = -std::numeric_limits<double>::infinity(), l = 0,
           nearest = std::numeric_limits<double>::infinity();
    Index start = 0;
    Values scores, acc(width);
    for (Index j = 0; j <= i; ++j) {
      scores.push_back(known_.problem.softmax_scale *
                       dot_of(q, known_.row_of(known_.inputs.k, 0, j), width));
      m = std::max(m, scores.back());
    }
    for (Index j = i; j >= 0; --j) {
      const double p = std::exp(scores[j] - m);
      const double* const v = known_.row_of(known_.inputs.v, 0, j);
      double distance = 0;
      l += p;
      for (Index c = 0; c < width; ++c) {
        acc[c] += p * v[c];
        distance += (acc[c] / l - given[c]) * (acc[c] / l - given[c]);
      }
      if (distance < nearest) std::tie(nearest, start) = std::pair(distance, j);
    }
    constexpr double kNear = 0.02;  // beyond the rounding of bf16
    ++rows;
    if (!(nearest <= kNear * kNear * dot_of(given, given, width))) continue;
    ++fits;
    ++starts[start];
    if (start == 0) continue;
    ++inside;
    ++windows[i - start + 1];
  }
  if (2 * fits < rows || inside < 3) return {};
  const auto often = std::max_element(windows.begin(), windows.end(),
                                      [](auto& a, auto& b) { return a.second < b.second; });
  if (2 * often->second > inside) return {fmt::format("causal+window:{}", often->first)};
  std::vector<Index> lengths;
  Index before = 0;
  for (const auto& [start, votes] : starts)
    if (start > 0 && votes > 1) {
      lengths.push_back(start - before);
      before = start;
    }
  lengths.push_back(known_.seqlen() - before);
  return {fmt::format("causal+documents:{}", fmt::join(lengths, ","))};
}

}  // namespace

std::vector<Hypothesis> mask_hypotheses(const Knowledge& known) {
  return hypotheses_of(known, &MaskTable::all);
}

}  // namespace ringscope
