#include "core/cost/choices.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/cost/limits.h"
#include "core/cost/memory.h"

namespace ringscope {
namespace {

constexpr double kAsGood = 1.01;

// From long runs of positions, whose tiles are mostly full or empty, to short ones.
constexpr PartitionKind kByContiguity[] = {PartitionKind::contiguous, PartitionKind::zigzag,
                                           PartitionKind::fold, PartitionKind::striped};

Choice judge_balanced(const Job& job, const Balance& balance, const Rates& rates,
                      double memory_bytes) {
  return {job, balance, layer_time(job, balance, rates), peak_bytes(job),
          obstacle(job, memory_bytes)};
}

}  // namespace

Choice judge(const Job& job, const Rates& rates, double memory_bytes) {
  return judge_balanced(job, balance_of(job), rates, memory_bytes);
}

std::vector<Choice> all_choices(const Job& job, const Rates& rates, double memory_bytes) {
  std::vector<Choice> rings, gathered;
  Job tried = job;
  for (const PartitionKind partition : kByContiguity) {
    tried.partition = partition;
    tried.scheme = JobScheme::ring;
    const Balance balance = balance_of(tried);
    rings.push_back(judge_balanced(tried, balance, rates, memory_bytes));
    tried.scheme = JobScheme::allgather;
    gathered.push_back(judge_balanced(tried, balance, rates, memory_bytes));
  }
  std::vector<Choice> choices = std::move(rings);
  std::move(gathered.begin(), gathered.end(), std::back_inserter(choices));
  tried.partition = PartitionKind::contiguous;
  tried.scheme = JobScheme::ulysses;
  choices.push_back(judge(tried, rates, memory_bytes));
  return choices;
}

std::optional<std::size_t> best_choice(const std::vector<Choice>& choices) {
  double fastest = 0;
  bool found = false;
  for (const Choice& choice : choices) {
    if (choice.obstacle || (found && choice.time.total() >= fastest)) continue;
    fastest = choice.time.total();
    found = true;
  }
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (!choices[i].obstacle && choices[i].time.total() <= fastest * kAsGood) return i;
  return std::nullopt;
}

}  // namespace ringscope
