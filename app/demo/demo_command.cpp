// `ringscope demo`: causal ring attention on a real text, on four ranks in all four partitions, each
// verified against one oracle and recorded; a table of the differences, a picture, and the viewer.
// Ranks are threads, which may have to share cores. So all times are those of ideal timelines, the
// same on every machine.
#include "app/command_line/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/report.h"
#include "app/run/run.h"
#include "app/view/view_command.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/program.h"
#include "core/base/text.h"
#include "core/threads/run.h"
#include "core/tools/sim/recording.h"

namespace ringscope {

struct DemoOptions {
  std::string text;  // "": the text that lies beside the program
  std::string out = "runs/demo";
  Index seqlen = 8192;
  bool no_view = false;  // do not open a window, even on a display
};

namespace {

constexpr int kWorldSize = 4;
constexpr Index kHeads = 4, kHeadDim = 64;
constexpr Index kVerifiedRows = 1024;  // of each head; a sample keeps verifying a matter of seconds
constexpr const char* kOwnCores = "own_cores";  // folder of the ideal timelines

// Return the options with which `ringscope run` would record the same trace, in a folder of --out.
RunOptions run_options(const DemoOptions& demo, PartitionKind partition, const char* folder = "") {
  RunOptions run;
  run.text = demo.text;
  run.job.shape = {1, kHeads, kHeads, demo.seqlen, kHeadDim};
  run.world_size = kWorldSize;
  run.job.partition = partition;
  run.job.mask = MaskSpec::parse("causal");
  run.trace =
      (std::filesystem::path(demo.out) / folder / (std::string(name_of(partition)) + ".json"))
          .string();
  return run;
}

// Return the options with which `ringscope view` would show the ideal timelines side by side.
viz::ViewOptions view_options(const DemoOptions& demo) {
  viz::ViewOptions view;
  for (const PartitionKind partition : kAllPartitions)
    view.traces.push_back(*run_options(demo, partition, kOwnCores).trace);
  view.axis = "time";  // who is done when
  return view;
}

std::string picture_path(const DemoOptions& demo) {
  return (std::filesystem::path(demo.out) / "compare.png").string();
}

// Return the path of the program's sources as one text. The file lies beside the program in a build
// and in share/ in an installation.
std::string own_sources() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path :
       {folder / "sources.txt", folder.parent_path() / "share/ringscope/sources.txt"})
    if (fs::exists(path, error)) return path.lexically_proximate(fs::current_path(error)).string();
  throw InputError("--text: the program's own sources are not beside it; accepted: --text FILE");
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!std::filesystem::is_directory(path))
    throw InputError(fmt::format("--out '{}': {}; accepted: a folder that exists or can be made",
                                 path, error ? error.message() : "not a folder"));
}

// Return "least - most" in `unit`s, or a single number when both read the same.
template <class T>
std::string range_text(const std::vector<T>& values, double unit, const char* name, int decimals) {
  const auto [least, most] = std::ranges::minmax_element(values);
  const auto text = [&](T value) {
    return fmt::format("{:.{}f}", static_cast<double>(value) / unit, decimals);
  };
  const std::string low = text(*least), high = text(*most);
  return (low == high ? low : low + " - " + high) + " " + name;
}

// Return the seconds until the last event of a timeline that begins at 0.
double wall_s(const Recording& timeline) {
  std::int64_t end_ns = 0;
  for (const auto& events : timeline.events)
    for (const TraceEvent& event : events) end_ns = std::max(end_ns, event.end_ns);
  return 1e-9 * static_cast<double>(end_ns);
}

Fields table_fields(const Report& report) {
  std::vector<Index> pairs;
  std::vector<double> busy, waiting;
  Index sent = 0;
  for (const RankSummary& rank : report.summary.ranks) {
    pairs.push_back(rank.pairs);
    busy.push_back(rank.compute_s);
    waiting.push_back(rank.wait_s);
    sent += rank.bytes_sent;
  }
  double error = 0;
  for (const TensorVerdict& t : report.verdict->tensors) error = std::max(error, t.error.max_abs);
  return {{"", name_of(report.config.partition), "a rank has:", -11},
          {"", range_text(pairs, 1e6, "M", 1), "pairs", 15},
          {"", range_text(busy, 1e-3, "ms", 1), "busy", 16},
          {"", range_text(waiting, 1e-3, "ms", 1), "waiting", 16},
          {"", fmt::format("{:.1f} ms", 1e3 * report.wall_s), "done in", 10},
          {"", bytes_text(report.peak_bytes), "peak", 10},
          {"", bytes_text(sent), "all sent", 11},
          {"", ratio_text(report.summary.imbalance), "imbalance", 11},
          {"", ratio_text(report.predicted_balance_ceiling), "ceiling", 9},
          {"", fmt::format("{:.1e} {}", error, report.verdict->pass() ? "verified" : "WRONG"),
           "max error", 17}};
}

// Draw the pairs of every (rank, step) as the height of a character, side by side for all
// partitions. A full block means that every query of a rank attends to every key of a block.
std::string work_picture(const std::vector<Report>& reports) {
  constexpr const char* kHeights[] = {"\u00b7", "\u2581", "\u2582", "\u2583", "\u2584",
                                      "\u2585", "\u2586", "\u2587", "\u2588"};
  std::string text = fmt::format("{:<11}", "work by step");
  for (const Report& report : reports)
    text += fmt::format("  {:<12}", name_of(report.config.partition));
  for (std::size_t rank = 0; rank < kWorldSize; ++rank) {
    text += fmt::format("\nrank {:<6}", rank);
    for (const Report& report : reports) {
      const double rows = static_cast<double>(report.config.partition_of_sequence().max_rows());
      text += "   ";
      for (const Index pairs : report.summary.ranks[rank].pairs_by_step)
        text += kHeights[static_cast<int>(
            std::ceil(8 * static_cast<double>(pairs) / (rows * rows) - 0.5))];
      text += std::string(11 - report.summary.ranks[rank].pairs_by_step.size(), ' ');
    }
  }
  return text + "\n";
}

