// What several commands report: fields, lines, formats of numbers, and where an output comes from.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fields.h"
#include "core/ring/problem.h"
#include "core/tools/check/row_tolerance.h"

namespace ringscope {

// ---
// Where an output comes from. Every file and every JSON object that a command writes says it.

// Note the command line, the seed, and the words that recordings keep, once, before anything is written.
void note_call(const std::string& command, const std::string& seed,
               const std::string& recorded_words);
const std::string& recorded_words();
// Return version, commit, command, seed, machine and time (UTC; the environment's SOURCE_DATE_EPOCH
// instead of the clock's if it is set, so that files can be made again to the byte).
std::vector<std::pair<std::string, std::string>> provenance();
// Return the same as one line, "version: 0.1.0; commit: ...".
std::string provenance_line();

// Return the fields and the provenance as one JSON object and a line end.
std::string json_line(const Fields& fields);

// Return "label       value" and a line end.
std::string labelled_line(int width, std::string_view label, std::string_view value);

// A number that programs read under its key (unless that is "") and people as a line "label       text"
// (likewise).
template <class T>
Field line(std::string_view key, const T& value, std::string_view label, const std::string& text) {
  return {key, value, label, 0, [&](const T&) { return text; }};
}
// Return the lines of these fields.
std::string lines_text(int width, const Fields& fields);

// ---
// Formats of numbers, beside those of core/base/text.h.

std::string ratio_text(double ratio);     // "0.533"
std::string percent_text(double share);   // "53.3 %"
std::string integer_text(double number);  // "1024"
std::string digits_text(double number);   // "0.0123", three digits

// ---
// What several commands report.

Fields shape_fields(const AttentionShape& shape);
Fields worst_row_fields(const WorstRow& worst);
// Return what is computed, and how it is distributed.
Fields way_fields(const Problem& job);

// Return "zigzag, ring", or the scheme alone where ranks share heads, whatever the partition.
std::string way_text(const Problem& job);
// Return "1024 tokens x 1 batch, 4 heads (4 kv), ..., forward", in a line without its end.
std::string problem_text(const Problem& job);
// Return a line that says that `ranks` threads share this machine's cores and what follows, or ""
// where there are enough.
std::string shared_cores_text(int ranks, std::string_view consequence);

}  // namespace ringscope
