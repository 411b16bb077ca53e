#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/foreign/kineto.h"

namespace ringscope {
namespace {

constexpr Index kProfileRows = 1024;  // a rank, in place of what a profile does not say
constexpr std::int64_t kLongest = 1'000'000'000'000'000;  // ns
constexpr std::size_t kPeriodsToFit = 16;
constexpr double kLeastFit = 0.8;  // of kernels in the order of a ring

// Keep the outermost of spans that lie in each other.
void keep_outermost(std::vector<ProfiledSpan>& spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const ProfiledSpan& a, const ProfiledSpan& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  std::vector<ProfiledSpan> kept;
  for (const ProfiledSpan& span : spans)
    if (kept.empty() || span.end_ns > kept.back().end_ns) kept.push_back(span);
  spans = std::move(kept);
}

std::string ms_text(std::int64_t ns) { return seconds_text(1e-9 * static_cast<double>(ns)); }

// ---

struct Ranked {
  const RankProfile* profile = nullptr;
  std::vector<ProfiledSpan> attention[2];  // by pass
  std::vector<ProfiledSpan> batches;
  std::vector<ProfiledSpan> sends, receives;  // if the profile tells them apart
  std::int64_t shift_ns = 0;                  // to the first file's base time
};

// Sort a rank's sends and receives, and join those that belong together: the k-th send and the k-th
// receive, or, if it has not as many of both or they are one kernel, what is under way together: a
// block's are started together, and the next block's can't begin before it has come.
std::vector<ProfiledSpan> batches_of(Ranked& rank) {
  for (auto* ends : {&rank.sends, &rank.receives})
    std::stable_sort(ends->begin(), ends->end(), [](const ProfiledSpan& a, const ProfiledSpan& b) {
      return a.begin_ns < b.begin_ns;
    });
  std::vector<ProfiledSpan> batches;
  if (rank.sends.size() == rank.receives.size()) {
    for (std::size_t i = 0; i < rank.sends.size(); ++i) {
      batches.push_back(rank.sends[i]);
      batches[i].end_ns = std::max(rank.receives[i].end_ns, batches[i].begin_ns);
    }
    return batches;
  }
  std::vector<ProfiledSpan> all = rank.sends;
  all.insert(all.end(), rank.receives.begin(), rank.receives.end());
  std::stable_sort(all.begin(), all.end(), [](const ProfiledSpan& a, const ProfiledSpan& b) {
    return a.begin_ns < b.begin_ns;
  });
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

class RingInference {
 public:
  InferredRing infer(const std::vector<RankProfile>& profiles) {
    const std::string missing = gather(profiles);
    list_others(profiles);
    std::string why_not = missing;
    if (why_not.empty()) why_not = count();
    if (why_not.empty()) why_not = find_direction();
    if (!why_not.empty()) {
      result_.notes.insert(result_.notes.begin(), "No ring was inferred: " + why_not);
      return std::move(result_);
    }
    correct_clocks();
    write(median_layer());
    return std::move(result_);
  }

 private:
  int n() const { return static_cast<int>(ranks_.size()); }
  static int at(Pass pass) { return static_cast<int>(pass); }
  int wrap(int rank) const { return (rank % n() + n()) % n(); }

  // Put the ranks in order. Return why that can't be, or "".
  std::string gather(const std::vector<RankProfile>& profiles) {
    const int world = profiles[0].world_size;
    if (world < 2) return "the files give no world_size of 2 or more in distributedInfo.";
    if (static_cast<std::size_t>(world) > profiles.size())
      return fmt::format("{} of {} ranks' files are there, and a ring is told by all of them.",
                         profiles.size(), world);
    ranks_.resize(static_cast<std::size_t>(world));
    bool on_device = false;
    for (const RankProfile& profile : profiles) {
      if (profile.cut_short)
        result_.notes.push_back(profile.path + " is cut off; what is whole was read.");
      if (profile.world_size != world || profile.rank < 0 || profile.rank >= world ||
          ranks_[static_cast<std::size_t>(profile.rank)].profile != nullptr)
        return fmt::format("{} gives rank {} of {}; one file for each of {} ranks accepted.",
                           profile.path, profile.rank, profile.world_size, world);
      ranks_[static_cast<std::size_t>(profile.rank)].profile = &profile;
      on_device = on_device || !profile.attention[1].empty();
    }
    for (Ranked& rank : ranks_) {
      const RankProfile& profile = *rank.profile;
      if (__builtin_sub_overflow(profile.base_time_ns, ranks_[0].profile->base_time_ns,
                                 &rank.shift_ns) ||
          rank.shift_ns > kMaxTraceNs / 4 || rank.shift_ns < -kMaxTraceNs / 4)
        return "the files' base times are years apart.";
      for (const ProfiledSpan& span : profile.attention[on_device])
        rank.attention[at(span.pass)].push_back(span);
      for (auto& spans : rank.attention)
        if (!on_device) keep_outermost(spans);
      const bool device_transfers = !profile.transfers[1].empty();
      for (const ProfiledSpan& span : profile.transfers[device_transfers]) {
        if (span.sends) rank.sends.push_back(span);
        if (span.receives) rank.receives.push_back(span);
      }
      rank.batches = batches_of(rank);
      for (ProfiledSpan& batch : rank.batches)
        if (batch.bytes == 0)
          batch.bytes = profile.sent_bytes / static_cast<std::int64_t>(rank.batches.size());
      if (device_transfers == on_device) continue;
      for (auto* spans : {&rank.attention[0], &rank.attention[1], &rank.batches})
        for (ProfiledSpan& span : *spans) span.order = span.begin_ns;
    }
    for (Ranked& rank : ranks_)
      for (auto& spans : rank.attention) std::stable_sort(spans.begin(), spans.end(), by_order);
    both_ways_ = on_device;
    // Take the lengths as known if they are those of a problem that we can count in.
    shape_ = ranks_[0].profile->shape;
    const double flops = 10.0 * static_cast<double>(shape_.seqlen) *
                         static_cast<double>(query_values(shape_, shape_.seqlen));
    if (shape_.seqlen * n() > kMaxSeqlen || flops > 9e18) shape_ = {1, 1, 1, 0, 1};
    return set_origin() ? "" : "the files' times are weeks apart.";
  }

  // Let all times begin at 0. Return whether none is beyond kLongest then.
  bool set_origin() {
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    origin_ns_ = std::numeric_limits<std::int64_t>::max();
    for (const Ranked& rank : ranks_)
      for (const auto* spans : {&rank.attention[0], &rank.attention[1], &rank.batches})
        for (const ProfiledSpan& span : *spans) {
          origin_ns_ = std::min(origin_ns_, span.begin_ns + rank.shift_ns);
          last = std::max(last, span.end_ns + rank.shift_ns);
        }
    if (last < origin_ns_) return true;
    for (Ranked& rank : ranks_) rank.shift_ns -= origin_ns_;
    return static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(origin_ns_) <=
           static_cast<std::uint64_t>(kLongest);
  }

  static bool by_order(const ProfiledSpan& a, const ProfiledSpan& b) { return a.order < b.order; }

  void list_others(const std::vector<RankProfile>& profiles) {
    std::map<std::string, int> all;
    for (const RankProfile& profile : profiles)
      for (const auto& [name, count] : profile.others) all[name] += count;
    if (all.empty()) return;
    std::string names;
    int shown = 0;
    for (const auto& [name, count] : all)
      if (shown++ < 5)
        names += fmt::format("{}{} ({})", shown > 1 ? ", " : "", name.substr(0, 60), count);
    result_.notes.push_back(
        fmt::format("{} names of kernels are neither attention nor transfers: "
                    "{}{}.",
                    all.size(), names, all.size() > 5 ? " and more" : ""));
  }

  // What may be: how many kernels a rank runs for its own block, for one of a lower rank and for one
  // of a higher rank, how many transfers make a hop, which way the blocks go, and whether a layer's
  // last step passes them on, too.
  struct Guess {
    std::size_t own = 1, lower = 1, higher = 1, a_hop = 1;
    int way = 1;
    std::size_t last_hop = 0;
    std::size_t back_hops = 0;  // transfers of a backward pass

    bool operator==(const Guess&) const = default;
  };
  // A pass of a layer: its first kernel and its first transfer on each rank.
  struct Period {
    Pass pass = Pass::forward;
    std::vector<std::size_t> kernels;
    std::size_t hops = 0;
  };

  std::size_t attended(int rank, Pass pass) const {
    return ranks_[static_cast<std::size_t>(rank)].attention[at(pass)].size();
  }
  const std::vector<ProfiledSpan>& batches_of_rank(int rank) const {
    return ranks_[static_cast<std::size_t>(rank)].batches;
  }
  std::size_t kernels_in(const Guess& g, int rank, int step) const {
    const int owner = wrap(rank - g.way * step);
    return owner == rank ? g.own : owner < rank ? g.lower : g.higher;
  }
  std::size_t kernels_a_layer(const Guess& g, int rank) const {
    return g.own + g.lower * static_cast<std::size_t>(rank) +
           g.higher * static_cast<std::size_t>(n() - 1 - rank);
  }
  std::size_t hops_of(const Guess& g, Pass pass) const {
    return pass == Pass::forward ? (static_cast<std::size_t>(n() - 1) + g.last_hop) * g.a_hop
                                 : g.back_hops;
  }

  // Return whether all ranks have as many passes of layers, and nothing is left over; or, for files
  // that are cut off, whether no rank has more of one left over than belongs to one pass. Set
  // back_hops.
  bool adds_up(Guess& g) const {
    std::size_t passes[2] = {};
    for (int rank = 0; rank < n(); ++rank) {
      const std::size_t a_layer = kernels_a_layer(g, rank), hops = batches_of_rank(rank).size();
      std::size_t whole[2], left = 0;
      for (const Pass pass : kAllPasses) {
        whole[at(pass)] = attended(rank, pass) / a_layer;
        left += attended(rank, pass) % a_layer;
      }
      const std::size_t forward = whole[0] * hops_of(g, Pass::forward);
      if (is_cut_) {
        g.back_hops = hops_of(g, Pass::forward);
        const std::size_t expected = forward + whole[1] * g.back_hops;
        if (hops + g.back_hops < expected || hops > expected + g.back_hops) return false;
        continue;
      }
      if (rank == 0) {
        std::copy(whole, whole + 2, passes);
        if (whole[0] == 0 || hops < forward) return false;
        if (whole[1] > 0) g.back_hops = (hops - forward) / whole[1];
        if (whole[1] > 0 && g.back_hops + 1 < static_cast<std::size_t>(n())) return false;
      }
      if (left > 0 || !std::equal(whole, whole + 2, passes) ||
          hops != forward + whole[1] * g.back_hops)
        return false;
    }
    return true;
  }

  // Return the passes of layers that all ranks have, as far as they are whole.
  std::vector<Period> periods_of(const Guess& g) const {
    std::vector<Period> periods;
    std::vector<std::size_t> done[2] = {std::vector<std::size_t>(ranks_.size()),
                                        std::vector<std::size_t>(ranks_.size())};
    for (std::size_t hops = 0;;) {
      Period period{.pass = Pass::forward, .kernels = {}, .hops = hops};
      for (int rank = 0; rank < n(); ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        const auto& forward = ranks_[r].attention[0];
        const auto& backward = ranks_[r].attention[1];
        const bool is_back = done[1][r] < backward.size() &&
                             (done[0][r] >= forward.size() ||
                              backward[done[1][r]].order < forward[done[0][r]].order);
        const Pass pass = is_back ? Pass::backward : Pass::forward;
        if (rank == 0) period.pass = pass;
        std::size_t& first = done[at(pass)][r];
        period.kernels.push_back(first);
        first += kernels_a_layer(g, rank);
        if (pass != period.pass || first > attended(rank, pass) ||
            hops + hops_of(g, pass) > batches_of_rank(rank).size())
          return periods;
      }
      hops += hops_of(g, period.pass);
      periods.push_back(std::move(period));
    }
  }

  // Return which part of the kernels is launched behind the hop that brings their block and before
  // the hop after next; 0 if nothing is whole.
  double fit_of(const Guess& g, const std::vector<Period>& periods) const {
    std::size_t good = 0, all = 0;
    for (std::size_t i = 0; i < std::min(periods.size(), kPeriodsToFit); ++i) {
      const Period& period = periods[i];
      if (period.pass == Pass::backward && g.back_hops % static_cast<std::size_t>(n() - 1) != 0)
        continue;
      const std::size_t after = period.hops + hops_of(g, period.pass);
      const std::size_t a_hop =
          period.pass == Pass::forward ? g.a_hop : g.back_hops / static_cast<std::size_t>(n() - 1);
      for (int rank = 0; rank < n(); ++rank) {
        const auto& batches = batches_of_rank(rank);
        const auto& kernels = ranks_[static_cast<std::size_t>(rank)].attention[at(period.pass)];
        std::size_t k = period.kernels[static_cast<std::size_t>(rank)];
        for (int step = 0; step < n(); ++step) {
          const std::size_t hop = period.hops + static_cast<std::size_t>(step) * a_hop;
          const std::size_t next = step + 2 < n() ? hop + a_hop : after;
          for (std::size_t left = kernels_in(g, rank, step); left > 0; --left, ++k) {
            const std::int64_t order = kernels[k].order;
            good += (hop < a_hop || batches[hop - a_hop].order < order) &&
                    (next >= batches.size() || order < batches[next].order);
            ++all;
          }
        }
      }
    }
    return all == 0 ? 0 : static_cast<double>(good) / static_cast<double>(all);
  }

  // Find layers, kernels a step and transfers a step. Return why that can't be, or "".
  std::string count() {
    if (attended(0, Pass::forward) == 0)
      return "no attention was found by name (flash, sdpa, fmha, _attn_fwd).";
    if (batches_of_rank(0).empty())
      return "no sends and receives were found (SendRecv, nccl:send, gloo:send).";
    double best = 0;
    // A profile that was cut off has kernels left over. Look at that only if nothing adds up.
    for (is_cut_ = false;; is_cut_ = true) {
      for_guesses([&](Guess g) {
        if (!adds_up(g)) return;
        auto periods = periods_of(g);
        const double fit = fit_of(g, periods);
        if (fit <= best) return;
        best = fit;
        guess_ = g;
        periods_ = std::move(periods);
      });
      if (best >= (is_cut_ ? 0.99 : kLeastFit) || is_cut_) break;
      best = 0;
    }
    if (best < (is_cut_ ? 0.99 : kLeastFit)) {
      std::string counts;
      for (int rank = 0; rank < std::min(n(), 4); ++rank)
        counts +=
            fmt::format("{}rank {} has {} attention kernels and {} transfers", rank > 0 ? ", " : "",
                        rank, attended(rank, Pass::forward), batches_of_rank(rank).size());
      return counts + ": no ring's steps have so many in their order.";
    }
    pair_layers();
    has_backward_ = layers_[0].second != nullptr;
    const Guess& g = guess_;
    const bool plain = g.own == 1 && g.lower == 1 && g.higher < 2 && g.a_hop == 1;
    const std::string kernels =
        g.own == g.lower && (g.higher == g.own || g.higher == 0)
            ? fmt::format("{} attention kernel{}", g.own, g.own == 1 ? "" : "s")
            : fmt::format(
                  "{} attention kernels for a rank's own block, {} for a lower rank's and {} "
                  "for a higher rank's,",
                  g.own, g.lower, g.higher);
    result_.notes.push_back(fmt::format(
        "A ring of {} ranks: {} layer{}, {}, {} and {} transfer{} a step (confidence {:.1f}).", n(),
        layers_.size(), layers_.size() == 1 ? "" : "s",
        has_backward_ ? "forward and backward" : "forward", kernels, g.a_hop,
        g.a_hop == 1 ? "" : "s",
        best * (is_cut_ ? 0.6
                : plain ? 0.9
                        : 0.8)));
    if (is_cut_)
      result_.notes.push_back(fmt::format(
          "The ranks' files do not end together: used {} the first {} whole pass{} of a "
          "layer that all have.",
          periods_.size() == 1 ? "is" : "are", periods_.size(), periods_.size() == 1 ? "" : "es"));
    return "";
  }

  // Call f for all guesses, the simplest first.
  template <class F>
  void for_guesses(F&& f) const {
    for (std::size_t sum = 2; sum <= 12; ++sum)
      for (std::size_t own = 1; own <= 4; ++own)
        for (std::size_t lower = 1; lower <= 4; ++lower) {
          if (own + lower > sum || sum - own - lower > 4) continue;
          const std::size_t higher = sum - own - lower;
          for (const int way : {1, -1})
            for (std::size_t a_hop = 1; a_hop <= 4 && (way > 0 || lower != higher); ++a_hop)
              for (const std::size_t last_hop : {0, 1})
                f(Guess{own, lower, higher, a_hop, way, last_hop});
        }
  }

  // Join the passes of each layer: what went forward last goes back first.
  void pair_layers() {
    std::vector<const Period*> open;
    for (const Period& period : periods_) {
      if (period.pass == Pass::forward) {
        open.push_back(&period);
      } else if (!open.empty()) {
        layers_.emplace_back(open.back(), &period);
        open.pop_back();
      }
    }
    if (!layers_.empty()) return;
    for (const Period* forward : open) layers_.emplace_back(forward, nullptr);
  }

  const Period& period_of(std::size_t layer, Pass pass) const {
    return pass == Pass::forward ? *layers_[layer].first : *layers_[layer].second;
  }

  // Return the kernels of a step, or none if it was skipped.
  std::vector<ProfiledSpan> kernels_of(int rank, std::size_t layer, Pass pass, int step) const {
    const auto r = static_cast<std::size_t>(rank);
    std::size_t first = period_of(layer, pass).kernels[r];
    for (int before = 0; before < step; ++before) first += kernels_in(guess_, rank, before);
    const auto begin = ranks_[r].attention[at(pass)].begin() + static_cast<std::ptrdiff_t>(first);
    return {begin, begin + static_cast<std::ptrdiff_t>(kernels_in(guess_, rank, step))};
  }

  // Return a hop: the transfers after which the block of step + 1 is there.
  ProfiledSpan hop_of(int rank, std::size_t layer, Pass pass, int step) const {
    const auto& batches = batches_of_rank(rank);
    const std::size_t a_hop =
        hops_of(guess_, pass) /
        (static_cast<std::size_t>(n() - 1) + (pass == Pass::forward ? guess_.last_hop : 0));
    const std::size_t begin = period_of(layer, pass).hops + static_cast<std::size_t>(step) * a_hop;
    ProfiledSpan hop = batches[begin];
    hop.end_ns = batches[begin + a_hop - 1].end_ns;
    return hop;
  }
  bool has_hops(Pass pass) const {
    return pass == Pass::forward || guess_.back_hops % static_cast<std::size_t>(n() - 1) == 0;
  }

  // Find out whether blocks go to the next rank or to the previous one. Return why neither can be.
  std::string find_direction() {
    int named[2] = {};
    for (int rank = 0; rank < n(); ++rank) {
      const RankProfile& profile = *ranks_[static_cast<std::size_t>(rank)].profile;
      const auto count_peer = [&](int peer, int way) {
        if (peer >= 0) ++named[peer == wrap(rank + way) ? 0 : 1];
        return peer < 0 || peer == wrap(rank + 1) || peer == wrap(rank - 1);
      };
      if (!count_peer(profile.sends_to, 1))
        return fmt::format("rank {} sends to rank {}, which is not its neighbour.", rank,
                           profile.sends_to);
      if (!count_peer(profile.receives_from, -1))
        return fmt::format("rank {} receives from rank {}, which is not its neighbour.", rank,
                           profile.receives_from);
    }
    double confidence = 0.95;
    std::string how = "the sends name their peers";
    way_ = guess_.way;
    if (n() == 2) {
      how = "two ranks have one way";
    } else if (named[0] != named[1]) {
      const int way = named[0] > named[1] ? 1 : -1;
      if (guess_.lower != guess_.higher && way != guess_.way)
        return "the sends name peers against whom the ranks' steps do not add up.";
      way_ = way;
    } else if (guess_.lower != guess_.higher) {
      confidence = 0.9;
      how = "so the steps add up";
    } else {
      const double next = least_lag(1), previous = least_lag(-1);
      const bool told = (next < 0) != (previous < 0);
      way_ = told && next < 0 ? -1 : 1;
      confidence = told ? 0.9 : 0.5;
      how = told ? "the other way receives would end before they are sent"
                 : "no file names the peers";
    }
    guess_.way = way_;
    result_.notes.push_back(fmt::format("Blocks go from rank r to rank r {} 1 (confidence {}: {}).",
                                        way_ > 0 ? '+' : '-', confidence, how));
    find_deal();
    return "";
  }

  // Return the sum over the ranks of the least time from the begin of a send to the end of the
  // receive that would be its other end, if blocks went this way. The clocks' differences cancel in
  // it. It can't be negative if blocks do go this way.
  double least_lag(int way) const {
    double sum = 0;
    for (int rank = 0; rank < n(); ++rank) {
      const auto& sends = ranks_[static_cast<std::size_t>(wrap(rank - way))].sends;
      const auto& receives = ranks_[static_cast<std::size_t>(rank)].receives;
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (std::size_t i = 0; i < std::min(sends.size(), receives.size()); ++i)
        least = std::min(least, receives[i].end_ns - sends[i].begin_ns);
      sum += static_cast<double>(least);
    }
    return sum;
  }

  // Find out who has which rows: from the kernels a step, from the lengths that the files give, or
  // from the names of the kernels.
  void find_deal() {
    const Index given = shape_.seqlen;
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
    rows_ = given > 0 ? given : kProfileRows;
    std::string note;
    const Guess& g = guess_;
    if (g.higher == 0) {
      deal_ = "contiguous";
      note =
          "Rank r attends r + 1 blocks, so it is causal and contiguous, and steps are skipped "
          "(confidence 0.95).";
    } else if (g.own != g.lower || g.lower != g.higher) {
      deal_ = "zigzag";
      note = "Ranks attend halves of blocks, so it is causal and zigzag (confidence 0.85).";
    } else if (known && halves) {
      deal_ = "zigzag";
      note =
          "Steps have half the rows or half the keys, so it is causal and zigzag (confidence "
          "0.95).";
    } else if (known && causal[0] && causal[1]) {
      deal_ = "striped";
      note = "All steps are causal, so it is striped (confidence 0.8).";
    } else if (known) {
      note = causal[0] ? "Causal and contiguous, and no step is skipped (confidence 0.9)."
                       : "No step is causal: the mask is full (confidence 0.9).";
      deal_ = causal[0] ? "contiguous" : "";
    } else if (own_alone) {
      deal_ = "zigzag";
      note =
          "A rank's own block has a kernel of its own, and all steps are computed, so it is "
          "causal, and taken as zigzag (confidence 0.6).";
    } else {
      note =
          "All ranks attend all blocks; the mask is taken as full, because kernels do not say "
          "(confidence 0.5).";
    }
    result_.notes.push_back(note);
  }

  // Return the pairs of a step's kernels: as their lengths say, or as the deal does.
  Index pairs_of(int rank, int owner, const std::vector<ProfiledSpan>& kernels) const {
    Index sum = 0;
    for (const ProfiledSpan& kernel : kernels) {
      if (kernel.q_rows <= 0 || kernel.k_rows <= 0) sum = -kMaxSeqlen * kMaxSeqlen / 2;
      if (sum < 0) break;
      const Index q = kernel.q_rows, k = kernel.k_rows;
      sum += kernel.causal > 0 && q == k ? q * (q + 1) / 2 : q * k;
    }
    if (sum > 0 && sum <= rows_ * rows_) return sum;
    if (deal_.empty()) return rows_ * rows_;
    if (owner == rank) return rows_ * (rows_ + 1) / 2;
    if (deal_ == "contiguous") return rows_ * rows_;
    if (deal_ == "zigzag") return (rows_ * rows_ + 1) / 2;
    return owner < rank ? rows_ * (rows_ + 1) / 2 : rows_ * (rows_ - 1) / 2;
  }

  // Move the clocks as little as possible so that no transfer ends before its other side began.
  void correct_clocks() {
    std::vector<std::int64_t> moved(ranks_.size(), 0);
    bool changed = true;
    for (int round = 0; changed && round <= n(); ++round) {
      changed = false;
      const auto require = [&](int late, std::int64_t end, int early, std::int64_t begin) {
        const auto i = static_cast<std::size_t>(late), k = static_cast<std::size_t>(early);
        const std::int64_t lack =
            begin + ranks_[k].shift_ns + moved[k] - (end + ranks_[i].shift_ns + moved[i]);
        if (lack <= 0 || moved[i] > kLongest) return;
        moved[i] += lack;
        changed = true;
      };
      for (std::size_t layer = 0; layer < layers_.size(); ++layer)
        for (int step = 0; step + 1 < n(); ++step)
          for (int rank = 0; rank < n(); ++rank) {
            const int to = wrap(rank + way_);
            const ProfiledSpan sent = hop_of(rank, layer, Pass::forward, step);
            const ProfiledSpan got = hop_of(to, layer, Pass::forward, step);
            require(to, got.end_ns, rank, sent.begin_ns);
            if (both_ways_) require(rank, sent.end_ns, to, got.begin_ns);
          }
    }
    std::int64_t most = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[rank].shift_ns += moved[rank];
      most = std::max(most, moved[rank]);
    }
    moved_ = moved;
    if (most > 0)
      result_.notes.push_back(fmt::format(
          "Clocks were moved by up to {}, so that no transfer ends before it began{}.",
          ms_text(most), changed ? "; they do not fit all the same (confidence 0.2)" : ""));
  }

  // Call f(rank, pass, step, kernels) for every computation of a layer.
  template <class F>
  void for_steps(std::size_t layer, F&& f) const {
    for (int rank = 0; rank < n(); ++rank)
      for (const Pass pass : kAllPasses)
        for (int step = 0; step < n() && (pass == Pass::forward || has_backward_); ++step)
          f(rank, pass, step, kernels_of(rank, layer, pass, step));
  }

  std::size_t median_layer() {
    std::vector<std::pair<std::int64_t, std::size_t>> lengths;
    for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
      std::int64_t all = 0;
      for_steps(layer, [&](int, Pass, int, const std::vector<ProfiledSpan>& kernels) {
        for (const ProfiledSpan& kernel : kernels) all += kernel.end_ns - kernel.begin_ns;
      });
      lengths.emplace_back(all, layer);
    }
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    if (layers_.size() > 1)
      result_.notes.push_back(
          fmt::format("Shown is layer {} of 0 to {}.", middle->second, layers_.size() - 1));
    return middle->second;
  }

