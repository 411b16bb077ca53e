// Draws the recorded and the predicted run on one axis. Wheel and drag zoom and pan both, and the
// ruler moves the playhead in both.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "core/tools/explain/recorded_run.h"
#include "viz/data/session/format.h"
#include "viz/panels/drawing.h"
#include "viz/panels/imgui_versions.h"
#include "viz/panels/timeline/timeline_frame.h"

namespace ringscope::viz {

// ---
// Draws the settings: sliders with a mark at the recording's value, and words to choose from.

namespace {

constexpr float kTabs = 27, kHeading = 28, kNameWidth = 84;

// Round to two digits, which are easy to say and to set again.
double rounded(double x) {
  if (!(x > 0)) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(x)) - 1);
  return std::round(x / unit) * unit;
}

// Draw a slider behind its name, with a mark at the recorded value, to which a click with the right
// button returns. Sliders of one window need different names.
template <class T>
void slider_row(const PanelContext& context, const char* name, const MemberRow& row,
                bool logarithmic, T& value, T recorded, std::string text, bool enabled = true) {
  const Range& bounds = row.range;
  constexpr bool is_integer = std::is_same_v<T, int>;
  const Palette& palette = context.palette;
  const T least = static_cast<T>(bounds.least), most = static_cast<T>(bounds.most);
  ImGui::AlignTextToFramePadding();
  write(context.fonts.small, value == recorded ? palette.text_dim : palette.accent, name);
  ImGui::SameLine(kNameWidth);
  ImGui::SetNextItemWidth(-1);
  for (std::size_t at = 0; (at = text.find('%', at)) != std::string::npos; at += 2)
    text.insert(at, "%");  // the slider takes its text for a format
  ImGui::BeginDisabled(!enabled);
  ImGui::PushID(name);
  if (ImGui::SliderScalar(
          "##", is_integer ? ImGuiDataType_S32 : ImGuiDataType_Double, &value, &least, &most,
          text.c_str(),
          ImGuiSliderFlags_AlwaysClamp | (logarithmic ? ImGuiSliderFlags_Logarithmic : 0)) &&
      !is_integer)
    value = static_cast<T>(std::clamp(rounded(value), bounds.least, bounds.most));
  ImGui::PopID();
  ImGui::EndDisabled();
  if (ImGui::IsItemClicked(ImGuiMouseButton_Right)) value = recorded;
  if (ImGui::IsItemHovered() && !ImGui::IsItemActive())
    ImGui::SetTooltip("%.*s\nRight-click: as recorded", static_cast<int>(row.help.size()),
                      row.help.data());
  const Box box = Box::between(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  // ImGui leaves half a handle, which is wider for few integers, and two pixels free at the ends.
  const auto values = static_cast<float>(most - least + 1);
  const float handle =
      std::max(ImGui::GetStyle().GrabMinSize, is_integer ? (box.width() - 4) / values : 0);
  const auto at = [&](double x) { return logarithmic ? std::log(x) : x; };
  const double share = (at(recorded) - at(bounds.least)) / (at(bounds.most) - at(bounds.least));
  const float x = box.x0 + 2 + handle / 2 + (box.width() - 4 - handle) * static_cast<float>(share);
  fill({x - 1, box.y1 - 5, x + 1, box.y1}, palette.text);
}

void integer_row(const PanelContext& context, const char* name, MemberRow row, int least, int most,
                 int& value, int recorded, const std::string& text) {
  row.in({least + 0.0, std::max(most, least + 1) + 0.0});
  slider_row(context, name, row, least > 0 && most > 40, value, recorded, text, most > least);
}

// Draw a slider from one of these values to the next.
template <class T>
void choice_row(const PanelContext& context, const char* name, const char* setting,
                const std::vector<T>& values, T& value, const T& recorded,
                std::string_view nothing = "") {
  const auto place = [&](const T& of) {
    return static_cast<int>(std::find(values.begin(), values.end(), of) - values.begin());
  };
  const int last = static_cast<int>(values.size()) - 1;
  int at = std::min(place(value), last);
  const int before = at;
  integer_row(context, name, row_of(setting), 0, last, at, std::min(place(recorded), last),
              value == T{} ? std::string(nothing) : fmt::format("{}", value));
  if (at != before) value = values[static_cast<std::size_t>(at)];
}

void heading(const PanelContext& context, const char* text) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  draw_text(context.fonts.strong, {at.x, at.y + kHeading - 8}, {0, 1}, context.palette.text, text);
  move_cursor({at.x, at.y + kHeading});
}

