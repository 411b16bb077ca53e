// The bug zoo: mistakes that context-parallel code is made with, each of which `--inject` makes in a
// small run. lessons/zoo.md says how each shows and where it happened; this runs it, and asks a
// reader which bug the evidence is of. Tests look for the symptom that the page names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tools/check/verdict.h"
#include "core/trace/event.h"
#include "lessons/book/terminal.h"

namespace ringscope::lessons {

struct Bug {
  std::string name;                  // as --inject takes it
  std::string text;                  // Markdown: its section of lessons/zoo.md
  std::vector<std::string> words;    // of its command: {"./ringscope", "run", "--random", ...}
  std::string symptom;               // the first sentence about what is seen, without its stop
  std::vector<std::string> choices;  // the names of its group of four, in the page's order
};
inline const std::string& name_of(const Bug& bug) { return bug.name; }

// Parse such a page. Throw std::logic_error that names a section which lacks a part.
std::vector<Bug> parse_zoo(std::string_view page);
// Return the bugs of lessons/zoo.md.
const std::vector<Bug>& zoo();
// Throw InputError that lists the names.
const Bug& bug_of(const std::string& name);

// What a run leaves behind. A slower rank is simulated, so that no other load is taken for it.
struct Evidence {
  Problem problem;
  std::string ending;         // "ends well", or which rank failed, where, and how
  Recording recording;        // up to the end
  NaiveResult<double> right;  // in f64
  NaiveResult<double> mine;   // empty after a failure
  CheckVerdict verdict;

  // The text says nothing of the mistake's name, nor of what a check makes of it.
  std::string text() const;
};

// Run the bug's command with these random inputs, with or without the bug, and on as many ranks as
// it says or on `world_size`.
Evidence evidence_of(const Bug& bug, std::uint64_t seed, bool with_bug = true, int world_size = 0);

// Count the hops, and those of them that were over before their rank computed the step beside them.
std::pair<Index, Index> hops_over_before_computing(const Recording& recording);

// Ask about all bugs in the order that `seed` gives, until the reader stops.
void ask_for_bugs(Terminal& terminal, std::uint64_t seed);

}  // namespace ringscope::lessons
