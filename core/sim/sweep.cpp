#include "core/sim/sweep.h"

#include <fmt/format.h>

namespace ringscope {
namespace {

// What simulating a point takes, about: (rank, step)s.
double cost_of(const SweepPoint& point) {
  const double ranks = point.scenario.job.world_size;
  return point.why ? 1 : 1000 + ranks * ranks * (point.scenario.job.backward ? 2 : 1);
}

std::string number(double value) { return fmt::format("{}", value); }

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

SweepColumn figure(std::string name, std::string unit, double Figures::*member) {
  return {std::move(name), std::move(unit),
          [member](const SweepPoint& p) { return p.why ? "" : number(p.figures.*member); }};
}

std::vector<SweepColumn> all_columns() {
  const auto text = [](std::string name, auto of) {
    return SweepColumn{std::move(name), "", of, true};
  };
  const auto count = [](std::string name, auto of) { return SweepColumn{std::move(name), "", of}; };
  return {
      count("seqlen",
            [](const SweepPoint& p) { return std::to_string(p.scenario.job.shape.seqlen); }),
      count("world_size",
            [](const SweepPoint& p) { return std::to_string(p.scenario.job.world_size); }),
      text("partition",
           [](const SweepPoint& p) { return std::string(partition_name(p.scenario)); }),
      text("scheme",
           [](const SweepPoint& p) { return std::string(name_of(p.scenario.job.scheme)); }),
      text("mask", [](const SweepPoint& p) { return p.scenario.job.mask.name(); }),
      count("kv_buffers",
            [](const SweepPoint& p) {
              return has_buffers(p.scenario) ? std::to_string(p.scenario.job.kv_buffers) : "";
            }),
      {"bandwidth_gb_per_s", "GB/s",
       [](const SweepPoint& p) { return number(p.scenario.rates.bytes_per_s / 1e9); }},
      count("jitter", [](const SweepPoint& p) { return number(p.scenario.jitter); }),
      figure("wall_s", "s", &Figures::wall_s),
      figure("forward_s", "s", &Figures::forward_s),
      figure("backward_s", "s", &Figures::backward_s),
      figure("compute_s", "s", &Figures::compute_s),
      figure("wait_s", "s", &Figures::wait_s),
      figure("exposed_s", "s", &Figures::exposed_s),
      figure("efficiency", "", &Figures::efficiency),
      figure("imbalance", "", &Figures::imbalance),
      figure("balance_ceiling", "", &Figures::balance_ceiling),
      figure("closed_form_s", "s", &Figures::closed_form_s),
      figure("peak_bytes", "bytes", &Figures::peak_bytes),
      text("why_not", [](const SweepPoint& p) { return p.why.value_or(""); }),
  };
}

bool same_work(const Scenario& a, const Scenario& b) {
  return a.searched == b.searched && a.job.shape.seqlen == b.job.shape.seqlen &&
         a.job.world_size == b.job.world_size && a.job.partition == b.job.partition &&
         a.job.mask.name() == b.job.mask.name();
}

// Turns the wheels to the next combination; false after the last.
bool turn(std::vector<std::size_t>& at, const std::vector<SweptAxis>& axes) {
  for (std::size_t i = at.size(); i-- > 0;) {
    if (++at[i] < axes[i].values.size()) return true;
    at[i] = 0;
  }
  return false;
}

}  // namespace

const SweepPoint& SweepTable::point(const std::vector<std::size_t>& at) const {
  std::size_t index = 0;
  for (std::size_t i = 0; i < axes.size(); ++i) index = index * axes[i].values.size() + at[i];
  return points[index];
}

std::optional<std::size_t> SweepTable::axis_of(Setting setting) const {
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].setting == setting) return i;
  return std::nullopt;
}

SweepTable points_of(const Scenario& base, const std::vector<SweptAxis>& axes) {
  SweepTable table{axes, {}};
  std::vector<std::size_t> at(axes.size());
  do {
    SweepPoint point{base, at, {}, {}};
    for (std::size_t i = 0; i < axes.size(); ++i)
      apply(axes[i].setting, axes[i].values[at[i]], point.scenario);
    validate(point.scenario.job.shape);
    point.scenario.job.mask.for_seqlen(point.scenario.job.shape.seqlen);
    check(point.scenario);
    point.why = obstacle(point.scenario);
    table.points.push_back(std::move(point));
  } while (turn(at, axes));
  return table;
}

void run_sweep(SweepTable& table, const std::function<void(double)>& progress) {
  double cost = 0, done = 0;
  std::optional<Work> work;  // of the point before, for it may take longer to find than to simulate
  const Scenario* last = nullptr;
  for (const SweepPoint& point : table.points) cost += cost_of(point);
  for (SweepPoint& point : table.points) {
    if (!point.why) {
      if (!work || !same_work(*last, point.scenario)) work = work_of(point.scenario);
      last = &point.scenario;
      point.figures = run_scenario(point.scenario, *work);
    }
    done += cost_of(point);
    if (progress) progress(done / cost);
  }
}

const std::vector<SweepColumn>& sweep_columns() {
  static const std::vector<SweepColumn> columns = all_columns();
  return columns;
}

std::string sweep_csv(const SweepTable& table) {
  std::string text;
  const auto line = [&](auto cell) {
    for (const SweepColumn& column : sweep_columns())
      text += (&column == sweep_columns().data() ? "" : ",") + quoted(cell(column));
    text += "\n";
  };
  line([](const SweepColumn& column) { return column.name; });
  for (const SweepPoint& point : table.points)
    line([&](const SweepColumn& column) { return column.text(point); });
  return text;
}

}  // namespace ringscope
