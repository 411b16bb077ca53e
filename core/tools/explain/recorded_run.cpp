#include "core/tools/explain/recorded_run.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/ranges.h"
#include "core/base/text.h"
#include "core/ring/loop_counts.h"
#include "core/tools/cost/time.h"
#include "core/tools/sim/graph.h"

namespace ringscope {
namespace {

double seconds_of(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

constexpr Index kMostTiles = Index{1} << 24;  // of a sequence, which are counted one by one

// Of the shorter of a hop and a computation: a hop that overlaps less runs beside nothing. Launches and
// clocks blur ends by microseconds, so it is no smaller; hops that overlap, overlap nearly all of it.
constexpr double kLeastLap = 0.1;
// Of a hop: what comes later than that was not held up by it, but by the rank's own program.
constexpr double kHeldUp = 0.5;
constexpr std::int64_t kLaunchNs =
    10'000;  // what a GPU takes to begin what is launched after a wait
// Of a run's hops, or of a rank's: in a program that makes hops and attention take turns, all do.
constexpr double kNearlyAll = 0.9;
constexpr int kLeastHops = 4;  // on all ranks: fewer are over before computing by chance

struct Span {
  std::int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;

  double length() const { return static_cast<double>(end_ns - begin_ns); }
  void cover(const TraceEvent& e) {
    begin_ns = std::min(begin_ns, e.begin_ns), end_ns = std::max(end_ns, e.end_ns);
  }
};

// Return the spans in order, joined where they overlap.
std::vector<Span> joined(std::vector<Span> spans) {
  ranges::sort(spans, {}, &Span::begin_ns);
  std::vector<Span> result;
  for (const Span& span : spans)
    if (!result.empty() && span.begin_ns <= result.back().end_ns)
      result.back().end_ns = std::max(result.back().end_ns, span.end_ns);
    else
      result.push_back(span);
  return result;
}

// Return the first of joined spans that ends after a time.
auto first_after(std::int64_t ns, const std::vector<Span>& spans) {
  return ranges::upper_bound(spans, ns, {}, &Span::end_ns);
}

// Return for how long `span` overlaps joined spans.
double overlap(const Span& span, const std::vector<Span>& others) {
  double sum = 0;
  auto other = first_after(span.begin_ns, others);
  for (; other != others.end() && other->begin_ns < span.end_ns; ++other)
    sum += Span{std::max(span.begin_ns, other->begin_ns), std::min(span.end_ns, other->end_ns)}
               .length();
  return sum;
}

bool is_computation_of(const TraceEvent& e, int ranks) {
  return e.lane == Lane::compute && e.step >= 0 && e.step < ranks;
}

}  // namespace

Problem recorded_job(const RunInfo& info) {
  Problem job;
  job.shape = info.shape;
  validate(job.shape);
  job.dtype = parse_dtype(info.dtype);
  job.mask = MaskSpec::recorded(info.mask, info.mask_slices);
  static_cast<void>(job.mask.for_seqlen(info.shape.seqlen));  // throws if it does not fit
  job.partition = PartitionSpec::recorded(info.partition, info.partition_runs, info.shape.seqlen,
                                          info.world_size);
  if (!info.partition_q.empty())
    job.partition_q = PartitionSpec::recorded(info.partition_q, info.partition_q_runs,
                                              info.shape.queries(), info.world_size);
  job.world_size = info.world_size;
  job.kv_buffers = std::max(info.kv_buffers, 2);
  set_scheme(job, info.scheme);
  if (info.hops == name_of(Hops::needed)) job.hops = Hops::needed;
  return job;
}

Granularity recorded_tile(const RunInfo& info) {
  if (!info.machine || info.shape.seqlen / info.machine->tile_rows > kMostTiles) return {};
  return {info.machine->tile_rows, info.machine->tile_keys};
}

std::optional<Link> known_link(const std::string& name) {
  for (const Link& link : builtin_hardware().links)
    if (link.name == name) return link;
  if (name.find(',') == name.npos || name.find_first_not_of("0123456789.,eE+-") != name.npos)
    return std::nullopt;
  try {
    return find_link(name);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

RecordedRun::RecordedRun(const Recording& recording)
    : info(recording.info), ranks(info.world_size) {
  if (is_simulated() && info.machine) link = known_link(info.machine->link);
  if (const auto named = read_scheme(info.scheme)) {
    gathers = named->scheme->course == Course::gathers;
    if (named->scheme->counts_nodes) ranks_a_node_ = ranks / std::min(ranks, named->numbers[0]);
  }
  std::int64_t end_ns = INT64_MIN;
  std::size_t computations = 0;
  begin_ns_ = INT64_MAX;
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) {
      begin_ns_ = std::min(begin_ns_, e.begin_ns);
      // What a simulated rank has sent may go on after the run's end.
      if (!is_simulated() || e.lane == Lane::compute || e.lane == Lane::wait)
        end_ns = std::max(end_ns, e.end_ns);
      if (!is_computation_of(e, ranks)) continue;
      ++computations;
      has_[static_cast<int>(e.pass)] = true;
      if (e.pairs > 0)
        flops_a_pair_[static_cast<int>(e.pass)] =
            static_cast<double>(e.flops) / static_cast<double>(e.pairs);
    }
  if (end_ns < begin_ns_) throw InputError("nothing is recorded; the events of a run accepted");
  wall_s = seconds_of(end_ns - begin_ns_);
  steps.reserve(computations);
  begins.resize(ranks);
  begin_in_turn.resize(begins.size());
  ends_.resize(begins.size(), {SIZE_MAX, 0});
  pauses.resize(begins.size());
  for (int rank = 0; rank < ranks; ++rank) {
    const auto& events = recording.events[rank];
    is_whole = is_whole && !events.empty();
    read_rank(rank, events);
  }
  if (is_profile()) take_hidden_waits_out_of_gaps();
  if (!is_simulated() && !info.training) find_turns(recording);
  if (!is_simulated() && !is_profile() && !info.training) read_late_messages(recording);
  read_hops(recording);
  if (info.is_whole() && ranks <= kMostExplainedRanks) make_graph();
}

void RecordedRun::read_rank(int rank, const std::vector<TraceEvent>& events) {
  std::vector<const TraceEvent*> thread;
  for (const TraceEvent& e : events) thread.push_back(&e);
  ranges::stable_sort(thread, {},
                      [](const TraceEvent* e) { return std::pair(e->begin_ns, e->end_ns); });
  // In a training step the rest of the model lies between, which is no part of the ring.
  const auto gap_of = [&](std::int64_t begin, std::int64_t end) {
    return info.training ? 0 : seconds_of(std::max<std::int64_t>(0, end - begin));
  };
  std::map<std::pair<Pass, int>, std::size_t> rows;
  std::int64_t now = begin_ns_, parted = begin_ns_;
  const std::size_t first = steps.size(), none = SIZE_MAX;
  std::size_t last = none;
  for (const TraceEvent* e : thread) {
    const double pause = gap_of(parted, e->begin_ns);
    if (pause > 0 && (last != none || !info.is_midway)) pauses[rank].push_back(pause);
    parted = std::max(parted, e->begin_ns);
    if (!is_computation_of(*e, ranks) && e->lane != Lane::wait) continue;
    parted = std::max(parted, e->end_ns);
    const double gap = gap_of(now, e->begin_ns);
    (last != none ? steps[last].gap : begins[rank]) += gap;
    if (gap > 0 && !is_simulated()) gaps_.push_back({rank, last, now, e->begin_ns});
    now = std::max(now, e->end_ns);
    if (e->lane == Lane::wait) continue;
    const auto [row, is_new] = rows.emplace(std::pair(e->pass, e->step), steps.size());
    if (is_new) steps.push_back({.pass = e->pass, .rank = rank, .step = e->step, .parts = 0});
    last = row->second;
    RankStep& step = steps[last];
    step.seconds += seconds_of(e->end_ns - e->begin_ns);
    step.cpu += seconds_of(e->cpu_ns);
    step.pairs += static_cast<double>(e->pairs);
    step.work = step.pairs;
    step.parts += e->pairs > 0;
    step.owner = e->kv_owner;
    step.known = true;
    step.end_ns = e->end_ns;
  }
  for (std::size_t i = first; i < steps.size(); ++i)
    steps[i].parts = is_simulated() ? std::max(1, steps[i].parts) : 1;
  if (last != none) ends_[rank] = {last, now};
}

// Who is late with its last message need not wait for it, but others do.
void RecordedRun::read_late_messages(const Recording& recording) {
  std::vector<std::int64_t> sent(ends_.size()), late(ends_.size());
  for (std::size_t rank = 0; rank < ends_.size(); ++rank) {
    sent[rank] = ends_[rank].second;
    for (const TraceEvent& e : recording.events[rank])
      if (e.lane == Lane::send) sent[rank] = std::max(sent[rank], e.begin_ns);
  }
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) {
      if (e.lane != Lane::wait || e.waiting_for < 0 || e.waiting_for >= std::ssize(ends_)) continue;
      const auto rank = static_cast<std::size_t>(e.waiting_for);
      const std::int64_t end = ends_[rank].second;
      if (sent[rank] > end)
        late[rank] =
            std::max(late[rank], std::min(e.end_ns, sent[rank]) - std::max(e.begin_ns, end));
    }
  for (std::size_t rank = 0; rank < ends_.size(); ++rank)
    if (ends_[rank].first != SIZE_MAX && late[rank] > 0)
      steps[ends_[rank].first].gap += seconds_of(late[rank]);
}

void RecordedRun::read_hops(const Recording& recording) {
  std::vector<std::pair<HopKey, const TraceEvent*>> all;  // sends and receives, in their order
  for (const auto& events : recording.events)
    for (const TraceEvent& e : events) {
      const bool is_hop = e.lane == Lane::send || e.lane == Lane::recv;
      if (!is_hop || e.step < 0 || e.step > ranks || !is_rank(e.src) || !is_rank(e.dst)) continue;
      // A receive slice has the receiver's number of the hop, which is the sender's.
      all.emplace_back(hop_key(e.pass, e.payload, e.step, e.src, e.dst), &e);
    }
  std::vector<const TraceEvent*> sends, receives;  // of a hop
  ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto next = all.begin(); next != all.end();) {
    const HopKey key = next->first;
    const TraceEvent& first = *next->second;
    sends.clear(), receives.clear();
    for (; next != all.end() && next->first == key; ++next)
      (next->second->lane == Lane::recv ? receives : sends).push_back(next->second);
    RecordedHop& hop = hops.emplace_back(RecordedHop{.pass = first.pass,
                                                     .payload = first.payload,
                                                     .way = way_of(first.src, first.dst),
                                                     .step = first.step,
                                                     .from = first.src,
                                                     .to = first.dst,
                                                     .known = true});
    for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
      const TraceEvent& one = *(i < sends.size() ? sends : receives)[i];
      // Either end of a simulated message says all, and messages arrive in no order.
      const TraceEvent& other = is_simulated() ? one : *(i < receives.size() ? receives : sends)[i];
      // A slice is only as long as its lane is free.
      const std::int64_t moved = std::max(one.moved_ns, other.moved_ns),
                         shown = std::max(one.end_ns, other.end_ns) -
                                 std::max(one.begin_ns, other.begin_ns);
      hop.seconds += seconds_of(std::max<std::int64_t>(0, moved > 0 ? moved : shown));
      hop.bytes += static_cast<double>(one.bytes);
      ++hop.messages;
    }
  }
}

