#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>

#include "core/base/text.h"
#include "core/tools/foreign/kineto.h"

namespace ringscope {
namespace {

constexpr Index kProfileRows = 1024;  // a rank, in place of what a profile does not say
constexpr Index kPeriodsToFit = 16;
constexpr std::int64_t kLongest = 1'000'000'000'000'000;  // ns
constexpr const char* kFarApart = "the files' times are weeks apart.";
constexpr double kLeastWait = 0.25;  // of a transfer, if it tells when the block came
constexpr double kLeastFit = 0.8;    // of kernels in the order of a ring

// One rank's attention and transfers, in the order in which they were launched.
struct ProfiledRank {
  const RankProfile* profile = nullptr;
  std::vector<ProfiledSpan> attention[2];  // by pass
  std::vector<ProfiledSpan> batches;
  std::int64_t shift_ns = 0;  // to the first file's base time
};

bool begins_before(const ProfiledSpan& a, const ProfiledSpan& b) { return a.begin_ns < b.begin_ns; }
bool by_order(const ProfiledSpan& a, const ProfiledSpan& b) { return a.order < b.order; }

// Join the sends and receives that belong together: the k-th send and the k-th receive, or, if there
// are not as many of both or they are one kernel, what is under way together: a block's are started
// together, and the next block's can't begin before it has come.
std::vector<ProfiledSpan> batches_of(const std::vector<ProfiledSpan>& transfers) {
  std::vector<ProfiledSpan> sends, receives;
  for (const ProfiledSpan& span : transfers) {
    if (span.sends) sends.push_back(span);
    if (span.receives) receives.push_back(span);
  }
  for (auto* ends : {&sends, &receives})
    std::stable_sort(ends->begin(), ends->end(), begins_before);
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
  std::stable_sort(all.begin(), all.end(), begins_before);
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

class RingInference {
 public:
  InferredRing infer(const std::vector<RankProfile>& profiles) {
    std::optional<Recording> recording;
    list_others(profiles);
    try {
      take_ranks(profiles);
      count();
      find_direction();
      find_deal();
      correct_clocks();
      if (!both_ways_)
        notes_.push_back("Profiles do not give processor time: ranks that share cores look slow.");
      recording = write(median_layer());
    } catch (const NoRing& no_ring) {
      notes_.insert(notes_.begin(), "No ring was inferred: " + no_ring.because);
    }
    return {std::move(recording), std::move(notes_)};
  }

 private:
  // Put the ranks in order. Throw NoRing unless there is one file for each of several ranks, all of
  // about one time.
  void take_ranks(const std::vector<RankProfile>& profiles) {
    const int world = profiles[0].world_size;
    if (world < 2) throw NoRing{"the files give no world_size of 2 or more."};
    if (world > std::ssize(profiles))
      throw NoRing{
          fmt::format("{} of {} ranks' files are there, and a ring is told by all of them.",
                      profiles.size(), world)};
    ranks_.resize(world);
    for (const RankProfile& profile : profiles) {
      if (profile.cut_short)
        notes_.push_back(profile.path + " is cut off; what is whole was read.");
      if (profile.world_size != world || profile.rank < 0 || profile.rank >= world ||
          ranks_[profile.rank].profile != nullptr)
        throw NoRing{fmt::format("{} gives rank {} of {}; one file for each of {} ranks accepted.",
                                 profile.path, profile.rank, profile.world_size, world)};
      ranks_[profile.rank].profile = &profile;
      both_ways_ = both_ways_ || !profile.attention[1].empty();
    }
    for (ProfiledRank& rank : ranks_) {
      const RankProfile& profile = *rank.profile;
      if (__builtin_sub_overflow(profile.base_time_ns, ranks_[0].profile->base_time_ns,
                                 &rank.shift_ns) ||
          rank.shift_ns > kMaxTraceNs / 4 || rank.shift_ns < -kMaxTraceNs / 4)
        throw NoRing{kFarApart};
      for (const ProfiledSpan& span : profile.attention[both_ways_])
        rank.attention[static_cast<int>(span.pass)].push_back(span);
      const bool device_transfers = !profile.transfers[1].empty();
      ends_late_ = ends_late_ || !device_transfers;
      rank.batches = batches_of(profile.transfers[device_transfers]);
      for (ProfiledSpan& batch : rank.batches)
        if (batch.bytes == 0)
          batch.bytes = profile.sent_bytes / static_cast<std::int64_t>(rank.batches.size());
      for (auto* spans : {&rank.attention[0], &rank.attention[1], &rank.batches})
        for (ProfiledSpan& span : *spans)
          if (device_transfers != both_ways_) span.order = span.begin_ns;
      for (auto& spans : rank.attention) std::stable_sort(spans.begin(), spans.end(), by_order);
    }
    // Take the lengths as known if they are those of a problem that we can count in.
    shape_ = ranks_[0].profile->shape;
    const double flops = 10.0 * static_cast<double>(shape_.seqlen) *
                         static_cast<double>(query_values(shape_, shape_.seqlen));
    if (shape_.seqlen * world > kMaxSeqlen || flops > 9e18) shape_ = {1, 1, 1, 0, 1};
    std::int64_t first = INT64_MAX, last = INT64_MIN;
    for (const ProfiledRank& rank : ranks_)
      for (const auto* spans : {&rank.attention[0], &rank.attention[1], &rank.batches})
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
    notes_.push_back(
        fmt::format("Kernels that are neither attention nor transfers, by name {}: {}.", all.size(),
                    fmt::join(names, ", ")));
  }

  int n() const { return static_cast<int>(ranks_.size()); }
  static int at(Pass pass) { return static_cast<int>(pass); }
  int wrap(int rank) const { return (rank % n() + n()) % n(); }

  // What may be: how many kernels a rank runs for its own block, for one of a lower rank and for one
  // of a higher rank, how many transfers make a hop, which way the blocks go, and whether a layer's
  // last step passes them on, too.
  struct Guess {
    Index own = 1, lower = 1, higher = 1, a_hop = 1;
    int way = 1;  // 1: to the next rank; -1: to the previous one
    Index last_hop = 0;
    Index back_hops = 0;  // transfers of a backward pass
    bool operator==(const Guess&) const = default;
  };
  // A pass of a layer: its first kernel and its first transfer on each rank.
  struct Period {
    Pass pass = Pass::forward;
    std::vector<Index> kernels;
    Index hops = 0;
  };

  Index attended(int rank, Pass pass) const { return std::ssize(ranks_[rank].attention[at(pass)]); }
  Index kernels_in(const Guess& g, int rank, int step) const {
    const int owner = wrap(rank - g.way * step);
    return owner == rank ? g.own : owner < rank ? g.lower : g.higher;
  }
  Index kernels_a_layer(const Guess& g, int rank) const {
    return g.own + g.lower * rank + g.higher * (n() - 1 - rank);
  }
  Index hops_of(const Guess& g, Pass pass) const {
    return pass == Pass::forward ? (n() - 1 + g.last_hop) * g.a_hop : g.back_hops;
  }

  // Return whether all ranks have as many passes of layers, and nothing is left over. Set back_hops.
  bool adds_up(Guess& g) const {
    Index passes[2];  // of rank 0
    for (const Pass pass : kAllPasses) passes[at(pass)] = attended(0, pass) / kernels_a_layer(g, 0);
    const Index forward = passes[0] * hops_of(g, Pass::forward);
    const Index back = std::ssize(ranks_[0].batches) - forward;
    if (passes[0] == 0 || back < 0) return false;
    if (passes[1] > 0) g.back_hops = back / passes[1];
    if (passes[1] > 0 && g.back_hops + 1 < n()) return false;
    for (int rank = 0; rank < n(); ++rank) {
      if (std::ssize(ranks_[rank].batches) != forward + passes[1] * g.back_hops) return false;
      for (const Pass pass : kAllPasses)
        if (attended(rank, pass) != passes[at(pass)] * kernels_a_layer(g, rank)) return false;
    }
    return true;
  }

  // Return the passes of layers that all ranks have, as far as they are whole.
  std::vector<Period> periods_of(const Guess& g) const {
    std::vector<Period> periods;
    std::vector<std::array<Index, 2>> done(ranks_.size());
    for (Index hops = 0;;) {
      Period period{.pass = Pass::forward, .kernels = {}, .hops = hops};
      for (int rank = 0; rank < n(); ++rank) {
        const auto& forward = ranks_[rank].attention[0];
        const auto& backward = ranks_[rank].attention[1];
        const auto [ahead, back] = done[rank];
        const bool is_back =
            back < std::ssize(backward) &&
            (ahead >= std::ssize(forward) || backward[back].order < forward[ahead].order);
        const Pass pass = is_back ? Pass::backward : Pass::forward;
        if (rank == 0) period.pass = pass;
        Index& first = done[rank][at(pass)];
        period.kernels.push_back(first);
        first += kernels_a_layer(g, rank);
        if (pass != period.pass || first > attended(rank, pass) ||
            hops + hops_of(g, pass) > std::ssize(ranks_[rank].batches))
          return periods;
      }
      hops += hops_of(g, period.pass);
      periods.push_back(std::move(period));
    }
  }

  // Return which part of the kernels is launched behind the hop that brings their block and before
  // the hop after next, 0 if nothing is whole; and which part begins before the next block has come,
  // which tells one way round from the other.
  std::pair<double, double> fit_of(const Guess& g, const std::vector<Period>& periods) const {
    Index good = 0, early = 0, all = 0;
    for (Index i = 0; i < std::min<Index>(std::ssize(periods), kPeriodsToFit); ++i) {
      const Period& period = periods[i];
      if (period.pass == Pass::backward && g.back_hops % (n() - 1) != 0) continue;
      const Index after = period.hops + hops_of(g, period.pass);
      const Index a_hop = period.pass == Pass::forward ? g.a_hop : g.back_hops / (n() - 1);
      for (int rank = 0; rank < n(); ++rank) {
        const auto& batches = ranks_[rank].batches;
        const auto& kernels = ranks_[rank].attention[at(period.pass)];
        Index k = period.kernels[rank];
        for (int step = 0; step < n(); ++step) {
          const Index hop = period.hops + step * a_hop;
          const Index next = step + 2 < n() ? hop + a_hop : after;
          for (Index left = kernels_in(g, rank, step); left > 0; --left, ++k) {
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

  // Find layers, kernels per step and transfers per step. Throw NoRing if no ring has so many.
  void count() {
    if (attended(0, Pass::forward) == 0)
      throw NoRing{fmt::format(
          "no attention was found by name ({}); --attention NAME adds a part of a kernel's name.",
          attention_names())};
    if (ranks_[0].batches.empty())
      throw NoRing{"no sends and receives were found (SendRecv, nccl:send, gloo:send)" + instead() +
                   "."};
    double best = 0, best_early = 0;
    for_guesses([&](Guess g) {
      if (!adds_up(g)) return;
      auto periods = periods_of(g);
      const auto [fit, early] = fit_of(g, periods);
      Guess other = guess_;
      other.way = g.way;
      if (fit < best || (fit == best && (other != g || early <= best_early))) return;
      best = fit, best_early = early;
      guess_ = g;
      periods_ = std::move(periods);
    });
    if (best < kLeastFit) {
      std::string counts;
      for (int rank = 0; rank < std::min(n(), 4); ++rank)
        counts +=
            fmt::format("{}rank {} has {} attention kernels and {} transfers", rank > 0 ? ", " : "",
                        rank, attended(rank, Pass::forward), std::ssize(ranks_[rank].batches));
      throw NoRing{counts + ": no ring's steps have so many in their order."};
    }
    pair_layers();
    if (layers_.empty()) throw NoRing{"no forward pass is whole."};
    has_backward_ = layers_[0].second != nullptr;
    const Guess& g = guess_;
    const bool plain = g.own == 1 && g.lower == 1 && g.higher < 2 && g.a_hop == 1;
    const std::string kernels =
        g.own == g.lower && (g.higher == g.own || g.higher == 0)
            ? count_text(g.own, "attention kernel")
            : fmt::format(
                  "{} attention kernels for a rank's own block, {} for a lower rank's and {} "
                  "for a higher rank's,",
                  g.own, g.lower, g.higher);
    notes_.push_back(
        fmt::format("A ring of {} ranks: {}, {}, {} and {} a step (confidence {:.1f}).", n(),
                    count_text(std::ssize(layers_), "layer"),
                    has_backward_ ? "forward and backward" : "forward", kernels,
                    count_text(g.a_hop, "transfer"), best * (plain ? 0.9 : 0.8)));
  }

  // Return how keys get around without sends and receives, if there are collectives beside attentions.
  std::string instead() const {
    const RankProfile& profile = *ranks_[0].profile;
    const int gathers = profile.gathers[both_ways_], swaps = profile.all_to_alls[both_ways_];
    const Index attentions = attended(0, Pass::forward) + attended(0, Pass::backward);
    if (swaps > 0)
      return fmt::format(
          "; {} all-to-alls beside {} attentions deal out heads in place of rows (Ulysses), so "
          "there is no ring",
          swaps, attentions);
    if (gathers == 0) return "";
    return fmt::format(
        "; {} all-gathers beside {} attentions gather keys and values at once (PyTorch's default "
        "of context parallelism), or weights, so there is no ring",
        gathers, attentions);
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

  const Period& period_of(Index layer, Pass pass) const {
    return pass == Pass::forward ? *layers_[layer].first : *layers_[layer].second;
  }

  // Return the kernels of a step, or none if it was skipped.
  std::vector<ProfiledSpan> kernels_of(int rank, Index layer, Pass pass, int step) const {
    Index first = period_of(layer, pass).kernels[rank];
    for (int before = 0; before < step; ++before) first += kernels_in(guess_, rank, before);
    const auto begin = ranks_[rank].attention[at(pass)].begin() + first;
    return {begin, begin + kernels_in(guess_, rank, step)};
  }

  // Return how many transfers of a pass make a hop. In a backward pass there may be a hop of the
  // gradients beside each of the blocks, and one more that brings them home.
  Index a_hop_of(Pass pass) const {
    const auto others = n() - 1;
    if (pass == Pass::forward) return guess_.a_hop;
    return guess_.back_hops / (has_gradients() ? 2 * others + 1 : others);
  }
  bool has_gradients() const { return guess_.back_hops % (2 * n() - 1) == 0; }
  bool has_hops(Pass pass) const {
    return pass == Pass::forward || has_gradients() || guess_.back_hops % (n() - 1) == 0;
  }
  // Return a hop: the transfers after which the block of step + 1 is there, or the gradients of this
  // step, whose hop follows the block's.
  ProfiledSpan hop_of(int rank, Index layer, Pass pass, int step,
                      Payload payload = Payload::kv) const {
    const auto& batches = ranks_[rank].batches;
    const Index a_hop = a_hop_of(pass);
    if (pass == Pass::backward && has_gradients())
      step = 2 * step + (payload == Payload::dkv && step + 1 < n());
    const Index begin = period_of(layer, pass).hops + step * a_hop;
    ProfiledSpan hop = batches[begin];
    hop.end_ns = batches[begin + a_hop - 1].end_ns;
    hop.sent_ns = batches[begin + a_hop - 1].sent_ns;
    for (Index i = begin + 1; i < begin + a_hop; ++i)
      hop.bytes += std::min(batches[i].bytes, INT64_MAX / 8 - hop.bytes);
    return hop;
  }

  // Find out whether blocks go to the next rank or to the previous one. Throw NoRing if neither can be.
  void find_direction() {
    int named[2] = {};
    for (int rank = 0; rank < n(); ++rank) {
      const RankProfile& profile = *ranks_[rank].profile;
      for (const bool sends : {true, false}) {
        const int peer = sends ? profile.sends_to : profile.receives_from;
        if (peer < 0) continue;
        if (peer != wrap(rank + 1) && peer != wrap(rank - 1))
          throw NoRing{fmt::format("rank {} {} rank {}, which is not its neighbour.", rank,
                                   sends ? "sends to" : "receives from", peer)};
        ++named[peer == wrap(rank + (sends ? 1 : -1)) ? 0 : 1];
      }
    }
    const bool is_told = guess_.lower != guess_.higher;
    double confidence = 0.95;
    const char* how = "two ranks have one way";
    if (n() > 2 && named[0] != named[1]) {
      how = "the sends name their peers";
      const int way = named[0] > named[1] ? 1 : -1;
      if (is_told && way != guess_.way)
        throw NoRing{"the sends name peers against whom the ranks' steps do not add up."};
      guess_.way = way;
    } else if (n() > 2) {
      confidence = is_told ? 0.9 : 0.5;
      how = is_told ? "only so do the steps add up" : "no file names the peers";
    }
    notes_.push_back(fmt::format("Blocks go from rank r to rank r {} 1 (confidence {}: {}).",
                                 guess_.way > 0 ? '+' : '-', confidence, how));
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
    const Guess& g = guess_;
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
    deal_ = sign->deal;
    notes_.emplace_back(sign->note);
  }

  // Return the pairs of a step's kernels: as their lengths say, or as the deal does.
  Index pairs_of(int rank, int owner, const std::vector<ProfiledSpan>& kernels) const {
    Index sum = 0;
    bool known = true;
    for (const ProfiledSpan& kernel : kernels) {
      const Index q = kernel.q_rows, k = kernel.k_rows;
      known = known && q > 0 && k > 0 && sum <= rows_ * rows_;
      if (known) sum += kernel.causal > 0 && q == k ? q * (q + 1) / 2 : q * k;
    }
    if (known && sum > 0 && sum <= rows_ * rows_) return sum;
    if (deal_.empty()) return rows_ * rows_;
    if (owner == rank) return rows_ * (rows_ + 1) / 2;
    if (deal_ == "contiguous") return rows_ * rows_;
    if (deal_ == "zigzag") return (rows_ * rows_ + 1) / 2;
    return owner < rank ? rows_ * (rows_ + 1) / 2 : rows_ * (rows_ - 1) / 2;
  }

  // Move the clocks as little as possible so that no transfer ends before its other side began.
  void correct_clocks() {
    moved_.assign(ranks_.size(), 0);
    bool changed = true;
    for (int round = 0; changed && round <= n(); ++round) {
      changed = false;
      const auto require = [&](int late, std::int64_t end, int early, std::int64_t begin) {
        const std::int64_t lack = begin + ranks_[early].shift_ns - (end + ranks_[late].shift_ns);
        if (lack <= 0 || moved_[late] > kLongest) return;
        moved_[late] += lack;
        ranks_[late].shift_ns += lack;
        changed = true;
      };
      for (Index layer = 0; layer < std::ssize(layers_); ++layer)
        for (int step = 0; step + 1 < n(); ++step)
          for (int rank = 0; rank < n(); ++rank) {
            const int to = wrap(rank + guess_.way);
            const ProfiledSpan sent = hop_of(rank, layer, Pass::forward, step);
            const ProfiledSpan got = hop_of(to, layer, Pass::forward, step);
            require(to, got.end_ns, rank, sent.begin_ns);
            if (both_ways_) require(rank, sent.end_ns, to, got.begin_ns);
          }
    }
    const std::int64_t most = *std::max_element(moved_.begin(), moved_.end());
    if (most > 0)
      notes_.push_back(
          fmt::format("Clocks were moved by up to {}, so that no transfer ends before it began{}.",
                      seconds_text(1e-9 * static_cast<double>(most)),
                      changed ? "; they do not fit all the same (confidence 0.2)" : ""));
  }

  Index median_layer() {
    std::vector<std::pair<std::int64_t, Index>> lengths;
    // In the first layer ranks begin when their profilers do.
    for (Index layer = std::ssize(layers_) > 1; layer < std::ssize(layers_); ++layer) {
      std::int64_t all = 0;
      for (const Period* period : {layers_[layer].first, layers_[layer].second})
        for (int rank = 0; period != nullptr && rank < n(); ++rank) {
          const ProfiledSpan* kernel =
              &ranks_[rank].attention[at(period->pass)][period->kernels[rank]];
          for (Index left = kernels_a_layer(guess_, rank); left > 0; --left, ++kernel)
            all += kernel->end_ns - kernel->begin_ns;
        }
      lengths.emplace_back(all, layer);
    }
    const auto middle = lengths.begin() + lengths.size() / 2;
    std::nth_element(lengths.begin(), middle, lengths.end());
    if (std::ssize(layers_) > 1)
      notes_.push_back(
          fmt::format("Shown is layer {} of 0 to {}.", middle->second, std::ssize(layers_) - 1));
    return middle->second;
  }

  Recording write(Index layer) {
    Recording recording;
    RunInfo& info = recording.info;
    info.backend = "profile";
    info.mask = deal_.empty() ? "full" : "causal";
    if (!deal_.empty()) info.partition = deal_;
    info.world_size = n();
    info.is_midway = layer > 0;
    info.lacks_shape = shape_.seqlen == 0;
    info.kv_buffers = 2;
    info.shape = shape_;
    info.shape.seqlen = n() * rows_;
    info.clock_offset_ns = moved_;
    info.clock_error_ns.assign(n(), 0);
    recording.events.resize(n());
    recording.dropped.assign(n(), 0);
    for (const Pass pass : kAllPasses)
      for (int rank = 0; rank < n() && (pass == Pass::forward || has_backward_); ++rank)
        write_rank(recording, rank, layer, pass);
    if (ends_late_) estimate_moves(recording);
    clear_lanes(recording);
    std::int64_t first = INT64_MAX;
    for (const auto& events : recording.events)
      for (const TraceEvent& e : events) first = std::min(first, e.begin_ns);
    if (__builtin_add_overflow(ranks_[0].profile->base_time_ns, first, &info.base_time_ns))
      info.base_time_ns = 0;
    for (auto& events : recording.events)
      for (TraceEvent& e : events) e.begin_ns -= first, e.end_ns -= first;
    if (info.lacks_shape)
      notes_.push_back(
          fmt::format("The files do not give the lengths: {} rows per rank of one head stand for "
                      "them. {}",
                      kProfileRows,
                      ranks_[0].profile->has_shapes
                          ? "They have shapes, but of no attention [batch, heads, rows, head_dim]."
                          : "Profile with record_shapes=True to have them read."));
    return recording;
  }

  // Let transfers last as long as the blocks were on their way. The host's note of a transfer ends
  // when a rank waits for it: it tells when the block came if the rank had nothing to compute before
  // that. Where it had, the block is taken to move as fast as the others, and it has come when its
  // sender is done.
  void estimate_moves(Recording& recording) {
    struct Move {
      TraceEvent* ends[2];
      std::int64_t begin = 0;
      double seconds = 0;  // at the most
      bool is_known = false;
    };
    std::map<std::int64_t, Move> moves;  // by flow
    for (auto& events : recording.events)
      for (TraceEvent& e : events)
        if (e.flow > 0) moves[e.flow].ends[e.lane == Lane::recv] = &e;
    std::vector<double> known, all;  // of a byte
    for (auto& [flow, move] : moves) {
      const TraceEvent& got = *move.ends[1];
      move.begin = std::max(move.ends[0]->begin_ns, got.begin_ns);
      std::int64_t busy = move.begin;
      for (const TraceEvent& e : recording.events[got.dst])
        if (e.lane == Lane::compute && e.pairs > 0 && e.end_ns <= got.end_ns)
          busy = std::max(busy, e.end_ns);
      const std::int64_t sent = move.ends[0]->end_ns;
      const std::int64_t end = sent > move.begin ? std::min(sent, got.end_ns) : got.end_ns;
      move.seconds = static_cast<double>(std::max<std::int64_t>(1, end - move.begin));
      move.is_known = static_cast<double>(got.end_ns - busy) > kLeastWait * move.seconds;
      all.push_back(move.seconds / static_cast<double>(got.bytes));
      if (move.is_known) known.push_back(all.back());
    }
    const Index told = known.size(), unseen = std::ssize(moves) - told;
    if (known.empty()) known = {*std::min_element(all.begin(), all.end())};
    const auto middle = known.begin() + known.size() / 2;
    std::nth_element(known.begin(), middle, known.end());
    for (auto& [flow, move] : moves) {
      const double usual = *middle * static_cast<double>(move.ends[0]->bytes);
      const double lasts = move.is_known ? move.seconds : std::min(move.seconds, usual);
      for (TraceEvent* end : move.ends) end->end_ns = move.begin + static_cast<std::int64_t>(lasts);
    }
    end_waits(recording);
    if (unseen == 0) return;
    notes_.push_back(fmt::format(
        "{} of {} transfers are seen to end only after a computation: they are taken to last as "
        "long as the others (confidence {:.1f}).",
        unseen, std::ssize(moves), told < 2 ? 0.3 : 0.6));
  }

  // A rank that waits goes on when its block has come and its own has gone. Until it does go on, it
  // does something that the profile does not show; if that takes the longer part, it did so all along.
  static void end_waits(Recording& recording) {
    for (int rank = 0; rank < std::ssize(recording.events); ++rank)
      for (TraceEvent& waited : recording.events[rank]) {
        if (waited.lane != Lane::wait) continue;
        // The last step's hop brings the rank's own gradients home.
        const int hop_step = waited.step - (waited.kv_owner != rank);
        std::int64_t done = waited.begin_ns;
        for (const TraceEvent& e : recording.events[rank])
          if ((e.lane == Lane::recv || e.lane == Lane::send) && e.step == hop_step &&
              e.pass == waited.pass && e.payload == waited.payload)
            done = std::max(done, e.end_ns);
        const bool waits = waited.end_ns - done < done - waited.begin_ns;
        waited.end_ns = waits ? std::min(waited.end_ns, done) : waited.begin_ns;
      }
  }

  // Let a transfer's slice end where the next one begins on its lane.
  static void clear_lanes(Recording& recording) {
    for (auto& events : recording.events)
      for (const Lane lane : {Lane::send, Lane::recv}) {
        std::vector<TraceEvent*> of_lane;
        for (TraceEvent& e : events)
          if (e.lane == lane) of_lane.push_back(&e);
        std::stable_sort(of_lane.begin(), of_lane.end(),
                         [](const auto* a, const auto* b) { return a->begin_ns < b->begin_ns; });
        for (Index i = 0; i + 1 < std::ssize(of_lane); ++i)
          of_lane[i]->end_ns = std::min(of_lane[i]->end_ns, of_lane[i + 1]->begin_ns);
      }
  }

  void write_rank(Recording& recording, int rank, Index layer, Pass pass) {
    auto& events = recording.events[rank];
    const std::int64_t shift = ranks_[rank].shift_ns;
    const int from = wrap(rank - guess_.way), to = wrap(rank + guess_.way);
    std::int64_t free = INT64_MIN;  // when the rank was last busy
    const auto wait = [&](Payload payload, int step, int owner, int hop_step, std::int64_t until) {
      const ProfiledSpan hop = hop_of(rank, layer, pass, hop_step, payload);
      TraceEvent e{.lane = Lane::wait, .pass = pass, .payload = payload};
      e.step = step, e.kv_owner = owner, e.waiting_for = from;
      e.begin_ns = std::max(free, hop.begin_ns + shift);
      e.end_ns = std::min(hop.end_ns + shift, until);
      if (e.end_ns <= e.begin_ns) return;
      free = e.end_ns;
      events.push_back(e);
    };
    const auto transfer = [&](Payload payload, int step, int owner) {
      const ProfiledSpan hop = hop_of(rank, layer, pass, step, payload);
      for (const bool sends : {true, false}) {
        TraceEvent e{.lane = sends ? Lane::send : Lane::recv, .pass = pass, .payload = payload};
        e.step = step;
        e.kv_owner = sends ? owner : wrap(owner - guess_.way);
        e.begin_ns = hop.begin_ns + shift;
        e.end_ns = (sends && ends_late_ && hop.sent_ns != 0 ? hop.sent_ns : hop.end_ns) + shift;
        e.bytes = hop.bytes > 0 ? hop.bytes : 2 * 4 * rows_;
        e.src = sends ? rank : from;
        e.dst = sends ? to : rank;
        const int kind = 2 * at(pass) + (payload == Payload::dkv);
        e.flow = 1 + (kind * n() + step) * static_cast<std::int64_t>(n()) + e.src;
        events.push_back(e);
      }
    };
    // Return when the rank computes again, from a step on.
    const auto computes_from = [&](int step) {
      for (; step < n(); ++step)
        if (const auto ahead = kernels_of(rank, layer, pass, step); !ahead.empty())
          return ahead.front().begin_ns + shift;
      return INT64_MAX;
    };
    const bool returns = pass == Pass::backward && has_gradients();
    const AttentionShape& shape = recording.info.shape;
    for (int step = 0; step < n(); ++step) {
      const int owner = wrap(rank - guess_.way * step);
      const std::vector<ProfiledSpan> kernels = kernels_of(rank, layer, pass, step);
      const std::int64_t next = computes_from(step);
      if (step > 0 && has_hops(pass)) wait(Payload::kv, step, owner, step - 1, next);
      TraceEvent compute{.lane = Lane::compute, .pass = pass, .step = step, .kv_owner = owner};
      if (!kernels.empty()) {
        compute.begin_ns = next;
        compute.end_ns = free = std::max(kernels.back().end_ns + shift, compute.begin_ns);
        for (const ProfiledSpan& kernel : kernels)
          compute.cpu_ns += kernel.end_ns - kernel.begin_ns;
        compute.cpu_ns = std::min(compute.cpu_ns, compute.end_ns - compute.begin_ns);
        compute.pairs = pairs_of(rank, owner, kernels);
        compute.flops = (pass == Pass::forward ? 4 : 10) * compute.pairs * shape.batch *
                        shape.num_heads * shape.head_dim;
        events.push_back(compute);
      } else if (step > 0 && has_hops(pass)) {  // a step without pairs takes no time
        const ProfiledSpan hop = hop_of(rank, layer, pass, step - 1);
        compute.begin_ns = compute.end_ns = std::max(free, std::min(hop.end_ns + shift, next));
        events.push_back(compute);
      }
      if (step + 1 < n() && has_hops(pass)) transfer(Payload::kv, step, owner);
      if (!returns) continue;
      transfer(Payload::dkv, step, owner);
      if (step > 0) wait(Payload::dkv, step, owner, step - 1, computes_from(step + 1));
      if (step + 1 == n()) wait(Payload::dkv, step, rank, step, computes_from(n()));
    }
  }

  std::vector<ProfiledRank> ranks_;
  AttentionShape shape_;    // of a rank's rows; seqlen 0: unknown
  bool both_ways_ = false;  // a transfer ends on both sides at once
  bool ends_late_ = false;  // a transfer ends when it is waited for
  std::vector<std::string> notes_;
  std::vector<std::int64_t> moved_;
  Guess guess_;
  std::vector<Period> periods_;
  std::vector<std::pair<const Period*, const Period*>> layers_;  // forward, backward or null
  bool has_backward_ = false;
  std::string deal_;           // who has which rows under a causal mask; "": the mask is full
  Index rows_ = kProfileRows;  // a rank
};

}  // namespace

InferredRing infer_ring(const std::vector<RankProfile>& ranks) {
  if (ranks.empty()) return {};
  return RingInference().infer(ranks);
}

}  // namespace ringscope
