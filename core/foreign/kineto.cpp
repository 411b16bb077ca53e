#include "core/foreign/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr Index kProfileRows = 1024;      // a rank, in place of what a profile does not say
constexpr std::size_t kMaxOthers = 1000;  // names of kernels that are kept
constexpr std::int64_t kLongest = 1'000'000'000'000'000;  // ns
constexpr std::size_t kMaxCutFile = std::size_t{1} << 31;

template <std::size_t N>
bool has_part(std::string_view name, const std::string_view (&parts)[N]) {
  return std::any_of(std::begin(parts), std::end(parts), [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

// FlashAttention 2 and 3, cuDNN and TransformerEngine, Triton, xFormers, and PyTorch's own on a CPU.
constexpr std::string_view kForward[] = {"flash_fwd", "FlashAttnFwd",      "flash_fprop",
                                         "_attn_fwd", "fmha_cutlassF",     "sdpa_fprop",
                                         "fmha_fwd",  "scaled_dot_product"};
constexpr std::string_view kBackward[] = {"flash_bwd", "FlashAttnBwd",       "flash_bprop",
                                          "_attn_bwd", "fmha_cutlassB",      "sdpa_bprop",
                                          "fmha_bwd",  "attention_backward", "for_cpu_backward"};
// Kernels around the attention, of which there is one to each.
constexpr std::string_view kAround[] = {"dot_do_o",    "convert_d",  "preprocess",
                                        "postprocess", "Preprocess", "combine"};
constexpr std::string_view kTransfers[] = {"SendRecv", "nccl:send", "nccl:recv", "gloo:send",
                                           "gloo:recv"};

// c10's type names and the bytes per value.
struct TypeSize {
  std::string_view name;
  std::int64_t bytes;
};
constexpr TypeSize kTypeSizes[] = {
    {"Float", 4},  {"BFloat16", 2}, {"Half", 2},   {"Double", 8},        {"Long", 8},
    {"Int", 4},    {"Short", 2},    {"Char", 1},   {"Byte", 1},          {"Bool", 1},
    {"UInt16", 2}, {"UInt32", 4},   {"UInt64", 8}, {"Float8_e4m3fn", 1}, {"Float8_e5m2", 1}};

std::int64_t size_of_type(std::string_view name) {
  for (const TypeSize& type : kTypeSizes)
    if (type.name == name) return type.bytes;
  return 0;
}

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

// Join transfers that are under way together: a block's are started together, and the next block's
// can't begin before it has come.
std::vector<ProfiledSpan> batches_of(std::vector<ProfiledSpan> spans) {
  std::stable_sort(spans.begin(), spans.end(), [](const ProfiledSpan& a, const ProfiledSpan& b) {
    return a.begin_ns < b.begin_ns;
  });
  std::vector<ProfiledSpan> batches;
  for (const ProfiledSpan& span : spans) {
    if (!batches.empty() && span.begin_ns < batches.back().end_ns) {
      batches.back().end_ns = std::max(batches.back().end_ns, span.end_ns);
      batches.back().bytes += std::min(span.bytes, INT64_MAX / 2 - batches.back().bytes);
    } else {
      batches.push_back(span);
    }
  }
  return batches;
}

std::string ms_text(std::int64_t ns) { return seconds_text(1e-9 * static_cast<double>(ns)); }

// ---

struct Ranked {
  const RankProfile* profile = nullptr;
  std::vector<ProfiledSpan> attention[2];  // by pass
  std::vector<ProfiledSpan> batches;
  std::int64_t shift_ns = 0;  // to the first file's base time
};

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
      rank.batches = batches_of(profile.transfers[device_transfers]);
      if (device_transfers == on_device) continue;
      for (auto* spans : {&rank.attention[0], &rank.attention[1], &rank.batches})
        for (ProfiledSpan& span : *spans) span.order = span.begin_ns;
    }
    for (Ranked& rank : ranks_)
      for (auto& spans : rank.attention) std::stable_sort(spans.begin(), spans.end(), by_order);
    both_ways_ = on_device;
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

  // Find layers, kernels a step and transfers a step from how many there are of each. Return why that
  // can't be, or "".
  std::string count() {
    const auto attended = [&](int rank, Pass pass) {
      return ranks_[static_cast<std::size_t>(rank)].attention[at(pass)].size();
    };
    const auto steps = static_cast<std::size_t>(n());
    if (attended(0, Pass::forward) == 0)
      return "no attention was found by name (flash, sdpa, fmha, _attn_fwd).";
    const std::size_t batches = ranks_[0].batches.size();
    if (batches == 0) return "no sends and receives were found (SendRecv, nccl:send, gloo:send).";
    for (const Ranked& rank : ranks_)
      if (rank.batches.size() != batches)
        return fmt::format("rank {} has {} transfers, rank 0 has {}.", rank.profile->rank,
                           rank.batches.size(), batches);
    const std::size_t first = attended(0, Pass::forward);
    bool all_alike = first % steps == 0, as_causal = true;
    for (int rank = 0; rank < n(); ++rank) {
      all_alike = all_alike && attended(rank, Pass::forward) == first;
      as_causal = as_causal &&
                  attended(rank, Pass::forward) == first * (static_cast<std::size_t>(rank) + 1);
    }
    if (!all_alike && !as_causal)
      return fmt::format(
          "rank 0 has {} attention kernels and rank {} has {}; equally many on all of {} ranks, or "
          "rank + 1 times those of rank 0, make a ring.",
          first, n() - 1, attended(n() - 1, Pass::forward), n());
    skips_ = !all_alike;
    const std::size_t units = skips_ ? first : first / steps;
    for (a_step_ = 1; a_step_ <= units; ++a_step_) {
      if (units % a_step_ != 0) continue;
      layers_ = units / a_step_;
      if (layers_ * (steps - 1) <= batches && batches % layers_ == 0) break;
    }
    if (a_step_ > units) return fmt::format("{} transfers are too few for {} ranks.", batches, n());
    has_backward_ = true;
    for (int rank = 0; rank < n(); ++rank) {
      const std::size_t here = attended(rank, Pass::forward), back = attended(rank, Pass::backward);
      has_backward_ = has_backward_ && back > 0 && back == here;
    }
    const std::size_t a_layer = batches / layers_;
    hops_[0] = has_backward_ ? a_layer / 2 : a_layer;
    if (has_backward_ && a_layer % 2 != 0) hops_[0] = steps - 1;
    hops_[1] = has_backward_ ? a_layer - hops_[0] : 0;
    if (hops_[0] % (steps - 1) != 0)
      return fmt::format("{} transfers a layer do not make the {} hops of a ring of {}.", a_layer,
                         n() - 1, n());
    a_hop_ = hops_[0] / (steps - 1);
    result_.notes.push_back(fmt::format(
        "A ring of {} ranks: {} layer{}, {}, {} attention kernel{} and {} transfer{} a step "
        "(confidence {:.1f}).",
        n(), layers_, layers_ == 1 ? "" : "s", has_backward_ ? "forward and backward" : "forward",
        a_step_, a_step_ == 1 ? "" : "s", a_hop_, a_hop_ == 1 ? "" : "s",
        a_step_ == 1 && a_hop_ == 1 ? 0.9 : 0.7));
    result_.notes.push_back(
        skips_
            ? "Rank r attends r + 1 blocks, so it is causal and contiguous, and steps are skipped "
              "(confidence 0.95)."
            : "All ranks attend all blocks; the mask is taken as full, because kernels do not say "
              "(confidence 0.5).");
    return "";
  }

  // Return the index in a rank's batches at which the pass of a layer begins.
  std::size_t first_batch(std::size_t layer, Pass pass) const {
    const bool alternate = passes_alternate();
    if (pass == Pass::forward) return layer * (alternate ? hops_[0] + hops_[1] : hops_[0]);
    // Of passes that follow each other, the last layer goes back first.
    return alternate ? layer * (hops_[0] + hops_[1]) + hops_[0]
                     : layers_ * hops_[0] + (layers_ - 1 - layer) * hops_[1];
  }

  bool passes_alternate() const {
    if (!has_backward_ || layers_ < 2) return has_backward_;
    const auto& forward = ranks_[0].attention[0];
    return ranks_[0].attention[1].front().order < forward.back().order;
  }

  // Return the kernels of a step, or none if it was skipped.
  std::vector<ProfiledSpan> kernels_of(int rank, std::size_t layer, Pass pass, int step) const {
    const auto& all = ranks_[static_cast<std::size_t>(rank)].attention[at(pass)];
    int place = step;
    if (skips_) {
      // Skipped steps leave the first block and those that a lower rank owns.
      const int owner = wrap(rank - way_ * step);
      if (owner > rank) return {};
      if (way_ < 0 && step > 0) place = step - (n() - 1 - rank);
    }
    const auto blocks = static_cast<std::size_t>(skips_ ? rank + 1 : n());
    const std::size_t of_layer =
        pass == Pass::backward && !passes_alternate() ? layers_ - 1 - layer : layer;
    const std::size_t begin = (of_layer * blocks + static_cast<std::size_t>(place)) * a_step_;
    return {all.begin() + static_cast<std::ptrdiff_t>(begin),
            all.begin() + static_cast<std::ptrdiff_t>(begin + a_step_)};
  }

  // Return a hop: the transfers after which the block of step + 1 is there.
  ProfiledSpan hop_of(int rank, std::size_t layer, Pass pass, int step) const {
    const auto& batches = ranks_[static_cast<std::size_t>(rank)].batches;
    const std::size_t begin = first_batch(layer, pass) + static_cast<std::size_t>(step) * a_hop_;
    ProfiledSpan hop = batches[begin];
    hop.end_ns = batches[begin + a_hop_ - 1].end_ns;
    return hop;
  }
  bool has_hops(Pass pass) const { return pass == Pass::forward || hops_[1] == hops_[0]; }

  // Find out whether blocks go to the next rank or to the previous one. Return why neither can be.
  std::string find_direction() {
    int named[2] = {}, seen[2] = {};
    for (int rank = 0; rank < n(); ++rank) {
      const Ranked& one = ranks_[static_cast<std::size_t>(rank)];
      const int to = one.profile->sends_to;
      if (to >= 0 && to != wrap(rank + 1) && to != wrap(rank - 1))
        return fmt::format("rank {} sends to rank {}, which is not its neighbour.", rank, to);
      if (to >= 0) ++named[to == wrap(rank + 1) ? 0 : 1];
      if (!skips_ || n() == 3 || rank == 0 || rank == n() - 1) continue;
      // In one direction the lower ranks' blocks come at once, in the other after all others.
      const auto& all = one.attention[0];
      const auto between =
          std::count_if(one.batches.begin(), one.batches.end(), [&](const ProfiledSpan& batch) {
            return batch.order > all[a_step_ - 1].order && batch.order < all[a_step_].order;
          });
      ++seen[static_cast<std::size_t>(between) <= a_hop_ ? 0 : 1];
    }
    const bool told = n() > 2 && (named[0] != named[1] || seen[0] != seen[1]);
    const bool back = named[0] != named[1] ? named[1] > named[0] : seen[1] > seen[0];
    way_ = back && n() > 2 ? -1 : 1;
    result_.notes.push_back(fmt::format(
        "Blocks go from rank r to rank r {} 1 (confidence {:.1f}{}).", way_ > 0 ? '+' : '-',
        named[0] + named[1] > 0 ? 0.95
        : told || n() == 2      ? 0.9
                                : 0.5,
        told || n() == 2 ? "" : ": no file names the peers"));
    return "";
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
      for (std::size_t layer = 0; layer < layers_; ++layer)
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
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      std::int64_t all = 0;
      for_steps(layer, [&](int, Pass, int, const std::vector<ProfiledSpan>& kernels) {
        for (const ProfiledSpan& kernel : kernels) all += kernel.end_ns - kernel.begin_ns;
      });
      lengths.emplace_back(all, layer);
    }
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    if (layers_ > 1)
      result_.notes.push_back(
          fmt::format("Shown is layer {} of 0 to {}.", middle->second, layers_ - 1));
    return middle->second;
  }

  void write(std::size_t layer) {
    Recording recording;
    const auto ranks = static_cast<std::size_t>(n());
    RunInfo& info = recording.info;
    info.backend = "profile";
    info.mask = skips_ ? "causal" : "full";
    info.world_size = n();
    info.kv_buffers = 2;
    info.shape = {1, 1, 1, n() * kProfileRows, 1};
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
        compute.pairs = skips_ && owner == rank ? kProfileRows * (kProfileRows + 1) / 2
                                                : kProfileRows * kProfileRows;
        compute.flops = (pass == Pass::forward ? 4 : 10) * compute.pairs;
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
        e.bytes = hop.bytes > 0 ? hop.bytes : 2 * 4 * kProfileRows;
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
  std::size_t layers_ = 1;
  std::size_t a_step_ = 1, a_hop_ = 1;  // kernels of a step, batches of a hop
  std::size_t hops_[2] = {};            // batches of a layer, by pass
  bool skips_ = false, has_backward_ = false, both_ways_ = false;
  int way_ = 1;  // 1: to the next rank; -1: to the previous one
  InferredRing result_;
};

struct ProfileSink final : TraceSink {
  void begin(const RunInfo&, const std::vector<std::int64_t>&) override {}
  void slice(int, const TraceEvent&, const TraceFields&) override {}
  void span(int, const ModelSpan&, const TraceFields&) override {}
  void span(int, const KernelSpan&, const TraceFields&) override {}
  void sample(const SoftmaxSample&) override {}
  void other(const TraceFields& fields) override { events.add(fields); }
  ProfileEvents events;
};

std::optional<RankProfile> read_profile_of(TextSource& text, const std::string& path) {
  ProfileSink sink;
  const TraceHead head = read_trace(text, sink, 0);
  if (head.run) return std::nullopt;
  return sink.events.finish(head, path);
}

}  // namespace