// Find the hops that could run beside a computation of their rank, and do not. Others' rings are judged
// step by step. Our own loop lets hops overlap, and waits where it must, so chance alone parts some hops
// from computing, unless hardly any overlaps and no rank ever waits outside of a hop.
void RecordedRun::find_turns(const Recording& recording) {
  using StepHop = std::tuple<Pass, Payload, int>;
  struct Candidate {
    HopTurn turn;
    Span held_up;
  };
  std::map<RankHop, Candidate> candidates;
  std::map<StepHop, std::pair<int, int>> of_steps;  // could, and take turns
  std::vector<std::pair<int, int>> of_ranks(ranks);
  std::pair<int, int> of_run;
  bool waits = false;
  for (int rank = 0; rank < std::ssize(recording.events); ++rank) {
    std::map<std::pair<Pass, int>, Span> computed;
    std::map<StepHop, Span> moved;
    std::vector<Span> busy;
    for (const TraceEvent& e : recording.events[rank])
      if (e.lane == Lane::wait) {
        waits = true;
      } else if (is_computation_of(e, ranks) && e.end_ns > e.begin_ns) {
        computed[{e.pass, e.step}].cover(e);
        busy.push_back({e.begin_ns, e.end_ns});
      } else if (e.lane == Lane::send || e.lane == Lane::recv) {
        moved[{e.pass, e.payload, e.step}].cover(e);
      }
    busy = joined(std::move(busy));
    for (const auto& [key, hop] : moved) {
      const auto& [pass, payload, step] = key;
      // The gradients of a step travel beside the next one.
      const auto found = computed.find({pass, step + (payload == Payload::dkv)});
      if (found == computed.end() || !(hop.length() > 0)) continue;
      const Span& meanwhile = found->second;
      const bool is_before = hop.begin_ns < meanwhile.begin_ns;
      const bool overlaps =
          overlap(hop, busy) > kLeastLap * std::min(hop.length(), meanwhile.length());
      const bool holds_up =
          !is_profile() || !is_before ||
          Span{hop.end_ns, meanwhile.begin_ns}.length() <= kHeldUp * hop.length() + kLaunchNs;
      const bool takes_turns = !overlaps && holds_up;
      for (auto* const count : {&of_steps[key], &of_ranks[rank], &of_run})
        ++count->first, count->second += takes_turns;
      if (!takes_turns) continue;
      // Our own slices show a block's way alone: a rank is held up from its last computation on.
      const auto next = first_after(hop.begin_ns, busy);
      const std::int64_t since = next == busy.begin() ? begin_ns_ : std::prev(next)->end_ns;
      candidates[{pass, payload, step, rank}] = {is_before ? HopTurn::before : HopTurn::after,
                                                 {is_profile() ? hop.begin_ns : since, hop.end_ns}};
    }
  }
  const auto nearly_all = [](std::pair<int, int> count) {
    return count.second >= kNearlyAll * count.first;
  };
  std::vector<std::vector<Span>> held_up(ranks);
  std::vector<double> spent(ranks);
  std::set<int> with_turns[2];
  for (const auto& [key, candidate] : candidates) {
    const auto& [pass, payload, step, rank] = key;
    const auto [could, do_take] = of_steps[{pass, payload, step}];
    const bool is_rule = is_profile() ? 2 * do_take > could || nearly_all(of_ranks[rank])
                                      : !waits && of_run.first >= kLeastHops && nearly_all(of_run);
    if (!is_rule) continue;
    turns_[key] = candidate.turn;
    with_turns[static_cast<int>(pass)].insert(step);
    held_up[rank].push_back(candidate.held_up);
    spent[rank] += 1e-9 * candidate.held_up.length();
  }
  for (int pass : {0, 1}) turns[pass].assign(with_turns[pass].begin(), with_turns[pass].end());
  turns_s = *ranges::max_element(spent);
  // A rank that waits for a hop inside the call that starts it shows no wait.
  for (auto& spans : held_up) spans = joined(std::move(spans));
  for (const Gap& gap : gaps_) {
    const double in_turn = 1e-9 * overlap({gap.begin_ns, gap.end_ns}, held_up[gap.rank]);
    const bool is_first = gap.row == SIZE_MAX;
    (is_first ? begins[gap.rank] : steps[gap.row].gap) -= in_turn;
    (is_first ? begin_in_turn[gap.rank] : steps[gap.row].in_turn) += in_turn;
  }
}

