// How good the simulator's predictions are, of runs that others measured: every row of a CSV of
// published measurements is simulated from what its source gives of one device and its links
// (bench/published/predict.h), and predictions are compared with what was measured.
//
//   build/release/bench/published [--csv FILE] [--page FILE]
//
// Without --csv it takes bench/published/runs.csv. Rows that gave a kernel's speed, and those that a
// machine's two costs were fitted on, are marked, and are not counted. Two rows are a comparable
// pair where only the scheme differs and the figures differ by more than they can be read, and by
// more than 2 %. The last line is `MAPE x %, y of z pairs ranked as published`.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "bench/published/predict.h"
#include "core/base/files.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

struct Scored {
  const PublishedRow* row = nullptr;
  double published = 0;  // after misread_by()
  double predicted = 0;
  double misread = 1;
  RowUse use = RowUse::predicted;

  double ratio() const { return predicted / published; }
  double error() const { return std::abs(ratio() - 1); }
  bool counts() const { return use == RowUse::predicted; }
};

struct Pairs {
  int right = 0, all = 0;
  int close = 0;  // not right, and published figures that differ by less than 5 %
};

struct Mean {
  double error = 0, ratio = 0;  // sums
  int rows = 0;
  const Scored* worst = nullptr;

  void add(const Scored& scored) {
    error += scored.error(), ratio += scored.ratio(), ++rows;
    if (worst == nullptr || scored.error() > worst->error()) worst = &scored;
  }
  double mape() const { return rows == 0 ? 0 : 100 * error / rows; }
};

struct Scoreboard {
  std::vector<PublishedRow> rows;
  std::vector<Scored> scored;
  std::vector<std::pair<const PublishedRow*, std::string>> unpredicted;  // and why
  Mean all;
  double raw_error = 0;  // as all.error, had no axis been read again
  Pairs pairs;
};

// Return by how much a figure that was read off a picture may be wrong, in the file's unit.
double reading_error(const PublishedRow& row) {
  double error = 0;
  const std::size_t at = row.note.find("+-");
  if (at != row.note.npos) std::sscanf(row.note.c_str() + at, "+-%lf", &error);
  return std::isfinite(error) ? error : 0;
}

// Rows that differ only in their schemes have the same key.
auto key_of(const PublishedRow& r) {
  return std::tie(r.source, r.hardware, r.world_size, r.seqlen, r.batch, r.heads, r.kv_heads,
                  r.head_dim, r.dtype, r.mask, r.pass, r.metric);
}

bool is_comparable(const Scored& a, const Scored& b) {
  constexpr double kSame = 0.02;
  const double difference = std::abs(a.published - b.published);
  const double read = (reading_error(*a.row) + reading_error(*b.row)) / a.misread;
  return a.row->scheme != b.row->scheme && (a.counts() || b.counts()) && a.use != RowUse::kernel &&
         b.use != RowUse::kernel && difference > read &&
         difference > kSame * std::min(a.published, b.published);
}

Pairs rank_pairs(const std::vector<Scored>& scored) {
  std::map<decltype(key_of(*scored[0].row)), std::vector<const Scored*>> groups;
  for (const Scored& one : scored) groups[key_of(*one.row)].push_back(&one);
  Pairs pairs;
  for (const auto& [key, group] : groups) {
    if (group.size() > 1000) continue;  // no paper; pairs would take long
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const Scored &a = *group[i], &b = *group[j];
        if (!is_comparable(a, b)) continue;
        ++pairs.all;
        if ((a.published - b.published) * (a.predicted - b.predicted) > 0)
          ++pairs.right;
        else if (std::abs(a.published - b.published) < 0.05 * std::min(a.published, b.published))
          ++pairs.close;
      }
  }
  return pairs;
}

Scoreboard score(const std::string& csv) {
  Scoreboard board;
  board.rows = read_published(csv);
  for (const PublishedRow& row : board.rows) {
    std::string why_not = "no value";
    const std::optional<double> predicted =
        row.value ? predict(row, machine_of(row), why_not) : std::nullopt;
    if (!predicted || !(*predicted > 0) || !std::isfinite(*predicted)) {
      board.unpredicted.emplace_back(&row, predicted ? "no number comes out" : why_not);
      continue;
    }
    const double misread = misread_by(row);
    board.scored.push_back({&row, *row.value / misread, *predicted, misread, use_of(row)});
  }
  for (const Scored& scored : board.scored)
    if (scored.counts()) {
      board.all.add(scored);
      board.raw_error += std::abs(scored.predicted / *scored.row->value - 1);
    }
  if (!board.scored.empty()) board.pairs = rank_pairs(board.scored);
  return board;
}

