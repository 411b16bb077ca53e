#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "core/base/quantile.h"
#include "core/base/ranges.h"
#include "core/base/text.h"
#include "core/tools/foreign/inferred_layers.h"

namespace ringscope {
namespace {

constexpr Index kPeriodsToFit = 16;
constexpr std::int64_t kLongest = 1'000'000'000'000'000;  // ns
constexpr const char* kFarApart = "the files' times are weeks apart.";
constexpr double kLeastFit = 0.8;     // of kernels in the order of a ring
constexpr double kMostUneven = 1.15;  // of equal work: a few rows more, or what kernels vary by
constexpr double kLeastTrend = 0.05;  // of the time of layers

// Join the sends and receives that belong together: the k-th send and the k-th receive, or, if there
// are not as many of both or they are one kernel, what is under way together: a block's are started
// together, and the next block's can't begin before it has come.
std::vector<ProfiledSpan> batches_of(const std::vector<ProfiledSpan>& transfers) {
  std::vector<ProfiledSpan> sends, receives;
  for (const ProfiledSpan& span : transfers) {
    if (span.sends) sends.push_back(span);
    if (span.receives) receives.push_back(span);
  }
  for (auto* ends : {&sends, &receives}) ranges::stable_sort(*ends, {}, &ProfiledSpan::begin_ns);
  std::vector<ProfiledSpan> batches;
  if (sends.size() == receives.size()) {
    for (std::size_t i = 0; i < sends.size(); ++i) {
      batches.push_back(sends[i]);
      batches[i].end_ns = std::max(receives[i].end_ns, batches[i].begin_ns);
      batches[i].sent_ns = std::min(sends[i].end_ns, batches[i].end_ns);
    }
    return batches;
  }
  std::vector<ProfiledSpan> all = std::move(sends);
  all.insert(all.end(), receives.begin(), receives.end());
  ranges::stable_sort(all, {}, &ProfiledSpan::begin_ns);
  for (const ProfiledSpan& span : all) {
    if (!batches.empty() && span.begin_ns < batches.back().end_ns) {
      batches.back().end_ns = std::max(batches.back().end_ns, span.end_ns);
      batches.back().bytes += std::min(span.bytes, INT64_MAX / 2 - batches.back().bytes);
    } else {
      batches.push_back(span);
    }
  }
  return batches;
}

// Why profiles show no ring.
struct NoRing {
  std::string because;
};

class RingInference : private InferredLayers {
 public:
  InferredRing infer(const std::vector<RankProfile>& profiles, std::optional<std::size_t> layer) {
    InferredRing ring;
    list_others(profiles);
    try {
      take_ranks(profiles);
      find_layers();
      find_deal();
      correct_clocks();
      if (!on_device)
        notes.push_back("Profiles do not give processor time: ranks that share cores look slow.");
      ring.layers = layer_times();
      find_overlaps(ring.layers);
      ring.shown = choose_layer(ring.layers, layer);
      ring.recording = recording_of(static_cast<Index>(ring.shown));
      ring.recording->info.turns_because = turns_because(static_cast<Index>(ring.shown));
    } catch (const NoRing& no_ring) {
      notes.insert(notes.begin(), "No ring was inferred: " + no_ring.because);
    }
    ring.notes = std::move(notes);
    return ring;
  }