  void write(std::size_t layer) {
    Recording recording;
    const auto ranks = static_cast<std::size_t>(n());
    RunInfo& info = recording.info;
    info.backend = "profile";
    info.mask = deal_.empty() ? "full" : "causal";
    if (!deal_.empty()) info.partition = deal_;
    info.world_size = n();
    info.kv_buffers = 2;
    info.shape = shape_;
    info.shape.seqlen = n() * rows_;
    info.clock_offset_ns = moved_;
    info.clock_error_ns.assign(ranks, 0);
    recording.events.resize(ranks);
    recording.dropped.assign(ranks, 0);
    for (const Pass pass : kAllPasses)
      for (int rank = 0; rank < n() && (pass == Pass::forward || has_backward_); ++rank)
        write_rank(recording, rank, layer, pass);
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const auto& events : recording.events)
      for (const TraceEvent& e : events) first = std::min(first, e.begin_ns);
    if (__builtin_add_overflow(ranks_[0].profile->base_time_ns, origin_ns_ + first,
                               &info.base_time_ns))
      info.base_time_ns = 0;
    for (auto& events : recording.events)
      for (TraceEvent& e : events) e.begin_ns -= first, e.end_ns -= first;
    if (shape_.seqlen == 0)
      result_.notes.push_back(fmt::format(
          "The files do not give the lengths: {} rows a rank stand for them.", kProfileRows));
    result_.recording = std::move(recording);
  }