std::string summary_line(const Scoreboard& board) {
  return fmt::format("MAPE {:.1f} %, {} of {} pairs ranked as published", board.all.mape(),
                     board.pairs.right, board.pairs.all);
}

// ---
// Tables.

// Return the scheme without its source's own words.
std::string scheme_family(const PublishedRow& row) {
  for (const char* const word : {"kernel", "TP", "magi", "hybrid_dcp", "allgather", "usp", "2d"})
    if (row.has(word)) return word == std::string("TP") ? "training step" : word;
  if (row.has("ulysses") && !row.has("ulysses 1 x")) return "ulysses";
  for (const char* const word : {"zigzag", "striped", "contiguous"})
    if (row.has(word)) return std::string(word) + " ring";
  return "ring";
}

std::map<std::string, Mean> means_by(const Scoreboard& board,
                                     std::string (*key)(const PublishedRow&)) {
  std::map<std::string, Mean> means;
  for (const Scored& scored : board.scored)
    if (scored.counts()) means[key(*scored.row)].add(scored);
  return means;
}

struct Grouping {
  const char* name;
  std::string (*key)(const PublishedRow&);
};

constexpr Grouping kGroupings[] = {
    {"source", [](const PublishedRow& row) { return row.source; }},
    {"scheme", scheme_family},
    {"machine", [](const PublishedRow& row) { return machine_of(row).name; }},
    {"devices", [](const PublishedRow& row) { return fmt::format("{:4}", row.world_size); }}};

std::string row_text(const Scored& scored) {
  const PublishedRow& row = *scored.row;
  return fmt::format("line {}: {}, {} x {} of {}, {}, {} {}: {:.4g} predicted, {:.4g} published",
                     row.line, row.scheme, row.seqlen, row.heads, row.head_dim, row.mask, row.pass,
                     row.metric, scored.predicted, scored.published);
}

const char* mark_of(const Scored& scored) {
  return scored.use == RowUse::kernel ? "kernel" : scored.use == RowUse::fitted ? "fitted" : "";
}

// Return what was done to the rows, a sentence a line.
std::vector<std::string> remarks(const Scoreboard& board) {
  int kernels = 0, fitted = 0, misread = 0, unknown = 0;
  for (const Scored& scored : board.scored) {
    kernels += scored.use == RowUse::kernel;
    fitted += scored.use == RowUse::fitted;
    misread += scored.misread != 1;
    unknown += scored.counts() && scheme_family(*scored.row) == "ring" && !scored.row->has("ring");
  }
  std::vector<std::string> lines{
      fmt::format("{} rows: {} predicted, {} are kernels by themselves, {} are fitted on, {} can't "
                  "be predicted.",
                  board.rows.size(), board.all.rows, kernels, fitted, board.unpredicted.size())};
  if (unknown > 0)
    lines.push_back(fmt::format("Schemes of {} rows are not known; taken as rings.", unknown));
  if (board.pairs.right < board.pairs.all)
    lines.push_back(
        fmt::format("Of the {} pairs that are ranked otherwise, {} were published less "
                    "than 5 % apart.",
                    board.pairs.all - board.pairs.right, board.pairs.close));
  if (misread > 0)
    lines.push_back(
        fmt::format("{} rows were read off figures as if each gridline were 100 TFLOP/s, where it "
                    "is 50 or 200; "
                    "they are taken by the figures' labels (without that the MAPE is {:.1f} %).",
                    misread, 100 * board.raw_error / std::max(1, board.all.rows)));
  if (!board.unpredicted.empty())
    lines.push_back(fmt::format("Not predicted, among others: line {}, {}.",
                                board.unpredicted[0].first->line, board.unpredicted[0].second));
  return lines;
}

// Return the means of a grouping as a table in Markdown, which is also what a terminal gets.
std::string means_table(const Scoreboard& board, const Grouping& grouping) {
  std::string table = fmt::format(
      "| {} | rows | MAPE | mean of predicted / published | worst |\n|---|---|---|---|---|\n",
      grouping.name);
  for (const auto& [name, mean] : means_by(board, grouping.key))
    table += fmt::format("| {} | {} | {:.1f} % | {:.2f} | {:.2f} |\n", name, mean.rows, mean.mape(),
                         mean.ratio / mean.rows, mean.worst->ratio());
  return table;
}

std::string board_text(const Scoreboard& board) {
  std::string text;
  for (const Grouping& grouping : kGroupings) text += means_table(board, grouping) + "\n";
  if (board.all.worst != nullptr) text += "worst row: " + row_text(*board.all.worst) + "\n";
  for (const std::string& line : remarks(board)) text += line + "\n";
  return text + summary_line(board) + "\n";
}