 private:
  // Put the ranks in order. Throw NoRing unless there is one file for each of several ranks, all of
  // about one time.
  void take_ranks(const std::vector<RankProfile>& profiles) {
    int world = 0;
    for (const RankProfile& profile : profiles) world = std::max(world, profile.world_size);
    if (world == 0 && profiles.size() > 1) {
      world = static_cast<int>(profiles.size());
      notes.push_back(fmt::format(
          "No file gives distributedInfo.world_size; taken as {}, the number of files.", world));
    }
    if (world < 2) throw NoRing{"the files give no world_size of 2 or more."};
    if (world > std::ssize(profiles))
      throw NoRing{
          fmt::format("{} of {} ranks' files are there, and a ring is told by all of them.",
                      profiles.size(), world)};
    ranks.resize(world);
    for (const RankProfile& profile : profiles) {
      if (profile.cut_short) notes.push_back(profile.path + " is cut off; what is whole was read.");
      if ((profile.world_size != world && profile.world_size != 0) || profile.rank < 0 ||
          profile.rank >= world)
        throw NoRing{fmt::format("{} gives rank {} of {}; one file for each of {} ranks accepted.",
                                 profile.path, profile.rank, profile.world_size, world)};
      const RankProfile*& mine = ranks[profile.rank].profile;
      if (mine != nullptr)
        throw NoRing{
            fmt::format("{} and {} give rank {}, both of them; one file for each of {} ranks "
                        "accepted.",
                        mine->path, profile.path, profile.rank, world)};
      const auto& processes = profile.processes[!profile.attention[1].empty()];
      if (processes.size() > 1)
        throw NoRing{
            fmt::format("{} has the attention of {} devices or processes (pids {}), as where "
                        "ranks write to one file; one file for each rank accepted.",
                        profile.path, processes.size(), fmt::join(processes, ", "))};
      mine = &profile;
      on_device = on_device || !profile.attention[1].empty();
    }
    for (ProfiledRank& rank : ranks) {
      const RankProfile& profile = *rank.profile;
      if (__builtin_sub_overflow(profile.base_time_ns, ranks[0].profile->base_time_ns,
                                 &rank.shift_ns) ||
          rank.shift_ns > kMaxTraceNs / 4 || rank.shift_ns < -kMaxTraceNs / 4)
        throw NoRing{kFarApart};
      for (const ProfiledSpan& span : profile.attention[on_device])
        rank.attention[static_cast<int>(span.pass)].push_back(span);
      const bool device_transfers =
          !profile.transfers[1].empty() || (on_device && profile.transfers[0].empty());
      const auto& transfers = profile.transfers[device_transfers];
      // An all-to-all's note ends with it.
      for (const ProfiledSpan& span : transfers)
        ends_late = ends_late || (!device_transfers && span.splits < 0);
      rank.batches = batches_of(transfers);
      rank.gathers = profile.gathers[on_device];
      for (ProfiledSpan& batch : rank.batches)
        if (batch.bytes == 0)
          batch.bytes = profile.sent_bytes / static_cast<std::int64_t>(rank.batches.size());
      for (auto* spans : {&rank.attention[0], &rank.attention[1], &rank.batches})
        for (ProfiledSpan& span : *spans)
          if (device_transfers != on_device) span.order = span.begin_ns;
      for (auto* spans : {&rank.attention[0], &rank.attention[1], &rank.gathers})
        ranges::stable_sort(*spans, {}, &ProfiledSpan::order);
    }
    // Take the lengths as known if they are those of a problem that we can count in.
    shape = ranks[0].profile->shape;
    const double flops = 10.0 * static_cast<double>(shape.seqlen) *
                         static_cast<double>(query_values(shape, shape.seqlen));
    if (shape.seqlen * world > kMaxSeqlen || flops > 9e18) shape = {1, 1, 1, 0, 1};
    std::int64_t first = INT64_MAX, last = INT64_MIN;
    for (const ProfiledRank& rank : ranks)
      for (const auto* spans :
           {&rank.attention[0], &rank.attention[1], &rank.batches, &rank.gathers})
        for (const ProfiledSpan& span : *spans) {
          first = std::min(first, span.begin_ns + rank.shift_ns);
          last = std::max(last, span.end_ns + rank.shift_ns);
        }
    const bool fits = static_cast<double>(last) - static_cast<double>(first) <= kLongest;
    if (!fits) throw NoRing{kFarApart};
  }

  // Note the kernels that were not understood.
  void list_others(const std::vector<RankProfile>& profiles) {
    std::map<std::string, int> all;
    for (const RankProfile& profile : profiles)
      for (const auto& [name, count] : profile.others) all[name] += count;
    if (all.empty()) return;
    std::vector<std::string> names;
    for (const auto& [name, count] : all)
      if (names.size() < 5) names.push_back(fmt::format("{} ({})", name.substr(0, 60), count));
    if (all.size() > names.size()) names.back() += " and more";
    notes.push_back(fmt::format("Kernels that are neither attention nor transfers, by name {}: {}.",
                                all.size(), fmt::join(names, ", ")));
  }

  // Return whether all ranks have as many passes of layers, and nothing is left over. Set back_hops.
  bool adds_up(RingGuess& g) const {
    Index counts[2];  // of rank 0
    for (const Pass pass : kAllPasses)
      counts[at(pass)] = attended(0, pass) / kernels_a_layer(g, 0, pass);
    const Index forward = counts[0] * hops_of(g, Pass::forward);
    const Index back = std::ssize(ranks[0].batches) - forward;
    if (counts[0] == 0 || back < 0) return false;
    if (counts[1] > 0) g.back_hops = back / counts[1];
    if (counts[1] > 0 && g.back_hops + 1 < n()) return false;
    for (int rank = 0; rank < n(); ++rank) {
      if (std::ssize(ranks[rank].batches) != forward + counts[1] * g.back_hops) return false;
      for (const Pass pass : kAllPasses)
        if (attended(rank, pass) != counts[at(pass)] * kernels_a_layer(g, rank, pass)) return false;
    }
    return true;
  }

