// A recorded training step: the same bits as one that is not, one layer's ring slice by slice, and
// around it what the rank did, part by part.

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <tuple>

#include "core/trace/chrome_trace.h"
#include "core/training/training.h"
#include "tests/core/base/thrown.h"
#include "tests/core/ring/run_invariants.h"
#include "tests/core/training/train_case.h"

namespace ringscope {
namespace recorded_training_step_test {

TrainingSettings three_layers() {
  TrainingSettings settings = small_settings();
  settings.shape.layers = 3;
  return settings;
}

constexpr Index kSteps = 3, kRecorded = 2;

// Three steps; the second is recorded, unless `recorded_step` is 0.
FinishedTraining record(int world_size, Index recorded_step = kRecorded, Index layers = 3) {
  TrainingSettings settings = three_layers();
  settings.shape.layers = layers;
  return train_on_threads(
      {settings, {PartitionKind::zigzag, world_size}, nullptr, kSteps, recorded_step},
      small_text());
}

// The ring span of a layer and pass.
const ModelSpan& ring_of(const std::vector<ModelSpan>& spans, Pass pass, Index layer) {
  for (const ModelSpan& span : spans)
    if (span.part == ModelPart::ring && span.pass == pass && span.layer == layer) return span;
  throw std::logic_error("no such ring");
}

TEST(RecordedTrainingStep, ChangesNothing) {
  for (const int world_size : {1, 3}) {
    const FinishedTraining plain = record(world_size, 0), recorded = record(world_size);
    EXPECT_FALSE(plain.recording.has_value());
    EXPECT_EQ(to_bytes(plain.end), to_bytes(recorded.end));
    for (int rank = 0; rank < world_size; ++rank)
      EXPECT_EQ(plain.ranks[rank].sent_bytes(), recorded.ranks[rank].sent_bytes());
  }
}

TEST(RecordedTrainingStep, HasTheRingOfTheLastLayer) {
  for (const auto& [n, layers] : {std::pair{1, Index{3}}, {3, 3}, {2, 1}}) {
    const Index layer = layers - 1;
    const Recording recording = *record(n, kRecorded, layers).recording;
    for (int rank = 0; rank < n; ++rank) {
      std::map<std::pair<Pass, Lane>, int> counts;
      for (const TraceEvent& event : recording.events[rank]) {
        ++counts[{event.pass, event.lane}];
        if (event.lane != Lane::compute && event.lane != Lane::wait) continue;
        const ModelSpan& ring = ring_of(recording.model[rank], event.pass, layer);
        EXPECT_GE(event.begin_ns, ring.begin_ns);
        EXPECT_LE(event.end_ns, ring.end_ns);
      }
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        EXPECT_EQ((counts[{pass, Lane::compute}]), n);
        const int hops = (n - 1) + (pass == Pass::backward && n > 1 ? n : 0);
        EXPECT_EQ((counts[{pass, Lane::send}]), hops);
        EXPECT_EQ((counts[{pass, Lane::recv}]), hops);
      }
      EXPECT_EQ(recording.dropped[rank], 0);
    }
    expect_every_send_has_its_receive(recording);
  }
}

TEST(RecordedTrainingStep, HasEveryPartOfTheStepInOrder) {
  constexpr int n = 2;
  const Recording recording = *record(n).recording;
  using Named = std::tuple<ModelPart, Pass, Index>;
  std::vector<Named> expected{{ModelPart::embedding, Pass::forward, -1}};
  const auto attention = [&](Pass pass, Index layer) {
    expected.push_back({ModelPart::attention, pass, layer});
    expected.push_back({ModelPart::ring, pass, layer});
  };
  for (Index layer = 0; layer < 3; ++layer) {
    attention(Pass::forward, layer);
    expected.push_back({ModelPart::mlp, Pass::forward, layer});
  }
  expected.push_back({ModelPart::head, Pass::forward, -1});
  for (Index layer = 2; layer >= 0; --layer) {
    expected.push_back({ModelPart::mlp, Pass::backward, layer});
    attention(Pass::backward, layer);
  }
  expected.push_back({ModelPart::embedding, Pass::backward, -1});
  expected.push_back({ModelPart::reduction, Pass::forward, -1});
  expected.push_back({ModelPart::update, Pass::forward, -1});

  const Index values =
      ParameterStore(ModelWeights(three_layers().shape).layout, 0, nullptr).gradients_and_loss();
  std::int64_t earliest = INT64_MAX;
  for (int rank = 0; rank < n; ++rank) {
    const std::vector<ModelSpan>& spans = recording.model[rank];
    std::vector<Named> found;
    for (const ModelSpan& span : spans) found.push_back({span.part, span.pass, span.layer});
    EXPECT_EQ(found, expected);
    // Parts follow each other without a gap; a ring lies within the part before it.
    const ModelSpan* part = &spans[0];
    earliest = std::min(earliest, part->begin_ns);
    for (std::size_t i = 1; i < spans.size(); ++i) {
      if (spans[i].part == ModelPart::ring) {
        EXPECT_GE(spans[i].begin_ns, part->begin_ns);
        EXPECT_GT(spans[i].end_ns, spans[i].begin_ns);
        EXPECT_LE(spans[i].end_ns, part->end_ns);
      } else {
        EXPECT_EQ(spans[i].begin_ns, part->end_ns);
        part = &spans[i];
      }
      EXPECT_EQ(spans[i].bytes, spans[i].part == ModelPart::reduction
                                    ? RingAllReduce::bytes_sent(values, n, rank)
                                    : 0);
    }
  }
  EXPECT_EQ(earliest, 0);
}

TEST(RecordedTrainingStep, CanBeWrittenReadAndPacked) {
  const Recording recording = *record(2).recording;
  EXPECT_EQ(recording.info.training, (RecordedLayer{kRecorded, 2, 3}));
  EXPECT_EQ(recording.info.mask, "causal+window:20");
  EXPECT_EQ(recording.info.shape, (AttentionShape{2, 2, 1, 31, 8}));
  std::ostringstream out;
  write_chrome_trace(out, recording);
  EXPECT_EQ(parse_chrome_trace(out.str()), recording);
  for (const char* part : {R"("train_step": 2, "layer": 2, "layers": 3)", R"("name": "embedding")",
                           R"-("name": "MLP 2 (backward)")-", R"("name": "ring 2")",
                           R"("name": "gradient reduction")", R"("name": "AdamW")"})
    expect_contains(out.str(), part);

  const RankEvents events{
      .events = recording.events[1], .samples = {}, .model = recording.model[1]};
  EXPECT_EQ(unpack_rank_events(pack(events)), events);
  EXPECT_EQ(moved_by(moved_by(events, 1000), -1000), events);
  EXPECT_EQ(moved_by(events, 1000).model[1].begin_ns, events.model[1].begin_ns + 1000);
}

}  // namespace recorded_training_step_test
}  // namespace ringscope
