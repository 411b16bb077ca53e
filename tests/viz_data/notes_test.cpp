// Notes: what is written is read equal, in a file as in a command, and what is no note is refused.
#include "viz/data/session/notes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/files.h"
#include "tests/temporary_folder.h"
#include "tests/viz_data/hand_made.h"
#include "viz/data/session/selection.h"
#include "viz/window/view.h"

namespace ringscope::viz {
namespace notes_test {

// Two ranks for 2,000 ns; recorded at `path`.
Trace two_ranks(const std::string& path = "made.json") {
  HandMade made(2);
  for (const int rank : {0, 1})
    for (const int step : {0, 1}) made.compute(rank, step, 500 + 1000 * step, 1500 + 1000 * step);
  Trace trace = made.trace();
  trace.path = path;
  return trace;
}

// Texts of all that one could take for something else.
std::vector<Note> drawn_notes(std::mt19937& random) {
  const std::vector<std::string> pieces = {"\"", "'", "\n", "\\", "\\n", ":",  "@", "/", "1@2ns:",
                                           "é",  "→", "😀",  " ",  "$x",  "--", "{", "]", "late"};
  std::vector<Note> notes;
  for (int i = random() % 8; i > 0; --i) {
    std::string text;
    for (int piece = 1 + random() % 12; piece > 0; --piece)
      text += pieces[random() % pieces.size()];
    put_note(notes,
             {static_cast<int>(random() % 3), static_cast<std::int64_t>(random() % 5) << 40, text});
  }
  return notes;
}

TEST(Notes, WhatIsWrittenIsReadEqual) {
  std::mt19937 random(20261130);
  for (int i = 0; i < 500; ++i) {
    const std::vector<Note> notes = drawn_notes(random);
    EXPECT_EQ(parse_notes(notes_json(notes)), notes) << notes_json(notes);
    ViewOptions options;
    std::vector<std::pair<int, Note>> given;
    for (const Note& note : notes) {
      const int recording = 1 + static_cast<int>(random() % 3);
      given.emplace_back(recording, note);
      const std::string number = recording == 1 ? "" : std::to_string(recording) + "/";
      const std::string words = number + words_of_note(note);
      EXPECT_EQ(words.find('\n'), words.npos) << words;
      EXPECT_TRUE(take_note(options, words)) << words;
    }
    EXPECT_EQ(options.notes, given);
  }
}

TEST(Notes, TimesHaveUnits) {
  for (const auto& [words, note] : {std::pair("3@1.5us:late", Note{3, 1500, "late"}),
                                    {"0@7:a: b", {0, 7, "a: b"}},
                                    {"0@2ms:one\\ntwo\\\\n\\x", {0, 2'000'000, "one\ntwo\\n\\x"}}})
    EXPECT_EQ(parse_note(words), note) << words;
}

TEST(Notes, OthersAreRefused) {
  ViewOptions options;
  for (const std::string words : {"",
                                  "late",
                                  "0@1ms",
                                  "0:late",
                                  "@1ms:late",
                                  "0@:late",
                                  "-1@1ms:late",
                                  "x@1ms:late",
                                  "0@-1ms:late",
                                  "0@1h:late",
                                  "0@1e30:late",
                                  "0@inf:late",
                                  "0@1ms:",
                                  "0@1ms:\x80",
                                  "0@1ms:\t",
                                  "0@1ms:\xed\xa0\x80",
                                  "0/0@1ms:late",
                                  "-1/0@1ms:late",
                                  "x/0@1ms:late",
                                  "1/2/0@1ms:late"})
    EXPECT_FALSE(take_note(options, words)) << words;
  const std::string longest(kMostNoteBytes, 'x');
  EXPECT_TRUE(take_note(options, "0@1ms:" + longest));
  EXPECT_FALSE(take_note(options, "0@1ms:" + longest + "x"));
  EXPECT_EQ(options.notes.size(), 1u);
}

TEST(Notes, ARankHasOneAtAMoment) {
  std::vector<Note> notes;
  for (const Note& note : {Note{1, 5, "b"}, {0, 9, "c"}, {0, 5, "a"}, {1, 5, "d"}, {1, 6, ""}})
    put_note(notes, note);
  EXPECT_EQ(notes, (std::vector<Note>{{0, 5, "a"}, {1, 5, "d"}, {0, 9, "c"}}));
  put_note(notes, {1, 5, ""});
  EXPECT_EQ(notes, (std::vector<Note>{{0, 5, "a"}, {0, 9, "c"}}));
}

// Return what a reader of the text complains about, or "".
std::string complaint(const std::string& text) {
  try {
    parse_notes(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Notes, ADamagedFileIsOneLine) {
  const auto with = [](const std::string& value) { return "{\"notes\":[" + value + "]}"; };
  const std::string good = R"({"rank":0,"ns":1,"text":"a"})";
  EXPECT_EQ(complaint(with(good)), "");
  std::string many = good;
  for (std::size_t i = 2; i <= kMostNotes + 1; ++i)
    many += R"(,{"rank":0,"text":"a","ns":)" + std::to_string(i) + "}";
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "no JSON at byte 0"},
           {with(good).substr(0, 30), "no JSON at byte 30"},
           {std::string(1 << 20, '['), "no JSON"},
           {with("\"\xff\""), "no JSON at byte"},
           {"[]", "no list"},
           {"{\"notes\":7}", "no list"},
           {with(good + ",7"), "value 1 is no note"},
           {with(R"({"rank":0,"ns":1})"), "value 0"},
           {with(R"({"rank":-1,"ns":1,"text":"a"})"), "value 0"},
           {with(R"({"rank":0,"ns":-1,"text":"a"})"), "value 0"},
           {with(R"({"rank":0.5,"ns":1,"text":"a"})"), "value 0"},
           {with(R"({"rank":0,"ns":1e40,"text":"a"})"), "value 0"},
           {with(R"({"rank":0,"ns":1,"text":""})"), "value 0"},
           {with(R"({"rank":0,"ns":1,"text":"\u0000"})"), "value 0"},
           {with(many), "more than 1000"}}) {
    EXPECT_NE(complaint(text).find(part), std::string::npos) << complaint(text);
    EXPECT_EQ(complaint(text).find('\n'), std::string::npos);
  }
}

TEST(Notes, LieBesideTheirRecording) {
  for (const auto& [recording, notes] : {std::pair("a/ring.json", "a/ring.notes.json"),
                                         {"ring.pt.trace.json.gz", "ring.pt.trace.notes.json"},
                                         {"ring", "ring.notes.json"}})
    EXPECT_EQ(notes_path(recording), notes);
  TemporaryFolder folder;
  folder.write("ring.json", "{}");
  const Trace trace = two_ranks(folder.path("ring.json"));
  EXPECT_TRUE(saved_notes(trace.path).empty());
  const std::vector<Note> notes = {{1, 0, "a\n\"b\""}, {0, 2000, "é"}};
  EXPECT_EQ(save_notes(trace, notes), folder.path("ring.notes.json"));
  EXPECT_EQ(saved_notes(trace.path), notes);

  // What another run of this name noted at a rank or a time that this one lacks is not lost.
  folder.write("ring.notes.json", notes_json({{0, 1, "gone"}, {2, 5, "rank"}, {0, 2001, "time"}}));
  save_notes(trace, {{0, 7, "new"}});
  EXPECT_EQ(saved_notes(trace.path),
            (std::vector<Note>{{2, 5, "rank"}, {0, 7, "new"}, {0, 2001, "time"}}));

  folder.write("ring.notes.json", "damaged");
  EXPECT_THROW(save_notes(trace, notes), InputError);
  EXPECT_EQ(contents_of(folder.path("ring.notes.json")), "damaged");
  // What was simulated lies in no file, and into this folder nobody can write.
  EXPECT_THROW(save_notes(two_ranks("zigzag"), notes), InputError);
  EXPECT_THROW(save_notes(two_ranks("/proc/self/status"), notes), InputError);
}

// ---
// Notes under the hands of a user, without a screen.

void note_at(Session& session, int rank, double position, const std::string& text) {
  session.select_rank(rank);
  session.seek(position);
  commands::write_note(session);
  session.writing->text = text;
  session.put(session.active, *session.writing);
  session.writing.reset();
}

TEST(Notes, AreWrittenWhereOneLooks) {
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    Session session = session_of(two_ranks());
    session.set_axis_mode(mode);
    const double middle = mode == AxisMode::time ? 500.4 : 0.5;  // rounded to 500 ns
    note_at(session, 1, middle, "slow");
    ASSERT_EQ(session.document().notes, (std::vector<Note>{{1, 500, "slow"}}));
    commands::write_note(session);  // again
    EXPECT_EQ(session.writing, session.document().notes[0]);
    session.select_rank(0);
    commands::write_note(session);
    EXPECT_EQ(session.writing, (Note{0, 500, ""}));
    commands::cancel(session);
    EXPECT_FALSE(session.writing);
    EXPECT_EQ(session.selected_rank, 0);
  }
}