  // Return the passes of layers that all ranks have, as far as they are whole.
  std::vector<LayerPass> periods_of(const RingGuess& g) const {
    std::vector<LayerPass> periods;
    std::vector<std::array<Index, 2>> done(ranks.size());
    for (Index hops = 0;;) {
      LayerPass period{.pass = Pass::forward, .kernels = {}, .hops = hops};
      for (int rank = 0; rank < n(); ++rank) {
        const auto& forward = ranks[rank].attention[0];
        const auto& backward = ranks[rank].attention[1];
        const auto [ahead, back] = done[rank];
        const bool is_back =
            back < std::ssize(backward) &&
            (ahead >= std::ssize(forward) || backward[back].order < forward[ahead].order);
        const Pass pass = is_back ? Pass::backward : Pass::forward;
        if (rank == 0) period.pass = pass;
        Index& first = done[rank][at(pass)];
        period.kernels.push_back(first);
        first += kernels_a_layer(g, rank, pass);
        if (pass != period.pass || first > attended(rank, pass) ||
            hops + hops_of(g, pass) > std::ssize(ranks[rank].batches))
          return periods;
      }
      hops += hops_of(g, period.pass);
      periods.push_back(std::move(period));
    }
  }

  // Return which part of the kernels is launched behind the hop that brings their block and before
  // the hop after next, 0 if nothing is whole; and which part begins before the next block has come,
  // which tells one way round from the other.
  std::pair<double, double> fit_of(const RingGuess& g,
                                   const std::vector<LayerPass>& periods) const {
    Index good = 0, early = 0, all = 0;
    for (Index i = 0; i < std::min<Index>(std::ssize(periods), kPeriodsToFit); ++i) {
      const LayerPass& period = periods[i];
      if (period.pass == Pass::backward && g.back_hops % (n() - 1) != 0) continue;
      const Index after = period.hops + hops_of(g, period.pass);
      const Index a_hop = period.pass == Pass::forward ? g.a_hop : g.back_hops / (n() - 1);
      for (int rank = 0; rank < n(); ++rank) {
        const auto& batches = ranks[rank].batches;
        const auto& kernels = ranks[rank].attention[at(period.pass)];
        Index k = period.kernels[rank];
        for (int step = 0; step < n(); ++step) {
          const Index hop = period.hops + step * a_hop;
          const Index next = step + 2 < n() ? hop + a_hop : after;
          for (Index left = kernels_in(g, rank, period.pass, step); left > 0; --left, ++k) {
            const std::int64_t order = kernels[k].order;
            good += (hop < a_hop || batches[hop - a_hop].order < order) &&
                    (next >= std::ssize(batches) || order < batches[next].order);
            early += hop >= std::ssize(batches) || kernels[k].begin_ns < batches[hop].end_ns;
            ++all;
          }
        }
      }
    }
    const double part = all == 0 ? 0 : 1 / static_cast<double>(all);
    return {static_cast<double>(good) * part, static_cast<double>(early) * part};
  }

  // Find the layers of a ring, or of a scheme that gathers keys and values. Throw NoRing if there are none.
  void find_layers() {
    if (attended(0, Pass::forward) == 0)
      throw NoRing{fmt::format(
          "no attention was found by name ({}); --attention NAME adds a part of a kernel's name.",
          attention_names())};
    const RankProfile& profile = *ranks[0].profile;
    int swaps = profile.swaps[on_device];
    if (ranks[0].batches.empty() && swaps == 0 && ranks[0].gathers.empty())
      throw NoRing{
          "no sends and receives were found (SendRecv, nccl:send, gloo:send), nor collectives in "
          "their place."};
    if (swaps == 0 && swaps_heads()) swaps = static_cast<int>(ranks[0].batches.size());
    if (swaps > 0 && ranks[0].gathers.empty())
      throw NoRing{fmt::format(
          "{} all-to-alls beside {} attentions deal out heads in place of rows (Ulysses), so "
          "there is no ring.",
          swaps, attended(0, Pass::forward) + attended(0, Pass::backward))};
    if (!ranks[0].batches.empty() && find_ring()) return;
    if (!ranks[0].gathers.empty() && find_gathers()) return;
    std::string counts;
    for (int rank = 0; rank < std::min(n(), 4); ++rank)
      counts += fmt::format("{}rank {} has {} attention kernels, {} transfers and {} gathers",
                            rank > 0 ? ", " : "", rank, attended(rank, Pass::forward),
                            std::ssize(ranks[rank].batches), std::ssize(ranks[rank].gathers));
    throw NoRing{counts + ": no ring's steps have so many in their order" +
                 (shape.seqlen > 0 ? " and of such lengths." : ".")};
  }