// A profile need not show that a rank waits. It waits for another rank's computation of the same step if
// it goes on soon after that.
void RecordedRun::take_hidden_waits_out_of_gaps() {
  std::map<std::pair<Pass, int>, std::vector<std::int64_t>> ends;
  for (const RankStep& step : steps) ends[{step.pass, step.step}].push_back(step.end_ns);
  for (auto& [step, all] : ends) ranges::sort(all);
  for (Gap& gap : gaps_) {
    if (gap.row == SIZE_MAX) continue;
    const std::vector<std::int64_t>& all = ends[{steps[gap.row].pass, steps[gap.row].step}];
    const auto later = ranges::upper_bound(all, gap.end_ns);
    if (later == all.begin()) continue;
    const Span hidden{gap.begin_ns, *std::prev(later)};
    const Span rest{hidden.end_ns, gap.end_ns};
    if (hidden.length() <= 0 || rest.length() > kHeldUp * hidden.length() / 2 + kLaunchNs) continue;
    steps[gap.row].gap -= 1e-9 * hidden.length();
    gap.begin_ns = hidden.end_ns;
  }
}

double RecordedRun::alone_s(const RecordedHop& hop) const {
  if (!link) return hop.bytes;
  if (sends_to_all())
    return all_to_all_seconds(hop.bytes, ranks, link->bytes_per_s, link->latency_s);
  return hop.messages * link->latency_s + hop.bytes / link->bytes_per_s;
}