TEST(Notes, TextThatIsNotKeptYetStaysWhileOneLooksAtOthers) {
  Session session = session_of(two_ranks());
  session.set_axis_mode(AxisMode::time);
  note_at(session, 1, 500, "slow");
  session.seek(200);
  commands::write_note(session);
  session.writing->text = "why";
  const std::optional<Note> typed = session.writing;
  commands::next_note(session);
  EXPECT_EQ(session.playback.position(), 500);
  EXPECT_EQ(session.writing, typed);
  commands::write_note(session);
  EXPECT_EQ(session.writing, typed);
}

TEST(Notes, AreWalkedInTheOrderOfTheAxisAndRound) {
  for (const AxisMode mode : {AxisMode::time, AxisMode::steps}) {
    Session session = session_of(two_ranks());
    session.set_axis_mode(mode);
    commands::next_note(session);  // there is none
    EXPECT_EQ(session.playback.position(), 0);
    session.documents[0].notes = {{0, 0, "a"}, {0, 700, "b"}, {1, 700, "c"}, {1, 2000, "d"}};
    session.view.begin = session.view.end / 2;
    std::vector<std::pair<int, double>> places;
    for (const Note& note : session.document().notes)
      places.emplace_back(note.rank, session.position_of(note));
    const auto here = [&] { return std::pair(session.selected_rank, session.playback.position()); };
    for (const int note : {0, 1, 2, 3, 0}) {
      commands::next_note(session);
      EXPECT_EQ(here(), places[note]);
      EXPECT_LE(session.view.begin, here().second);
      EXPECT_GE(session.view.end, here().second);
    }
    for (const int note : {3, 2, 1, 0}) {
      commands::previous_note(session);
      EXPECT_EQ(here(), places[note]);
    }
  }
}

