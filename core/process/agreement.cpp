#include "core/process/agreement.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/process/wire.h"

namespace ringscope {
namespace {

// What a rank brings.
struct Contribution {
  Terms terms;
  std::string bad_input;
};

// What rank 0 finds is "" where all agree, or one of these and a message.
constexpr char kBadInput = 'b', kDifferent = 'd';

std::string pack(const Contribution& contribution) {
  wire::Packer out;
  out.text(contribution.bad_input).number(contribution.terms.size());
  for (const auto& [name, value] : contribution.terms) out.text(name).text(value);
  return out.take();
}

Contribution contribution_from(const std::string& bytes) {
  wire::Unpacker in(bytes);
  Contribution contribution;
  contribution.bad_input = in.text();
  for (std::uint64_t left = in.number(); left > 0; --left) {
    std::string name = in.text();
    contribution.terms.emplace_back(std::move(name), in.text());
  }
  in.end();
  return contribution;
}

const std::string* value_of(const Terms& terms, const std::string& name) {
  const auto found = std::find_if(terms.begin(), terms.end(),
                                  [&](const auto& term) { return term.first == name; });
  return found == terms.end() ? nullptr : &found->second;
}

// Return a long value's part around its byte `at`.
std::string shortened(const std::string& value, std::size_t at) {
  constexpr std::size_t kShown = 60, kBefore = 20;
  if (value.size() <= kShown) return value;
  const std::size_t begin = std::min(at > kBefore ? at - kBefore : 0, value.size() - kShown);
  return (begin > 0 ? "..." : "") + value.substr(begin, kShown) +
         (begin + kShown < value.size() ? "..." : "");
}

std::string has(int rank, const std::string& name, const std::string* value, std::size_t at) {
  const std::string who = "rank " + std::to_string(rank) + " has ";
  return value == nullptr ? who + "no " + name : who + name + " " + shortened(*value, at);
}

// Describe what rank `rank` has and rank 0 lacks, or the other way round; empty for nothing.
std::string difference(int rank, const Terms& theirs, const Terms& ours) {
  const auto compare = [&](const std::string& name) -> std::string {
    const std::string* a = value_of(theirs, name);
    const std::string* b = value_of(ours, name);
    if (a != nullptr && b != nullptr && *a == *b) return "";
    std::size_t at = 0;
    if (a != nullptr && b != nullptr)
      while (at < a->size() && at < b->size() && (*a)[at] == (*b)[at]) ++at;
    return has(rank, name, a, at) + ", " + has(0, name, b, at);
  };
  for (const Terms* terms : {&ours, &theirs})
    for (const auto& term : *terms)
      if (std::string found = compare(term.first); !found.empty()) return found;
  return "";
}

std::string compare(const std::vector<std::string>& contributions) {
  std::vector<Contribution> all;
  for (const std::string& bytes : contributions) all.push_back(contribution_from(bytes));
  for (const Contribution& contribution : all)
    if (!contribution.bad_input.empty()) return kBadInput + contribution.bad_input;
  for (std::size_t r = 1; r < all.size(); ++r)
    if (std::string found = difference(static_cast<int>(r), all[r].terms, all[0].terms);
        !found.empty())
      return kDifferent + found;
  return "";
}

}  // namespace

void agree(Lifeline& line, const Terms& mine, const std::string& bad_input) {
  const std::vector<std::string> contributions = line.gather(pack({mine, bad_input}));
  const std::string found = line.broadcast(line.rank() == 0 ? compare(contributions) : "");
  if (found.starts_with(kBadInput)) throw InputError(found.substr(1));
  if (found.starts_with(kDifferent)) throw RunError(found.substr(1));
}

}  // namespace ringscope