// Return the way of a message: to the next rank, to the one before, or any other.
Way RecordedRun::way_of(int src, int dst) const {
  if (ranks_a_node_ > 0)
    return src / ranks_a_node_ != dst / ranks_a_node_ ? Way::between_nodes : Way::ring;
  if (dst == (src + 1) % ranks) return Way::ring;
  return src == (dst + 1) % ranks ? Way::backwards : Way::between_nodes;
}

// ---
// The graph.

// Make the graph of the recorded scheme's loop. Where mask or partition mean nothing here, the loop
// is known all the same, but not its work.
void RecordedRun::make_graph() {
  for (const bool has_work : {true, false}) try {
      if (is_profile()) break;
      RunInfo read = info;
      if (!has_work) read.mask = "full", read.partition = "contiguous";
      if (!has_work) read.mask_slices.clear(), read.partition_runs.clear();
      Problem job = recorded_job(read);
      job.backward = has(Pass::backward);
      GraphOptions options{.granularity = recorded_tile(info)};
      // Where a GPU computes, its host only launches the work.
      options.hosts_compute = is_simulated() ? (is_followed(job) && !has_paces(job)) ||
                                                   (info.machine && info.machine->cores > 0)
                                             : info.backend == "cpu" || info.backend == "mpi";
      options.follows_all_to_alls = !is_simulated();
      options.in_step = is_simulated() && info.kv_buffers == 0 && has_paces(job);
      replay_.graph = graph_of(job, options);
      is_predicted_ = has_work;
      if (job.parts_blocks()) {
        job.mask = MaskSpec::parse("full");
        all_.graph = graph_of(job, options);
      }
      break;
    } catch (const std::runtime_error&) {  // such a loop there is none
    }
  if (replay_.graph.tasks.empty()) {
    replay_.graph = graph_of_meetings(false);
    if (!turns_.empty()) beside_ = graph_of_meetings(true);
    // Hops that take turns are on the way of this graph.
    for (RankStep& step : steps) step.in_turn = 0;
    begin_in_turn.assign(begins.size(), 0);
  }
  give_rows();
  give_rows_of_all();
}

