// A training step in the viewer: one layer's ring as in any recording, and the rest of the model
// beside it, which is neither lost time nor part of any ring step.

#include <gtest/gtest.h>

#include <numeric>

#include "tests/viz_data/trace_loader_text.h"
#include "viz/data/analysis/what_if.h"
#include "viz/data/session/document.h"
#include "viz/data/timeline/palette.h"
#include "viz/data/timeline/timeline_layout.h"
#include "viz/data/timeline/timeline_painter.h"

namespace ringscope::viz {
namespace {

constexpr int kRanks = 2;

// 1000 ns, of which the ring has 200 in each pass and the reduction 50.
Recording step_of_training() {
  Recording recording;
  recording.info.partition = "zigzag";
  recording.info.mask = "causal";
  recording.info.shape = {1, 2, 2, 8, 4};
  recording.info.world_size = kRanks;
  recording.info.training = RecordedLayer{.train_step = 12, .layer = 1, .layers = 2};
  recording.events.resize(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto span = [](ModelPart part, Pass pass, int layer, std::int64_t begin, std::int64_t end,
                         std::int64_t bytes = 0) {
      return ModelSpan{part, pass, layer, begin, end, bytes};
    };
    recording.model.push_back({span(ModelPart::embedding, Pass::forward, -1, 0, 100),
                               span(ModelPart::attention, Pass::forward, 1, 100, 400),
                               span(ModelPart::ring, Pass::forward, 1, 150, 350),
                               span(ModelPart::head, Pass::forward, -1, 400, 500),
                               span(ModelPart::mlp, Pass::backward, 1, 500, 600),
                               span(ModelPart::attention, Pass::backward, 1, 600, 900),
                               span(ModelPart::ring, Pass::backward, 1, 650, 850),
                               span(ModelPart::reduction, Pass::forward, -1, 900, 950, 64),
                               span(ModelPart::update, Pass::forward, -1, 950, 1000)});
    for (const Pass pass : {Pass::forward, Pass::backward})
      for (int step = 0; step < kRanks; ++step) {
        TraceEvent event{.pass = pass, .step = step, .kv_owner = (rank + step) % kRanks};
        event.begin_ns = (pass == Pass::forward ? 150 : 650) + 100 * step;
        event.end_ns = event.begin_ns + 90;  // then 10 of nothing, and at the end of waiting
        event.pairs = 9;
        if (step == 1) {
          TraceEvent wait{.lane = Lane::wait, .pass = pass, .step = 1, .kv_owner = event.kv_owner};
          wait.begin_ns = event.end_ns;
          wait.end_ns = event.end_ns + 10;
          wait.waiting_for = 1 - rank;
          recording.events[rank].push_back(wait);
        }
        recording.events[rank].push_back(event);
      }
  }
  return recording;
}

Document document_of(const Recording& recording) {
  return make_document(parse_trace(trace_text_of(recording)));
}

TEST(TrainingStep, HasALaneOfTheModel) {
  const Document document = document_of(step_of_training());
  const Trace& trace = document.trace;
  ASSERT_TRUE(trace.has_model());
  EXPECT_EQ(title_of(trace), "zigzag · causal · 2 ranks · training step 12, layer 1");
  EXPECT_EQ(trace.wall_ns(), 1000);
  for (int rank = 0; rank < kRanks; ++rank) {
    ASSERT_EQ(trace.ranks[rank].lanes, 5u);
    const TraceLane& lane = trace.lanes[trace.ranks[rank].first_lane + 4];
    EXPECT_EQ(lane.name, "model");
    ASSERT_EQ(lane.rows, 2u);
    const std::span<const TraceEvent> outer = model_slices(trace, rank);
    ASSERT_EQ(outer.size(), 7u);
    EXPECT_EQ(trace.name(outer[1]), "attention 1");
    EXPECT_EQ(trace.name(outer[3]), "MLP 1 (backward)");
    EXPECT_EQ(trace.name(outer[4]), "attention 1 (backward)");
    EXPECT_EQ(outer[5].lane, Lane::communication);
    EXPECT_EQ(outer[5].bytes, 64);
    EXPECT_EQ(trace.slices(lane.first_row + 1).size(), 2u);
    const std::vector<Stretch> ring = ring_stretches(trace, rank);
    ASSERT_EQ(ring.size(), 2u);
    EXPECT_EQ(ring[0].begin_ns, 150);
    EXPECT_EQ(ring[0].end_ns, 350);
    EXPECT_EQ(ring[1].begin_ns, 650);
    EXPECT_EQ(ring[1].end_ns, 850);
  }
}

TEST(TrainingStep, StepsAreTheRingsAlone) {
  const Document document = document_of(step_of_training());
  const Axis& axis = document.axis;
  ASSERT_EQ(axis.steps(), 4);
  const std::pair<std::int64_t, double> places[] = {{0, 0},   {150, 0}, {200, 0.5}, {250, 1},
                                                    {350, 2}, {500, 2}, {650, 2},   {750, 3},
                                                    {850, 4}, {1000, 4}};
  for (const auto& [ns, position] : places)
    EXPECT_DOUBLE_EQ(axis.position(AxisMode::steps, 1, ns), position) << ns;
  for (int step = 0; step < 4; ++step) EXPECT_EQ(axis.step_length_ns(step), 100);
  EXPECT_EQ(axis.time_at(AxisMode::steps, 0, 0), 150);
  EXPECT_EQ(axis.time_at(AxisMode::steps, 0, 2), 650);
  // Balance and mask are of the one ring.
  EXPECT_EQ(document.balance.steps, 4);
  EXPECT_EQ(document.balance.at(0, 1).pairs, 9);
}

// On the step axis nothing of what lies between the passes is painted over the backward one.
TEST(TrainingStep, StepsArePaintedWithTheirOwnSlices) {
  const Document document = document_of(step_of_training());
  const Trace& trace = document.trace;
  constexpr int kStepWidth = 100;
  const TimelineLayout layout = make_layout(trace, 4 * kStepWidth, 400);
  Image image(4 * kStepWidth, static_cast<int>(layout.content_height));
  const TimelinePaint paint{AxisMode::steps, ColorBy::owner, Theme::dark, false};
  paint_timeline(trace, document.axis, document.index, layout, fitted(4), paint, image);
  const std::uint32_t model = trace.lanes[trace.ranks[0].first_lane + 4].first_row;
  for (std::uint32_t depth = 0; depth < 2; ++depth) {
    const RowPlace* place = layout.place_of(model + depth);
    ASSERT_NE(place, nullptr);
    TraceEvent part = plain_slice();  // "attention" and "ring" fill all steps of both passes
    part.part = static_cast<std::int8_t>(depth == 0 ? ModelPart::attention : ModelPart::ring);
    const Color color = slice_color(Theme::dark, ColorBy::owner, part, kRanks);
    for (int step = 0; step < 4; ++step)
      for (float share = 0.2f; share < 0.9f; share += 0.2f)
        EXPECT_EQ(image.at(step * kStepWidth + kStepWidth * 3 / 5,
                           static_cast<int>(place->y + share * place->height)),
                  color)
            << "depth " << depth << ", step " << step << ", share " << share;
  }
}

TEST(TrainingStep, TheRestOfTheModelIsNotLost) {
  const Document document = document_of(step_of_training());
  for (const RankIdle& loss : document.idle.ranks) {
    EXPECT_EQ(loss.compute, 1000 - 50 - 2 * 10 - 2 * 10);
    EXPECT_GE(loss.hops, 50);
    EXPECT_EQ(loss.wait_ns, 20);
    EXPECT_EQ(std::accumulate(loss.by_cause.begin(), loss.by_cause.end(),
                              loss.compute + loss.hops + loss.rest),
              1000);
  }
  EXPECT_EQ(document.path().compute_ns + document.path().link_ns + document.path().overhead_ns,
            1000);
  EXPECT_LE(document.path().overhead_ns, 2 * 10 + 2 * 10);
  ASSERT_FALSE(document.findings.empty());
  EXPECT_EQ(
      document.findings[0].text,
      "Step 12 of a training run: attention takes 40 % of it; shown slice by slice is that of "
      "layer 1 (of 0 to 1), 40 %.");
  EXPECT_NE(rates_of_run(document.trace).refusal.find("training step"), std::string::npos);
  Recording of_one_layer = step_of_training();
  of_one_layer.info.training->layer = 0;
  of_one_layer.info.training->layers = 1;
  EXPECT_EQ(document_of(of_one_layer).findings.at(0).text,
            "Step 12 of a training run: attention takes 40 % of it.");
}

TEST(TrainingStep, AddingUpGradientsIsNamedWhereItTakesMost) {
  Recording recording = step_of_training();
  for (std::vector<ModelSpan>& spans : recording.model) {
    ASSERT_EQ(spans[spans.size() - 2].part, ModelPart::reduction);
    spans[spans.size() - 2].end_ns = spans.back().begin_ns = 990;
  }
  const Document document = document_of(recording);
  EXPECT_GE(document.idle.ranks[0].hops, 90);
  bool named = false;
  for (const Finding& finding : document.findings)
    named |= finding.text.find("Most of the rest is adding up the gradients.") != std::string::npos;
  EXPECT_TRUE(named);
}

TEST(TrainingStep, PlainRecordingsHaveNone) {
  Recording recording = step_of_training();
  recording.model.clear();
  recording.info.training.reset();
  const Document document = document_of(recording);
  EXPECT_FALSE(document.trace.has_model());
  EXPECT_EQ(document.findings[0].text.find("training"), std::string::npos);
  EXPECT_EQ(document.trace.wall_ns(), 700);
  EXPECT_EQ(document.axis.step_length_ns(1), 400);  // with the gap between the passes
}

}  // namespace
}  // namespace ringscope::viz