TEST(Notes, AreInTheCommandOfTheViewByRecording) {
  Session session = session_of(two_ranks("a.json"), two_ranks("b.json"));
  session.documents[0].notes = {{0, 5, "one"}};
  session.documents[1].notes = {{1, 6, "it's\ntwo"}};
  const auto command = [&] { return view_command(session); };
  ASSERT_TRUE(session.comparing);
  EXPECT_NE(command().find(" --note 1/0@5ns:one --note '2/1@6ns:it'\\''s\\ntwo' "),
            std::string::npos)
      << command();
  session.comparing = false;
  session.activate(1);
  EXPECT_NE(command().find(" b.json "), std::string::npos) << command();
  EXPECT_NE(command().find(" --note '1@6ns:it'"), std::string::npos) << command();
  EXPECT_EQ(command().find("one"), std::string::npos) << command();
  session.documents[1].notes = {{1, 2001, "of a longer layer"}};  // which would be refused
  EXPECT_EQ(command().find("--note"), std::string::npos) << command();
}

TEST(Notes, AreSavedOnlyWhenAsked) {
  TemporaryFolder folder;
  for (const char* name : {"a.json", "b.json"}) folder.write(name, "{}");
  Session session = session_of(two_ranks(folder.path("a.json")), two_ranks(folder.path("b.json")));
  commands::save_notes(session);
  EXPECT_EQ(session.wishes.said, "There are no notes to save");
  note_at(session, 0, 0, "begin");
  EXPECT_TRUE(saved_notes(folder.path("a.json")).empty());
  commands::save_notes(session);
  EXPECT_EQ(session.wishes.said, "Written: " + folder.path("a.notes.json"));
  EXPECT_EQ(saved_notes(folder.path("a.json")), session.documents[0].notes);
  EXPECT_TRUE(saved_notes(folder.path("b.json")).empty());
  session.documents[0].notes.clear();
  commands::save_notes(session);
  EXPECT_TRUE(saved_notes(folder.path("a.json")).empty());
  folder.write("a.notes.json", "damaged");
  commands::save_notes(session);
  EXPECT_NE(session.wishes.said.find("a.notes.json: no JSON"), std::string::npos);
}

// A file that is opened twice has one list, so no saving undoes another.
TEST(Notes, OfOneFileAreOneList) {
  TemporaryFolder folder;
  folder.write("a.json", "{}");
  folder.write("a.notes.json", notes_json({{0, 1, "kept"}}));
  Trace again = two_ranks(folder.path("a.json"));
  again.end_ns -= 500;
  Session session = session_of(two_ranks(folder.path("a.json")), std::move(again));
  session.set_axis_mode(AxisMode::time);
  for (Document& each : session.documents) each.notes = saved_notes(each.trace.path);
  note_at(session, 0, 100, "first");
  note_at(session, 1, 2000, "late");  // outside of the second
  session.activate(1);
  note_at(session, 1, 200, "second");
  commands::save_notes(session);
  EXPECT_EQ(session.wishes.said, "Written: " + folder.path("a.notes.json"));
  EXPECT_EQ(saved_notes(folder.path("a.json")),
            (std::vector<Note>{
                {0, 1, "kept"}, {0, 100, "first"}, {1, 200, "second"}, {1, 2000, "late"}}));
  note_at(session, 0, 100, "");  // deleted
  commands::save_notes(session);
  EXPECT_EQ(saved_notes(folder.path("a.json")).size(), 3u);
  EXPECT_TRUE(share_notes(two_ranks(folder.path("a.json")), two_ranks(folder.path("./a.json"))));
  // Recordings that lie in no file, or beside each other, share none.
  EXPECT_FALSE(share_notes(two_ranks("zigzag"), two_ranks("zigzag")));
  folder.write("b.json", "{}");
  EXPECT_FALSE(share_notes(two_ranks(folder.path("a.json")), two_ranks(folder.path("b.json"))));
}

}  // namespace notes_test
}  // namespace ringscope::viz