int words_row(const PanelContext& context, const char* id, const std::vector<std::string>& words,
              int chosen) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const int result = draw_tabs(context, id, {at.x - 4, at.y}, words, chosen);
  move_cursor({at.x, at.y + kTabs});
  return result;
}

// Offer the recorded mask, simple ones and the current one, each once.
void mask_row(const PanelContext& context, Problem& job, const MaskSpec& recorded) {
  std::vector<std::string> masks, words;
  for (const std::string& mask :
       {recorded.name(), std::string("full"), std::string("causal"),
        fmt::format("causal+window:{}", std::max<Index>(1, job.shape.seqlen / 8)), job.mask.name()})
    if (std::find(masks.begin(), masks.end(), mask) == masks.end()) {
      masks.push_back(mask);
      words.push_back(fitted(context.fonts.small, mask, 110));
    }
  const auto before = std::find(masks.begin(), masks.end(), job.mask.name()) - masks.begin();
  if (const int now = words_row(context, "mask", words, before); now != before)
    job.mask = MaskSpec::recorded(masks[now], {});
}

// Offer the schemes that can be chosen, and the recorded and the current one.
void scheme_row(const PanelContext& context, Scenario& s, const Scenario& recorded) {
  std::vector<std::pair<std::string, Pace>> ways;
  std::vector<std::string> words;
  const auto offer = [&](const Scheme* scheme, std::string name, Pace pace) {
    if (scheme->course != Course::steps) pace = recorded.pace;
    const std::pair way(std::move(name), pace);
    if (std::find(ways.begin(), ways.end(), way) != ways.end()) return;
    ways.push_back(way);
    words.push_back(is_offered(scheme) ? words_of_way(scheme, pace) : way.first);
  };
  for (const Scheme* const scheme : all_schemes())
    for (const Pace pace : {Pace::buffers, Pace::in_step})
      if (is_offered(scheme)) offer(scheme, std::string(name_of(scheme)), pace);
  offer(recorded.job.scheme, recorded.job.scheme_name(), recorded.pace);
  const auto is_now = [&](const auto& way) {
    return way.first == s.job.scheme_name() &&
           (way.second == s.pace || s.job.scheme->course != Course::steps);
  };
  const auto before = std::find_if(ways.begin(), ways.end(), is_now) - ways.begin();
  const int now = words_row(context, "way", words, before);
  if (now == before) return;
  set_scheme(s.job, ways[now].first);
  s.pace = ways[now].second;
}

// Offer heads that go together, and with the scheme.
void draw_heads(const PanelContext& context, Problem& job, const Problem& recorded) {
  const auto choose = [&](const char* name, const char* setting, Index AttentionShape::*heads,
                          std::vector<Index> values) {
    const Index was = recorded.shape.*heads, now = job.shape.*heads;
    std::erase_if(values, [&](Index value) {
      if (value == was || value == now) return false;
      Problem with = job;
      with.shape.*heads = value;
      return with.shape.num_heads % with.shape.num_heads_kv != 0 || why_refused(with).has_value();
    });
    choice_row(context, name, setting, values, job.shape.*heads, was);
  };
  const Index recorded_heads = recorded.shape.num_heads;
  std::set<Index> many{job.shape.num_heads, recorded_heads};
  std::set<Index> few{job.shape.num_heads_kv, recorded.shape.num_heads_kv};
  for (Index one = recorded_heads; one <= 64 * recorded_heads; one *= 2) many.insert(one);
  for (Index one = recorded_heads; one % 2 == 0;) many.insert(one /= 2);
  for (Index one = 1; one <= std::min<Index>(job.shape.num_heads, 1024); ++one)
    if (job.shape.num_heads % one == 0) few.insert(one);
  choose("heads", "heads", &AttentionShape::num_heads, {many.begin(), many.end()});
  choose("KV heads", "heads-kv", &AttentionShape::num_heads_kv, {few.begin(), few.end()});
}

