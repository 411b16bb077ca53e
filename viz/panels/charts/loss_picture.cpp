#include "viz/panels/charts/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "viz/model/session/format.h"

namespace ringscope::viz {
namespace {

constexpr std::size_t kMostRaw = 4000, kMostSmooth = 800;
constexpr double kNothingKnown = 5.545177444479562;  // log(256): all bytes are equally likely

// Return the value at step `at` of a straight line fitted to the losses around it, where near
// losses weigh most. Unlike a mean, it is unbiased where the curve begins and ends. A run's first
// steps change as much as hundreds of later ones, so the stretch grows with the step. It stays
// short compared to the whole run.
double smoothed(const std::vector<LossPoint>& points, std::size_t at) {
  const auto count = static_cast<double>(points.size());
  const double reach =
      std::clamp(0.2 * static_cast<double>(at), 2.0, std::max(2.0, 0.04 * count)) + 1;
  const auto first =
      static_cast<std::size_t>(std::max(0.0, std::ceil(static_cast<double>(at) - reach)));
  const auto last =
      std::min(points.size() - 1, static_cast<std::size_t>(static_cast<double>(at) + reach));
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = first; i <= last; ++i) {
    const double x = static_cast<double>(i) - static_cast<double>(at), share = std::abs(x) / reach;
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
      points.push_back(
          {static_cast<double>(curve.first_step) + static_cast<double>(i), curve.losses[i]});
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
  const int count = static_cast<int>(line.size());
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
