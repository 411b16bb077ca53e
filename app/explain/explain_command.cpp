// `ringscope explain`: why recorded runs took as long as they did, and for whom a hung job waits, as
// sentences or as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/command_line/commands.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/terminal.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "core/tools/explain/explain.h"
#include "core/tools/foreign/flight_recorder.h"
#include "core/tools/foreign/kineto.h"
#include "core/trace/chrome_trace.h"
#include "core/trace/rank_events.h"

namespace ringscope {

struct ExplainOptions {
  std::vector<std::string> traces;
  std::vector<std::string> attention;  // parts of kernels' names
  bool json = false;
};

namespace {

std::string text_of(const Explanation& why) {
  std::string text;
  for (const std::string& note : why.notes) text += note + "\n";
  if (why.wall_s > 0) text += fmt::format("The run took {}.\n", seconds_text(why.wall_s));
  int number = 0;
  for (const Diagnosis& finding : why.findings)
    text += fmt::format("{}. {}\n", ++number, sentence_of(finding));
  if (why.findings.empty() && why.wall_s > 0)
    text += "Nothing that can be mended costs 1 % of it.\n";
  if (why.wall_s > 0 && why.transfers_s >= kLeastShare * why.wall_s)
    text += fmt::format(
        "Without all that, {} would still be lost to {}\n", seconds_text(why.transfers_s),
        why.gathers
            ? "the gather of keys and values, during which too little is attended, or nothing. A "
              "ring would hide it."
            : "the way of the blocks, which takes longer than the computation beside it. Faster "
              "links or more rows per rank would hide it.");
  return text;
}

Fields fields_of(const Explanation& why) {
  std::vector<Fields> findings;
  for (const Diagnosis& finding : why.findings) {
    Fields fields{{"cause", name_of(finding.cause)}};
    if (finding.rank >= 0) fields.emplace_back("rank", finding.rank);
    if (finding.from >= 0) fields.emplace_back("link", std::vector<int>{finding.from, finding.to});
    findings.push_back(fields + Fields{{"ms", 1e3 * finding.saved_s},
                                       {"share", finding.share},
                                       {"confidence", finding.confidence},
                                       {"evidence", finding.evidence}});
  }
  Fields fields{
      {"wall_ms", 1e3 * why.wall_s}, {"findings", findings}, {"exposed_ms", 1e3 * why.transfers_s}};
  if (!why.notes.empty()) fields.emplace_back("notes", why.notes);
  return fields;
}

// One trace, or the flight recorder's dumps of one job.
struct Explained {
  std::string path;
  Explanation why;
  bool has_ring = true;  // false: profiles in which none is seen
  std::vector<ProfiledLayer> layers = {};
};

Fields fields_of(const ProfiledLayer& time) {
  return {
      {"iteration", time.iteration, "iteration", 9},
      {"layer", time.layer, "layer", 7},
      {"ms", 1e3 * time.seconds, "time", 12, [&](double) { return seconds_text(time.seconds); }},
      {"slowest_rank", time.slowest_rank, "  slowest rank", 0,
       [&](int rank) {
         return fmt::format("  {} ({:.2f} times the median)", rank, time.slowness);
       }},
      {"slowness", time.slowness}};
}

// Return all layers of profiles in a table, of long ones the first and the last.
std::string table_of(const std::vector<ProfiledLayer>& layers) {
  constexpr std::size_t kMostRows = 40;
  if (layers.size() < 2) return "";
  std::string text = table_head(fields_of(layers[0])) + "\n";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers.size() > kMostRows && i == kMostRows / 2) {
      text += fmt::format("{} more; --json has them all\n", layers.size() - kMostRows);
      i = layers.size() - kMostRows / 2;
    }
    text += table_row(fields_of(layers[i])) + "\n";
  }
  return text;
}

// Return whether a recording of ours, whose head stands first, begins so.
bool is_ours(const std::string& path) {
  return start_of_file(path, 4096).find("\"ring\":") != std::string::npos;
}

// The file of one rank of a run (run --trace DIR/), with what was joined to it.
struct OneRanks {
  std::string path;
  Recording recording;
};

void take_rank(std::vector<OneRanks>& runs, const std::string& path, Recording recording) {
  for (OneRanks& run : runs)
    if (is_rank_of_run(recording, run.recording))
      return join_rank(run.recording, std::move(recording));
  runs.push_back({path, std::move(recording)});
}

// Join what lies beside the file of one rank.
void join_neighbours(OneRanks& run) {
  const std::string folder = std::filesystem::path(run.path).parent_path().string();
  for (const std::string& file : files_in({folder.empty() ? "." : folder})) try {
      if (!is_ours(file)) continue;
      Recording other = read_chrome_trace(file);
      if (is_rank_of_run(other, run.recording)) join_rank(run.recording, std::move(other));
    } catch (const InputError&) {  // not a file of this run
    }
}