void draw_partition(const PanelContext& context, Scenario& s, const Scenario& recorded) {
  Problem& job = s.job;
  heading(context, "Partition");
  integer_row(context, "ranks", row_of("world-size"), 1, most_ranks(recorded), job.world_size,
              recorded.job.world_size, fmt::format("{}", job.world_size));
  double length = job.shape.seqlen;
  const double was = recorded.job.shape.seqlen;
  MemberRow positions = row_of("seqlen");
  positions.in({std::max(1.0, was / 64), std::min(was * 64, positions.range.most)});
  slider_row(context, "positions", positions, true, length, was, fmt::format("{:.0f}", length));
  job.shape.seqlen = static_cast<Index>(length);
  draw_heads(context, job, recorded.job);
  std::vector<std::string> words;
  for (const PartitionKind kind : kAllPartitions) words.emplace_back(name_of(kind));
  const auto before = static_cast<int>(static_cast<PartitionKind>(job.partition));
  if (const int now = words_row(context, "partition", words, before); now != before)
    job.partition = kAllPartitions[now];
  mask_row(context, job, recorded.job.mask);
  scheme_row(context, s, recorded);
  if (job.scheme->course != Course::steps || s.pace != Pace::buffers) return;
  const MemberRow& row = row_of("kv-buffers");
  const int most = std::max(static_cast<int>(row.range.most), recorded.job.kv_buffers);
  integer_row(context, "KV buffers", row, 2, most, job.kv_buffers, recorded.job.kv_buffers,
              fmt::format("{}", job.kv_buffers));
}

// Draw the slider of a rate, which chooses a factor of the recorded one. `says` writes a rate.
template <class Says>
void rate_row(const PanelContext& context, const char* name, const char* setting, Scenario& s,
              const Scenario& recorded, double Rates::*rate, Says&& says) {
  const double was = recorded.rates.*rate, before = s.rates.*rate / was;
  double factor = before;
  slider_row(
      context, name, row_of(setting), true, factor, 1.0,
      says(s.rates.*rate) + (factor == 1 ? "" : fmt::format("  × {}", words_of_factor(factor))));
  if (factor != before) s.rates.*rate = was * factor;
}

// Offer nodes of equally many ranks, which InfiniBand joins until another link is chosen.
void draw_nodes(const PanelContext& context, Scenario& s, const Scenario& recorded) {
  std::set<int> counts{s.job.nodes, recorded.job.nodes};
  for (int nodes = 1; nodes <= s.job.world_size; ++nodes)
    if (s.job.world_size % nodes == 0) counts.insert(nodes);
  const int before = s.job.nodes;
  choice_row(context, "nodes", "nodes", {counts.begin(), counts.end()}, s.job.nodes,
             recorded.job.nodes);
  if (s.job.nodes == 1) return;
  if (s.job.nodes != before && s.between.name.empty()) s.between = *known_link("InfiniBand-NDR");
  std::vector<std::string> names = names_of_links();
  std::string name = s.between.name;
  const std::string was = recorded.job.nodes > 1 ? recorded.between.name : name;
  for (const std::string& other : {name, was})
    if (std::find(names.begin(), names.end(), other) == names.end()) names.push_back(other);
  choice_row(context, "between", "between", names, name, was, "as inside");
  if (name != s.between.name) s.between = known_link(name).value_or(ringscope::Link{});
  const int most = std::max(s.job.world_size / s.job.nodes, s.nics);
  integer_row(context, "NICs", row_of("nics"), 1, most, s.nics, recorded.nics,
              fmt::format("{}", s.nics));
}

void draw_machine(const PanelContext& context, Scenario& s, const Scenario& recorded) {
  const auto flops = [](double rate) { return flops_text(rate) + "/s"; };
  heading(context, "Machine");
  rate_row(context, "FLOP/s", "flops", s, recorded, &Rates::forward_flops, flops);
  s.rates.backward_flops =
      recorded.rates.backward_flops * (s.rates.forward_flops / recorded.rates.forward_flops);
  rate_row(context, "bandwidth", "bandwidth", s, recorded, &Rates::bytes_per_s, bandwidth_text);
  if (recorded.rates.latency_s > 0)
    rate_row(context, "latency", "latency", s, recorded, &Rates::latency_s,
             [](double seconds) { return time_text(1e9 * seconds); });
  draw_nodes(context, s, recorded);
  const int ranks = s.job.world_size;
  const auto shared = [ranks](int cores) { return cores == 0 ? ranks : std::min(cores, ranks); };
  int cores = shared(s.cores);
  integer_row(context, "cores", row_of("cores"), 1, ranks, cores, shared(recorded.cores),
              cores == ranks ? "one for each rank" : fmt::format("{} for all", cores));
  if (cores != shared(s.cores)) s.cores = cores == ranks ? 0 : cores;
}

