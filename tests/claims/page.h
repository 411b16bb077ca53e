// lessons/claims.md: the ledger as a page to read. The same bytes from every compiler and machine,
// because values are rounded, and those that compilers round differently are shown as bounds.
#pragma once

#include <string>
#include <vector>

#include "tests/claims/claim.h"

namespace ringscope::claims {

std::string_view name_of(Verdict verdict);

// A figure's value as the page shows it.
std::string shown(const Figure& figure, double value);

// `text` with {0}, {1}, … replaced by the figures' values. Throws std::out_of_range for a figure
// that there is not.
std::string filled_in(const std::string& text, const std::vector<Figure>& figures);

// Whether the claim's topic has a table of its own.
bool is_on_the_page(const Claim& claim);

std::string page_of(const std::vector<Claim>& claims);

}  // namespace ringscope::claims