std::int64_t message_bytes(const TraceFields& fields) {
  const std::int64_t values = std::max(fields.any_integer(EventField::nelems_in).value_or(0),
                                       fields.any_integer(EventField::nelems_out).value_or(0));
  std::int64_t bytes = 0;
  const std::int64_t size = size_of_type(fields.text_or_empty(EventField::value_type));
  if (values < 0 || __builtin_mul_overflow(values, size, &bytes)) return 0;
  return bytes;
}

void ProfileEvents::add(const TraceFields& fields) {
  if (fields.text_or_empty(EventField::ph) != "X") return;
  const std::string_view name = fields.text_or_empty(EventField::name);
  const std::string_view category = fields.text_or_empty(EventField::cat);
  const bool on_device = category == "kernel";
  if (!on_device && category != "cpu_op" && category != "user_annotation") return;
  const auto begin = fields.any_time(EventField::ts);
  if (!begin) return;
  ProfiledSpan span;
  span.begin_ns = *begin;
  span.end_ns = *begin + fields.any_time(EventField::dur).value_or(0);
  fields.require_end(span.end_ns);
  span.order = fields.any_integer(EventField::correlation).value_or(0);
  if (!on_device || span.order <= 0) span.order = span.begin_ns;
  const bool sends = name.find(":send ") != std::string_view::npos;
  if (const std::size_t arrow = name.find("->"); sends && arrow != std::string_view::npos) {
    const auto peer = parse_number<int>(name.substr(arrow + 2));
    if (peer && peers_.size() < kMaxOthers) ++peers_[*peer];
  }
  const std::string_view collective = fields.text_or_empty(EventField::collective);
  if (has_part(name, kTransfers) || (on_device && (collective == "send" || collective == "recv"))) {
    span.bytes = message_bytes(fields);
    profile_.transfers[on_device].push_back(span);
  } else if (has_part(name, kAround)) {
    return;
  } else if (has_part(name, kBackward)) {
    span.pass = Pass::backward;
    profile_.attention[on_device].push_back(span);
  } else if (has_part(name, kForward)) {
    profile_.attention[on_device].push_back(span);
  } else if (on_device) {
    const auto found = profile_.others.find(std::string(name));
    if (found != profile_.others.end()) {
      ++found->second;
    } else if (profile_.others.size() < kMaxOthers) {
      profile_.others.emplace(name.substr(0, 200), 1);
    }
  }
}