// Others' loops: a rank goes on when it has computed, sent and received; gradients of a step may travel
// until the next one ends. Tasks stand in the same order whether or not hops run beside attention.
TaskGraph RecordedRun::graph_of_meetings(bool hops_beside) const {
  TaskGraph graph;
  graph.world_size = ranks;
  const auto add = [&](const Task& task, const std::vector<std::int32_t>& earlier) {
    graph.tasks.push_back(task);
    graph.edges.insert(graph.edges.end(), earlier.begin(), earlier.end());
    graph.edge_begins.push_back(static_cast<std::uint32_t>(graph.edges.size()));
    return static_cast<std::int32_t>(graph.tasks.size()) - 1;
  };
  const auto turn_of = [&](Pass pass, Payload payload, int step, int rank) {
    const auto found = turns_.find({pass, payload, step, rank});
    return found == turns_.end() ? HopTurn::beside : found->second;
  };
  using TasksByRank = std::vector<std::vector<std::int32_t>>;
  std::vector<std::int32_t> ready;  // [rank]: the task after which it goes on
  for (int rank = 0; rank < ranks; ++rank)
    ready.push_back(add({.kind = Task::Kind::begin, .rank = rank}, {}));
  for (const Pass pass : kAllPasses) {
    TasksByRank on_their_way(ranks);  // gradients of the step before
    for (int step = 0; step < ranks && has(pass); ++step) {
      TasksByRank over = std::exchange(on_their_way, TasksByRank(ranks)), come(ranks);
      std::vector<std::int32_t> attended(ranks, -1);
      const auto attend = [&](bool is_after_hop) {
        for (int rank = 0; rank < ranks; ++rank) {
          if ((turn_of(pass, Payload::kv, step, rank) == HopTurn::before) != is_after_hop) continue;
          std::vector<std::int32_t> earlier = {ready[rank]};
          if (!hops_beside) earlier.insert(earlier.end(), come[rank].begin(), come[rank].end());
          attended[rank] = add({.pass = pass, .rank = rank, .step = step}, earlier);
          over[rank].push_back(attended[rank]);
        }
      };
      const auto move = [&](Payload payload, auto&& begins_after) {
        for (const RecordedHop& hop : hops) {
          if (hop.pass != pass || hop.step != step || hop.payload != payload) continue;
          std::vector<std::int32_t> earlier = {begins_after(hop.from), begins_after(hop.to)};
          // A gather begins when all ranks have come to it.
          for (int rank = 0; rank < ranks && gathers && payload == Payload::kv; ++rank)
            earlier.push_back(begins_after(rank));
          const std::int32_t task = add({.kind = Task::Kind::hop,
                                         .pass = pass,
                                         .payload = payload,
                                         .rank = hop.from,
                                         .step = step,
                                         .to = hop.to},
                                        earlier);
          for (const int end : {hop.from, hop.to}) {
            const bool is_awaited =
                payload == Payload::kv || step + 1 == ranks ||
                (!hops_beside && turn_of(pass, payload, step, end) != HopTurn::beside);
            come[end].push_back(task);
            (is_awaited ? over : on_their_way)[end].push_back(task);
          }
        }
      };
      attend(false);
      move(Payload::kv, [&](int rank) {
        const bool waits = turn_of(pass, Payload::kv, step, rank) == HopTurn::after;
        return waits && !hops_beside ? attended[rank] : ready[rank];
      });
      attend(true);
      move(Payload::dkv, [&](int rank) { return attended[rank]; });
      for (int rank = 0; rank < ranks; ++rank)
        ready[rank] =
            add({.kind = Task::Kind::await, .pass = pass, .rank = rank, .step = step}, over[rank]);
    }
  }
  return graph;
}