void draw_disturbances(const PanelContext& context, Scenario& s, const Scenario& recorded) {
  heading(context, "Disturbances");
  MemberRow jitter = row_of("jitter"), slow = row_of("straggler");
  jitter.range.most = std::max(jitter.range.most, recorded.jitter);
  slider_row(context, "jitter", jitter, false, s.jitter, recorded.jitter, percent_text(s.jitter));
  const Straggler was = slowest_of(recorded), before = slowest_of(s);
  const int last = s.job.world_size - 1;
  int rank = std::min(before.speed < 1 ? before.rank : was.rank, last);
  double slowdown = 1 / before.speed;
  slow.in({1, std::max(1 / slow.range.least, 1 / was.speed)});
  slider_row(context, "slow rank", slow, true, slowdown, 1 / was.speed,
             slowdown > 1 ? fmt::format("× {}", words_of_factor(slowdown)) : "none");
  if (slowdown > 1)
    integer_row(context, "which", MemberRow("", "", "The slow one"), 0, last, rank,
                std::min(was.rank, last), fmt::format("rank {}", rank));
  if (slowdown == 1 / before.speed && rank == before.rank) return;
  set_speed(s, {before.rank, 1});
  set_speed(s, {rank, 1 / slowdown});
}

void draw_what_if_buttons(const PanelContext& context) {
  Session& session = context.session;
  WhatIf& what_if = *session.what_if;
  const Prediction* shown = what_if.shown();
  const float width = (ImGui::GetContentRegionAvail().x - 8) / 2;
  ImGui::BeginDisabled(settings_of(what_if.unmoved_settings(), what_if.settings).empty());
  if (ImGui::Button("As recorded", {width, 0})) what_if.settings = what_if.unmoved_settings();
  ImGui::EndDisabled();
  ImGui::SameLine(0, 8);
  const bool whole = shown != nullptr && shown->whole && shown->refusal.empty();
  ImGui::BeginDisabled(!whole);
  const bool kept = ImGui::Button("Keep", {width, 0});
  ImGui::EndDisabled();
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    ImGui::SetTooltip(whole ? "The predicted run in all panels, beside the recordings"
                            : "A sample of many ranks can't be shown in all panels");
  if (kept) session.keep_prediction();
}

void draw_remarks(const PanelContext& context, const std::vector<std::string>& remarks) {
  ImGui::Dummy({1, 2});
  for (const std::string& remark : remarks) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = ImGui::GetContentRegionAvail().x;
    const float high =
        draw_wrapped(context.fonts.small, at, width, context.palette.text_dim, remark);
    ImGui::Dummy({width, high});
  }
}

// Draw the settings into the ImGui window that the caller has begun.
void draw_what_if_controls(const PanelContext& context) {
  WhatIf& what_if = *context.session.what_if;
  const Scenario recorded = what_if.unmoved_settings();
  draw_partition(context, what_if.settings, recorded);
  draw_machine(context, what_if.settings, recorded);
  draw_disturbances(context, what_if.settings, recorded);
  draw_remarks(context, what_if.rates().remarks);
}

// ---
// The panel.

void draw_what_if_timelines(const PanelContext& context, const Box& box) {
  Session& session = context.session;
  const WhatIf& what_if = *session.what_if;
  const Document& recorded = session.document();
  const Prediction* shown = what_if.shown();
  const bool there = shown != nullptr && shown->refusal.empty();
  TimelineStrip second{nullptr,     "what if predicted",
                       "Predicted", "",
                       "working…",  what_if.pending() ? context.palette.warning : 0};
  if (there) {
    second.document = &shown->document;
    second.name = title_of(shown->document.trace);
    if (!shown->whole)
      second.name += fmt::format(" ({} of them shown)", shown->document.trace.ranks.size());
  }
  if (shown != nullptr && !what_if.pending())
    second.more = there ? time_text(1e9 * shown->figures.wall_s) : "";
  const std::array<Box, 2> boxes = draw_timelines(
      context, box,
      {TimelineStrip{&recorded, "what if recorded", "Recorded", title_of(recorded.trace),
                     time_text(1e9 * what_if.recorded().wall_s)},
       second},
      session.view, true);
  if (shown != nullptr && !there) draw_empty(context, boxes[1], "This can't be", shown->refusal);
}