  void write_rank(Recording& recording, int rank, std::size_t layer, Pass pass) {
    auto& events = recording.events[static_cast<std::size_t>(rank)];
    const std::int64_t shift = ranks_[static_cast<std::size_t>(rank)].shift_ns;
    const int from = wrap(rank - way_), to = wrap(rank + way_);
    std::int64_t free = std::numeric_limits<std::int64_t>::min();  // when the rank was last busy
    for (int step = 0; step < n(); ++step) {
      const int owner = wrap(rank - way_ * step);
      const std::vector<ProfiledSpan> kernels = kernels_of(rank, layer, pass, step);
      if (step > 0 && has_hops(pass)) {
        const ProfiledSpan hop = hop_of(rank, layer, pass, step - 1);
        const std::int64_t begin = std::max(free, hop.begin_ns + shift);
        std::int64_t end = hop.end_ns + shift;
        if (!kernels.empty()) end = std::min(end, kernels.front().begin_ns + shift);
        if (end > begin) {
          TraceEvent wait{.lane = Lane::wait, .pass = pass, .step = step, .kv_owner = owner};
          wait.begin_ns = begin;
          wait.end_ns = free = end;
          wait.waiting_for = from;
          events.push_back(wait);
        }
      }
      if (!kernels.empty()) {
        TraceEvent compute{.lane = Lane::compute, .pass = pass, .step = step, .kv_owner = owner};
        compute.begin_ns = kernels.front().begin_ns + shift;
        compute.end_ns = free = std::max(kernels.back().end_ns + shift, compute.begin_ns);
        for (const ProfiledSpan& kernel : kernels)
          compute.cpu_ns += kernel.end_ns - kernel.begin_ns;
        compute.cpu_ns = std::min(compute.cpu_ns, compute.end_ns - compute.begin_ns);
        compute.pairs = pairs_of(rank, owner, kernels);
        const AttentionShape& shape = recording.info.shape;
        compute.flops = (pass == Pass::forward ? 4 : 10) * compute.pairs * shape.batch *
                        shape.num_heads * shape.head_dim;
        events.push_back(compute);
      }
      if (step + 1 == n() || !has_hops(pass)) continue;
      const ProfiledSpan hop = hop_of(rank, layer, pass, step);
      for (const Lane lane : {Lane::send, Lane::recv}) {
        const bool sends = lane == Lane::send;
        TraceEvent e{.lane = lane, .pass = pass, .step = step};
        e.kv_owner = sends ? owner : wrap(owner - way_);
        e.begin_ns = hop.begin_ns + shift;
        e.end_ns = hop.end_ns + shift;
        e.bytes = hop.bytes > 0 ? hop.bytes : 2 * 4 * rows_;
        e.src = sends ? rank : from;
        e.dst = sends ? to : rank;
        e.flow = 1 + (at(pass) * n() + step) * static_cast<std::int64_t>(n()) + e.src;
        events.push_back(e);
      }
    }
  }

  std::vector<Ranked> ranks_;
  std::vector<std::int64_t> moved_;
  std::int64_t origin_ns_ = 0;  // after rank 0's base time
  AttentionShape shape_;        // of a rank's rows; seqlen 0: unknown
  Guess guess_;
  std::vector<Period> periods_;
  std::vector<std::pair<const Period*, const Period*>> layers_;  // forward, backward or null
  bool is_cut_ = false, has_backward_ = false, both_ways_ = false;
  std::string deal_;           // who has which rows under a causal mask; "": the mask is full
  Index rows_ = kProfileRows;  // a rank
  int way_ = 1;                // 1: to the next rank; -1: to the previous one
  InferredRing result_;
};

}  // namespace

InferredRing infer_ring(const std::vector<RankProfile>& ranks) {
  if (ranks.empty()) return {};
  return RingInference().infer(ranks);
}

}  // namespace ringscope
