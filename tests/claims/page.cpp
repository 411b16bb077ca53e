#include "tests/claims/claim.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

namespace ringscope::claims {
namespace {

// The sources by the names that the page calls them. Its head (page_head.txt) has where each is from.
struct Source {
  std::string_view id, title;
};

constexpr Source kSources[] = {
    {"S0", "Ring Attention Explained"},
    {"S1", "Context Parallelism and Ring Attention"},
    {"S2", "Ring Attention: Sequence-Parallel Distributed Attention"},
    {"S3", "Ring Attention and Striped Attention"},
    {"S4", "The Math: Formal Algorithm and Complexity Analysis"},
};

// Claims about one thing are in one file of tests.
struct Topic {
  std::string_view file, title;
};

constexpr Topic kTopics[] = {
    {"naive", "All scores written out"},
    {"softmax", "Softmax, safe and carried"},
    {"merge", "Merging partial results"},
    {"masked_rows", "Rows that a block is masked for"},
    {"ring", "Who holds and sends what"},
    {"backward", "Gradients"},
    {"work", "How much there is to compute"},
    {"balance", "Which rank computes how much"},
    {"layout", "Partitions, tiles, and masks other than causal"},
    {"traffic", "What is sent"},
    {"overlap", "Hiding communication"},
    {"memory", "What a rank must hold"},
    {"precision", "Precision"},
    {"groups", "Groups of ranks"},
};

struct VerdictText {
  std::string_view name, meaning;
};

VerdictText text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::holds:
      return {"true", "as stated"};
    case Verdict::holds_if:
      return {"true with a condition", "which the source does not give, or gives elsewhere"};
    case Verdict::wrong:
      return {"wrong", "in the formula, the figure or the unit"};
    case Verdict::ambiguous:
      return {"ambiguous", "true in one reading and not in another"};
  }
  return {"?", "?"};
}

std::string number(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "infinite" : "-infinite";
  // The difference is nothing but rounding.
  if (std::abs(x) < 1e-12) return "0";
  const double whole = std::round(x);
  if (std::abs(x) < 1e15 && std::abs(x - whole) <= 1e-9 * std::abs(x))
    return with_separators(whole);
  if (std::abs(x) >= 1e15 || std::abs(x) < 1e-3) return fmt::format("{:.2g}", x);
  if (std::abs(x) >= 1000) return with_separators(whole);
  return fmt::format("{:.4g}", x);
}

// Write a limit as people do: 1e-6, not 1e-06.
std::string limit(double x) {
  std::string text = fmt::format("{:g}", x);
  const std::size_t zero = text.find("e-0");
  return zero == std::string::npos ? text : text.erase(zero + 2, 1);
}

std::string bound(const Range& range) {
  if (range.low == -kInfinity) return "at most " + limit(range.high);
  if (range.high == kInfinity) return "at least " + limit(range.low);
  if (range.low == -range.high) return "within " + limit(range.high) + " of 0";
  return number(range.low) + " to " + number(range.high);
}

std::string claimed_text(const Figure& figure) {
  if (!figure.says_something()) return "–";
  const Said& said = figure.claimed;
  if (!said.value) return said.words;
  return figure.shown == Shown::percent ? fmt::format("{:.1f} %", 100 * *said.value)
                                        : number(*said.value);
}

std::string broken_value(const Figure& figure) {
  const double x = figure.broken.value, size = std::abs(x);
  if (figure.shown == Shown::percent) return fmt::format("{:.1f} %", 100 * x);
  if (!std::isfinite(x)) return number(x);
  // Rounding errors are not the same everywhere.
  if (figure.shown == Shown::bound && size < 0.01)
    return x > figure.right.high ? "more than " + limit(figure.right.high)
                                 : "less than " + limit(figure.right.low);
  if (size < 1e-6) return size < 1e-12 ? "0" : "below 1e-6";
  return size < 1 ? fmt::format("{:.2g}", x) : number(x);
}

