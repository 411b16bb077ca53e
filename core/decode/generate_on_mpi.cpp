#include <string_view>
#include <utility>

#include "core/decode/generate.h"
#include "core/mpi/rank_process.h"
#include "core/mpi/rank_report.h"

namespace ringscope {

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
    const auto reports = session.lifeline().gather(bytes_of_value(rank.share()));
    for (std::string_view report : reports)
      generated.shares.push_back(take_value<GeneratedShare>(report));
    return session.rank() == 0 ? std::move(generated) : Generated();
  });
}

}  // namespace ringscope
