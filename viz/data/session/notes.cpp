#include "viz/data/session/notes.h"

#include <fmt/format.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "core/base/fields.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "viz/data/session/format.h"
#include "viz/data/session/search.h"

namespace ringscope::viz {
namespace {

constexpr Index kMostNoteFile = 4 << 20;  // more than the most notes take in JSON

[[noreturn]] void refuse_notes(const std::string& why) {
  throw InputError(why + R"(; accepted: {"notes": [{"rank": 0, "ns": 1500, "text": "late"}]})");
}

// Return the note that a JSON value is, or none.
std::optional<Note> note_of(const rapidjson::Value& json) {
  const auto has = [&json](const char* name) { return json.IsObject() && json.HasMember(name); };
  if (!has("rank") || !has("ns") || !has("text") || !json["rank"].IsInt() ||
      !json["ns"].IsInt64() || !json["text"].IsString())
    return std::nullopt;
  const rapidjson::Value& text = json["text"];
  Note note{json["rank"].GetInt(), json["ns"].GetInt64(),
            std::string(text.GetString(), text.GetStringLength())};
  if (note.rank < 0 || note.ns < 0 || !can_be_noted(note.text)) return std::nullopt;
  return note;
}

}  // namespace

bool can_be_noted(const std::string& text) {
  const bool controls =
      std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' && c != '\n'; });
  if (text.empty() || text.size() > kMostNoteBytes || controls) return false;
  rapidjson::Document json;
  json.Parse<rapidjson::kParseValidateEncodingFlag>(Json(text).text().c_str());
  return !json.HasParseError();
}

std::string place_of(const Trace& trace, const Note& note) {
  return fmt::format("{} · {}", trace.ranks[note.rank].name, time_text(note.ns));
}

void put_note(std::vector<Note>& notes, Note note) {
  const auto place = [](const Note& n) { return std::pair(n.ns, n.rank); };
  const auto at =
      std::lower_bound(notes.begin(), notes.end(), note,
                       [&](const Note& a, const Note& b) { return place(a) < place(b); });
  const bool there = at != notes.end() && place(*at) == place(note);
  if (there && note.text.empty())
    notes.erase(at);
  else if (there)
    *at = std::move(note);
  else if (!note.text.empty())
    notes.insert(at, std::move(note));
}

std::string words_of_note(const Note& note) {
  std::string words = fmt::format("{}@{}ns:", note.rank, note.ns);
  for (const char c : note.text)
    words += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return words;
}

std::optional<Note> parse_note(std::string_view words) {
  const std::size_t at = words.find('@'), colon = words.find(':');
  if (colon == words.npos || at > colon) return std::nullopt;
  const auto rank = parse_number<int>(words.substr(0, at));
  const auto ns = duration_ns(words.substr(at + 1, colon - at - 1));
  if (!rank || *rank < 0 || !ns || !(*ns < 9e18)) return std::nullopt;
  Note note{*rank, std::llround(*ns), ""};
  for (std::size_t i = colon + 1; i < words.size(); ++i) {
    const char next = i + 1 < words.size() ? words[i + 1] : ' ';
    const bool escaped = words[i] == '\\' && (next == 'n' || next == '\\');
    note.text += escaped && next == 'n' ? '\n' : words[i];
    i += escaped ? 1 : 0;
  }
  return can_be_noted(note.text) ? std::optional(note) : std::nullopt;
}

std::string notes_path(const std::string& recording) {
  std::string_view name = recording;
  for (const std::string_view ending : {".gz", ".json"})
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  return std::string(name) + ".notes.json";
}

bool share_notes(const Trace& a, const Trace& b) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto place = [&](const Trace& trace) {
    const fs::path path = fs::absolute(notes_path(trace.path), error);
    return fs::weakly_canonical(path.parent_path(), error) / path.filename();
  };
  return fs::is_regular_file(a.path, error) && fs::is_regular_file(b.path, error) &&
         place(a) == place(b);
}

std::string notes_json(const std::vector<Note>& notes) {
  std::string text = "{\"notes\":[";
  for (const Note& note : notes)
    text += (&note == notes.data() ? "\n" : ",\n") +
            Json(Fields{{"rank", note.rank}, {"ns", note.ns}, {"text", note.text}}).text();
  return text + "\n]}\n";
}

std::vector<Note> parse_notes(const std::string& text) {
  rapidjson::Document json;
  json.Parse<rapidjson::kParseIterativeFlag | rapidjson::kParseValidateEncodingFlag>(text.data(),
                                                                                     text.size());
  if (json.HasParseError()) refuse_notes(fmt::format("no JSON at byte {}", json.GetErrorOffset()));
  if (!json.IsObject() || !json.HasMember("notes") || !json["notes"].IsArray())
    refuse_notes("no list of notes");
  std::vector<Note> notes;
  for (const rapidjson::Value& each : json["notes"].GetArray()) {
    std::optional<Note> note = note_of(each);
    if (!note) refuse_notes(fmt::format("value {} is no note", &each - json["notes"].Begin()));
    put_note(notes, std::move(*note));
    if (notes.size() > kMostNotes) refuse_notes(fmt::format("more than {} notes", kMostNotes));
  }
  return notes;
}

std::vector<Note> saved_notes(const std::string& recording) {
  const std::string path = notes_path(recording);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  const std::string text = read_file(path, "file of notes", kMostNoteFile);
  return with_path_in_errors(path, [&] { return parse_notes(text); });
}

std::vector<Note> saved_notes_within(Trace& trace) {
  try {
    std::vector<Note> notes = saved_notes(trace.path);
    const auto outside =
        std::erase_if(notes, [&](const Note& note) { return !lies_within(trace, note); });
    if (outside > 0)
      trace.notices.push_back(fmt::format("{}: left out, because outside of the run: {}",
                                          notes_path(trace.path), counted(outside, "note")));
    return notes;
  } catch (const InputError& error) {
    trace.notices.emplace_back(error.what());
    return {};
  }
}

void require_within(const std::vector<std::pair<int, Note>>& notes,
                    const std::vector<const Trace*>& recordings) {
  for (const auto& [number, note] : notes) {
    std::string accepted;
    if (number > std::ssize(recordings))
      accepted = fmt::format("one on the recordings 1/ to {}/", recordings.size());
    else if (const Trace& trace = *recordings[number - 1]; !lies_within(trace, note))
      accepted = fmt::format("ranks to {} and times to {}ns for '{}'", trace.rank_count() - 1,
                             trace.wall_ns(), trace.path);
    if (!accepted.empty())
      throw InputError(
          fmt::format("--note: '{}' given; accepted: {}", words_of_note(note), accepted));
  }
}

std::string save_notes(const Trace& trace, std::vector<Note> notes) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(trace.path, error))
    throw InputError(trace.path + " is in no file; notes can be saved beside one");
  for (Note& kept : saved_notes(trace.path))
    if (!lies_within(trace, kept)) put_note(notes, std::move(kept));
  const std::string path = notes_path(trace.path);
  write_file(path, notes_json(notes));
  return path;
}

}  // namespace ringscope::viz
