// `ringscope generate` continues a text from a checkpoint, with a thread or a process per rank.

#include "app/command_line/commands.h"

#include "app/generate/generate_output.h"
#include "app/process/process_command.h"
#include "app/report/terminal.h"

#ifdef RINGSCOPE_HAS_MPI

#include "core/decode/generate_on_mpi.h"
#include "core/process/agreement.h"
#endif

namespace ringscope {

int carry_out(const GenerateRequest& request) {
  const int world_size = request.ranks.world_size.value_or(kDefaultWorldSize);
  const GenerateInputs inputs = read_inputs(request, world_size, {});
  if (const std::string remark = remark_on_processes(); !remark.empty()) print_error(remark);
  GenerateOutput output(request, inputs);
  output.end(generate_on_threads(inputs.checkpoint, {request.ranks.partition, world_size},
                                 inputs.options, output.on_byte(), output.on_prefill()));
  return 0;
}

// ---
// Generating as one rank of a job, where each rank is a process.

#ifdef RINGSCOPE_HAS_MPI

namespace {

class GeneratePart : public JobPart {
 public:
  GeneratePart(MpiSession& session, const GenerateRequest& request)
      : JobPart(session), request_(request) {
    inputs_.options = request.options;
  }

  // Read the files on rank 0, because no other rank opens any.
  void prepare() override {
    require_world_size(session_, request_.ranks.world_size);
    if (is_first()) inputs_ = read_inputs(request_, session_.world_size(), session_.rank());
  }

  void run() override {
    const std::string checkpoint =
        line_.broadcast(is_first() ? to_bytes(inputs_.checkpoint) : std::string());
    inputs_.options.prompt = line_.broadcast(inputs_.options.prompt);
    if (!is_first()) {
      inputs_.checkpoint = checkpoint_from(checkpoint);
      require_memory_for(inputs_, request_.ranks.partition, session_.world_size(), session_.rank());
    }
    agree(line_, {});  // now every rank knows that all have the memory for it
    if (is_first()) output_.emplace(request_, inputs_);
    generated_ = generate_on_mpi(session_, inputs_.checkpoint, request_.ranks.partition,
                                 inputs_.options, output_ ? output_->on_byte() : OnByte(),
                                 output_ ? output_->on_prefill() : OnPrefill());
  }

  int conclude() override {
    output_->end(generated_);
    return 0;
  }

  RunError leave_behind(const RunError& failure, const std::exception&) override {
    return failure;  // the generated text has been printed already
  }

 private:
  const GenerateRequest& request_;
  GenerateInputs inputs_;
  std::optional<GenerateOutput> output_;  // only on rank 0
  Generated generated_;
};

}  // namespace

std::unique_ptr<JobPart> make_generate_part(MpiSession& session, const GenerateRequest& request) {
  return std::make_unique<GeneratePart>(session, request);
}

#endif  // RINGSCOPE_HAS_MPI

}  // namespace ringscope
