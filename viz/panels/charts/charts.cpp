#include "viz/panels/charts/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/session/format.h"

namespace ringscope::viz {
namespace {

// Return the stride at which at most `most` of `count` things are written.
std::size_t every(std::size_t count, int most) {
  const auto fit = static_cast<std::size_t>(std::max(most, 1));
  return std::max<std::size_t>((count + fit - 1) / fit, 1);
}

// Return the largest gap of a list over the smallest.
double unevenness(const std::vector<double>& at) {
  double least = INFINITY, most = 0;
  for (std::size_t i = 1; i < at.size(); ++i) {
    least = std::min(least, at[i] - at[i - 1]);
    most = std::max(most, at[i] - at[i - 1]);
  }
  return most / least;
}

constexpr float kMargin = 28, kHead = 64;
constexpr float kChartPad = 16, kTitle = 22, kNote = 18;

// ---
// The losses of a training run: each step's loss faintly, and a smoothed curve through them.

constexpr std::size_t kMostRaw = 4000, kMostSmooth = 800;
constexpr double kNothingKnown = 5.545177444479562;  // log(256): all bytes are equally likely

// Return the value at step `at` of a straight line fitted to the losses around it, where near
// losses weigh most. Unlike a mean, it is unbiased where the curve begins and ends. A run's first
// steps change as much as hundreds of later ones, so the stretch grows with the step. It stays
// short compared to the whole run.
double smoothed(const std::vector<LossPoint>& points, std::size_t at) {
  const auto count = static_cast<double>(points.size());
  const double reach = std::clamp(0.2 * at, 2.0, std::max(2.0, 0.04 * count)) + 1;
  const auto first = static_cast<std::size_t>(std::max(0.0, std::ceil(at - reach)));
  const auto last = std::min(points.size() - 1, static_cast<std::size_t>(at + reach));
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = first; i <= last; ++i) {
    const double x = static_cast<double>(i) - at, share = std::abs(x) / reach;
    const double weight = std::pow(1 - share * share * share, 3), y = points[i].loss;
    w += weight, wx += weight * x, wy += weight * y, wxx += weight * x * x, wxy += weight * x * y;
  }
  const double spread = w * wxx - wx * wx;
  return spread > 1e-12 * w * w ? (wxx * wy - wx * wxy) / spread : wy / w;
}

std::vector<LossPoint> finite_points(const LossCurve& curve) {
  std::vector<LossPoint> points;
  for (std::size_t i = 0; i < curve.losses.size(); ++i)
    if (std::isfinite(curve.losses[i]))
      points.push_back({static_cast<double>(curve.first_step) + i, curve.losses[i]});
  return points;
}

std::string subtitle_of(const LossCurve& curve, const LossPicture& picture) {
  const std::size_t steps = curve.losses.size();
  if (picture.smooth.empty()) return steps == 0 ? "no steps" : "no step's loss is a number";
  const double last = picture.raw.back().loss;
  const std::string count = counted(steps, "step");
  const std::string bits = fmt::format("{:.2f} bits a byte", last / std::log(2.0));
  std::string text = steps == 1 ? fmt::format("{}: {:.3f} nats, or {}", count, last, bits)
                                : fmt::format("{}: from {:.3f} to {:.3f} nats, or {}", count,
                                              picture.raw.front().loss, last, bits);
  if (last < curve.unigram_entropy)
    text += fmt::format("; {:.2f} below what byte frequencies alone give",
                        curve.unigram_entropy - last);
  const auto missing =
      steps - static_cast<std::size_t>(std::count_if(curve.losses.begin(), curve.losses.end(),
                                                     [](double x) { return std::isfinite(x); }));
  if (missing > 0) text += fmt::format("; {} losses are no numbers", missing);
  return text;
}

// Many points are drawn fainter and smaller, so that they form a background to the curve.
Color raw_color(const ChartDrawing& d, const LossPicture& picture) {
  return with_alpha(d.palette.accent, picture.raw.size() > 400 ? 0.32 : 0.55);
}
float raw_radius(const LossPicture& picture) {
  return picture.raw.size() > 1000 ? 1.4f : picture.raw.size() > 100 ? 2.0f : 3.0f;
}

struct Reader {  // converts steps and losses to pixels
  const LossPicture& picture;
  Box plot;
  ImVec2 at(const LossPoint& point) const {
    return {x_of(plot, picture.x, point.step), y_of(plot, picture.y, point.loss)};
  }
};

void draw_dashes(const Box& plot, float y, Color color) {
  constexpr float kDash = 7, kGap = 5;
  for (float x = plot.x0; x < plot.x1; x += kDash + kGap)
    draw_list().AddLine({x, y}, {std::min(x + kDash, plot.x1), y}, color, 1.5f);
}

// Return whether the smoothed curve passes through `box`.
bool hits_curve(const Reader& chart, const Box& box) {
  const std::vector<LossPoint>& smooth = chart.picture.smooth;
  constexpr int kParts = 16;  // parts of the line between two points
  for (std::size_t i = 1; i < smooth.size(); ++i) {
    const ImVec2 from = chart.at(smooth[i - 1]), to = chart.at(smooth[i]);
    for (int k = 0; k <= kParts; ++k) {
      const float share = static_cast<float>(k) / kParts;
      if (box.contains({from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)}))
        return true;
    }
  }
  return false;
}