  // Return whether transfers stand before and after each attention, which none is beside, as where ranks
  // swap rows for heads and back. A ring's first attention, of a rank's own block, waits for none.
  bool swaps_heads() const {
    Index before = -1, between = -1;
    for (const ProfiledRank& rank : ranks) {
      const auto& kernels = rank.attention[0];
      if (rank.profile->sends_to >= 0 || kernels.empty() || rank.batches.empty() ||
          kernels.size() != ranks[0].attention[0].size())
        return false;
      const auto launched = [&](const ProfiledSpan& kernel) {
        const auto is_earlier = [&](const auto& batch) { return batch.order < kernel.order; };
        return ranges::count_if(rank.batches, is_earlier);
      };
      std::vector<Index> earlier;
      for (const ProfiledSpan& kernel : kernels) earlier.push_back(launched(kernel));
      earlier.push_back(std::ssize(rank.batches));
      if (before < 0) before = earlier[0];
      if (earlier[0] != before || before == 0) return false;
      if (kernels.size() == 1 && earlier[1] == before) return false;
      for (std::size_t i = 1; i < kernels.size(); ++i) {
        const Index more = earlier[i] - earlier[i - 1];
        if (between < 0) between = more;
        if (more != between || between <= before) return false;
      }
    }
    return true;
  }

  // Return whether the lengths of a layer's attention, where they are known, are not those that a guess
  // means: of blocks that only lower ranks attend, or else as much work for each rank.
  bool contradicts(const RingGuess& g, const std::vector<LayerPass>& periods) const {
    std::vector<double> pairs;
    for (int rank = 0; rank < n(); ++rank) {
      double sum = 0;
      for (const LayerPass& period : periods) {
        if (period.pass != Pass::forward) continue;
        for (Index k = 0; k < kernels_a_layer(g, rank, period.pass); ++k) {
          const ProfiledSpan& kernel = ranks[rank].attention[0][period.kernels[rank] + k];
          if (kernel.q_rows < 0 || kernel.causal < 0) return false;
          const double all = 1.0 * kernel.q_rows * kernel.k_rows;
          sum += kernel.causal > 0 && kernel.q_rows == kernel.k_rows ? all / 2 : all;
        }
      }
      pairs.push_back(g.higher == 0 ? sum / (rank + 0.5) : sum);
    }
    const auto [least, most] = ranges::minmax_element(pairs);
    return *most > kMostUneven * *least;
  }

  // Find layers, kernels per step and transfers per step of a ring. Return whether it is one.
  bool find_ring() {
    double best = 0, best_early = 0;
    for_guesses([&](RingGuess g) {
      if (!adds_up(g)) return;
      auto periods = periods_of(g);
      const auto [fit, early] = fit_of(g, periods);
      RingGuess other = guess;
      other.way = g.way;
      if (fit < best || (fit == best && (other != g || early <= best_early))) return;
      if (contradicts(g, periods)) return;
      best = fit, best_early = early;
      guess = g;
      passes = std::move(periods);
    });
    if (best < kLeastFit) return false;
    pair_layers();
    const RingGuess& g = guess;
    const bool plain = g.own == 1 && g.lower == 1 && g.higher < 2 && g.a_hop == 1;
    const std::string kernels =
        g.own == g.lower && (g.higher == g.own || g.higher == 0)
            ? count_text(g.own, "attention kernel")
            : fmt::format(
                  "{} attention kernels for a rank's own block, {} for a lower rank's and {} "
                  "for a higher rank's,",
                  g.own, g.lower, g.higher);
    notes.push_back(fmt::format("A ring of {} ranks: {}, {}, {} and {} a step (confidence {:.1f}).",
                                n(), count_text(std::ssize(layers), "layer"),
                                has_backward() ? "forward and backward" : "forward", kernels,
                                count_text(g.a_hop, "transfer"), best * (plain ? 0.9 : 0.8)));
    if (ranks[0].batches[0].splits >= 0)
      notes.push_back("Its hops are all-to-alls to one rank each, as PyTorch rotates blocks.");
    find_direction();
    return true;
  }

