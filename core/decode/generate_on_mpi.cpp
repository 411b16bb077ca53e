#include "core/decode/generate_on_mpi.h"

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/mpi/rank_process.h"

namespace ringscope {
namespace {

static_assert(std::is_trivially_copyable_v<GeneratedShare>);

// Return the shares by rank, at rank 0.
std::vector<GeneratedShare> gather_shares(Lifeline& line, const GeneratedShare& share) {
  std::string mine(sizeof share, '\0');
  std::memcpy(mine.data(), &share, sizeof share);
  std::vector<GeneratedShare> shares;
  for (const std::string& bytes : line.gather(mine)) {
    if (bytes.size() != sizeof share)
      throw RunError("a rank's report has another size than rank 0's");
    std::memcpy(&shares.emplace_back(), bytes.data(), sizeof share);
  }
  return shares;
}

}  // namespace

Generated generate_on_mpi(MpiSession& session, const Checkpoint& checkpoint,
                          PartitionKind partition, const GenerateOptions& options,
                          const OnByte& on_byte, const OnPrefill& on_prefill) {
  const Deal deal{partition, session.world_size()};
  RankProcess<GeneratingRank> process(session);
  return process.run([&] {
    GeneratingRank& rank = process.join_ring(checkpoint, deal, options);
    Generated generated;
    generated.text = rank.generate(process.outside(on_byte), process.outside(on_prefill));
    process.leave_ring();
    generated.shares = gather_shares(session.lifeline(), rank.share());
    return session.rank() == 0 ? std::move(generated) : Generated();
  });
}

}  // namespace ringscope
