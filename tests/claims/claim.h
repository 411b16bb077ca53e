// What became of a claim of the sources S0 to S4 (see core/README.md): the claim in words of our own,
// the verdict, what is right instead, and the figures that decide.
//
// A figure is computed by the project's own code, or by a small model in the test where the project
// has none, and must lie in a range. Beside it stands what comes out when one thing is computed
// otherwise: a mistake on purpose, or the right way where the figure shows a mistake of the source.
// That must lie outside, or the test could not fail. What the source gives for the figure lies
// inside when the figure supports the claim, and outside when it refutes it, so a verdict has to
// agree with its figures (agreement()).
//
// lessons/claims.md is written from the same objects (page.h).
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace ringscope::claims {

enum class Verdict { holds, holds_if, wrong, ambiguous, not_testable };

inline constexpr Verdict kAllVerdicts[] = {Verdict::holds, Verdict::holds_if, Verdict::wrong,
                                           Verdict::ambiguous, Verdict::not_testable};

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

// How a page shows a value. `bound`: only the range, for what compilers round differently.
enum class Shown { number, percent, bound };

struct Broken {
  std::string how;  // what is computed otherwise
  double value;     // what then comes out
};

struct Figure {
  std::string what;  // with its unit
  double value;      // as computed here
  Range right;
  // What the source gives, as a number or in words; with words, whether the figure supports them.
  std::optional<double> claimed = {};
  std::string claimed_words = {};
  bool supports_words = true;
  Broken broken;
  Shown shown = Shown::number;

  bool holds() const { return right.holds(value); }
  bool can_fail() const { return !right.holds(broken.value); }
  bool says_something() const { return claimed.has_value() || !claimed_words.empty(); }
  bool supports() const { return claimed ? right.holds(*claimed) : supports_words; }
};

struct Claim {
  Verdict verdict;
  std::string claim;    // what the source says, in one sentence of our own
  std::string source;   // "S1", or several: "S0, S3"
  std::string place;    // section, or what stands near it
  std::string correct;  // what is right; {0}, {1}, … are the figures' values
  // The verdict from reading alone, where computing changed it, and why it did.
  std::optional<Verdict> first_verdict = {};
  std::string why_changed = {};
  std::vector<Figure> figures = {};
  std::string id = {}, test = {}, topic = {};  // filled in by the ledger
};

// Empty when the figures' support of the source is what the verdict says: all of it for `holds`,
// not all for `wrong`, some and not all for `holds_if` and `ambiguous`, none against for
// `not_testable`. Otherwise what is amiss.
std::string agreement(const Claim& claim);

// All that is amiss with a claim: figures out of range, changes that would pass, agreement(). Empty
// when it is upheld.
std::vector<std::string> complaints(const Claim& claim);

void expect_upheld(const Claim& claim);

// Every claim of this program, by id; computed at the first call.
struct LedgerEntry {
  std::string id, test;
  std::string file;  // its name without _test.cpp is the claim's topic
  Claim (*compute)();
};
bool add_to_ledger(const LedgerEntry& entry);
const std::vector<Claim>& all_claims();

}  // namespace ringscope::claims

// CLAIM(C07, MaximaAreNoWeights) { … return a Claim; } makes the test Claims.C07_MaximaAreNoWeights
// and an entry of the ledger.
#define CLAIM(id, says)                                                                 \
  static ::ringscope::claims::Claim id##_##says();                                      \
  [[maybe_unused]] static const bool id##_##says##_is_listed =                          \
      ::ringscope::claims::add_to_ledger({#id, #id "_" #says, __FILE__, &id##_##says}); \
  TEST(Claims, id##_##says) { ::ringscope::claims::expect_upheld(id##_##says()); }      \
  static ::ringscope::claims::Claim id##_##says()
