#include "viz/panels/timeline/timeline_state.h"

#include <imgui_internal.h>

namespace ringscope::viz {
namespace {

std::map<ImGuiContext*, TimelineState>& states() {
  static std::map<ImGuiContext*, TimelineState> all;
  return all;
}

}  // namespace

TimelineState& timeline_state() {
  ImGuiContext* context = ImGui::GetCurrentContext();
  const auto [at, made] = states().try_emplace(context);
  if (made) {
    // Textures die with their context, so what is known about them must die too.
    ImGuiContextHook hook;
    hook.Type = ImGuiContextHookType_Shutdown;
    hook.Callback = [](ImGuiContext* ended, ImGuiContextHook*) { states().erase(ended); };
    ImGui::AddContextHook(context, &hook);
  }
  return at->second;
}

}  // namespace ringscope::viz