// Return where the claim stands, with titles for the sources' numbers. Its place is "S0, Splitting
// Q; S3, entry 1", or "Splitting Q" if there is one source.
std::string where(const Claim& claim) {
  const bool names_sources = claim.source.size() > 2;
  std::string text = names_sources ? claim.place : claim.source + ", " + claim.place;
  for (const Source& source : kSources) {
    const std::string id = std::string(source.id) + ", ";
    const std::size_t at = text.find(id);
    if (at != std::string::npos)
      text.replace(at, id.size(), fmt::format("\"{}\" ({}), ", source.title, source.id));
  }
  return text;
}

std::string link_to(const Claim& claim) {
  std::string anchor = claim.id;
  std::ranges::transform(anchor, anchor.begin(), [](unsigned char c) { return std::tolower(c); });
  return fmt::format("[{}](#{})", claim.id, anchor);
}

std::string table_of_verdicts(const std::vector<Claim>& claims) {
  std::map<Verdict, int> counts;
  for (const Claim& claim : claims) ++counts[claim.verdict];
  std::string text = "## Verdicts\n\n| verdict | claims | meaning |\n|---|---|---|\n";
  for (const Verdict verdict : kAllVerdicts)
    text += fmt::format("| {} | {} | {} |\n", name_of(verdict), counts[verdict],
                        text_of(verdict).meaning);
  return text + fmt::format("| all | {} | |\n\n", claims.size());
}

std::string tables_of_claims(const std::vector<Claim>& claims) {
  std::string text = "## All claims, by topic\n\n";
  for (const Topic& topic : kTopics) {
    text +=
        fmt::format("### {}\n\n| | source | claim | verdict |\n|---|---|---|---|\n", topic.title);
    for (const Claim& claim : claims)
      if (claim.topic == topic.file)
        text += fmt::format("| {} | {} | {} | {} |\n", link_to(claim), claim.source, claim.claim,
                            name_of(claim.verdict));
    text += "\n";
  }
  return text;
}

std::string capitalised(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string section_of(const Claim& claim) {
  std::string text = fmt::format(
      "## {}\n\n{} *Claimed in {}.*\n\n**{}.** {}\n\n| figure | computed | in the source | with "
      "one "
      "thing changed |\n|---|---|---|---|\n",
      claim.id, claim.claim, where(claim), capitalised(std::string(name_of(claim.verdict))),
      filled_in(claim.correct, claim.figures));
  for (const Figure& figure : claim.figures)
    text += fmt::format("| {} | {} | {} | {}: {} |\n", figure.what, shown(figure, figure.value),
                        claimed_text(figure), figure.broken.how, broken_value(figure));
  return text + fmt::format("\nTest: `Claims.{}`\n\n", claim.test);
}

}  // namespace

std::string with_separators(double whole) {
  std::string digits = fmt::format("{:.0f}", std::abs(whole));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return (whole < 0 ? "-" : "") + digits;
}

std::string_view name_of(Verdict verdict) { return text_of(verdict).name; }

std::string shown(const Figure& figure, double value) {
  switch (figure.shown) {
    case Shown::bound:
      return bound(figure.right);
    case Shown::percent:
      return fmt::format("{:.1f} %", 100 * value);
    case Shown::number:
      break;
  }
  return number(value);
}

std::string filled_in(const std::string& text, const std::vector<Figure>& figures) {
  std::string result;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '{') {
      result += text[at];
      continue;
    }
    const std::size_t end = text.find('}', at);
    const Figure& figure = figures.at(std::stoul(text.substr(at + 1, end - at - 1)));
    result += shown(figure, figure.value);
    at = end;
  }
  return result;
}

bool is_on_the_page(const Claim& claim) {
  return std::ranges::find(kTopics, claim.topic, &Topic::file) != std::end(kTopics);
}

std::string page_of(const std::vector<Claim>& claims) {
  std::ifstream head(RINGSCOPE_SOURCE_DIR "/tests/claims/page_head.txt", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(head), {}};
  text += table_of_verdicts(claims) + tables_of_claims(claims);
  for (const Claim& claim : claims) text += section_of(claim);
  text.pop_back();  // one newline at the end
  return text;
}

}  // namespace ringscope::claims