  // Find the layers of a scheme in which each rank gathers all keys and values. Return whether it is one.
  bool find_gathers() {
    gathers = true;
    for (int rank = 0; rank < n(); ++rank) {
      std::vector<LayerPass> mine;
      std::vector<ProfiledSpan> joined;
      Index next[2] = {};
      const auto& all = ranks[rank].gathers;
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::int64_t until = i + 1 < all.size() ? all[i + 1].order : INT64_MAX;
        Index count[2] = {};
        for (const Pass pass : kAllPasses)
          while (next[at(pass)] + count[at(pass)] < attended(rank, pass) &&
                 ranks[rank].attention[at(pass)][next[at(pass)] + count[at(pass)]].order < until)
            ++count[at(pass)];
        if (count[0] + count[1] == 0) continue;  // others, such as of weights
        // Keys and values may be gathered one by one.
        ProfiledSpan gather = all[i];
        for (std::size_t k = i; k-- > 0 && all[k].bytes == gather.bytes && all[k].end_ns > 0 &&
                                !joined.empty() && all[k].begin_ns > joined.back().end_ns;)
          gather.begin_ns = all[k].begin_ns;
        const Pass pass = count[0] > 0 ? Pass::forward : Pass::backward;
        auto& per_layer = kernels_per_layer[at(pass)];
        per_layer.resize(ranks.size());
        if (per_layer[rank] == 0) per_layer[rank] = count[at(pass)];
        // Backward kernels without a gather of their own are left out.
        if (per_layer[rank] != count[at(pass)]) return false;
        mine.push_back({.pass = pass,
                        .kernels = std::vector<Index>(ranks.size()),
                        .gather = std::ssize(joined)});
        mine.back().kernels[rank] = next[at(pass)];
        joined.push_back(gather);
        next[0] += count[0], next[1] += count[1];
      }
      ranks[rank].gathers = std::move(joined);
      if (rank == 0) passes = mine;
      if (mine.size() != passes.size() || mine.empty()) return false;
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if (mine[i].pass != passes[i].pass) return false;
        passes[i].kernels[rank] = mine[i].kernels[rank];
      }
    }
    find_steps_of_gathers();
    pair_layers();
    notes.push_back(
        fmt::format("{} ranks gather keys and values before they attend them: {}, {}, {} attention "
                    "{} per layer "
                    "on rank 0, {} of them beside the gather (confidence 0.9).",
                    n(), count_text(std::ssize(layers), "layer"),
                    has_backward() ? "forward and backward" : "forward", kernels_per_layer[0][0],
                    kernels_per_layer[0][0] == 1 ? "kernel" : "kernels", early_kernels));
    return !layers.empty();
  }

  // Find out whether a rank attends block by block, its own one beside the gather, as PyTorch does; or
  // else what it attends before the gather is over. And find the hops of gradients.
  void find_steps_of_gathers() {
    Index backward = 0, early = 0;
    for (const LayerPass& pass : passes) {
      const ProfiledRank& rank = ranks[0];
      for (Index k = 0; pass.pass == Pass::forward && k < kernels_per_layer[0][0]; ++k)
        early += rank.attention[0][pass.kernels[0] + k].begin_ns < rank.gathers[pass.gather].end_ns;
      backward += pass.pass == Pass::backward;
    }
    early_kernels = early / std::max<Index>(1, std::ssize(passes) - backward);
    has_blocks = false;
    for_guesses([&](const RingGuess& g) {
      bool fits = early_kernels > 0 && !has_blocks && g.way > 0;
      for (const Pass pass : kAllPasses)
        for (int rank = 0; rank < n() && !kernels_per_layer[at(pass)].empty(); ++rank)
          fits = fits && kernels_per_layer[at(pass)][rank] ==
                             g.own + g.lower * rank + g.higher * (n() - 1 - rank);
      if (fits) guess = g, has_blocks = true;
    });
    if (backward == 0) return;
    guess.back_hops = std::ssize(ranks[0].batches) / backward;
    for (const ProfiledRank& rank : ranks)
      if (std::ssize(rank.batches) != guess.back_hops * backward) guess.back_hops = 0;
    Index hops = 0;
    for (LayerPass& pass : passes)
      if (pass.pass == Pass::backward) pass.hops = std::exchange(hops, hops + guess.back_hops);
  }

  // Call f for all guesses, the simplest first.
  template <class F>
  void for_guesses(F&& f) const {
    for (Index sum = 2; sum <= 12; ++sum)
      for (Index own = 1; own <= 4; ++own)
        for (Index lower = 1; lower <= 4; ++lower) {
          const Index higher = sum - own - lower;
          if (higher < 0 || higher > 4) continue;
          for (const int way : {1, -1})
            for (Index a_hop = 1; a_hop <= 4 && (way > 0 || lower != higher); ++a_hop)
              for (const Index last_hop : {0, 1})
                f(RingGuess{own, lower, higher, a_hop, way, last_hop});
        }
  }