// Return the error of a machine's rows with the two costs that were fitted on another source's runs
// on the same device: what the model is worth where nothing can be fitted.
std::string borrowed_costs(const Scoreboard& board) {
  std::string text =
      "\n## With the costs of another source\n\n| machine | rows | MAPE | with the costs of "
      "|\n|---|---|---|---|\n";
  for (const MachineFigures& own : published_machines()) {
    std::string others;
    double own_error = 0;
    int rows = 0;
    for (const MachineFigures& other : published_machines()) {
      if (own.device != other.device || other.source.empty() || own.call_s * other.call_s == 0)
        continue;
      MachineFigures borrowed = own;
      borrowed.step_bytes = other.step_bytes, borrowed.call_s = other.call_s;
      double error = own_error = rows = 0;
      std::string why_not;
      for (const Scored& s : board.scored) {
        if (!s.counts() || &machine_of(*s.row) != &own) continue;
        own_error += s.error(), ++rows;
        error += std::abs(predict(*s.row, borrowed, why_not).value_or(0) / s.published - 1);
      }
      if (rows > 0 && &other != &own)
        others += fmt::format("{}{}: {:.1f} %", others.empty() ? "" : "; ", other.name,
                              100 * error / rows);
    }
    if (!others.empty())
      text += fmt::format("| {} | {} | {:.1f} % | {} |\n", own.name, rows, 100 * own_error / rows,
                          others);
  }
  return text;
}

// Return a page: what is done, the machines, the tables, and every row.
std::string board_page(const Scoreboard& board) {
  std::string page =
      R"(<!-- Written by `build/release/bench/published --page FILE`: edit bench/published.cpp. -->
# Predictions held to account

What others measured, beside what is simulated from one device's kernel and the links.
`build/release/bench/published --csv FILE` does this for any file of the form of [runs.csv](runs.csv).

A device is known by four figures of its kernels (the rate of a long row and the keys' worth of time
that a row takes besides, forward and backward), three rates (links inside a node, to other nodes,
memory), and two costs that are fitted on one row each: the bytes of memory traffic that merging two
blocks takes, and the seconds that a call takes besides (`simulate` and `plan` count these two with
`--calibrated`). Tiles of 128 rows, the halves of zigzag,
hops that wait for their link, all-to-alls and gathers follow from the row itself. There is no
figure for any row. Sources whose machines are not in the table get defaults. What the
implementations share (traffic of a backward step over a forward one, copies around an all-to-all,
what unequal documents cost subgroups of ranks) is written in [predict.cpp](predict.cpp); it was
chosen with these rows in view, so only rows from elsewhere are a test of it. The documents of
MagiAttention's packs are those that its sampler draws with its seed ([packs.csv](packs.csv)).

)";
  for (const std::string& line : remarks(board)) page += line + "\n";
  if (board.all.worst != nullptr) page += "\nThe worst is " + row_text(*board.all.worst) + ".\n";
  page += "\n**" + summary_line(board) + "**\n";
  for (const Grouping& grouping : kGroupings)
    page += fmt::format("\n## By {}\n\n", grouping.name) + means_table(board, grouping);
  page +=
      "\n## Machines\n\n[machines.csv](machines.csv) has their figures, and where each is from.\n";
  page += borrowed_costs(board);
  page +=
      "\n## Every row\n\n| line | machine | devices | tokens | mask | pass | scheme | metric | "
      "published "
      "| predicted | ratio | |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Scored& s : board.scored)
    page += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} | {:.4g} | {:.4g} | {:.2f} | {} |\n", s.row->line,
        machine_of(*s.row).name, s.row->world_size, s.row->seqlen, s.row->mask, s.row->pass,
        s.row->scheme, s.row->metric, s.published, s.predicted, s.ratio(), mark_of(s));
  return page;
}

}  // namespace
}  // namespace ringscope

int main(int argc, char** argv) try {
  using namespace ringscope;
  CLI::App app("compares simulations with published measurements");
  std::string csv = RINGSCOPE_SOURCE_DIR "/bench/published/runs.csv", page;
  app.add_option("--csv", csv, "measurements (bench/published/runs.csv)");
  app.add_option("--page", page, "write them as a page, Markdown");
  app.allow_extras();  // `./ringscope bench` gives all programs the same flags
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const std::string& extra : app.remaining())
    if (!extra.starts_with("--benchmark_"))
      throw InputError("'" + extra + "' given; accepted: --csv FILE, --page FILE");
  const Scoreboard board = score(csv);
  if (!page.empty()) write_file(page, board_page(board));
  const std::string text = board_text(board);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw RunError("cannot write to standard output");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return dynamic_cast<const ringscope::InputError*>(&error) != nullptr ? 2 : 3;
}