// Draw a mark. Its name stands above or below an end of its line, where the curve leaves room.
void draw_mark(const ChartDrawing& d, const Reader& chart, const LossMark& mark) {
  const Box& plot = chart.plot;
  const float y = std::floor(y_of(plot, chart.picture.y, mark.loss)) + 0.5f;
  const float height = font_height(d.fonts.text), width = text_width(d.fonts.text, mark.name);
  const auto box_at = [&](bool right, bool above) {
    const float x0 = right ? plot.x1 - width - 10 : plot.x0 + 4;
    const float y0 = above ? y - height - 7 : y + 4;
    return Box{x0, y0, x0 + width + 6, y0 + height + 3};
  };
  Box box = box_at(true, true);
  for (const Box& other :
       {box_at(true, true), box_at(true, false), box_at(false, true), box_at(false, false)})
    if (other.y0 > plot.y0 && other.y1 < plot.y1 && !hits_curve(chart, other)) {
      box = other;
      break;
    }
  fill(box, with_alpha(d.palette.panel, 0.85), 3);
  const Color color = mark.loss == kNothingKnown ? d.palette.text_dim : d.palette.playhead;
  draw_dashes(plot, y, color);
  draw_text(d.fonts.text, {box.x0 + 3, box.y0 + 1}, {0, 0}, color, mark.name);
}

void draw_legend(const ChartDrawing& d, const LossPicture& picture, const Box& inner) {
  const float y = inner.y0 + 8;
  float x = inner.x0;
  draw_list().AddCircleFilled({x + 9, y}, 3, raw_color(d, picture), 12);
  x += 26 +
       draw_text(d.fonts.small, {x + 24, y}, {0, 0.5f}, d.palette.text, "loss of a step's bytes") +
       18;
  draw_list().AddLine({x, y}, {x + 18, y}, d.palette.accent, 2.5f);
  draw_text(d.fonts.small, {x + 24, y}, {0, 0.5f}, d.palette.text, "smoothed");
}

void draw_curve(const ChartDrawing& d, const Reader& chart) {
  const std::vector<LossPoint>& smooth = chart.picture.smooth;
  const float radius = raw_radius(chart.picture);
  for (const LossPoint& point : chart.picture.raw)
    draw_list().AddCircleFilled(chart.at(point), radius, raw_color(d, chart.picture), 12);
  std::vector<ImVec2> line;
  for (const LossPoint& point : smooth) line.push_back(chart.at(point));
  const int count = line.size();
  // A dark rim sets the curve apart from many points, but would hide a few.
  if (count > 100)
    draw_list().AddPolyline(line.data(), count, with_alpha(d.palette.panel, 0.8), 0, 5.5f);
  draw_list().AddPolyline(line.data(), count, d.palette.accent, 0, 2.5f);
  if (line.empty()) return;
  const ImVec2 end = line.back();
  draw_list().AddCircleFilled(end, 5.5f, d.palette.panel, 20);
  draw_list().AddCircleFilled(end, 4, d.palette.accent, 20);
  draw_text(d.fonts.strong, {end.x + 10, end.y}, {0, 0.5f}, d.palette.accent,
            fmt::format("{:.3f}", chart.picture.raw.back().loss));
}

}  // namespace