  // Join the passes of each layer: what went forward last goes back first.
  void pair_layers() {
    std::vector<const LayerPass*> open;
    for (const LayerPass& period : passes) {
      if (period.pass == Pass::forward) {
        open.push_back(&period);
      } else if (!open.empty()) {
        layers.emplace_back(open.back(), &period);
        open.pop_back();
      }
    }
    if (layers.empty())
      for (const LayerPass* forward : open) layers.emplace_back(forward, nullptr);
    if (layers.empty()) throw NoRing{"no forward pass is whole."};
    ranges::sort(layers);
  }

  // Find out whether blocks go to the next rank or to the previous one. Throw NoRing if neither can be.
  void find_direction() {
    int named[2] = {};
    for (int rank = 0; rank < n(); ++rank) {
      const RankProfile& profile = *ranks[rank].profile;
      for (const bool sends : {true, false}) {
        const int peer = sends ? profile.sends_to : profile.receives_from;
        if (peer < 0) continue;
        if (peer != wrap(rank + 1) && peer != wrap(rank - 1))
          throw NoRing{fmt::format("rank {} {} rank {}, which is not its neighbour.", rank,
                                   sends ? "sends to" : "receives from", peer)};
        ++named[peer == wrap(rank + (sends ? 1 : -1)) ? 0 : 1];
      }
    }
    const bool is_told = guess.lower != guess.higher;
    double confidence = 0.95;
    const char* how = "two ranks have one way";
    if (n() > 2 && named[0] != named[1]) {
      how = "the sends name their peers";
      const int way = named[0] > named[1] ? 1 : -1;
      if (is_told && way != guess.way)
        throw NoRing{"the sends name peers against whom the ranks' steps do not add up."};
      guess.way = way;
    } else if (n() > 2) {
      confidence = is_told ? 0.9 : 0.5;
      how = is_told ? "only so do the steps add up" : "no file names the peers";
    }
    notes.push_back(fmt::format("Blocks go from rank r to rank r {} 1 (confidence {}: {}).",
                                guess.way > 0 ? '+' : '-', confidence, how));
  }

  // Find out who has which rows: from the kernels a step, from the lengths that the files give, or
  // from the names of the kernels.
  void find_deal() {
    const Index given = shape.seqlen;
    bool halves = false, known = given > 0, own_alone = true;
    bool causal[2] = {true, true};  // the own block, another
    std::set<std::size_t> names[2];
    for (int rank = 0; rank < n(); ++rank)
      for (int step = 0; step < n(); ++step)
        for (const ProfiledSpan& kernel : kernels_of(rank, 0, Pass::forward, step)) {
          halves = halves || kernel.q_rows < given || kernel.k_rows < given;
          known = known && kernel.q_rows > 0 && kernel.causal >= 0;
          causal[step > 0] = causal[step > 0] && kernel.causal > 0;
          names[step > 0].insert(kernel.name);
        }
    for (const std::size_t name : names[0]) own_alone = own_alone && names[1].count(name) == 0;
    rows = given > 0 ? given : kProfileRows;
    if (!has_blocks) return find_deal_of_gathers();
    const RingGuess& g = guess;
    const struct {
      bool holds;
      const char *deal, *note;
    } signs[] = {
        {g.higher == 0, "contiguous",
         "Rank r attends r + 1 blocks, so it is causal and contiguous, and steps are skipped "
         "(confidence 0.95)."},
        {g.own != g.lower || g.lower != g.higher, "zigzag",
         "Ranks attend halves of blocks, so it is causal and zigzag (confidence 0.85)."},
        {known && halves, "zigzag",
         "Steps have half the rows or half the keys, so it is causal and zigzag (confidence "
         "0.95)."},
        {known && causal[0] && causal[1], "striped",
         "All steps are causal, so it is striped (confidence 0.8)."},
        {known && causal[0], "contiguous",
         "Causal and contiguous, and no step is skipped (confidence 0.9)."},
        {known, "", "No step is causal: the mask is full (confidence 0.9)."},
        {own_alone, "zigzag",
         "A rank's own block has a kernel of its own, and all steps are computed, so it is "
         "causal, "
         "and taken as zigzag (confidence 0.6)."},
        {true, "",
         "All ranks attend all blocks; the mask is taken as full, because kernels do not say "
         "(confidence 0.5)."}};
    const auto* sign = signs;
    while (!sign->holds) ++sign;
    deal = sign->deal;
    notes.emplace_back(sign->note);
  }

