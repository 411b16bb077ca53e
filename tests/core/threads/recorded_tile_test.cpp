// The numbers of a recorded tile: those of the run itself, from which softmax as a textbook prints it, in
// f64, gets the run's own state and output.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "core/attention/online_softmax.h"
#include "core/base/error.h"
#include "core/threads/run.h"
#include "core/trace/tile.h"
#include "tests/core/attention/random_problem.h"

namespace ringscope {
namespace {

// A problem with two heads that share K and V, and its inputs as the run stores them.
struct Case {
  Problem config;
  Tensors<float> in;

  Case(const char* partition, const char* mask, DType dtype, AttentionShape shape)
      : config{.shape = shape,
               .dtype = dtype,
               .softmax_scale = 0.4,
               .mask = MaskSpec::parse(mask),
               .partition = parse_partition(partition),
               .world_size = 3},
        in(random_tensors(shape, 71, dtype)) {}
  Index d() const { return config.shape.head_dim; }
  Index d_v() const { return config.shape.value_dim(); }
  std::size_t columns() const { return std::min<std::size_t>(d_v(), RecordedTile::kMost); }
  // Rows of head 0 by their global positions.
  std::span<const float> q(Index position) const {
    return std::span(in.q).subspan((position - config.shape.first_query()) * d(), d());
  }
  std::span<const float> k(Index position) const {
    return std::span(in.k).subspan(position * d(), d());
  }
  std::span<const float> v(Index position) const {
    return std::span(in.v).subspan(position * d_v(), columns());
  }
  double product(Index query, Index key) const {
    double sum = 0;
    for (Index x = 0; x < d(); ++x) sum += double{q(query)[x]} * k(key)[x];
    return 0.4 * sum;
  }
  // The capped score of a pair, -inf where the mask forbids it.
  double score(Index query, Index key) const {
    const Mask mask = config.mask.for_seqlen(config.shape.seqlen);
    if (!mask.allowed_keys(query).contains(key)) return kMinusInfinity<double>;
    const double scaled = product(query, key), cap = config.softcap;
    return cap > 0 ? cap * std::tanh(scaled / cap) : scaled;
  }
  // Carry a query's state on over these keys.
  void carry(RowState<double>& state, std::vector<double>& out, Index query,
             const std::vector<Index>& keys) const {
    std::vector<double> scores, values;
    for (const Index key : keys) {
      scores.push_back(score(query, key));
      values.insert(values.end(), v(key).begin(), v(key).end());
    }
    carry_on<double>(state, out, scores, values.data());
  }
  static int owner(TilePlace place) { return (place.rank - place.step + 3) % 3; }
  std::vector<Index> keys_at(TilePlace place) const {
    const LocalRows rows = config.partition_of_sequence().rows_of(owner(place));
    std::vector<Index> keys;
    for (Index j = 0; j < rows.size(); ++j) keys.push_back(rows.global_position(j));
    return keys;
  }

  RingRun recorded(TilePlace place) const {
    Problem with_tile = config;
    with_tile.recorded_tile = place;
    return run_on_threads(with_tile, {in.q, in.k, in.v, {}});
  }
};

// The largest distance of what is compared, relative to what is expected if that is above 1.
struct Worst {
  double distance = 0;

