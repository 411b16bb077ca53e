#include "lessons/book/zoo.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/sim/recording.h"
#include "core/sim/scenario.h"
#include "lessons/book/ending.h"
#include "lessons/book/lesson.h"
#include "lessons/book/source.h"
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
  problem.timeout_s = 0.5;
  for (std::size_t i = 2; i + 1 < words.size(); ++i) {
    const std::string &flag = words[i], &value = words[i + 1];
    const auto number = parse_number<int>(value).value_or(0);
    if (flag == "--seqlen") problem.shape.seqlen = number;
    if (flag == "--heads") problem.shape.num_heads = number;
    if (flag == "--heads-kv") problem.shape.num_heads_kv = number;
    if (flag == "--head-dim") problem.shape.head_dim = number;
    if (flag == "--world-size") problem.world_size = world_size > 0 ? world_size : number;
    if (flag == "--mask") problem.mask = MaskSpec::parse(value);
    if (flag == "--partition") problem.partition = PartitionSpec::parse(value);
    if (flag == "--dtype") problem.dtype = parse_dtype(value);
  }
  problem.backward = std::count(words.begin(), words.end(), "--backward") > 0;
  return problem;
}

NaiveResult<double> in_f64(const AttentionOutputs& outputs) {
  const auto f64 = [](const std::vector<float>& x) {
    return std::vector<double>(x.begin(), x.end());
  };
  return {f64(outputs.out), f64(outputs.lse), f64(outputs.dq), f64(outputs.dk), f64(outputs.dv)};
}

Recording with_slow_rank(const Problem& problem, double speed) {
  Scenario scenario;
  scenario.job = problem;
  scenario.pace = Pace::buffers;
  scenario.rates = {.forward_flops = 1e9, .backward_flops = 1e9, .bytes_per_s = 1e10};
  scenario.stragglers = {{problem.world_size - 1, speed}};
  return record({.job = problem, .pace = scenario.pace}, work_of(scenario), machine_of(scenario),
                partition_name(scenario), std::nullopt)
      .recording;
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

std::string times_of(const Recording& recording) {
  const RunSummary summary = summarize(recording);
  const auto [hops, over] = hops_over_before_computing(recording);
  std::string text;
  for (std::size_t rank = 0; rank < summary.ranks.size(); ++rank)
    text += fmt::format("rank {}: computed {:.3f} ms, waited {:.3f} ms, last for rank {}\n", rank,
                        1e3 * summary.ranks[rank].compute_s, 1e3 * summary.ranks[rank].wait_s,
                        last_awaited(recording, static_cast<int>(rank)));
  return text +
         fmt::format("of {} hops, {} were over before the step beside them began\n", hops, over);
}

std::string names_of_bugs() {
  std::string names;
  for (const Bug& bug : zoo()) names += (names.empty() ? "" : ", ") + bug.name;
  return names;
}

}  // namespace

std::vector<Bug> parse_zoo(std::string_view page) {
  std::vector<Bug> bugs;
  std::string name, text;
  for (const std::string& line : lines_of(std::string(page) + "\n## end")) {
    if (!line.starts_with("## ")) {
      text += line + "\n";
      continue;
    }
    if (!name.empty()) bugs.push_back(bug_from(name, text));
    name = line.substr(3);
    text.clear();
  }
  // Bugs that are alike stand side by side.
  for (std::size_t i = 0; i < bugs.size(); ++i) {
    for (const std::size_t next : {std::size_t{0}, std::size_t{1}, std::size_t{2}, bugs.size() - 1})
      bugs[i].choices.push_back(bugs[(i + next) % bugs.size()].name);
    std::sort(bugs[i].choices.begin(), bugs[i].choices.end());
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
  throw InputError(fmt::format("lesson zoo: '{}' given; accepted: {}", name, names_of_bugs()));
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
  for (const Mistake mistake : kAllMistakes)
    if (with_bug && name_of(mistake) == bug.name) ring.mistake = mistake;
  const bool is_slow = bug.name == name_of(Fault::straggler);
  if (with_bug && !ring.mistake && !is_slow) run.injection = parse_injection(bug.name);
  AttentionInputs in = random_inputs(run.shape, seed);
  if (!run.backward) in.dout.clear();
  Ending ending = ending_of(run, in);
  e.ending = ending.message;
  e.recording = is_slow ? with_slow_rank(run, with_bug ? 0.5 : 1) : std::move(ending.recording);
  if (ending.outputs.out.empty()) return e;

  const CheckedProblem checked = checked_problem(run);
  const CheckedInputs inputs = stored_inputs(run, in);
  e.mine = in_f64(ending.outputs);
  if (ring.mistake) {
    e.mine = make_mistake(checked, inputs, ring);
    for (const Tensor tensor : output_tensors(run.backward))
      for (double& x : values_of(e.mine, tensor))
        x = stored_as(tensor == Tensor::lse ? DType::f32 : run.dtype, x);
  }
  e.right = oracle_of(checked, inputs, {});
  const DiagnosisOptions options{.dtype = run.dtype};
  e.verdict = check_outputs(checked, inputs, e.right, e.mine, options);
  e.maps = error_maps(checked, inputs, e.right, e.mine, e.verdict, options);
  return e;
}

std::string Evidence::text() const {
  std::string text =
      fmt::format("{} positions, {} ranks, {}, mask {}, {}: the run {}\n\n", problem.shape.seqlen,
                  problem.world_size, problem.partition.name(), problem.mask.name(),
                  name_of(problem.dtype), mine.out.empty() ? "fails: " + ending : "ends well");
  if (mine.out.empty()) return text;
  text += table_of(*this);
  if (!maps.empty()) text += map_text(maps.front());
  return verdict.result == CheckResult::exact ? text + "\n" + times_of(recording) : text;
}

void show_bug(Console& console, const Bug& bug) {
  for (const std::string& line : lines_of(bug.text))
    if (!line.empty())
      console.write(line.starts_with("    ") ? line + "\n\n" : wrapped_text(console, line, ""));
}

void ask_for_bugs(Console& console, std::uint64_t seed) {
  std::vector<std::size_t> order(zoo().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (console.somebody_reads()) std::shuffle(order.begin(), order.end(), std::mt19937_64(seed));
  console.write(wrapped_text(console, "The zoo has " + names_of_bugs() + ".", ""));
  int asked = 0, right = 0;
  for (const std::size_t next : order) {
    const Bug& bug = zoo()[next];
    std::string question = evidence_of(bug, seed).text() + "\nWhich bug is this?\n";
    for (std::size_t i = 0; i < bug.choices.size(); ++i)
      question += fmt::format("  {} {}\n", i + 1, bug.choices[i]);
    console.write(fmt::format("\n--- {} of {} ---\n\n{}", asked + 1, order.size(), question));
    if (console.somebody_reads()) {
      console.write("1 to 4, or q to stop: ");
      const std::optional<std::string> line = console.read_line();
      if (!line || *line == "q") break;
      const auto choice = parse_number<std::size_t>(*line).value_or(0);
      const bool is_it = choice >= 1 && choice <= 4 && bug.choices[choice - 1] == bug.name;
      right += is_it;
      console.write(is_it ? "Yes.\n" : "No. ");
    }
    ++asked;
    console.write(fmt::format("It is {}.\n", bug.name));
    show_bug(console, bug);
  }
  if (console.somebody_reads()) console.write(fmt::format("{} of {} right.\n", right, asked));
}

}  // namespace ringscope::lessons