// Find what each task takes: its part, by work or bytes, of what its rank's step or the messages from
// its rank to another take. What was not recorded gets a row of its own.
void RecordedRun::give_rows() {
  for (auto& rows : step_rows_) rows.assign(std::size_t(ranks) * ranks, -1);
  for (std::size_t i = 0; i < steps.size(); ++i)
    row_of(steps[i].pass, steps[i].rank, steps[i].step) = static_cast<std::int32_t>(i);
  const TaskGraph& graph = replay_.graph;
  std::vector<std::int32_t>& row = replay_.row;
  std::vector<double>& part = replay_.part;
  struct Sum {
    double amount = 0, pairs = 0, count = 0;
  };
  std::vector<Sum> of_steps, of_hops;
  std::vector<HopKey> recorded;
  for (const RecordedHop& hop : hops) recorded.push_back(key_of(hop));
  // The hops of a rank mostly stand equally far from each other.
  std::size_t place = 0, distance = 0;
  const auto find_recorded = [&](HopKey key) {
    const std::size_t expected = place + distance;
    std::size_t found = expected;
    if (expected >= recorded.size() || recorded[expected] != key)
      found = std::lower_bound(recorded.begin(), recorded.end(), key) - recorded.begin();
    distance = found - place;
    place = found;
    return found < recorded.size() && recorded[found] == key ? found : hops.size();
  };
  std::vector<bool> has_begun(ranks);
  row.assign(graph.tasks.size(), -1);
  part.assign(graph.tasks.size(), 1);
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Task& task = graph.tasks[i];
    if (task.kind == Task::Kind::attend) {
      row[i] = row_of_step(task);
      part[i] = task.work.computed;
      of_steps.resize(steps.size());
      of_steps[row[i]].pairs += task.work.pairs;
    } else if (task.is_message()) {
      const RecordedHop hop{.pass = task.pass,
                            .payload = task.payload,
                            .way = way_of(task.rank, task.to),
                            .step = task.step,
                            .from = task.rank,
                            .to = task.to,
                            .bytes = task.bytes,
                            .messages = 1};
      row[i] = static_cast<std::int32_t>(find_recorded(key_of(hop)));
      part[i] = alone_s(hop);
      if (row[i] == std::ssize(hops)) hops.push_back(hop);
      of_hops.resize(hops.size());
    } else if (task.kind == Task::Kind::begin && !has_begun[task.rank]) {
      has_begun[task.rank] = true;
      row[i] = task.rank;
      continue;
    }
    if (row[i] < 0) continue;
    Sum& sum = (task.is_hop() ? of_hops : of_steps)[row[i]];
    sum.amount += part[i], ++sum.count;
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    const Task& task = graph.tasks[i];
    if (row[i] < 0 || task.kind == Task::Kind::begin) continue;
    const Sum& sum = (task.is_hop() ? of_hops : of_steps)[row[i]];
    part[i] = sum.amount > 0 ? part[i] / sum.amount : 1 / sum.count;
  }
  for (std::size_t i = 0; i < of_steps.size() && is_predicted_; ++i) {
    RankStep& step = steps[i];
    if (!step.known) step.pairs = of_steps[i].pairs;
    if (of_steps[i].count > 0)
      step.work = step.pairs > 0 ? std::max(of_steps[i].amount, step.pairs) : 0;
  }
}

