// Notes that someone wrote at moments of a recording. They lie in a file beside it only when that is
// asked for, and go with a command or a link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace/trace.h"

namespace ringscope::viz {

// A rank has one note at a moment.
struct Note {
  int rank = 0;
  std::int64_t ns = 0;  // after the recording's begin
  std::string text;     // UTF-8 of 1 to kMostNoteBytes bytes, of which '\n' alone controls anything
  bool operator==(const Note&) const = default;
  std::string first_line() const { return text.substr(0, text.find('\n')); }
};
inline constexpr std::size_t kMostNoteBytes = 1000, kMostNotes = 1000;

// Return whether a note can have this text.
bool can_be_noted(const std::string& text);

// Return whether the note lies within the run.
inline bool lies_within(const Trace& trace, const Note& note) {
  return note.rank < trace.rank_count() && note.ns <= trace.wall_ns();
}

// Return "rank 3 · 1.50 ms", for a note within the run.
std::string place_of(const Trace& trace, const Note& note);

// Put the note into `notes`, in the order of time and then of ranks, in place of the one that its rank has
// at its moment. A note without text only removes that one.
void put_note(std::vector<Note>& notes, Note note);

// Return "RANK@TIME:TEXT" in one line, in which \n ends a line of the text and \\ is a backslash.
std::string words_of_note(const Note& note);
// Return the note that such words mean, or none.
std::optional<Note> parse_note(std::string_view words);

// ---
// The file beside a recording.

// Return "ring.notes.json" for "ring.json" and "ring.json.gz".
std::string notes_path(const std::string& recording);
// Return whether the notes of both recordings are saved in one file.
bool share_notes(const Trace& a, const Trace& b);
std::string notes_json(const std::vector<Note>& notes);
// Return the notes of such a text. Throw an InputError that says what is wrong with it.
std::vector<Note> parse_notes(const std::string& json);
// Return the notes in the file beside the recording, also those outside of the run; none if there is no
// file. Throw an InputError that names it.
std::vector<Note> saved_notes(const std::string& recording);
// Return those within the run. What is wrong with the others or with the file becomes a notice.
std::vector<Note> saved_notes_within(Trace& trace);
// Throw an InputError unless each of these notes lies on the recording of its number, from 1.
void require_within(const std::vector<std::pair<int, Note>>& notes,
                    const std::vector<const Trace*>& recordings);
// Write the notes into that file, whole or not at all, and return its path. Notes in it that lie outside of
// the run stay. Throw InputError for a damaged file, and for a recording that is none; else as write_file.
std::string save_notes(const Trace& trace, std::vector<Note> notes);

}  // namespace ringscope::viz