RankProfile ProfileEvents::finish(const TraceHead& head, std::string path) {
  const auto small = [](const std::optional<std::int64_t>& number, int otherwise) {
    return number && *number >= 0 && *number < 1'000'000 ? static_cast<int>(*number) : otherwise;
  };
  profile_.path = std::move(path);
  profile_.rank = small(head.rank, -1);
  profile_.world_size = small(head.world_size, 0);
  profile_.base_time_ns = head.base_time_ns.value_or(0);
  profile_.cut_short = head.cut_short;
  int most = 0;
  for (const auto& [peer, count] : peers_)
    if (count > most) most = count, profile_.sends_to = peer;
  return std::move(profile_);
}

std::optional<RankProfile> parse_profile(std::string_view text, const std::string& path) {
  MemorySource source(text);
  return read_profile_of(source, path);
}

namespace {

// Read what there is of a text that is cut off, packed or not. Return false when that is too much.
bool read_up_to_cut(FileSource& source, std::string& text) try {
  source.rewind();
  std::vector<char> piece(std::size_t{1} << 20);
  while (const std::size_t got = source.read(piece.data(), piece.size())) {
    if (text.size() + got > kMaxCutFile) return false;
    text.append(piece.data(), got);
  }
  return true;
} catch (const InputError&) {
  if (!source.is_cut_off()) throw;
  return true;
}

}  // namespace

std::optional<RankProfile> read_profile(const std::string& path) {
  return with_path_in_errors(path, [&] {
    const InputFile file(path, "profile");
    FileSource source(file);
    try {
      return read_profile_of(source, path);
    } catch (const InputError&) {
      // Close the array of events behind the last one that is whole.
      if (source.done() != file.size()) throw;
      std::string text;
      if (!read_up_to_cut(source, text)) throw;
      const std::size_t last = text.rfind("},");
      if (last == std::string::npos || text.find("\"traceEvents\"") > last) throw;
      text.resize(last);
      text += "}]}";
      auto profile = parse_profile(text, path);
      if (profile) profile->cut_short = true;
      return profile;
    }
  });
}

InferredRing infer_ring(const std::vector<RankProfile>& ranks) {
  if (ranks.empty()) return {};
  return RingInference().infer(ranks);
}

}  // namespace ringscope