// Return the row of an attention, which gets one if its rank's step was not recorded.
std::int32_t RecordedRun::row_of_step(const Task& task) {
  std::int32_t& row = row_of(task.pass, task.rank, task.step);
  if (row >= 0) return row;
  row = static_cast<std::int32_t>(steps.size());
  steps.push_back({.pass = task.pass, .rank = task.rank, .step = task.step, .owner = task.owner});
  return row;
}

// Give the loop in which nothing is left out a row for each step, without work where there was none.
void RecordedRun::give_rows_of_all() {
  std::map<std::int32_t, double> count;
  all_.row.assign(all_.graph.tasks.size(), -1);
  all_.part.assign(all_.graph.tasks.size(), 1);
  for (std::size_t i = 0; i < all_.row.size(); ++i) {
    const Task& task = all_.graph.tasks[i];
    if (task.kind == Task::Kind::attend) ++count[all_.row[i] = row_of_step(task)];
    if (task.kind == Task::Kind::begin && task.pass == Pass::forward) all_.row[i] = task.rank;
  }
  for (std::size_t i = 0; i < all_.row.size(); ++i)
    if (all_.graph.tasks[i].kind == Task::Kind::attend) all_.part[i] = 1 / count[all_.row[i]];
}

// Return what each hop takes where every rank gets as many rows of each block as the rank that needed
// most of them, at the pace that its link has in `durations`.
std::vector<double> RecordedRun::hop_seconds_of_all(const Durations& durations) const {
  struct PaceOfLink {
    double seconds = 0, alone = 0;
    double pace() const { return alone > 0 ? seconds / alone : 0; }
  };
  std::map<std::pair<int, int>, PaceOfLink> links;  // by both ends
  PaceOfLink all_links;
  std::map<std::pair<Pass, int>, double> most;  // bytes of a block's hop, by its step
  for (std::size_t i = 0; i < hops.size(); ++i) {
    const RecordedHop& hop = hops[i];
    for (PaceOfLink* const each : {&links[{hop.from, hop.to}], &all_links})
      each->seconds += durations.hops[i], each->alone += alone_s(hop);
    if (hop.payload != Payload::kv) continue;
    double& bytes = most[{hop.pass, hop.step}];
    bytes = std::max(bytes, hop.bytes);
  }
  std::map<std::pair<Pass, int>, double> whole;  // the same of whole blocks
  for (const Task& task : all_.graph.tasks)
    if (task.is_message() && task.payload == Payload::kv)
      whole[{task.pass, task.step}] = std::max(whole[{task.pass, task.step}], task.bytes);
  std::vector<double> seconds(all_.graph.tasks.size(), 0);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Task& task = all_.graph.tasks[i];
    if (!task.is_message()) continue;
    // A gradient has the rows of its block, which came a hop earlier.
    const std::pair block(task.pass, task.step - (task.payload == Payload::dkv && task.step > 0));
    const auto sent = most.find(block);
    if (sent == most.end()) continue;
    const RecordedHop hop{.way = way_of(task.rank, task.to),
                          .from = task.rank,
                          .to = task.to,
                          .bytes = task.bytes * sent->second / std::max(whole[block], 1.0)};
    const auto known = links.find({task.rank, task.to});
    seconds[i] = (known != links.end() ? known->second : all_links).pace() * alone_s(hop);
  }
  return seconds;
}

double RecordedRun::replayed_s(const Durations& durations) const {
  const Replay& replay = durations.attends_all ? all_ : replay_;
  std::vector<double> seconds = durations.attends_all
                                    ? hop_seconds_of_all(durations)
                                    : std::vector<double>(replay.graph.tasks.size(), 0);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const Task& task = replay.graph.tasks[i];
    const auto& column = task.is_hop()                     ? durations.hops
                         : task.kind == Task::Kind::attend ? durations.steps
                                                           : durations.begins;
    if (replay.row[i] >= 0) seconds[i] = replay.part[i] * column[replay.row[i]];
  }
  const bool beside = durations.hops_beside && !durations.attends_all && !beside_.tasks.empty();
  return evaluate(beside ? beside_ : replay.graph, seconds, {.count = durations.cores}).wall_s();
}

}  // namespace ringscope
