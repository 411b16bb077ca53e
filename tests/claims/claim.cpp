#include "tests/claims/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace ringscope::claims {
namespace {

std::vector<LedgerEntry>& ledger() {
  static std::vector<LedgerEntry> entries;
  return entries;
}

}  // namespace

std::string agreement(const Claim& claim) {
  int with = 0, against = 0;
  for (const Figure& figure : claim.figures)
    if (figure.says_something()) ++(figure.supports() ? with : against);
  switch (claim.verdict) {
    case Verdict::holds:
      return with > 0 && against == 0 ? "" : "said to hold, but not every figure supports it";
    case Verdict::wrong:
      return against > 0 ? "" : "said to be wrong, but no figure refutes it";
    case Verdict::holds_if:
    case Verdict::ambiguous:
      return with > 0 && against > 0 ? "" : "said to hold at times only, but all figures agree";
  }
  return "no verdict";
}

std::vector<std::string> complaints(const Claim& claim) {
  std::vector<std::string> found;
  if (claim.figures.empty()) found.push_back("no figure");
  for (const Figure& figure : claim.figures) {
    const Range& right = figure.right;
    if (!figure.holds())
      found.push_back(fmt::format("{}: {:.17g}, not within [{:.17g}, {:.17g}]", figure.what,
                                  figure.value, right.low, right.high));
    if (!figure.can_fail())
      found.push_back(fmt::format("{}: {:.17g} would pass, which is {}", figure.what,
                                  figure.broken.value, figure.broken.how));
  }
  if (const std::string amiss = agreement(claim); !amiss.empty()) found.push_back(amiss);
  return found;
}

void expect_upheld(const Claim& claim) {
  for (const std::string& complaint : complaints(claim)) ADD_FAILURE() << complaint;
}

Claim LedgerEntry::claim() const {
  Claim claim = compute();
  claim.verdict = verdict;
  claim.source = source;
  claim.place = place;
  claim.id = id;
  claim.test = test;
  const std::string name = std::filesystem::path(file).stem().string();
  claim.topic = name.substr(0, name.find("_test"));
  return claim;
}

bool add_to_ledger(const LedgerEntry& entry) {
  ledger().push_back(entry);
  return true;
}

const std::vector<Claim>& all_claims() {
  static const std::vector<Claim> all = [] {
    std::vector<LedgerEntry> entries = ledger();
    std::ranges::sort(entries, {}, &LedgerEntry::id);
    std::vector<Claim> claims;
    for (const LedgerEntry& entry : entries) claims.push_back(entry.claim());
    return claims;
  }();
  return all;
}

}  // namespace ringscope::claims
