#include "lessons/book/zoo.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/ring/problem_rows.h"
#include "core/tools/explain/explain.h"
#include "core/tools/sim/recording.h"
#include "core/tools/sim/scenario.h"
#include "core/trace/summary.h"
#include "lessons/book/ending.h"
#include "lessons/book/lesson.h"
#include "lessons/book/tables.h"

namespace ringscope::lessons {
namespace {

constexpr std::string_view kSeen = "- **Seen:** ";

// Return what follows `beginning` in the line of `text` that begins with it, up to `end`.
std::string part_of(const std::string& text, std::string_view beginning, std::string_view end) {
  const std::size_t at = text.find(beginning);
  if (at == std::string::npos) return "";
  const std::size_t from = at + beginning.size();
  return text.substr(from, std::min(text.find(end, from), text.find('\n', from)) - from);
}

Bug bug_from(const std::string& name, const std::string& text) {
  Bug bug{name, text, {}, part_of(text, kSeen, ". "), {}};
  const std::string command = part_of(text, "    ", "\n");
  for (const std::string_view word : split(command, ' ')) bug.words.emplace_back(word);
  if (bug.symptom.empty() || part_of(text, "--inject ", " ") != name)
    throw std::logic_error("lessons/zoo.md, " + name + ": no symptom, or no command");
  return bug;
}

// Return the words' problem on `world_size` ranks, or on as many as they say.
Problem problem_of(const std::vector<std::string>& words, int world_size) {
  Problem problem;
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::string& flag = words[i];
    if (flag == "--backward") problem.backward = true;
    if (flag == "--backward" || flag == "--random" || flag == "--verify") continue;
    const std::string& value = words.at(++i);
    if (flag == "--timeout")
      problem.timeout_s = number_in(value, kAbove0);
    else if (flag != "--inject" && flag != "--trace" &&
             !read_member(problem, flag.substr(2), value, flag))
      throw std::logic_error("lessons/zoo.md: nobody knows how to run " + flag);
    if (flag == "--world-size" && world_size > 0) problem.world_size = world_size;
  }
  return problem;
}

NaiveResult<double> all_in_f64(const AttentionOutputs& outputs) {
  return {in_f64(outputs.out), in_f64(outputs.lse), in_f64(outputs.dq), in_f64(outputs.dk),
          in_f64(outputs.dv)};
}

Recording with_slow_rank(const Problem& problem, double speed) {
  Scenario scenario;
  scenario.job = problem;
  scenario.pace = Pace::buffers;
  scenario.rates = {.forward_flops = 1e9, .backward_flops = 1e9, .bytes_per_s = 1e10};
  scenario.stragglers = {{problem.world_size - 1, speed}};
  return record(scenario).recording;
}

// ---
// The quiz.

std::string table_of(const Evidence& e) {
  std::string text = "tensor   largest error\n";
  for (const TensorCheck& t : e.verdict.tensors)
    text += fmt::format("{:<8}{:>14}{}\n", t.name(),
                        t.disagreeing_non_finite > 0
                            ? fmt::format("{} NaN, inf", t.disagreeing_non_finite)
                            : fmt::format("{:.3g}", t.max_abs),
                        t.passes() ? "" : "   wrong");
  return text;
}

// Return what `ringscope explain` finds in a recording, a line each.
std::string findings_of(const Recording& recording) {
  const bool is_empty = std::all_of(recording.events.begin(), recording.events.end(),
                                    [](const auto& events) { return events.empty(); });
  if (is_empty) return "";
  std::string text;
  for (const Diagnosis& finding : explain(recording).findings)
    text += "explain finds: " + headline_of(finding) + "\n";
  return text.empty() ? "explain finds nothing that costs time\n" : text;
}

std::string times_of(const Recording& recording) {
  const RunSummary summary = summarize(recording);
  const auto [hops, over] = hops_over_before_computing(recording);
  std::string text;
  for (std::size_t rank = 0; rank < summary.ranks.size(); ++rank) {
    const int awaited = last_awaited(recording, static_cast<int>(rank));
    text += fmt::format("rank {}: computed {:.3f} ms, waited {:.3f} ms{}\n", rank,
                        1e3 * summary.ranks[rank].compute_s, 1e3 * summary.ranks[rank].wait_s,
                        awaited < 0 ? "" : fmt::format(", last for rank {}", awaited));
  }
  return text +
         fmt::format("of {} hops, {} were over before the step beside them began\n", hops, over) +
         findings_of(recording);
}

}  // namespace

