// What a sweep goes through, as it is written; its points, and their table.
#include "core/tools/sim/sweep.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include "core/tools/cost/time.h"

namespace ringscope {
namespace {

using Strings = std::vector<std::string>;

Scenario small() {
  Scenario scenario;
  scenario.job.shape = {1, 4, 2, 256, 16};
  scenario.job.world_size = 4;
  scenario.rates = {1e9, 1e9, 1e8, 1e-6};
  return scenario;
}

TEST(Sweep, RangesIncludeTheirEnds) {
  EXPECT_EQ(parse_sweep("seqlen=8192:131072:*2")[0].values,
            (Strings{"8192", "16384", "32768", "65536", "131072"}));
  EXPECT_EQ(parse_sweep("world-size=2:8:+3")[0].values, (Strings{"2", "5", "8"}));
  EXPECT_EQ(parse_sweep("world-size=2:9:+3")[0].values, (Strings{"2", "5", "8"}));
  EXPECT_EQ(parse_sweep("jitter=0:0.3:+0.1")[0].values, (Strings{"0", "0.1", "0.2", "0.3"}));
  EXPECT_EQ(parse_sweep("seqlen=1:4:*1.5")[0].values, (Strings{"1", "2", "3"}));
  EXPECT_EQ(parse_sweep("seqlen=7:7:*2,9")[0].values, (Strings{"7", "9"}));
}

TEST(Sweep, SettingsAreSeparatedByWhatPeopleWrite) {
  for (const char* text : {"seqlen=4,8 world-size=2", "seqlen=4,8, world-size=2",
                           "seqlen=4,8;world-size=2", "seqlen=4,8,world-size=2,"}) {
    const auto axes = parse_sweep(text);
    ASSERT_EQ(axes.size(), 2u) << text;
    EXPECT_EQ(axes[0].values, (Strings{"4", "8"})) << text;
    EXPECT_EQ(axes[1].setting, "world-size");
    EXPECT_EQ(axes[1].values, Strings{"2"}) << text;
  }
}

TEST(Sweep, MasksKeepTheirLists) {
  const auto axes = parse_sweep("mask=causal+documents:100,28,full,window:5 kv-buffers=in-step,2");
  EXPECT_EQ(axes[0].values, (Strings{"causal+documents:100,28", "full", "window:5"}));
  EXPECT_EQ(axes[1].values, (Strings{"in-step", "2"}));
}

TEST(Sweep, PointsAreTheCrossProduct) {
  const SweepTable table =
      points_of(small(), parse_sweep("seqlen=64,128 partition=striped,zigzag,fold bandwidth=1,2"));
  ASSERT_EQ(table.points.size(), 12u);
  EXPECT_EQ(table.points[0].scenario.job.shape.seqlen, 64);
  EXPECT_EQ(table.points[0].scenario.rates.bytes_per_s, 1e9);
  EXPECT_EQ(table.points[1].scenario.rates.bytes_per_s, 2e9);
  EXPECT_EQ(table.points[2].scenario.job.partition, PartitionKind::zigzag);
  EXPECT_EQ(table.points[11].scenario.job.shape.seqlen, 128);
  EXPECT_EQ(table.points[11].at, (std::vector<std::size_t>{1, 2, 1}));
}

TEST(Sweep, WhatCantBeMeantIsRefusedBeforeAnythingRuns) {
  Scenario base = small();
  base.stragglers = {{3, 0.5}};
  EXPECT_NO_THROW(points_of(base, parse_sweep("world-size=4,8")));
  EXPECT_THROW(points_of(base, parse_sweep("world-size=8,2")), InputError);
  EXPECT_THROW(points_of(small(), parse_sweep("mask=full,documents:1,2")), InputError);
  base = small();
  base.job.nodes = 4;
  base.between = {"wire", 1e6, 0};
  EXPECT_THROW(points_of(base, parse_sweep("world-size=2,8")), InputError);
}

// A figure stands for the simulation of its own settings.
TEST(Sweep, FiguresAreThoseOfSingleSimulations) {
  SweepTable table = points_of(
      small(), parse_sweep("seqlen=64,256 world-size=1,4 mask=causal,full kv-buffers=in-step,2"));
  std::vector<double> shares;
  run_sweep(table, [&](double share) { shares.push_back(share); });
  ASSERT_EQ(shares.size(), table.points.size());
  EXPECT_DOUBLE_EQ(shares.back(), 1);
  for (const SweepPoint& point : table.points) {
    const Scenario& scenario = point.scenario;
    const Simulation alone = simulate({.job = scenario.job, .pace = scenario.pace},
                                      work_of(scenario), machine_of(scenario));
    EXPECT_EQ(point.figures.wall_s, alone.wall_s());
    EXPECT_EQ(point.figures.exposed_s, alone.exposed_s());
    EXPECT_EQ(point.figures.balance_ceiling, alone.balance_ceiling());
    EXPECT_LE(point.figures.efficiency, 1 + 1e-12);
    if (scenario.pace == Pace::in_step) {
      EXPECT_EQ(point.figures.closed_form_s,
                layer_time(scenario.job, balance_of(scenario.job), scenario.rates).total());
      EXPECT_EQ(point.figures.wall_s, point.figures.closed_form_s);
    }
  }
}

TEST(Sweep, WhatCantBeDoneHasNoFigures) {
  Scenario few_heads = small();
  few_heads.job.shape.num_heads = 2;
  SweepTable table = points_of(few_heads, parse_sweep("scheme=ring,ulysses"));
  run_sweep(table);
  EXPECT_FALSE(table.points[0].why);
  ASSERT_TRUE(table.points[1].why);  // 2 heads for 4 ranks
  EXPECT_EQ(table.points[1].figures.wall_s, 0);
}

// RFC 4180, read back without our help.
std::vector<Strings> parse_csv(const std::string& text) {
  const std::regex cells(R"re((?:"((?:[^"]|"")*)"|([^",\n]*))([,\n]))re"), quotes("\"\"");
  std::vector<Strings> rows(1);
  for (std::sregex_iterator cell(text.begin(), text.end(), cells), end; cell != end; ++cell) {
    rows.back().push_back((*cell)[1].matched ? std::regex_replace((*cell)[1].str(), quotes, "\"")
                                             : (*cell)[2].str());
    if ((*cell)[3] == "\n") rows.emplace_back();
  }
  EXPECT_TRUE(text.ends_with('\n') && rows.back().empty());
  rows.pop_back();
  return rows;
}

TEST(Sweep, CsvReadsBackToTheSameBits) {
  SweepTable table = points_of(
      small(),
      parse_sweep("mask=documents:100,156,causal scheme=ring,ulysses kv-buffers=in-step,3"));
  run_sweep(table);
  const auto rows = parse_csv(sweep_csv(table));
  ASSERT_EQ(rows.size(), 1 + table.points.size());
  const Strings& head = rows[0];
  const auto cell = [&](std::size_t row, const std::string& column) {
    const auto at = std::find(head.begin(), head.end(), column) - head.begin();
    return rows[row].at(static_cast<std::size_t>(at));
  };
  for (std::size_t i = 0; i < table.points.size(); ++i) {
    const SweepPoint& point = table.points[i];
    ASSERT_EQ(rows[i + 1].size(), head.size());
    EXPECT_EQ(cell(i + 1, "mask"), point.scenario.job.mask.name());
    EXPECT_EQ(cell(i + 1, "scheme"), point.scenario.job.scheme_name());
    EXPECT_EQ(cell(i + 1, "seqlen"), "256");
    EXPECT_EQ(cell(i + 1, "kv_buffers"), has_buffers(point.scenario) ? "3" : "");
    if (point.why) {
      EXPECT_EQ(cell(i + 1, "wall_s"), "");
      EXPECT_EQ(cell(i + 1, "why_not"), *point.why);
    } else {
      EXPECT_EQ(std::strtod(cell(i + 1, "wall_s").c_str(), nullptr), point.figures.wall_s);
      EXPECT_EQ(std::strtod(cell(i + 1, "efficiency").c_str(), nullptr), point.figures.efficiency);
      EXPECT_EQ(cell(i + 1, "why_not"), "");
    }
  }
}

}  // namespace
}  // namespace ringscope