std::string closing_lines(const std::vector<Report>& reports) {
  const auto ceiling = &Report::predicted_balance_ceiling;
  const auto worst = std::ranges::min_element(reports, {}, ceiling);
  const auto best = std::ranges::max_element(reports, {}, ceiling);
  return fmt::format(
             "All four compute the same attention. With a core for each rank, {} could finish "
             "{:.2f} times sooner than {}, where every step waits for the rank with most to do.\n",
             name_of(best->config.partition),
             best->predicted_balance_ceiling / worst->predicted_balance_ceiling,
             name_of(worst->config.partition)) +
         shared_cores_text(kWorldSize, "the recordings' own times include");
}

// Draw the timelines as a picture and return lines that say how to look closer.
std::string show(const DemoOptions& options) {
  viz::ViewOptions view = view_options(options);
  if (const std::string no_viewer = why_no_viewer(); !no_viewer.empty())
    return fmt::format("Traces: {}; no picture of them: {}. They open in https://ui.perfetto.dev\n",
                       fmt::join(view.traces, " "), no_viewer);
  const std::string closer =
      fmt::format("{} view {} --axis {}", own_command(), fmt::join(view.traces, " "), *view.axis);
  const std::string recorded = (std::filesystem::path(options.out) / "*.json").string();
  view.screenshot = picture_path(options);
  carry_out(view);
  return fmt::format("All four side by side: {}\nLook closer: {}\nAs recorded here: {} view {}\n",
                     *view.screenshot, closer, own_command(), recorded);
}

// Return whether somebody can see a window.
bool somebody_looks(const DemoOptions& options) {
  return !options.no_view && can_show_windows() && ::isatty(STDOUT_FILENO) == 1 &&
         std::getenv("CI") == nullptr;
}

}  // namespace

int carry_out(const DemoOptions& given) {
  DemoOptions options = given;
  if (options.text.empty()) options.text = own_sources();
  const RunOptions first = run_options(options, kAllPartitions[0]);
  const InputPlan plan = plan_inputs(first);
  make_folder(options.out);
  make_folder((std::filesystem::path(options.out) / kOwnCores).string());
  Problem config;
  config.shape = plan.shape;
  config.mask = first.job.mask;
  config.world_size = kWorldSize;
  for (const char* folder : {"", kOwnCores})
    for (const PartitionKind partition : kAllPartitions)
      check_output_places(output_places(run_options(options, partition, folder)), plan.files,
                          false);
  check_output_places({{"the picture", picture_path(options)}}, plan.files, false);
  require_memory(config, {.verify = true, .keeps_reference = true});

  const AttentionInputs inputs = load_inputs(first, plan).tensors;
  print_out(fmt::format(
      "{}: the first {} bytes as tokens, {} ranks, {} heads, head_dim {}, {}, causal\n",
      options.text, plan.shape.seqlen, kWorldSize, kHeads, kHeadDim, name_of(config.dtype)));
  const std::vector<Index> queries = sampled_queries(plan.shape.seqlen, kVerifiedRows, first.seed);
  print_out(fmt::format(
      "compared with naive attention in f64: {} query rows of each head\n"
      "times: simulated, the counted work at {:.0f} GFLOP/s a rank, each with a "
      "core of its own\n\n",
      queries.empty() ? "all" : fmt::format("a random {} of {}", queries.size(), plan.shape.seqlen),
      kIdealFlopsPerNs));
  const Reference reference = [&] {
    ProgressBar bar("reference");
    return Reference(config, inputs, runner_of(Backend::cpu, {}), bar.callback(), queries);
  }();
  std::vector<Report> reports;
  for (const PartitionKind partition : kAllPartitions) {
    config.partition = partition;
    RingRun run = [&] {
      ProgressBar bar(std::string(name_of(partition)));
      return run_on_threads(config, inputs, {bar.callback()});
    }();
    write_outputs(run_options(options, partition), config, run, false);
    run.recording = ideal_timeline(std::move(run.recording));
    run.wall_s = wall_s(run.recording);
    write_trace(run_options(options, partition, kOwnCores), run.recording);
    reports.push_back(make_report(config, run, reference.judge(run.outputs)));
    const Fields row = table_fields(reports.back());
    if (reports.size() == 1) print_out(table_head(row) + "\n");
    print_out(table_row(row) + "\n");
  }
  print_out("\n" + work_picture(reports) + "\n" + closing_lines(reports));
  print_out(show(options));
  for (const Report& report : reports) {
    if (report.verdict->pass()) continue;
    print_error(
        fmt::format("{}: {}", name_of(report.config.partition), report.verdict->complaint()));
    return 1;
  }
  if (somebody_looks(options)) {
    print_out("The viewer is open; --no-view does without.\n");
    try {
      carry_out(view_options(options));
    } catch (const std::exception& error) {
      print_error(error.what());  // the demo itself has succeeded
    }
  }
  return 0;
}

Finish declare_demo(CommandFlags& flags) {
  const auto demo = std::make_shared<DemoOptions>();
  flags.path("--text", demo->text,
             "the text, at least --seqlen bytes (this program's own sources)");
  flags.text("--out", "DIR", demo->out,
             "folder for the traces; made when it is missing (runs/demo)");
  flags.flag("--no-view", demo->no_view, "don't open the viewer at the end");
  flags.integer("--seqlen", demo->seqlen, "tokens (8192)");
  return [demo] { return *demo; };
}

}  // namespace ringscope