  void compare(double actual, double expected) {
    if (actual == expected) return;
    const double by = std::abs(actual - expected) / std::max(1.0, std::abs(expected));
    distance = by <= distance ? distance : std::isnan(by) ? INFINITY : by;
  }
};

// Return how far the tile's numbers, and what the steps make of them, are from the sequence's own.
double worst_number(const Case& c, const RecordedTile& tile, TilePlace place) {
  Worst worst;
  const std::size_t keys = tile.keys.size(), columns = c.columns(), d = c.d();
  const TileSteps steps = steps_of(tile);
  for (std::size_t j = 0; j < keys; ++j) {
    for (std::size_t x = 0; x < d; ++x) worst.compare(tile.k[j * d + x], c.k(tile.keys[j])[x]);
    for (std::size_t x = 0; x < columns; ++x)
      worst.compare(tile.v[j * columns + x], c.v(tile.keys[j])[x]);
  }
  for (std::size_t i = 0; i < tile.queries.size(); ++i) {
    const Index query = tile.queries[i];
    for (std::size_t x = 0; x < d; ++x) worst.compare(tile.q[i * d + x], c.q(query)[x]);
    const auto compare_row = [&](const auto& actual, const std::vector<double>& expected) {
      for (std::size_t x = 0; x < columns; ++x) worst.compare(actual[i * columns + x], expected[x]);
    };
    RowState<double> state;
    std::vector<double> out(columns);
    for (int step = 0; step < place.step; ++step)
      c.carry(state, out, query, c.keys_at({place.rank, step}));
    worst.compare(tile.row_max_before[i], state.row_max);
    worst.compare(tile.row_sum_before[i], state.row_sum);
    compare_row(tile.out_before, out);

    // The keys of the tile, and after them the others of the block.
    std::vector<Index> others;
    for (const Index key : c.keys_at(place))
      if (std::find(tile.keys.begin(), tile.keys.end(), key) == tile.keys.end())
        others.push_back(key);
    RowState<double> of_tile = state;
    std::vector<double> out_of_tile = out;
    c.carry(of_tile, out_of_tile, query, tile.keys);
    worst.compare(steps.row_max[i], of_tile.row_max);
    worst.compare(steps.row_sum[i], of_tile.row_sum);
    compare_row(steps.out_accum, out_of_tile);
    const double factor = rescale_factor(state.row_max, of_tile.row_max);
    worst.compare(steps.factors[i], factor);
    for (double& value : out) value *= factor;
    compare_row(steps.rescaled, out);
    for (std::size_t j = 0; j < keys; ++j) {
      const double score = c.score(query, tile.keys[j]);
      worst.compare(steps.products[i * keys + j], c.product(query, tile.keys[j]));
      worst.compare(tile.scores[i * keys + j], score);
      worst.compare(steps.weights[i * keys + j],
                    std::isfinite(score) ? std::exp(score - of_tile.row_max) : 0);
    }
    c.carry(of_tile, out_of_tile, query, others);
    worst.compare(tile.row_max[i], of_tile.row_max);
    worst.compare(tile.row_sum[i], of_tile.row_sum);
    compare_row(tile.out_accum, out_of_tile);

    // The blocks of the steps that follow, and a sink, lead to the run's output.
    for (int step = place.step + 1; step < 3; ++step)
      c.carry(of_tile, out_of_tile, query, c.keys_at({place.rank, step}));
    if (c.config.has_sinks())
      of_tile.row_sum += std::exp(c.config.sink_logits[0] - of_tile.row_max);
    for (double& value : out_of_tile) value = of_tile.row_sum > 0 ? value / of_tile.row_sum : 0;
    compare_row(tile.out, out_of_tile);
  }
  return worst.distance;
}

constexpr double kRounding = 2e-5;

void expect_tile(const Case& c, TilePlace place) {
  SCOPED_TRACE(testing::Message() << c.config.partition.recorded_name() << " "
                                  << c.config.mask.name() << " " << c.config.shape.seqlen
                                  << " rank " << place.rank << " step " << place.step);
  const RingRun run = c.recorded(place);
  ASSERT_TRUE(run.recording.tile.has_value());
  const RecordedTile& tile = *run.recording.tile;
  EXPECT_EQ(tile.rank, place.rank);
  EXPECT_EQ(tile.step, place.step);
  EXPECT_EQ(tile.kv_owner, Case::owner(place));
  EXPECT_TRUE(std::any_of(tile.scores.begin(), tile.scores.end(),
                          [](float score) { return std::isfinite(score); }));
  EXPECT_LE(worst_number(c, tile, place), kRounding);
  for (std::size_t i = 0; i < tile.queries.size(); ++i)
    for (std::size_t x = 0; x < c.columns(); ++x)
      EXPECT_EQ(round_to(c.config.dtype, tile.out[i * c.columns() + x]),
                run.outputs.out[(tile.queries[i] - c.config.shape.first_query()) * c.d_v() + x]);
}

void expect_tiles(const Case& c) {
  for (int rank = 0; rank < 3; ++rank)
    for (int step = 0; step < 3; ++step)
      if (predicted_pairs(c.config, rank, step) > 0) expect_tile(c, {rank, step});
}

TEST(RecordedTile, ReplaysToTheRunsOwnStateAndOutput) {
  for (const char* partition : {"contiguous", "striped", "zigzag"})
    for (const char* mask : {"full", "causal", "causal+window:9"}) {
      expect_tiles({partition, mask, DType::f32, {2, 2, 1, 40, 9}});
      expect_tiles({partition, mask, DType::bf16, {2, 2, 1, 13, 4}});
    }
}

// Values of another width, fewer queries than keys, a softcap, sinks, heads gathered in turns, and documents.
TEST(RecordedTile, FollowsWhatElseARunMayHave) {
  Case c("striped", "causal", DType::f32, {1, 2, 2, 40, 9, 5, 30});
  expect_tiles(c);
  c.config.softcap = 0.7;
  expect_tiles(c);
  c.config.sink_logits = {0.5f, -1};
  expect_tiles(c);
  set_scheme(c.config, "allgather:2");
  expect_tiles(c);
  // Where a document begins, its queries attend none of the tile's keys, and nothing before.
  expect_tiles({"contiguous", "causal+documents:11,29", DType::f32, {1, 2, 2, 40, 9, 9, 30}});
}

// Each number counts: the comparison that the tests above rely on notices any that is off by a thousandth.
TEST(RecordedTile, NoWrongNumberPasses) {
  const Case c("striped", "causal", DType::f32, {1, 2, 1, 40, 9});
  const TilePlace place{2, 1};
  const RecordedTile tile = *c.recorded(place).recording.tile;
  for (const auto list :
       {&RecordedTile::q, &RecordedTile::k, &RecordedTile::v, &RecordedTile::scores,
        &RecordedTile::row_max_before, &RecordedTile::row_sum_before, &RecordedTile::out_before,
        &RecordedTile::row_max, &RecordedTile::row_sum, &RecordedTile::out_accum,
        &RecordedTile::out})
    for (std::size_t i = 0; i < (tile.*list).size(); ++i) {
      RecordedTile wrong = tile;
      float& value = (wrong.*list)[i];
      value = std::isfinite(value) ? value + 1e-3f * std::max(1.0f, std::abs(value)) : 0;
      EXPECT_GT(worst_number(c, wrong, place), kRounding) << i;
    }
  RecordedTile wrong = tile;
  wrong.queries[0] += 3;
  EXPECT_GT(worst_number(c, wrong, place), kRounding);
  wrong = tile;
  wrong.keys[0] += 3;
  EXPECT_GT(worst_number(c, wrong, place), kRounding);
}

// Of a run that nobody asked for a tile, none is kept, and a place without one is refused.
TEST(RecordedTile, IsKeptWhereItIsAskedForAndThereIsOne) {
  Case c("contiguous", "causal", DType::f32, {2, 2, 1, 40, 4});
  EXPECT_FALSE(run_on_threads(c.config, {c.in.q, c.in.k, c.in.v, {}}).recording.tile.has_value());
  for (const TilePlace place : {TilePlace{3, 0}, {-1, 0}, {0, 1}, {0, 3}, {1, -1}}) {
    c.config.recorded_tile = place;
    EXPECT_THROW(check_config(c.config), InputError) << place.rank << ":" << place.step;
  }
  c.config.recorded_tile = TilePlace{1, 1};
  check_config(c.config);
  set_scheme(c.config, "pass-q");
  EXPECT_THROW(check_config(c.config), InputError);
}

}  // namespace
}  // namespace ringscope
