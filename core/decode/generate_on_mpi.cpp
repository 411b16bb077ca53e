#include "core/decode/generate_on_mpi.h"

#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "core/mpi/mpi_calls.h"
#include "core/mpi/mpi_communicator.h"

namespace ringscope {
namespace {

// How long a rank that was told of a failure waits for rank 0's word on it.
constexpr double kFailureSeconds = 1;

static_assert(std::is_trivially_copyable_v<GeneratedShare>);

class ProcessGenerating {
 public:
  explicit ProcessGenerating(MpiSession& session) : session_(session), line_(session.lifeline()) {
    line_.watch(pulse_, [this](const RunError& error) { stop(error); });
  }
  ~ProcessGenerating() { line_.unwatch(); }

  Generated run(const Checkpoint& checkpoint, const Deal& deal, const GenerateOptions& options,
                const OnByte& on_byte, const OnPrefill& on_prefill) {
    comm_ = std::make_unique<MpiCommunicator>(waits_, session_.rank(), session_.world_size(),
                                              communicator_options());
    rank_ = std::make_unique<GeneratingRank>(checkpoint, deal, options, *comm_, &pulse_);
    Generated generated;
    generated.text = rank_->generate(on_byte, on_prefill);
    comm_.reset();  // waits for what is on its way
    generated.shares = gather_shares();
    return session_.rank() == 0 ? std::move(generated) : Generated();
  }

  // Tells everybody, and throws what rank 0 then says of the run.
  [[noreturn]] void fail(const RunError& error) {
    line_.fail(error);
    const RunError agreed = line_.wait_for_failure(kFailureSeconds).value_or(error);
    stop(agreed);
    comm_.reset();
    line_.unwatch();
    if (rank_ != nullptr)
      keep_until_exit(std::move(rank_));  // hops that never ended name its memory
    throw agreed;
  }

 private:
  // Ends every wait, and the work of a long step.
  void stop(const RunError& error) {
    waits_.fail(error);
    pulse_.stop();
  }

  MpiCommunicator::Options communicator_options() {
    MpiCommunicator::Options options;
    options.pulse = &pulse_;
    options.on_failure = [this](const RunError& error) { line_.fail(error); };
    return options;
  }

  // By rank, at rank 0.
  std::vector<GeneratedShare> gather_shares() {
    std::string mine(sizeof(GeneratedShare), '\0');
    std::memcpy(mine.data(), &rank_->share(), sizeof(GeneratedShare));
    std::vector<GeneratedShare> shares;
    for (const std::string& bytes : line_.gather(mine)) {
      if (bytes.size() != sizeof(GeneratedShare))
        throw RunError("a rank's report has another size than rank 0's");
      std::memcpy(&shares.emplace_back(), bytes.data(), sizeof(GeneratedShare));
    }
    return shares;
  }

  MpiSession& session_;
  Lifeline& line_;
  RankPulse pulse_;
  MpiWaits waits_;
  std::unique_ptr<GeneratingRank> rank_;
  std::unique_ptr<MpiCommunicator> comm_;  // ends before the rank, whose memory it may still touch
};

}  // namespace

Generated generate_on_mpi(MpiSession& session, const Checkpoint& checkpoint,
                          PartitionKind partition, const GenerateOptions& options,
                          const OnByte& on_byte, const OnPrefill& on_prefill) {
  ProcessGenerating generating(session);
  try {
    return generating.run(checkpoint, {partition, session.world_size()}, options, on_byte,
                          on_prefill);
  } catch (const RunError& error) {
    generating.fail(error.rank() >= 0 ? error : RunError(error.what(), session.rank()));
  } catch (const std::bad_alloc&) {
    generating.fail(RunError("out of memory", session.rank()));
  } catch (const std::exception& error) {
    generating.fail(RunError(error.what(), session.rank()));
  }
}

}  // namespace ringscope