double ChartScale::share(double value) const {
  if (high <= low) return 0.5;
  if (!logarithmic) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

ChartScale linear_scale(double low, double high, int count, const ValueText& text) {
  ChartScale scale;
  if (!(high > low)) high = low == 0 ? 1 : low + std::abs(low);
  const double step = round_step((high - low) / std::max(count, 1));
  scale.low = std::floor(low / step + 1e-9) * step;
  const auto steps = std::llround(std::ceil((high - scale.low) / step - 1e-9));
  for (long long i = 0; i <= steps; ++i) {
    const double at = scale.low + i * step;
    scale.ticks.push_back({at, text(at)});
    scale.high = at;
  }
  return scale;
}

ChartScale log_scale(double low, double high, int count, const ValueText& text) {
  ChartScale scale;
  scale.logarithmic = true;
  const double room = high > low ? std::max(std::pow(high / low, 0.05), 1.05) : 2;
  scale.low = low / room;
  scale.high = high * room;
  std::vector<double> powers, all;
  for (double power = std::pow(10, std::floor(std::log10(scale.low))); power <= scale.high;
       power *= 10)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double at = factor * power;
      if (at < scale.low || at > scale.high) continue;
      all.push_back(at);
      if (factor == 1) powers.push_back(at);
    }
  const bool few = all.size() <= static_cast<std::size_t>(count) + 2;
  const std::vector<double>& ticks = few ? all : powers;
  const std::size_t stride = every(ticks.size(), count + 2);
  for (std::size_t i = 0; i < ticks.size(); i += stride)
    scale.ticks.push_back({ticks[i], text(ticks[i])});
  return scale;
}

ChartScale scale_at(const std::vector<double>& values, int count, const ValueText& text) {
  ChartScale scale;
  scale.low = values.front();
  scale.high = values.back();
  if (values.front() > 0 && values.size() > 2) {
    std::vector<double> logarithms;
    for (const double value : values) logarithms.push_back(std::log(value));
    scale.logarithmic = unevenness(logarithms) < unevenness(values) * (1 - 1e-9);
  }
  const std::size_t stride = every(values.size(), count);
  for (std::size_t i = 0; i < values.size(); i += stride)
    scale.ticks.push_back({values[i], text(values[i])});
  return scale;
}

ChartScale named_scale(const std::vector<std::string>& names, int count) {
  ChartScale scale;
  scale.high = static_cast<double>(names.size()) - 1;
  const std::size_t stride = every(names.size(), count);
  for (std::size_t i = 0; i < names.size(); i += stride)
    scale.ticks.push_back({static_cast<double>(i), names[i]});
  return scale;
}

std::string tick_time_text(double seconds) {
  if (seconds == 0) return "0";
  return words_of_time(1e9 * seconds);
}

std::string tokens_text(double count) {
  constexpr double kMi = kKi * kKi;
  if (count >= kMi && std::fmod(count, kMi / 4) == 0) return fmt::format("{:g}M", count / kMi);
  if (count >= kKi && std::fmod(count, kKi) == 0) return fmt::format("{:.0f}k", count / kKi);
  return fmt::format("{:.10g}", count);
}

Box draw_page(const ChartDrawing& d, const std::string& title, const std::string& subtitle,
              const Box& box) {
  fill(box, d.palette.background);
  const float width = box.width() - 2 * kMargin;
  draw_text(d.fonts.title, {box.x0 + kMargin, box.y0 + 16}, {0, 0}, d.palette.text, title, width);
  draw_text(d.fonts.text, {box.x0 + kMargin, box.y0 + 42}, {0, 0}, d.palette.text_dim, subtitle,
            width);
  return {box.x0 + kMargin, box.y0 + kHead + 12, box.x1 - kMargin, box.y1 - kMargin};
}

Box draw_frame(const ChartDrawing& d, const Box& box, const std::string& title,
               const std::string& note) {
  fill(box, d.palette.panel, 8);
  outline(box, d.palette.panel_border, 8);
  const float width = box.width() - 2 * kChartPad;
  draw_text(d.fonts.strong, {box.x0 + kChartPad, box.y0 + kChartPad - 4}, {0, 0}, d.palette.text,
            title, width);
  if (!note.empty())
    draw_text(d.fonts.small, {box.x0 + kChartPad, box.y0 + kChartPad - 4 + kTitle}, {0, 0},
              d.palette.text_dim, note, width);
  const float head = kTitle + (note.empty() ? 0 : kNote);
  return {box.x0 + kChartPad, box.y0 + kChartPad + head, box.x1 - kChartPad, box.y1 - kChartPad};
}

float x_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.x0 + static_cast<float>(scale.share(value)) * plot.width();
}
float y_of(const Box& plot, const ChartScale& scale, double value) {
  return plot.y1 - static_cast<float>(scale.share(value)) * plot.height();
}

float widest_label(const ImFont* font, const std::vector<Tick>& ticks) {
  float width = 0;
  for (const Tick& tick : ticks) width = std::max(width, text_width(font, tick.label));
  return width;
}

