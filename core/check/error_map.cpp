#include "core/check/error_map.h"

#include <cmath>
#include <limits>

#include "core/check/hypotheses.h"

namespace ringscope {
namespace {

// A sum of squares and how many there are.
struct Mean {
  double squares = 0, count = 0;

  void add(double right, double given) {
    ++count;
    if (right == given || (std::isnan(right) && std::isnan(given))) return;
    const double error = given - right;
    squares += std::isfinite(error) ? error * error : std::numeric_limits<double>::infinity();
  }
  double root() const { return count > 0 ? std::sqrt(squares / count) : 0; }
};

}  // namespace

std::vector<ErrorMap> error_maps(const CheckedProblem& problem, const CheckedInputs& inputs,
                                 const NaiveResult<double>& oracle, const NaiveResult<double>& mine,
                                 const CheckVerdict& verdict, const DiagnosisOptions& options) {
  const Deal deal(problem.partition);
  const Index seqlen = problem.shape.seqlen;
  std::vector<ErrorMap> maps;
  for (const TensorCheck& check : verdict.tensors) {
    const auto [right, given] = check.name == "out"   ? std::pair{&oracle.out, &mine.out}
                                : check.name == "lse" ? std::pair{&oracle.lse, &mine.lse}
                                : check.name == "dq"  ? std::pair{&oracle.dq, &mine.dq}
                                : check.name == "dk"  ? std::pair{&oracle.dk, &mine.dk}
                                                      : std::pair{&oracle.dv, &mine.dv};
    const Index width = check.name == "lse" ? 1 : problem.shape.head_dim;
    const Index heads = static_cast<Index>(right->size()) / (seqlen * width);
    const std::size_t ranks = deal.positions.size();
    std::vector<Mean> by_chunk(2 * ranks), by_head(slot(heads)), cells(2 * ranks * slot(heads));
    for (Index head = 0; head < heads; ++head)
      for (Index i = 0; i < seqlen; ++i) {
        const Place& place = deal.places[slot(i)];
        const auto rows = static_cast<Index>(deal.positions[slot(place.rank)].size());
        const std::size_t chunk = slot(2 * place.rank + (2 * place.local_row >= rows ? 1 : 0));
        for (Index c = 0; c < width; ++c) {
          const std::size_t at = slot((head * seqlen + i) * width + c);
          for (Mean* const mean :
               {&by_chunk[chunk], &by_head[slot(head)], &cells[chunk * slot(heads) + slot(head)]})
            mean->add((*right)[at], (*given)[at]);
        }
      }
    ErrorMap map;
    map.tensor = check.name;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      map.by_rank_and_chunk.push_back({by_chunk[2 * rank].root(), by_chunk[2 * rank + 1].root()});
    for (const Mean& mean : by_head) map.by_head.push_back(mean.root());
    const double tolerance = std::max(check.rms_tolerance, std::numeric_limits<double>::min());
    for (std::size_t chunk = 0; chunk < 2 * ranks; ++chunk) {
      map.cells.emplace_back();
      for (Index head = 0; head < heads; ++head)
        map.cells.back().push_back(cells[chunk * slot(heads) + slot(head)].root() / tolerance);
    }
    if (check.name == "out" && !check.passes())
      map.by_rank_and_step = error_by_step(problem, inputs, oracle, mine, options);
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace ringscope
