// What `ringscope train` is asked for (a text, a model and how it learns, and what to write), its
// results, and the files that it writes while it goes on.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line/option_groups.h"
#include "core/base/error.h"
#include "core/model/training.h"

namespace ringscope {

// A mask, whose name is kept.
template <class Text>
struct MaskNamed {
  Text& name;
};
inline void read_value(MaskNamed<std::string>& to, std::string_view text, const MemberRow&) {
  to.name = MaskSpec::parse(text).name();
}
template <class Text>
std::string name_of(const MaskNamed<Text>& mask) {
  return mask.name;
}

inline constexpr Range kModelSizes = {1, 0x7fffffff};

// The sizes of a model, which a checkpoint keeps, and what else people set of its training.
template <class S, class F>
requires kIs<S, ModelShape>
void describe(S& shape, F&& row) {
  row(MemberRow("layers", "N", "of the model ({})").in(kModelSizes), shape.layers);
  row(MemberRow("width", "N", "values a row between the layers ({})").in(kModelSizes), shape.width);
  row(MemberRow("heads", "N", "query heads ({})").in(kModelSizes), shape.num_heads);
  row(MemberRow("heads-kv", "N", "key and value heads, a divisor of the heads (as many)")
          .in(kModelSizes),
      shape.num_heads_kv);
  row(MemberRow("head-dim", "N", "values per head, an even number ({})").in(kModelSizes),
      shape.head_dim);
  row(MemberRow("hidden", "N", "values a row inside the MLP ({})").in(kModelSizes), shape.hidden);
}
template <class S, class F>
requires kIs<S, TrainingSettings>
void describe(S& settings, F&& row) {
  using Text = std::conditional_t<std::is_const_v<S>, const std::string, std::string>;
  describe(settings.shape, row);
  row(MemberRow("batch", "N", "sequences a step ({})").in(kModelSizes), settings.batch);
  row(MemberRow("seqlen", "N", "bytes of each ({})").in(kModelSizes), settings.seqlen);
  row(MemberRow("mask", "MASK", kMaskHelp).quoted(), MaskNamed<Text>{settings.mask});
  row(MemberRow("lr", "X", "learning rate of AdamW ({})").in(kAbove0), settings.adam.rate);
  row(MemberRow("seed", "N", "of the first weights and of the pieces of text ({})").in({0}),
      settings.seed);
}

struct TrainOptions {
  std::string text;
  // The settings that were given, by row. The others come from the checkpoint that a run resumes,
  // or else from TrainingSettings.
  std::map<std::string, std::string> given;
  Index steps = 400;  // those of the checkpoint included
  Index chunks = 1;
  RankOptions ranks;
  std::optional<std::string> loss_csv, checkpoint, resume, trace;
  std::optional<Index> checkpoint_every, trace_step;
  bool json = false;
};

inline constexpr int kDefaultTrainingRanks = 2;

struct TrainSetup {
  TrainingPlan plan;                // refers to start
  std::optional<Checkpoint> start;  // of --resume
  std::string text;

  TrainSetup() = default;
  TrainSetup(const TrainSetup&) = delete;
  TrainSetup& operator=(const TrainSetup&) = delete;
};

struct TrainReport {
  const TrainOptions& options;
  const TrainSetup& setup;
  const FinishedTraining& finished;
  const std::vector<double>& losses;  // of this run's steps
  double seconds = 0;  // from before the first step to after the last, files included
};

std::string train_text(const TrainReport& report);
std::string train_json(const TrainReport& report);

// What rank 0 keeps of a run: the losses, which are written at the end, and a checkpoint from time
// to time.
class TrainJournal {
 public:
  // Both arguments must outlive this object.
  TrainJournal(const TrainOptions& options, const TrainSetup& setup)
      : options_(options), setup_(setup) {}

  // Keep the loss of a step, and write a checkpoint if one is due. Throw RunError.
  void note(const StepReport& report, const TrainingRank& rank_0);
  // Write a table for other programs, a row per step, with nine digits, which tell all f32 apart.
  // The first row says where they come from, too. Throw RunError.
  void write_losses() const;
  // Write the last checkpoint. Throw RunError.
  void write_end(const Checkpoint& end) const;
  // Write the losses when the run has failed. Return the failure, whose message also says if they
  // could not be written.
  RunError close_failed(const RunError& failure) const;

  const std::vector<double>& losses() const { return losses_; }  // of this run

 private:
  const TrainOptions& options_;
  const TrainSetup& setup_;
  std::vector<double> losses_;
  Index saved_step_ = -1;
};

}  // namespace ringscope