void draw_x_axis(const ChartDrawing& d, const ChartScale& scale, const Box& plot,
                 const std::string& title, bool with_grid) {
  float free_from = -1e9f;
  for (const Tick& tick : scale.ticks) {
    const float x = std::floor(x_of(plot, scale, tick.at));
    if (with_grid) draw_list().AddLine({x, plot.y0}, {x, plot.y1}, d.palette.grid);
    const float half = text_width(d.fonts.small, tick.label) / 2;
    if (x - half < free_from) continue;
    draw_text(d.fonts.small, {x, plot.y1 + kTickGap}, {0.5f, 0}, d.palette.text_dim, tick.label);
    free_from = x + half + 8;
  }
  draw_text(d.fonts.small, {(plot.x0 + plot.x1) / 2, plot.y1 + kTickGap + 18}, {0.5f, 0},
            d.palette.text, title);
}

void draw_y_axis(const ChartDrawing& d, const ChartScale& scale, const Box& plot) {
  for (const Tick& tick : scale.ticks) {
    const float y = std::floor(y_of(plot, scale, tick.at));
    draw_list().AddLine({plot.x0, y}, {plot.x1, y}, d.palette.grid);
    draw_text(d.fonts.small, {plot.x0 - kTickGap, y}, {1, 0.5f}, d.palette.text_dim, tick.label);
  }
}

LossPicture picture_of(const LossCurve& curve) {
  LossPicture picture;
  picture.title = curve.title;
  const std::vector<LossPoint> points = finite_points(curve);
  for (const std::size_t i : some_of(points.size(), kMostRaw)) picture.raw.push_back(points[i]);
  for (const std::size_t i : some_of(points.size(), kMostSmooth))
    picture.smooth.push_back({points[i].step, smoothed(points, i)});

  double least = INFINITY, most = -INFINITY;
  for (const LossPoint& point : points) {
    least = std::min(least, point.loss);
    most = std::max(most, point.loss);
  }
  const double entropy = curve.unigram_entropy;
  if (points.empty()) least = 0, most = kNothingKnown;
  if (std::isfinite(entropy) && entropy > 0) {
    least = std::min(least, entropy);
    most = std::max(most, entropy);
  }
  // A run that starts from nothing shows the loss of knowing nothing.
  if (most > 0.9 * kNothingKnown) most = std::max(most, kNothingKnown);
  // The axis starts at zero only if losses come near it.
  if (least < 0.3 * most) least = std::min(least, 0.0);
  const double steps = static_cast<double>(std::max<std::size_t>(curve.losses.size(), 2)) - 1;
  const auto first = static_cast<double>(curve.first_step);
  picture.y = linear_scale(least, most, 8, [](double loss) { return fmt::format("{:.4g}", loss); });
  picture.x = linear_scale(first == 1 ? 0 : first, first + steps, 10,
                           [](double step) { return fmt::format("{:.10g}", step); });
  // The axis ends where the run does; otherwise part of its last interval would stay empty.
  picture.x.high = first + steps;
  std::erase_if(picture.x.ticks, [&](const Tick& tick) { return tick.at > picture.x.high; });

  const auto mark = [&](const std::string& name, double loss) {
    if (loss > picture.y.low && loss <= picture.y.high)
      picture.marks.push_back({fmt::format("{} = {:.3f}", name, loss), loss});
  };
  mark("knows nothing: log 256", kNothingKnown);
  if (entropy > 0) mark("knows only how often each byte occurs: unigram entropy", entropy);
  picture.subtitle = subtitle_of(curve, picture);
  return picture;
}

void draw_loss_curve(const ChartDrawing& d, const LossPicture& picture, const Box& box) {
  const Box page = draw_page(d, picture.title, picture.subtitle, box);
  Box inner = draw_frame(d, page, "Loss in nats a byte, against steps", "");
  draw_legend(d, picture, inner);
  inner.y0 += 24;
  constexpr float kEndLabel = 64;
  const Reader chart{picture,
                     {inner.x0 + widest_label(d.fonts.small, picture.y.ticks) + kTickGap,
                      inner.y0 + 10, inner.x1 - kEndLabel, inner.y1 - 40}};
  draw_y_axis(d, picture.y, chart.plot);
  draw_x_axis(d, picture.x, chart.plot, "step", true);
  for (const LossMark& mark : picture.marks) draw_mark(d, chart, mark);
  draw_curve(d, chart);
}

}  // namespace ringscope::viz