  // Likewise where ranks attend more than a block at a time: from the lengths, or else from the time that
  // ranks take.
  void find_deal_of_gathers() {
    Index most_keys = 0;
    for (const ProfiledRank& rank : ranks) most_keys = std::max(most_keys, rank.profile->most_keys);
    if (shape.seqlen > 0) rows = std::max(rows, most_keys / n());
    const double flops =
        10.0 * static_cast<double>(query_values(shape, rows)) * static_cast<double>(rows) * n();
    if (rows * n() > kMaxSeqlen || flops > 9e18) shape = {1, 1, 1, 0, 1}, rows = kProfileRows;
    std::vector<double> work;
    bool is_known = true;
    for (int rank = 0; rank < n(); ++rank) {
      double pairs = 0, seconds = 0;
      for (int step = 0; step < n(); ++step) {
        const auto kernels = kernels_of(rank, 0, Pass::forward, step);
        for (const ProfiledSpan& kernel : kernels) {
          is_known = is_known && kernel.q_rows > 0;
          pairs += pairs_in(kernel);
          seconds += static_cast<double>(kernel.end_ns - kernel.begin_ns);
        }
      }
      work.push_back(is_known ? pairs : seconds);
    }
    const auto is_alike = [&](auto&& share_of) {
      double least = INFINITY, most = 0;
      for (int rank = 0; rank < n(); ++rank) {
        const double share = work[rank] / share_of(rank);
        least = std::min(least, share), most = std::max(most, share);
      }
      return most <= kMostUneven * least;
    };
    if (is_alike([](int rank) { return rank + 0.5; })) {
      deal = "contiguous";
      notes.push_back(fmt::format(
          "Rank r {} in proportion to r + 1/2, so it is causal and contiguous (confidence {}).",
          is_known ? "has work" : "takes time", is_known ? 0.9 : 0.6));
    } else if (is_known && is_alike([](int) { return 1.0; }) &&
               work[0] < 0.9 * static_cast<double>(rows) * static_cast<double>(rows) * n()) {
      deal = "zigzag";
      notes.push_back(
          "Ranks have equal work, and less than all pairs, so it is causal, and taken as zigzag "
          "(confidence 0.7).");
    } else {
      notes.push_back(
          "Ranks attend all keys; the mask is taken as full, because kernels do not say "
          "(confidence 0.5).");
    }
  }

  // Move the clocks as little as possible so that no transfer ends before its other side began.
  void correct_clocks() {
    moved.assign(ranks.size(), 0);
    bool changed = true;
    for (int round = 0; changed && round <= n(); ++round) {
      changed = false;
      const auto require = [&](int late, std::int64_t end, int early, std::int64_t begin) {
        const std::int64_t lack = begin + ranks[early].shift_ns - (end + ranks[late].shift_ns);
        if (lack <= 0 || moved[late] > kLongest) return;
        moved[late] += lack;
        ranks[late].shift_ns += lack;
        changed = true;
      };
      for (Index layer = 0; layer < std::ssize(layers); ++layer)
        for (int step = 0; step + 1 < n(); ++step)
          for (int rank = 0; rank < n(); ++rank) {
            const int to = wrap(rank + guess.way);
            const auto sent = hop_of(rank, layer, Pass::forward, step);
            const auto got = hop_of(to, layer, Pass::forward, step);
            if (!sent || !got) continue;
            require(to, got->end_ns, rank, sent->begin_ns);
            if (on_device || gathers) require(rank, sent->end_ns, to, got->begin_ns);
          }
    }
    const std::int64_t most = *ranges::max_element(moved);
    if (most > 0)
      notes.push_back(
          fmt::format("Clocks were moved by up to {}, so that no transfer ends before it began{}.",
                      seconds_text(1e-9 * static_cast<double>(most)),
                      changed ? "; they do not fit all the same (confidence 0.2)" : ""));
  }

