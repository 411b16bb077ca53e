// A claim of the sources S0 to S4 (see core/README.md) under test: the claim in our own words, the
// verdict, what is right instead, and the figures that decide.
//
// A figure is computed by the project's own code, or by a small model in the test where the project
// has none, and must lie in a range. Beside it stands what comes out when one thing is changed: a
// mistake on purpose, or the right way where the figure shows a mistake of the source. That must
// lie outside, because otherwise the test could not fail. What the source gives for the figure lies
// inside when the figure supports the claim, and outside when it refutes it, so a verdict has to
// agree with its figures (agreement()).
//
// lessons/claims.md is written from the same objects.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ringscope::claims {

enum class Verdict { holds, holds_if, wrong, ambiguous };

inline constexpr Verdict kAllVerdicts[] = {Verdict::holds, Verdict::holds_if, Verdict::wrong,
                                           Verdict::ambiguous};

// Both ends belong to it. A NaN lies in no range.
struct Range {
  double low, high;
  bool holds(double x) const { return low <= x && x <= high; }
};

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline Range near(double x, double tolerance) { return {x - tolerance, x + tolerance}; }
inline Range exactly(double x) { return {x, x}; }
inline Range at_most(double x) { return {-kInfinity, x}; }
inline Range at_least(double x) { return {x, kInfinity}; }

// How a page shows a value. `bound` shows only the range, for values that compilers round
// differently.
enum class Shown { number, percent, bound };

struct Broken {
  std::string how;  // what is computed otherwise
  double value;     // what then comes out
};

// What the source gives for a figure: a number, or words that the figure supports or refutes.
struct Said {
  Said() = default;  // nothing
  template <class Number>
  requires std::is_arithmetic_v<Number> Said(Number number) : value(number) {}
  Said(const char* text) : words(text) {}

  std::optional<double> value = {};
  std::string words = {};
  bool refuted = false;  // of words only: a number speaks for itself
};

inline const Said kNothing;
inline Said refuted(const char* words) {
  Said said(words);
  said.refuted = true;
  return said;
}

struct Figure {
  Figure(std::string what_is_computed, double computed, Range accepted, Broken changed,
         Said said = {}, Shown as = Shown::number)
      : what(std::move(what_is_computed)),
        value(computed),
        right(accepted),
        broken(std::move(changed)),
        claimed(std::move(said)),
        shown(as) {}

  std::string what;  // with its unit
  double value;      // as computed here
  Range right;
  Broken broken;
  Said claimed;
  Shown shown;

  bool holds() const { return right.holds(value); }
  bool can_fail() const { return !right.holds(broken.value); }
  bool says_something() const { return claimed.value || !claimed.words.empty(); }
  bool supports() const { return claimed.value ? right.holds(*claimed.value) : !claimed.refuted; }
};

struct Claim {
  std::string claim;    // what the source says, in one sentence of our own
  std::string correct;  // what is right; {0}, {1}, … are the figures' values
  std::vector<Figure> figures = {};
  // From the head of its test:
  Verdict verdict = Verdict::holds;
  std::string source = {};  // "S1", or several: "S0, S3"
  std::string place = {};   // section, or what stands near it
  std::string id = {}, test = {}, topic = {};
};

// Return "" if the figures support the source as the verdict says: all of them for `holds`, not all
// for `wrong`, and some but not all for `holds_if` and `ambiguous`. Otherwise return what is amiss.
std::string agreement(const Claim& claim);

// Return all that is amiss with a claim: figures out of range, changes that would pass, and
// agreement(). The list is empty if the claim is upheld.
std::vector<std::string> complaints(const Claim& claim);

void expect_upheld(const Claim& claim);

// Return every claim of this program, by id. They are computed at the first call.
const std::vector<Claim>& all_claims();

// A claim before it is computed. The file's name without _test.cpp is its topic.
struct LedgerEntry {
  std::string id, test, file;
  Verdict verdict;
  std::string source, place;
  Claim (*compute)();

  Claim claim() const;  // computed, with all of its parts
};
bool add_to_ledger(const LedgerEntry& entry);

// --- page.cpp writes lessons/claims.md, the ledger as a page to read. Every compiler and machine
// gives the same bytes, because values are rounded, and those that compilers round differently are
// shown as bounds.

std::string_view name_of(Verdict verdict);

// Write a whole number as 12,345.
std::string with_separators(double whole);

// Return a figure's value as the page shows it.
std::string shown(const Figure& figure, double value);

// Replace {0}, {1}, … in `text` by the figures' values. Throw std::out_of_range for a missing
// figure.
std::string filled_in(const std::string& text, const std::vector<Figure>& figures);

// Return whether the claim's topic has a table of its own.
bool is_on_the_page(const Claim& claim);

std::string page_of(const std::vector<Claim>& claims);

}  // namespace ringscope::claims

// CLAIM(C07, MaximaAreNoWeights, wrong, "S1", "part two, 5") { … return {claim, correct, figures}; }
// makes the test Claims.C07_MaximaAreNoWeights and an entry of the ledger.
#define CLAIM(id, says, its_verdict, its_source, its_place)                                      \
  static ::ringscope::claims::Claim id##_##says();                                               \
  static const ::ringscope::claims::LedgerEntry id##_##says##_entry{                             \
      #id,        #id "_" #says, __FILE__,    ::ringscope::claims::Verdict::its_verdict,         \
      its_source, its_place,     &id##_##says};                                                  \
  [[maybe_unused]] static const bool id##_##says##_is_listed =                                   \
      ::ringscope::claims::add_to_ledger(id##_##says##_entry);                                   \
  TEST(Claims, id##_##says) { ::ringscope::claims::expect_upheld(id##_##says##_entry.claim()); } \
  static ::ringscope::claims::Claim id##_##says()
