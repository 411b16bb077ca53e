// The note that is being written, and below it all notes on the recording. A click on one goes to its
// moment, and its text can be changed; until the text is clicked, keys are those of the timeline.
#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <string>
#include <utility>

#include "viz/panels/drawing.h"
#include "viz/panels/panels.h"

#include <imgui_stdlib.h>  // needs imgui.h before it

namespace ringscope::viz {
namespace {

bool note_wants_focus = false;

// Put the note that is written among the others, or remove it if it has no text.
void keep_note(Session& session) {
  const std::string& text = session.writing->text;
  if (!text.empty() && !can_be_noted(text)) {
    session.wishes.said = fmt::format("A note holds at most {} bytes of text", kMostNoteBytes);
    return;
  }
  session.put(session.active, *session.writing);
  session.writing.reset();
}

void list_notes(const PanelContext& context, float width) {
  constexpr std::size_t kMostLines = 8;  // without scrolling
  constexpr float kPlaces = 150;
  Session& session = context.session;
  const Document& document = session.document();
  const float line = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  const float lines = static_cast<float>(std::min(document.notes.size(), kMostLines));
  if (!ImGui::BeginTable("notes", 2, ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg,
                         {0, lines * line + 2}))
    return;
  ImGui::TableSetupColumn("place", ImGuiTableColumnFlags_WidthFixed, kPlaces);
  ImGui::TableSetupColumn("text");
  const Note* chosen = nullptr;
  for (const Note& note : document.notes) {
    ImGui::TableNextColumn();
    ImGui::PushID(&note);
    const bool written = note.rank == session.writing->rank && note.ns == session.writing->ns;
    if (ImGui::Selectable(place_of(document.trace, note).c_str(), written,
                          ImGuiSelectableFlags_SpanAllColumns))
      chosen = &note;
    ImGui::PopID();
    ImGui::TableNextColumn();
    ImGui::TextUnformatted(
        fitted(context.fonts.text, note.first_line(), width - kPlaces - 30).c_str());
  }
  ImGui::EndTable();
  if (chosen == nullptr) return;
  session.go_to(*chosen);
}

}  // namespace

void focus_note() { note_wants_focus = true; }

void draw_notes(const PanelContext& context) {
  constexpr float kMargin = 20;
  Session& session = context.session;
  const Document& document = session.document();
  const ImVec2 display = ImGui::GetIO().DisplaySize;
  const float width = std::min(480.0f, display.x - 2 * kMargin);
  begin_over_all(context.palette, "notes", width);
  const float inner = ImGui::GetContentRegionAvail().x;
  write(context.fonts.title, context.palette.text,
        "Note on " + place_of(document.trace, *session.writing));
  if (session.documents.size() > 1)
    write(context.fonts.small, context.palette.text_dim, title_of(document.trace), inner);
  if (std::exchange(note_wants_focus, false)) {
    ImGui::SetWindowFocus();  // or ImGui 1.90 leaves the focus in the list that was clicked
    ImGui::SetKeyboardFocusHere();
  }
  const bool entered = ImGui::InputTextMultiline(
      "##note", &session.writing->text,
      {inner, 3 * ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().FramePadding.y},
      ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_CtrlEnterForNewLine);
  write(context.fonts.small, context.palette.text_dim,
        "Enter keeps it, Ctrl-Enter begins another line, Esc leaves everything as it was.");
  const bool kept = ImGui::Button("Keep", {90, 0});
  ImGui::SameLine();
  const bool removed = ImGui::Button("Delete", {90, 0});
  if (!document.notes.empty()) {
    ImGui::Spacing();
    list_notes(context, inner);
  }
  ImGui::End();
  if (removed) session.writing->text.clear();
  if (entered || kept || removed) keep_note(session);
}

}  // namespace ringscope::viz