// Explain a recording. Of one that is cut off, say what is left of it.
Explanation explain_recording(const std::string& path, const Recording& recording,
                              HowWhole how = HowWhole::whole) {
  Explanation why;
  if (how != HowWhole::part) why = for_flag(path + ":", [&] { return explain(recording); });
  if (how == HowWhole::whole) return why;
  const auto is_empty = [](const auto& events) { return events.empty(); };
  const auto lack = std::ranges::count_if(recording.events, is_empty);
  std::string note = path + " is cut off; what is whole was read";
  if (how == HowWhole::part)
    note += ", which is too little to say why the run took so long: " +
            (lack > 0 ? fmt::format("{} of {} ranks lack", lack, recording.events.size())
                      : std::string("slices lack"));
  why.notes.insert(why.notes.begin(), note + ".");
  return why;
}

// What other programs left of one job, each kind for itself: what stands on the command line, or
// what lies in a folder.
struct OneJob {
  std::string folder = {};
  std::vector<FlightDump> dumps = {};
  std::vector<RankProfile> profiles = {};
};

// Explain the ring that is seen in the profiles of a job's ranks, or say why none is.
Explained explain_profiles(const std::string& path, const std::vector<RankProfile>& profiles) {
  InferredRing ring = infer_ring(profiles);
  Explanation why;
  if (ring.recording) why = explain_recording(profiles[0].path, *ring.recording);
  why.notes = std::move(ring.notes);
  return {path, std::move(why), ring.recording.has_value(), std::move(ring.layers)};
}

void explain_job(const OneJob& job, std::vector<Explained>& all) {
  const auto name = [&](const std::string& first) {
    return job.folder.empty() ? first : job.folder;
  };
  if (!job.profiles.empty())
    all.push_back(explain_profiles(name(job.profiles[0].path), job.profiles));
  if (!job.dumps.empty()) all.push_back({name(job.dumps[0].file), explain_hang(job.dumps)});
}

// Explain what the command line names. In a folder, whatever is no dump is passed over if there are
// dumps.
std::vector<Explained> explain_all(const ExplainOptions& options) {
  std::vector<Explained> all;
  OneJob loose;
  std::vector<OneRanks> runs;
  for (const std::string& path : options.traces) {
    const std::vector<std::string> files = files_in({path});
    OneJob in_folder{.folder = path};
    OneJob& job = files[0] != path ? in_folder : loose;
    std::vector<std::string> others;
    for (const std::string& file : files) {
      if (may_be_flight_dump(start_of_file(file, 4096)))
        job.dumps.push_back(read_flight_dump(file));
      else
        others.push_back(file);
    }
    if (!in_folder.dumps.empty()) {
      explain_job(in_folder, all);
      for (const std::string& file : others) all.back().why.notes.push_back(file + " is no dump.");
      continue;
    }
    for (const std::string& file : others) {
      std::optional<RankProfile> profile;
      if (!is_ours(file)) profile = read_profile(file, options.attention);
      if (profile && profile->rank < 0)
        throw InputError(
            file +
            ": no \"ring\" object of a recording, and no \"rank\" in \"distributedInfo\" of a "
            "profile; one "
            "of them accepted, or a file's name with its rank, as in rank3.pt.trace.json");
      if (profile) {
        job.profiles.push_back(std::move(*profile));
        continue;
      }
      HowWhole how = HowWhole::whole;
      Recording recording = read_chrome_trace(file, &how);
      if (how == HowWhole::whole && only_rank_of(recording) >= 0 &&
          recording.info.backend != "sim") {
        take_rank(runs, file, std::move(recording));
      } else {
        all.push_back({file, explain_recording(file, recording, how)});
      }
    }
    explain_job(in_folder, all);
  }
  for (OneRanks& run : runs) {
    join_neighbours(run);
    all.push_back({run.path, explain_recording(run.path, run.recording)});
  }
  explain_job(loose, all);
  return all;
}

}  // namespace

Finish declare_explain(CommandFlags& flags) {
  const auto options = std::make_shared<ExplainOptions>();
  flags.words(
      "TRACE", options->traces,
      "recordings of run, train or simulate --trace; or of all ranks, as files or a folder, "
      "PyTorch profiles of a ring or dumps of the NCCL flight recorder");
  flags.value("--attention", "NAME",
              "a part of the names of kernels that are attention, besides the known ones",
              [options](const std::string& text) { options->attention.push_back(text); });
  add_unpack(flags);
  flags.flag("--json", options->json, "print one JSON object, or a list of one for each trace");
  return [options] {
    if (options->traces.empty()) contradiction("explain", "no trace given", "explain TRACE...");
    return *options;
  };
}

int carry_out(const ExplainOptions& options) {
  const std::vector<Explained> all = explain_all(options);
  const bool several = all.size() > 1;
  std::string text, json;
  bool has_rings = true;
  for (const Explained& one : all) {
    Fields fields = fields_of(one.why);
    if (!one.has_ring) fields.emplace_back("ring", false);
    std::vector<Fields> layers;
    for (const ProfiledLayer& layer : one.layers) layers.push_back(fields_of(layer));
    if (!layers.empty()) fields.emplace_back("layers", layers);
    has_rings = has_rings && one.has_ring;
    json += (json.empty() ? "" : ",") + json_line(fields);
    text += (several ? one.path + "\n" : "") + text_of(one.why) + table_of(one.layers);
  }
  print_out(!options.json ? text : several ? "[" + json + "]\n" : json);
  return has_rings ? 0 : 1;
}

}  // namespace ringscope
