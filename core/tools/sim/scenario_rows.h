// What people set of a Scenario, described once (core/base/describe.h): the flags of `simulate`, the axes of
// sweeps and their columns, JSON and text.
#pragma once

#include "core/ring/problem_rows.h"
#include "core/tools/sim/scenario.h"

namespace ringscope {

// ---
// What one setting says of several members.

template <class S>
struct SchemeOf {
  S& scenario;
};
template <class S>
struct PaceOf {
  S& scenario;
};
template <class S>
struct BandwidthOf {
  S& scenario;
};

// The value of kv-buffers for ranks that keep step.
inline constexpr std::string_view kInStep = "in-step";

inline void read_value(SchemeOf<Scenario>& to, std::string_view text, const MemberRow&) {
  Problem& job = to.scenario.job;
  const Scheme* const scheme = find_scheme(text);
  if (scheme != nullptr && scheme->counts_nodes)
    job.scheme = scheme;  // of the machine's nodes
  else
    set_scheme(job, text);
}
// Problem::kv_buffers stays as it is where ranks keep step.
void read_value(PaceOf<Scenario>& to, std::string_view text, const MemberRow& row);
inline void read_value(BandwidthOf<Scenario>& to, std::string_view text, const MemberRow& row) {
  to.scenario.rates.bytes_per_s = row.unit * number_in(text, row.range);
  to.scenario.cpu = nullptr;  // a measured machine has its own bandwidth
}
inline void read_value(Placement& to, std::string_view text, const MemberRow&) {
  to = parse_name(text, kAllOf<Placement>);
}
// Text such as "3:0.5,7:0.8".
void read_value(std::vector<Straggler>& to, std::string_view text, const MemberRow& row);
// Text such as "128x64".
void read_value(Granularity& to, std::string_view text, const MemberRow& row);

template <class S>
std::string name_of(const SchemeOf<S>& of) {
  return of.scenario.job.scheme_name();
}
template <class S>
std::string name_of(const PaceOf<S>& of) {
  return has_buffers(of.scenario) ? std::to_string(of.scenario.job.kv_buffers) : "";
}
template <class S>
std::string name_of(const BandwidthOf<S>& of) {
  return fmt::format("{}", of.scenario.rates.bytes_per_s / 1e9);
}
inline std::string name_of(const Granularity& tile) {
  return fmt::format("{}x{}", tile.rows, tile.keys);
}
inline std::string name_of(const Straggler& one) {
  return fmt::format("{}:{}", one.rank, one.speed);
}
Json json_of(const std::vector<Straggler>& slow);

// ---

template <class S, class F>
requires kIs<S, Scenario>
void describe(S& scenario, F&& row) {
  // Numbers far from where sums of times would overflow.
  constexpr Range kSpeed = {1e-12, 1e12, true, "a number from 1e-12 to 1e+12"};
  constexpr Range kDelay = {0, 1e12, true, "a number from 0, up to 1e+12"};
  describe(scenario.job, row);
  row(MemberRow("scheme", scheme_names().c_str(), "what travels between the ranks, and how ({})")
          .swept(),
      SchemeOf<S>{scenario});
  row(MemberRow(
          "kv-buffers", "K|in-step",
          "ranks run ahead of each other, with so many buffers for blocks, as the real ring with 2 "
          "(in-step: all wait for the slowest after every step, as in formulas; with --measure: 2)")
          .in({2, 1e6})
          .swept(),
      PaceOf<S>{scenario});
  row(MemberRow("bandwidth", "X")
          .in({1e-12, 1e12, true, "GB/s, from 1e-12 to 1e12"})
          .times(1e9)
          .as("bandwidth_gb_per_s")
          .swept(),
      BandwidthOf<S>{scenario});
  row(MemberRow("nics", "K", "links between nodes that a node has ({})").in({1, 1 << 20}),
      scenario.nics);
  row(MemberRow("placement", "block|cyclic", "consecutive ranks on one node, or dealt out ({})"),
      scenario.placement);
  row(MemberRow("straggler", "RANK:SPEED,...", "ranks that compute at another speed (1)")
          .in(kSpeed)
          .as("stragglers"),
      scenario.stragglers);
  row(MemberRow("slow-link", "RANK:SPEED,...",
                "ranks whose link to the next one has this share of its rate (1)")
          .in(kSpeed)
          .as("slow_links"),
      scenario.slow_links);
  row(MemberRow("jitter", "X",
                "every computation takes (1 + X x) times as long, x random with mean 1 ({})")
          .in(kDelay)
          .swept()
          .said("jitter {:g} of computing"),
      scenario.jitter);
  row(MemberRow("hop-jitter", "X", "the same of every hop ({})")
          .in(kDelay)
          .said("jitter {:g} of hops"),
      scenario.hop_jitter);
  row(MemberRow("seed", "N", "of --jitter and --hop-jitter ({})").in({0}), scenario.seed);
  row(MemberRow("cores", "C",
                "cores that the ranks share (each has its own; with --measure: this machine's)"),
      scenario.cores);
  row(MemberRow("step-us", "X", "microseconds that a step costs a rank besides its pairs ({})")
          .in(kDelay)
          .times(1e-6)
          .as("step_s"),
      scenario.step_s);
  row(MemberRow("tile", "ROWSxKEYS",
                "what a kernel computes whole where any pair is allowed ({}; with --measure: this "
                "program's)")
          .in({1, 1 << 20}),
      scenario.granularity);
}

}  // namespace ringscope
