// Carries out `ringscope check`: reads a user's inputs and outputs, computes the oracle, and says
// whether the outputs are right, where they are not, and which mistake they look like.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/command_line/commands.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "app/run/report.h"
#include "app/run/run.h"
#include "core/base/files.h"
#include "core/base/npy.h"
#include "core/base/text.h"
#include "core/tools/check/verdict.h"

namespace ringscope {
namespace {

constexpr int kDefaultCheckedRanks = 4;

std::vector<double> in_f64(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

// ---
// Reading.

// Read a tensor of the outputs, if it is given.
void read_rows(const char* flag, const std::optional<std::string>& path, const RunOptions& run,
               const AttentionShape& shape, Tensor tensor, NaiveResult<double>& into) {
  if (!path) return;
  const bool of_keys = is_key_side(tensor);
  const auto sizes = sizes_of_file(flag, *path, run);
  const std::array<Index, 4> expected{shape.batch, heads_of(shape, tensor) / shape.batch,
                                      seqlen_of(shape, tensor), width_of(shape, tensor)};
  if (sizes != expected)
    throw InputError(fmt::format(
        "{} {}: {} heads x {} positions x {} x batch {} found; accepted: the sizes of the {}, "
        "{} heads x {} positions x {} x batch {}",
        flag, *path, sizes[1], sizes[2], sizes[3], sizes[0], of_keys ? "keys" : "queries",
        expected[1], expected[2], expected[3], expected[0]));
  values_of(into, tensor) =
      in_f64(read_tensor(flag, *path, run, nullptr, of_keys ? nullptr : &shape));
}

// Read an lse: [batch, heads, seqlen], [batch, seqlen, heads], either with a last axis of 1, or one
// of them without its batch. Remark on axes that lie the other way round.
std::vector<float> read_lse(const std::string& path, const AttentionShape& shape,
                            std::vector<std::string>& remarks) {
  const NpyDimensions dimensions{2, 4, "2 to 4 accepted: [batch, heads, seqlen]"};
  const NpyArray array = for_flag("--lse", [&] { return read_npy(path, dimensions); });
  std::vector<Index> sizes(array.shape.begin(), array.shape.end());
  if (sizes.back() == 1 && sizes != std::vector<Index>{1, 1, 1, 1} &&
      !(shape.seqlen == 1 && sizes[0] == 1))
    sizes.pop_back();
  else
    sizes.erase(sizes.begin());
  if (sizes == std::vector<Index>{shape.batch, shape.num_heads, shape.seqlen}) return array.values;
  if (sizes == std::vector<Index>{shape.batch, shape.seqlen, shape.num_heads}) {
    remarks.push_back(fmt::format(
        "--lse {}: shape ({}) is read as [batch, seqlen, heads]; what expects [batch, heads, "
        "seqlen] of it makes the mistake lse-axes-swapped",
        path, fmt::join(sizes, ", ")));
    return from_layout(Layout::bshd, {shape.batch, shape.num_heads, shape.seqlen, 1}, array.values);
  }
  throw InputError(
      fmt::format("--lse {}: shape ({}) given; accepted: [batch, heads, seqlen] = ({}, {}, {})",
                  path, fmt::join(array.shape, ", "), shape.batch, shape.num_heads, shape.seqlen));
}

// Read the lse of all ranks.
std::vector<double> read_lse(const RunOptions& run, const Problem& config,
                             std::vector<std::string>& remarks) {
  const std::vector<std::string> files = files_of_ranks(*run.lse, run);
  AttentionShape of_rows = config.shape;
  of_rows.seqlen = config.shape.queries();
  if (files.front() == *run.lse) return in_f64(read_lse(*run.lse, of_rows, remarks));
  std::vector<std::vector<float>> parts;
  for (int rank = 0; rank < std::ssize(files); ++rank) {
    AttentionShape shape = config.shape;
    shape.seqlen = config.query_rows(rank);
    std::vector<std::string> again;
    parts.push_back(read_lse(files[rank], shape, rank == 0 ? remarks : again));
  }
  return in_f64(joined_ranks("--lse", run, 1, parts, config.shape.batch * config.shape.num_heads,
                             &config.shape));
}

// Return the mask with documents that end where the 1-D array of a file says, from its first 0 on.
MaskSpec with_documents(const MaskSpec& mask, const std::string& path) {
  if (mask.has_documents())
    contradiction("--cu-seqlens", "given with a mask that has documents", "one of them");
  const std::vector<Index> ends = for_flag(
      "--cu-seqlens " + path, [&] { return parse_npy_integers(read_file(path, ".npy file")); });
  if (ends.size() < 2 || ends.front() != 0 ||
      std::ranges::adjacent_find(ends, std::greater_equal<>()) != ends.end())
    throw InputError(
        fmt::format("--cu-seqlens {}: {} from {} on given; accepted: 0, and then the "
                    "documents' ends, each above the one before",
                    path, count_text(std::ssize(ends), "number"), ends.front()));
  std::vector<Index> lengths;
  for (std::size_t d = 1; d < ends.size(); ++d) lengths.push_back(ends[d] - ends[d - 1]);
  const std::string name = mask.name() == "full" ? "" : mask.name() + "+";
  return MaskSpec::parse(fmt::format("{}documents:{}", name, fmt::join(lengths, ",")));
}

// Everything that a check works with.
struct Checked {
  Problem config;
  CheckedProblem problem;
  CheckedInputs inputs;
  NaiveResult<double> mine;
  DiagnosisOptions options;
  std::vector<std::string> remarks;  // on what was read, and why it is judged in this dtype
  bool dout_is_ones = false, has_remarks = false, is_dtype_guessed = false;
};

Index rows_of(const Checked& checked) {
  const std::vector<Index>& rows = checked.options.rows;
  return rows.empty() ? checked.config.shape.queries() : std::ssize(rows);
}

// Return the dtype by whose rounding the outputs are judged, and why.
std::pair<DType, std::string> dtype_of(const CheckOptions& options,
                                       const NaiveResult<double>& mine) {
  if (options.dtype) return {*options.dtype, ""};
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto& seen = !mine.out.empty()  ? mine.out
                       : !mine.dq.empty() ? mine.dq
                       : !mine.dk.empty() ? mine.dk
                                          : mine.dv;
    if (!seen.empty() && is_stored_in(dtype, seen))
      return {dtype, fmt::format("every value fits in {}, so the outputs are judged by its "
                                 "rounding (--dtype f32 for f32's)",
                                 name_of(dtype))};
  }
  return {DType::f32, ""};
}

// Return about how many bytes it takes to compare the tensors that are given: each in f64, as 16 bits
// hold it and as it should be, and a block of scores per thread.
double bytes_of(const RunOptions& run, const Problem& config) {
  const auto [query, kv, rows] = sizes_of(config.shape);
  double values = query + 2 * kv;
  for (const auto& [is_there, size] : {std::pair{run.out.has_value(), query},
                                       {run.lse.has_value(), rows},
                                       {run.dq.has_value(), query},
                                       {run.dk.has_value(), kv},
                                       {run.dv.has_value(), kv},
                                       {config.backward, query}})
    if (is_there) values += size;
  constexpr double kScores = 2 * 64 * 8;
  return 24 * values + kScores * static_cast<double>(config.shape.seqlen) * cores();
}

Checked read_all(const CheckOptions& options) {
  const RunOptions& run = options.run;
  const InputPlan plan = plan_inputs(run);
  Checked checked;
  Problem& config = checked.config;
  config = run.job;
  config.shape = plan.shape;
  config.world_size = run.world_size.value_or(kDefaultCheckedRanks);
  config.backward = run.dq || run.dk || run.dv || run.dsink;
  deal_out_as_given(config);
  if (!plan.doubt.empty()) print_error(plan.doubt);
  require_bytes(bytes_of(run, config), "shorter sequences or fewer heads");

  const AttentionShape& shape = config.shape;
  config.sink_logits = plan.sink_logits;
  const LoadedInputs loaded = load_inputs(run, plan);
  for (const std::string& remark : loaded.remarks) print_error(remark);
  checked.has_remarks = !loaded.remarks.empty();
  checked.inputs = {
      in_f64(loaded.tensors.q), in_f64(loaded.tensors.k), in_f64(loaded.tensors.v), {}};
  checked.dout_is_ones = config.backward && !run.dout;
  if (config.backward)
    checked.inputs.dout =
        run.dout ? in_f64(loaded.tensors.dout)
                 : std::vector<double>(static_cast<std::size_t>(out_values(shape, shape.queries())),
                                       1.0);
  read_rows("--out", run.out, run, shape, Tensor::out, checked.mine);
  read_rows("--dq", run.dq, run, shape, Tensor::dq, checked.mine);
  read_rows("--dk", run.dk, run, shape, Tensor::dk, checked.mine);
  read_rows("--dv", run.dv, run, shape, Tensor::dv, checked.mine);
  if (run.dsink) checked.mine.dsink = in_f64(read_per_head("--dsink", *run.dsink, shape.num_heads));
  if (run.lse) checked.mine.lse = read_lse(run, config, checked.remarks);

  std::string judged_as;
  std::tie(config.dtype, judged_as) = dtype_of(options, checked.mine);
  checked.is_dtype_guessed = !judged_as.empty();
  if (checked.is_dtype_guessed) checked.remarks.push_back(judged_as);
  checked.options.dtype = config.dtype;
  checked.options.threads = cores();
  if (options.rows)
    checked.options.rows = sampled_queries(shape.queries(), *options.rows, options.seed);
  if (options.rows)
    checked.remarks.push_back(fmt::format("a sample of {} of the {} query rows of each head",
                                          rows_of(checked), shape.queries()));
  if (checked.dout_is_ones)
    checked.remarks.emplace_back("no --dout given, so the gradients are taken as those of ones");
  if (options.rope_base) checked.options.rope_bases = {*options.rope_base};
  checked.problem = checked_problem(config);
  return checked;
}

// ---
// Judging.

// Put the rows of a sample at their places, as those of the given tensors lie.
void spread_out(const AttentionShape& shape, const std::vector<Index>& sample,
                NaiveResult<double>& oracle) {
  const auto spread = [&](Tensor tensor, Index width, std::vector<double>& values) {
    const Index count = std::ssize(sample);
    const Index rows = seqlen_of(shape, tensor);
    std::vector<double> whole(heads_of(shape, tensor) * rows * width);
    for (Index row = 0; row < heads_of(shape, tensor) * count; ++row)
      std::copy_n(values.begin() + row * width, width,
                  whole.begin() + (row / count * rows + sample[row % count]) * width);
    values = std::move(whole);
  };
  for (const Tensor tensor : {Tensor::out, Tensor::lse, Tensor::dq}) {
    if (values_of(oracle, tensor).empty()) continue;
    spread(tensor, width_of(shape, tensor), values_of(oracle, tensor));
    RowBound& bound = values_of(oracle.bounds, tensor);
    spread(tensor, 1, bound.f32);
    spread(tensor, 1, bound.terms);
  }
}

CheckVerdict judge(const Checked& checked, const CheckedInputs& inputs) {
  ProgressBar bar("reference", true);
  const std::vector<Index>& sample = checked.options.rows;
  NaiveResult<double> oracle =
      oracle_of(checked.problem, inputs, {64, cores(), sample, bar.callback()});
  if (!sample.empty()) spread_out(checked.problem.shape, sample, oracle);
  ProgressBar search("mistakes", true);
  DiagnosisOptions options = checked.options;
  options.progress = search.callback();
  return check_outputs(checked.problem, inputs, oracle, checked.mine, options);
}

// Judge the outputs by the inputs as 16 bits hold them. Where the inputs' files hold more, the code
// may have computed with that, so the outputs may be right by either.
CheckVerdict judge(const Checked& checked) {
  CheckedInputs stored = checked.inputs;
  bool is_equal = true;
  for (auto* tensor : {&stored.q, &stored.k, &stored.v, &stored.dout}) {
    is_equal = is_equal && is_stored_in(checked.config.dtype, *tensor);
    *tensor = stored_as(checked.config.dtype, *tensor);
  }
  CheckVerdict verdict = judge(checked, stored);
  if (is_equal || verdict.result != CheckResult::wrong) return verdict;
  CheckVerdict as_given = judge(checked, checked.inputs);
  const auto is_sure = [](const CheckVerdict& of) {
    return !of.suspects.empty() && of.suspects.front().is_sure();
  };
  const bool is_clearer = is_sure(as_given) && !is_sure(verdict);
  return as_given.result != CheckResult::wrong || is_clearer ? as_given : verdict;
}

// ---
// Reporting.

// Return a rank or a position, or none for -1.
template <class T>
std::optional<T> if_any(T number) {
  return number < 0 ? std::nullopt : std::optional(number);
}

Fields check_fields(const TensorCheck& t) {
  return {{"", t.name(), "tensor", -8},
          {"pass", t.passes()},
          {"max_abs", t.max_abs},
          {"", t.worst.error, "error", 13, digits_text},
          {"tolerance", t.worst.tolerance, "tolerance", 13, digits_text},
          {"", t.worst.place(), "in row", 30},
          {"worst_row", worst_row_fields(t.worst)},
          {"rms", t.rms, "rms error", 13, digits_text},
          {"rms_tolerance", t.rms_tolerance, "tolerance", 13, digits_text},
          {"non_finite", t.disagreeing_non_finite},
          {"wrong_rows", t.wrong_rows},
          {"first_wrong_row", if_any(t.first_wrong_row)},
          {"last_wrong_row", if_any(t.last_wrong_row)},
          {"wrong_ranks", t.wrong_ranks},
          {"times_f32", t.times_f32},
          {"",
           t.is_exact   ? "  exact"
           : t.passes() ? "  as good as it can be"
                        : "  WRONG",
           "", 0}};
}

// Return what was remarked when reading, and which tensors are right in 16 bits alone.
std::vector<std::string> remarks_of(const Checked& checked, const CheckVerdict& verdict) {
  std::vector<std::string> remarks = checked.remarks;
  for (const TensorCheck& t : verdict.tensors) {
    const DType dtype = t.right_in.value_or(checked.config.dtype);
    if (dtype != DType::f32 && t.tensor != Tensor::lse && t.times_f32 > 1 &&
        (t.right_in || (t.passes() && checked.is_dtype_guessed)))
      remarks.push_back(fmt::format("{}: exact for {}, {:.3g} times too coarse for f32", t.name(),
                                    name_of(dtype), t.times_f32));
  }
  return remarks;
}

std::string report_json(const Checked& checked, const CheckVerdict& verdict) {
  Fields tensors, map_fields;
  for (const TensorCheck& t : verdict.tensors) tensors.emplace_back(t.name(), check_fields(t));
  for (const ErrorMap& map : verdict.maps)
    if (verdict.result == CheckResult::wrong)
      map_fields.emplace_back(map.tensor, Fields{{"by_rank_and_chunk", map.by_rank_and_chunk},
                                                 {"by_head", map.by_head}});
  std::vector<Fields> suspects;
  for (const Suspect& suspect : verdict.suspects)
    suspects.push_back({{"mistake", name_of(suspect.mistake)},
                        {"rank", if_any(suspect.rank)},
                        {"confidence", suspect.confidence},
                        {"sure", suspect.is_sure()},
                        {"how", suspect.how},
                        {"mask", suspect.mask.empty() ? std::nullopt : std::optional(suspect.mask)},
                        {"verify", facts_of(suspect.mistake).explanation}});
  const Problem& config = checked.config;
  return json_line({{"verdict", name_of(verdict.result)},
                    {"dtype", name_of(config.dtype)},
                    {"shape", shape_fields(config.shape)},
                    {"world_size", config.world_size},
                    {"partition", name_of(config.partition)},
                    {"mask", config.mask.name()},
                    {"softmax_scale", config.scale()},
                    {"rows", rows_of(checked)},
                    {"sampled", !checked.options.rows.empty()},
                    {"remarks", remarks_of(checked, verdict)},
                    {"tensors", tensors},
                    {"rms_error", map_fields},
                    {"suspects", suspects}});
}

std::string ranks_text(const std::vector<int>& ranks, int of) {
  constexpr std::ptrdiff_t kShown = 16;
  if (std::ssize(ranks) == of) return "on all ranks";
  if (std::ssize(ranks) > kShown) return fmt::format("on {} of {} ranks", ranks.size(), of);
  return fmt::format("on rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string report_text(const Checked& checked, const CheckVerdict& verdict) {
  const Problem& config = checked.config;
  std::string text = fmt::format("{}, {} on {} ranks\n", problem_text(config),
                                 name_of(config.partition), config.world_size);
  for (const std::string& remark : remarks_of(checked, verdict)) text += remark + "\n";
  const std::string sampled = checked.options.rows.empty() ? "" : ", in the rows of the sample";
  std::vector<Fields> rows;
  for (const TensorCheck& t : verdict.tensors) rows.push_back(check_fields(t));
  text += "\n" + table_text(rows) + "\n";
  if (verdict.result == CheckResult::exact)
    return text + fmt::format("exact: the outputs are right to the rounding of f32{}\n", sampled);
  if (verdict.result == CheckResult::rounding)
    return text + fmt::format("rounding: the outputs are as good as {} can be{}\n",
                              name_of(config.dtype), sampled);
  text += fmt::format("wrong: the outputs differ by more than rounding{}\n", sampled);
  std::vector<std::string_view> right, wrong;
  for (const TensorCheck& t : verdict.tensors) (t.passes() ? right : wrong).push_back(t.name());
  if (!right.empty() && !wrong.empty())
    text += fmt::format("right: {}; wrong: {}\n", fmt::join(right, ", "), fmt::join(wrong, ", "));
  for (const TensorCheck& t : verdict.tensors)
    if (t.wrong_rows > 0)
      text += fmt::format("{} wrong row{} of {}, the first at position {} and the last at {}, {}\n",
                          t.wrong_rows, t.wrong_rows == 1 ? "" : "s", t.name(), t.first_wrong_row,
                          t.last_wrong_row, ranks_text(t.wrong_ranks, config.world_size));
  for (const ErrorMap& map : verdict.maps) text += map_text(map);
  if (!checked.options.rows.empty())
    text += "\na sample shows no single rows that have moved; all rows do (without --rows)\n";
  if (verdict.suspects.empty())
    return text + fmt::format("\nNo known mistake explains the error{}.\n",
                              checked.has_remarks
                                  ? "; NaN and infinite inputs make NaN of what they reach"
                                  : "");
  const Suspect& first = verdict.suspects.front();
  text += first.is_sure()
              ? fmt::format("\nlikely mistake: {}{}, {:.0f} % sure\n", name_of(first.mistake),
                            first.rank < 0 ? "" : fmt::format(", on rank {}", first.rank),
                            100 * first.confidence)
              : fmt::format("\na guess, not sure: {}\n", name_of(first.mistake));
  text += fmt::format("  {}\n  {}\n", first.how, facts_of(first.mistake).explanation);
  for (std::size_t i = 1; i < verdict.suspects.size() && i < 4; ++i)
    text += fmt::format("less likely: {} ({})\n", name_of(verdict.suspects[i].mistake),
                        verdict.suspects[i].how);
  return text;
}

}  // namespace

Finish declare_check(CommandFlags& flags) {
  const auto check = std::make_shared<CheckOptions>();
  RunOptions& run = check->run;
  flags.path("--out", run.out, "your output, .npy with the axes of the queries");
  flags.path("--lse", run.lse, "your log-sum-exp, .npy [batch, heads, seqlen]");
  flags.path("--dq", run.dq, "your gradient of the queries");
  flags.path("--dk", run.dk, "your gradient of the keys");
  flags.path("--dv", run.dv, "your gradient of the values");
  flags.path("--dsink", run.dsink, "your gradient of the sinks, .npy [heads]")
      .needs("--sink-logits FILE");
  add_tensors(flags, run);
  flags.path("--dout", run.dout, "gradient of the output that yours came from (ones)");
  flags.row(run.job, "mask");
  flags.row(run.job, "partition", "which of your ranks holds which positions ({})");
  flags.row(run.job, "partition-q");
  flags.integer("--world-size", run.world_size,
                fmt::format("your ranks ({})", kDefaultCheckedRanks), 1, 4096);
  flags.one_of("--reference", {"mine-is-bf16", "mine-is-f16", "mine-is-f32"}, check->reference,
               "what you computed in, which says how much rounding is right (as the values look)");
  flags.name("--dtype", check->dtype, "f32|bf16|f16", "the same", parse_dtype);
  flags.number("--rope", check->rope_base, kAbove0,
               "base of the rotary angles, for trying positions of other deals (10000)", 1, "BASE");
  flags.integer("--rows", check->rows,
                "look at a sample of N query rows of each head, and not at dk and dv (all)");
  flags.integer("--seed", check->seed, "draws the sample of --rows (0)", 0);
  flags.path("--cu-seqlens", check->cu_seqlens,
             "where documents end, from 0 on, a 1-D .npy of integers; a part of the mask");
  flags.flag("--json", check->json, "print the verdict as one JSON object");
  return [check] {
    const RunOptions& given = check->run;
    if (!given.out && !given.lse && !given.dq && !given.dk && !given.dv && !given.dsink)
      contradiction("check", "no output of yours given", "--out MINE.npy, --lse, --dq, --dk, --dv");
    for (const auto& [flag, path] :
         {std::pair{"--q", &given.q}, {"--k", &given.k}, {"--v", &given.v}})
      if (!*path) contradiction("check", fmt::format("no {} given", flag), "--q, --k and --v");
    if (given.dout && !given.dq && !given.dk && !given.dv && !given.dsink)
      contradiction("--dout", "given without a gradient of yours", "it with --dq, --dk or --dv");
    if (check->rows && (given.dk || given.dv || given.dsink))
      contradiction("--rows", "given with --dk, --dv or --dsink, to which every query adds",
                    "it with --out, --lse and --dq");
    if (check->cu_seqlens) check->run.job.mask = with_documents(given.job.mask, *check->cu_seqlens);
    if (check->reference) {
      const DType dtype = parse_dtype(check->reference->substr(8));
      if (check->dtype && *check->dtype != dtype)
        contradiction("--dtype",
                      fmt::format("{} given beside --reference {}", name_of(*check->dtype),
                                  *check->reference),
                      "one of them");
      check->dtype = dtype;
    }
    return *check;
  };
}

int carry_out(const CheckOptions& options) {
  const Checked checked = read_all(options);
  const CheckVerdict verdict = judge(checked);
  print_out(options.json ? report_json(checked, verdict) : report_text(checked, verdict));
  return verdict.result == CheckResult::wrong ? kWrongNumbers : 0;
}

}  // namespace ringscope