  // Return how long each layer took: from its first kernel or message to its last kernel, of both passes.
  std::vector<ProfiledLayer> layer_times() const {
    std::vector<ProfiledLayer> times;
    const std::vector<std::int64_t>& begun = ranks[0].profile->iterations;
    int iteration = 0, layer = 0;
    for (const auto& [forward, backward] : layers) {
      const std::int64_t first = ranks[0].attention[0][forward->kernels[0]].begin_ns;
      // The profiler's steps part iterations, or else that a backward pass came before.
      const auto number =
          begun.size() > 1
              ? std::max<Index>(0,
                                ranges::count_if(begun, [&](auto ns) { return ns <= first; }) - 1)
          : forward != passes.data() && (forward - 1)->pass == Pass::backward ? iteration + 1
                                                                              : iteration;
      if (number != iteration) layer = 0;
      iteration = static_cast<int>(number);
      ProfiledLayer time{.iteration = iteration, .layer = layer++};
      std::vector<double> computed(ranks.size());
      for (const LayerPass* pass : {forward, backward}) {
        if (pass == nullptr) continue;
        std::int64_t begin = INT64_MAX, end = INT64_MIN;
        for (int rank = 0; rank < n(); ++rank) {
          const ProfiledRank& one = ranks[rank];
          const ProfiledSpan* kernel = &one.attention[at(pass->pass)][pass->kernels[rank]];
          begin = std::min(begin, kernel->begin_ns + one.shift_ns);
          if (gathers) begin = std::min(begin, one.gathers[pass->gather].begin_ns + one.shift_ns);
          for (Index left = kernels_a_layer(guess, rank, pass->pass); left > 0; --left, ++kernel) {
            end = std::max(end, kernel->end_ns + one.shift_ns);
            computed[rank] += static_cast<double>(kernel->end_ns - kernel->begin_ns);
          }
        }
        time.passes[at(pass->pass)] = {begin, end};
        time.seconds += 1e-9 * static_cast<double>(end - begin);
      }
      const auto slowest = ranges::max_element(computed);
      time.slowest_rank = static_cast<int>(slowest - computed.begin());
      time.slowness = *slowest / std::max(1.0, median_of(computed));
      times.push_back(time);
    }
    return times;
  }

  // Find out how computing and communication overlap in each layer. What is noted of one holds for it alone.
  void find_overlaps(std::vector<ProfiledLayer>& times) {
    const std::size_t noted = notes.size();
    for (std::size_t i = 0; i < times.size(); ++i) {
      const Recording recording = recording_of(static_cast<Index>(i));
      std::int64_t begin = INT64_MAX, end = INT64_MIN;
      for (const auto& events : recording.events)
        for (const TraceEvent& e : events)
          begin = std::min(begin, e.begin_ns), end = std::max(end, e.end_ns);
      for (const auto& events : recording.events)
        times[i].overlaps.push_back(overlap_of(events, end - begin));
      notes.resize(noted);
    }
  }

  // Return the wanted layer, or else the one of median time, but not the first of several, in which ranks
  // begin when their profilers do. Note which it is, the slowest, and whether times grow.
  std::size_t choose_layer(const std::vector<ProfiledLayer>& times,
                           std::optional<std::size_t> wanted) {
    if (times.size() == 1) return 0;
    std::vector<std::size_t> order(times.size() - 1);
    std::iota(order.begin(), order.end(), 1);
    ranges::stable_sort(order, {}, [&](std::size_t i) { return times[i].seconds; });
    const std::size_t middle = order[order.size() / 2], slowest = order.back();
    const auto name = [&](std::size_t i) { return words_of(times, i); };
    const std::size_t shown = std::min(wanted.value_or(middle), times.size() - 1);
    std::string note = "Shown is " + name(shown);
    if (order.size() > 1)
      note += fmt::format(
          "{} the median of the {} layers after the first with {}; the slowest of "
          "them is {} with {}",
          shown == middle ? "," : ", and " + name(middle) + " is", order.size(),
          seconds_text(times[middle].seconds), name(slowest), seconds_text(times[slowest].seconds));
    else
      note += shown == middle ? " of two, because ranks begin the first when their profilers do"
                              : ", in which ranks begin when their profilers do";
    const std::size_t third = order.size() / 3;
    if (third > 0) {
      std::vector<double> first, last;
      for (std::size_t i = 1; i <= third; ++i)
        first.push_back(times[i].seconds), last.push_back(times[times.size() - i].seconds);
      const double growth = median_of(last) / std::max(1e-9, median_of(first)) - 1;
      note += std::abs(growth) < kLeastTrend
                  ? ", and times stay alike from the first to the last"
                  : fmt::format(", and the last third takes {:.0f} % {} than the first",
                                100 * std::abs(growth), growth > 0 ? "longer" : "less");
    }
    notes.push_back(note + ".");
    return shown;
  }
};

}  // namespace

InferredRing infer_ring(const std::vector<RankProfile>& ranks, std::optional<std::size_t> layer) {
  if (ranks.empty()) return {};
  return RingInference().infer(ranks, layer);
}

}  // namespace ringscope