constexpr float kSettings = 316, kFigureGap = 12, kFigure = 92, kLeastFigure = 80;

void draw_figure(const PanelContext& context, const WhatIfFigure& figure, const Box& box) {
  const Palette& palette = context.palette;
  ImFont* small = context.fonts.small;
  fill(box, mix(palette.panel, palette.text, 0.035), 7);
  const float x = box.x0 + 12, width = box.width() - 20;
  const Color color = figure.better > 0   ? palette.accent
                      : figure.better < 0 ? palette.warning
                                          : palette.text;
  draw_label(context, {x, box.y0 + 8}, {0, 0}, figure.name, width);
  const float end = x + draw_text(context.fonts.title, {x, box.y0 + 24}, {0, 0}, color,
                                  figure.shown.empty() ? "–" : figure.shown);
  draw_text(small, {end + 8, box.y0 + 31}, {0, 0}, color, figure.change, box.x1 - end - 12);
  const auto line = [&](float y, const std::string& name, const std::string& value) {
    const float after = x + draw_label(context, {x, y}, {0, 0}, name + " ");
    draw_text(small, {after, y}, {0, 0}, mix(palette.text_dim, palette.text, 0.5), value,
              box.x1 - after - 6);
  };
  if (!figure.unmoved.empty()) line(box.y0 + 53, "unchanged", figure.unmoved);
  line(box.y0 + 69, "recorded", figure.recorded);
}

// Draw the sentences. Return their height.
float draw_words(const PanelContext& context, ImVec2 at, float width) {
  const WhatIf& what_if = *context.session.what_if;
  const std::string headline = headline_of(what_if), trust = trust_of(what_if);
  const bool twice = !trust.empty() && trust != headline;
  const Prediction* shown = what_if.shown();
  const bool refused = shown != nullptr && !shown->refusal.empty();
  const float high = draw_headline(
      context, at, width, refused ? context.palette.warning : context.palette.text, headline);
  return std::max(high, 26.0f) + 8 +
         (twice ? draw_wrapped(context.fonts.small, {at.x, at.y + high + 2}, width,
                               context.palette.text_dim, trust)
                : 0);
}

}  // namespace

void draw_what_if(const PanelContext& context) {
  Session& session = context.session;
  const Box room = content_box();
  if (!session.what_if || room.width() < 60 || room.height() < 60) return;
  if (!session.what_if->refusal().empty())
    return draw_empty(context, room, "What if: not for this trace", session.what_if->refusal());
  session.update_what_if();
  const float settings = std::min(kSettings, std::floor(room.width() / 2));
  ImGui::PushStyleColor(ImGuiCol_ChildBg, mix(context.palette.panel, context.palette.text, 0.025));
  const float foot = ImGui::GetFrameHeight() + 2 * ImGui::GetStyle().WindowPadding.y;
  begin_padded_child("settings", {settings, room.height() - foot}, false);
  draw_what_if_controls(context);
  ImGui::EndChild();
  ImGui::SetCursorScreenPos({room.x0, room.y1 - foot});  // in reach however many settings there are
  begin_padded_child("settings' buttons", {settings, foot}, false);
  draw_what_if_buttons(context);
  ImGui::EndChild();
  ImGui::PopStyleColor();
  const Box effect{room.x0 + settings + kFigureGap, room.y0, room.x1, room.y1};
  if (!session.what_if || effect.width() < 100) return;  // the buttons may have closed it
  float y = effect.y0 + draw_words(context, effect.min(), effect.width());
  const std::vector<WhatIfFigure> figures = figures_of(*session.what_if);
  const auto count = static_cast<float>(figures.size());
  const float each = std::floor((effect.width() - 8 * (count - 1)) / count);
  if (each >= kLeastFigure && y + kFigure < effect.y1) {
    float x = effect.x0;
    for (const WhatIfFigure& figure : figures) {
      draw_figure(context, figure, {x, y, x + each, y + kFigure});
      x += each + 8;
    }
    y += kFigure + kFigureGap;
  }
  draw_what_if_timelines(context, {effect.x0, y, effect.x1, effect.y1});
}

}  // namespace ringscope::viz