std::vector<Bug> parse_zoo(std::string_view page) {
  std::vector<Bug> bugs;
  for (const auto& [name, text] : sections_of(page)) bugs.push_back(bug_from(name, text));
  // Bugs that are alike stand side by side. All bugs of a group have the same choices.
  for (std::size_t i = 0; i < bugs.size(); ++i) {
    const std::size_t last = std::min(i / 4 * 4 + 4, bugs.size());
    for (std::size_t k = last < 4 ? 0 : last - 4; k < last; ++k)
      bugs[i].choices.push_back(bugs[k].name);
  }
  return bugs;
}

const std::vector<Bug>& zoo() {
  static const std::vector<Bug> bugs = parse_zoo(embedded_text("lessons/zoo.md"));
  return bugs;
}

const Bug& bug_of(const std::string& name) {
  for (const Bug& bug : zoo())
    if (bug.name == name) return bug;
  throw InputError(fmt::format("lesson zoo: '{}' given; accepted: {}", name, names_of_all(zoo())));
}

std::pair<Index, Index> hops_over_before_computing(const Recording& recording) {
  Index hops = 0, over = 0;
  for (const std::vector<TraceEvent>& events : recording.events)
    for (const TraceEvent& hop : events)
      for (const TraceEvent& step : events)
        if (hop.lane == Lane::recv && hop.payload == Payload::kv && step.lane == Lane::compute &&
            hop.pass == step.pass && hop.step == step.step) {
          ++hops;
          over += hop.end_ns <= step.begin_ns;
        }
  return {hops, over};
}

Evidence evidence_of(const Bug& bug, std::uint64_t seed, bool with_bug, int world_size) {
  Evidence e{.problem = problem_of(bug.words, world_size)};
  Problem run = e.problem;
  MistakenRing ring;
  for (const Mistake mistake : kRingMistakes)
    if (with_bug && name_of(mistake) == bug.name) ring.mistake = mistake;
  const bool is_slow = bug.name == name_of(Fault::straggler);
  if (with_bug && !ring.mistake && !is_slow) run.injection = parse_injection(bug.name);
  AttentionInputs in = random_inputs(run.shape, seed);
  if (!run.backward) in.dout.clear();
  Ending ending = is_slow ? Ending{"ends well", with_slow_rank(run, with_bug ? 0.5 : 1), {}}
                          : ending_of(run, in);
  e.ending = ending.message;
  e.recording = std::move(ending.recording);
  if (ending.outputs.out.empty() && !is_slow) return e;

  const CheckedProblem checked = checked_problem(run);
  const CheckedInputs inputs = stored_inputs(run, in);
  e.mine = all_in_f64(ending.outputs);
  if (ring.mistake || is_slow) {
    e.mine = make_mistake(checked, inputs, ring);
    for (const Tensor tensor : output_tensors(run.backward))
      for (double& x : values_of(e.mine, tensor))
        x = stored_as(tensor == Tensor::lse ? DType::f32 : run.dtype, x);
  }
  e.right = oracle_of(checked, inputs, {});
  const DiagnosisOptions options{.dtype = run.dtype};
  e.verdict = check_outputs(checked, inputs, e.right, e.mine, options);
  return e;
}

std::string Evidence::text() const {
  std::string text =
      fmt::format("{} positions, {} ranks, {}, mask {}, {}: the run {}\n\n", problem.shape.seqlen,
                  problem.world_size, problem.partition.name(), problem.mask.name(),
                  name_of(problem.dtype), mine.out.empty() ? "fails: " + ending : "ends well");
  if (mine.out.empty()) return text + findings_of(recording);
  text += table_of(*this);
  if (!verdict.maps.empty()) text += map_text(verdict.maps.front());
  return verdict.result == CheckResult::exact ? text + "\n" + times_of(recording) : text;
}

void ask_for_bugs(Terminal& terminal, std::uint64_t seed) {
  std::vector<std::size_t> order(zoo().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  int shown = 0;
  try {
    for (const std::size_t next : order) {
      const Bug& bug = zoo()[next];
      std::vector<std::string> choices = bug.choices;
      std::shuffle(choices.begin(), choices.end(), std::mt19937_64(seed + next));
      terminal.show(fmt::format("## {} of {}\n\n```text\n{}```\n\nWhich bug is this?\n\n- {}\n",
                                ++shown, order.size(), evidence_of(bug, seed).text(),
                                fmt::join(choices, "\n- ")));
      terminal.ask("Your guess");
      terminal.show("It is " + bug.name + ".\n\n" + bug.text);
    }
  } catch (const ReaderStopped&) {
  }
}

}  // namespace ringscope::lessons
