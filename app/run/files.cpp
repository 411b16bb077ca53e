// Reads the inputs of a run and writes its outputs.
#include "app/run/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "app/command_line/flags.h"
#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "core/base/error.h"
#include "core/base/npy.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/problem/partition.h"
#include "core/threads/generated_rows.h"
#include "core/trace/chrome_trace.h"

namespace ringscope {

namespace {

constexpr Index kDefaultSeqlen = 1024;
constexpr float kMostSink = std::numeric_limits<float>::max();

// A .npy file that a flag named, and its header.
struct NamedHeader {
  const char* flag;
  const std::string& path;
  NpyHeader header;
  std::array<Index, 4> sizes;  // [batch, heads, seqlen, head_dim], whatever the layout
};

NpyDimensions dimensions_of(Layout layout) {
  switch (layout) {
    case Layout::bshd:
      return {4, 4, "4 accepted: [batch, seqlen, heads, head_dim]"};
    case Layout::sbhd:
      return {4, 4, "4 accepted: [seqlen, batch, heads, head_dim]"};
    case Layout::thd:
      return {3, 3, "3 accepted: [seqlen, heads, head_dim]"};
    default:
      return {};
  }
}

// Return where batch, heads, seqlen and width lie among a file's axes.
std::array<int, 4> axes_of(Layout layout) {
  if (layout == Layout::bhsd) return {0, 1, 2, 3};
  if (layout == Layout::sbhd) return {1, 2, 0, 3};
  return {0, 2, 1, 3};
}

// Return [batch, heads, seqlen, head_dim] of a file's shape.
std::array<Index, 4> canonical_sizes(Layout layout, const std::array<Index, 4>& shape) {
  const auto [batch, heads, seqlen, width] = axes_of(layout);
  return {shape[batch], shape[heads], shape[seqlen], shape[width]};
}

// Copy rows from their places in a file to those in the order of bhsd, or the other way round.
std::vector<float> reordered(Layout layout, const std::array<Index, 4>& sizes,
                             std::vector<float> values, bool to_file) {
  if (layout == Layout::bhsd) return values;
  const auto axes = axes_of(layout);
  const auto shape = shape_in_file(layout, sizes);
  const Index width = shape[3];
  const std::array<Index, 3> stride{shape[1] * shape[2] * width, shape[2] * width, width};
  std::vector<float> result(values.size());
  Index in_order = 0;
  for (Index b = 0; b < sizes[0]; ++b)
    for (Index head = 0; head < sizes[1]; ++head)
      for (Index row = 0; row < sizes[2]; ++row, in_order += width) {
        const Index in_file = b * stride[axes[0]] + head * stride[axes[1]] + row * stride[axes[2]];
        std::copy_n(values.begin() + (to_file ? in_order : in_file), width,
                    result.begin() + (to_file ? in_file : in_order));
      }
  return result;
}

NamedHeader header_of(const char* flag, const std::string& path, const RunOptions& options) {
  std::optional<NamedHeader> all;
  for (const std::string& file : files_of_ranks(path, options)) {
    const NpyHeader header =
        for_flag(flag, [&] { return read_npy_header(file, dimensions_of(options.layout)); });
    const auto sizes = canonical_sizes(options.layout, header.shape);
    if (!all) {
      all.emplace(NamedHeader{flag, path, header, sizes});
      continue;
    }
    for (const int axis : {0, 1, 3})
      if (sizes[axis] != all->sizes[axis])
        throw InputError(
            fmt::format("{} {}: another batch, heads or head_dim than rank 0's file has; "
                        "accepted: equal ones",
                        flag, file));
    all->sizes[2] += sizes[2];
  }
  return *all;
}

void add_files(const std::string& path, const RunOptions& options,
               std::vector<std::string>& files) {
  for (const std::string& file : files_of_ranks(path, options))
    files.push_back(safetensor_of(file).first);
}

std::string described(const NamedHeader& file) {
  const auto& shape = file.header.shape;
  return fmt::format("{} {} has shape ({})", file.flag, file.path,
                     fmt::join(shape.end() - file.header.dimensions, shape.end(), ", "));
}

// Throw InputError unless the sizes of `axes` are equal in `file` and `other`.
void require_equal_sizes(const NamedHeader& file, const NamedHeader& other,
                         std::initializer_list<int> axes, const char* accepted) {
  for (const int axis : axes)
    if (file.sizes[axis] != other.sizes[axis])
      throw InputError(
          fmt::format("{} but {}; accepted: {}", described(file), described(other), accepted));
}

InputPlan plan_files(const RunOptions& options) {
  const NamedHeader q = header_of("--q", *options.q, options),
                    k = header_of("--k", *options.k, options),
                    v = header_of("--v", *options.v, options);
  // With fewer key heads, [batch, seqlen, heads, head_dim] shows here.
  const bool looks_like_bshd = options.layout == Layout::bhsd && k.sizes[1] == q.sizes[1];
  const std::string accepted =
      std::string("equal batch and head_dim, and no more queries than keys") +
      (looks_like_bshd ? "; or --layout bshd, if the axes are [batch, seqlen, heads, head_dim]"
                       : "");
  require_equal_sizes(k, q, {0, 3}, accepted.c_str());
  if (q.sizes[2] > k.sizes[2]) require_equal_sizes(k, q, {2}, accepted.c_str());
  require_equal_sizes(v, k, {0, 1, 2}, "equal batch, heads and seqlen");
  if (q.sizes[1] % k.sizes[1] != 0)
    throw InputError(
        fmt::format("{} but {}; accepted: a number of key heads that divides the query heads",
                    described(k), described(q)));
  InputPlan plan;
  plan.shape = {q.sizes[0], q.sizes[1], k.sizes[1], k.sizes[2], q.sizes[3]};
  plan.shape.seqlen_q = q.sizes[2];
  plan.shape.q_offset = options.job.shape.q_offset;
  plan.shape.head_dim_v = v.sizes[3];
  plan.all_f64 = q.header.is_f64() && k.header.is_f64() && v.header.is_f64();
  constexpr Index kManyHeads = 16;
  if (options.layout == Layout::bhsd && plan.shape.num_heads > kManyHeads &&
      plan.shape.num_heads > 2 * plan.shape.seqlen)
    plan.doubt = fmt::format(
        "{}, which is read as {} heads of {} positions; if it is [batch, seqlen, heads, head_dim], "
        "say --layout bshd",
        described(q), plan.shape.num_heads, plan.shape.seqlen);
  const bool is_one_row = plan.shape.seqlen == 1 && options.layout == Layout::bshd,
             is_one_head = plan.shape.num_heads == 1 && options.layout == Layout::bhsd;
  if (plan.shape.batch > kManyHeads && (is_one_row || is_one_head))
    plan.doubt = fmt::format(
        "{}, which is read as {} batch entries of {} position{}; if it is [seqlen, batch, heads, "
        "head_dim], say --layout sbhd",
        described(q), plan.shape.batch, plan.shape.seqlen, plan.shape.seqlen == 1 ? "" : "s");
  for (const NamedHeader* file : {&q, &k, &v}) add_files(file->path, options, plan.files);
  return plan;
}

void add_dout(const RunOptions& options, InputPlan& plan) {
  const NamedHeader dout = header_of("--dout", *options.dout, options);
  const std::array<Index, 4> expected{plan.shape.batch, plan.shape.num_heads, plan.shape.queries(),
                                      plan.shape.value_dim()};
  if (dout.sizes != expected)
    throw InputError(fmt::format("{} but the output{} has shape ({}); accepted: equal shapes",
                                 described(dout), options.q ? " of --q " + *options.q : "",
                                 fmt::join(expected, ", ")));
  plan.all_f64 = plan.all_f64 && dout.header.is_f64();
  add_files(dout.path, options, plan.files);
}

// Read the learned sinks, or draw them.
void add_sinks(const RunOptions& options, InputPlan& plan) {
  const std::string& path = *options.sink_logits;
  const Index heads = plan.shape.num_heads;
  if (path == "random") {
    for (Index head = 0; head < heads; ++head)
      plan.sink_logits.push_back(
          static_cast<float>(normal(options.seed, RandomTensor::sink_logits, head)));
    return;
  }
  plan.sink_logits = read_per_head("--sink-logits", path, heads);
  if (std::any_of(plan.sink_logits.begin(), plan.sink_logits.end(),
                  [](float sink) { return std::isnan(sink) || sink > kMostSink; }))
    throw InputError(
        fmt::format("--sink-logits {}: a number that is NaN or too large given; accepted: numbers "
                    "that f32 holds, or -inf for no sink",
                    path));
  plan.files.push_back(path);
}

AttentionShape shape_of(const RunOptions& options) {
  AttentionShape shape = options.job.shape;
  if (shape.num_heads_kv == 0) shape.num_heads_kv = shape.num_heads;
  if (shape.seqlen == 0) shape.seqlen = kDefaultSeqlen;
  return shape;
}

InputPlan plan_text(const RunOptions& options) {
  InputPlan plan;
  plan.shape = shape_of(options);
  const std::string& path = *options.text;
  const Index have = for_flag("--text", [&] { return text_length(path); });
  const Index seqlen = options.job.shape.seqlen;
  if (seqlen == 0) plan.shape.seqlen = have / plan.shape.batch;
  const Index wanted = plan.shape.batch * std::max<Index>(seqlen, 1);
  if (have < wanted)
    throw InputError(
        fmt::format("--text '{}': {} bytes there, {} wanted; accepted: a longer file, or smaller "
                    "--batch and --seqlen",
                    path, have, wanted));
  plan.files = {path};
  return plan;
}

// Add remarks about the values of the file that `flag` named.
void remark_on(const char* flag, const NpyArray& array, DType dtype,
               std::vector<std::string>& remarks) {
  Index nan = 0, infinite = -array.too_large, too_large = array.too_large;
  for (const float x : array.values) {
    nan += std::isnan(x);
    infinite += std::isinf(x);
    too_large += std::isfinite(x) && !std::isfinite(round_to(dtype, x));
  }
  if (nan + infinite > 0)
    remarks.push_back(
        fmt::format("{}: {} NaN and {} infinite values in it, passed on", flag, nan, infinite));
  if (too_large > 0)
    remarks.push_back(fmt::format("{}: {} value{} too large for {}, passed on as infinite", flag,
                                  too_large, too_large == 1 ? "" : "s", name_of(dtype)));
}

}  // namespace

std::vector<std::string> files_of_ranks(const std::string& path, const RunOptions& options) {
  const std::size_t at = path.find("{r}");
  if (at == std::string::npos) return {path};
  std::vector<std::string> files;
  for (int rank = 0; rank < options.world_size.value_or(4); ++rank)
    files.push_back(path.substr(0, at) + std::to_string(rank) + path.substr(at + 3));
  return files;
}

std::array<Index, 4> sizes_of_file(const char* flag, const std::string& path,
                                   const RunOptions& options) {
  return header_of(flag, path, options).sizes;
}

std::vector<float> joined_ranks(const char* flag, const RunOptions& options, Index width,
                                const std::vector<std::vector<float>>& parts, Index heads,
                                const AttentionShape* of_queries) {
  Problem job = options.job;
  job.world_size = static_cast<int>(parts.size());
  if (of_queries != nullptr) job.shape = *of_queries;
  Index seqlen = 0;
  for (const auto& part : parts) seqlen += std::ssize(part) / width / heads;
  if (of_queries == nullptr) job.shape = {.seqlen = seqlen};
  deal_out_as_given(job);
  const Partition partition = of_queries != nullptr ? job.partitions().queries : job.partitions();
  std::vector<float> whole(heads * seqlen * width);
  for (int rank = 0; rank < job.world_size; ++rank) {
    const LocalRows rows = partition.rows_of(rank);
    const auto found = std::ssize(parts[rank]) / width / heads;
    if (found != rows.size())
      throw InputError(
          fmt::format("{}: {} rows in the file of rank {}; accepted: {}, as the partition "
                      "deals {} positions to {} ranks",
                      flag, found, rank, rows.size(), seqlen, job.world_size));
    for (Index head = 0; head < heads; ++head)
      for (Index i = 0; i < found; ++i)
        std::copy_n(parts[rank].begin() + (head * found + i) * width, width,
                    whole.begin() + (head * seqlen + rows.global_position(i)) * width);
  }
  return whole;
}

std::vector<float> read_tensor(const char* flag, const std::string& path, const RunOptions& options,
                               std::vector<std::string>* remarks,
                               const AttentionShape* of_queries) {
  std::vector<std::vector<float>> parts;
  std::array<Index, 4> sizes{};
  for (const std::string& file : files_of_ranks(path, options)) {
    NpyArray array = for_flag(flag, [&] { return read_npy(file, dimensions_of(options.layout)); });
    if (remarks != nullptr) remark_on(flag, array, options.job.dtype, *remarks);
    sizes = canonical_sizes(options.layout, array.shape);
    parts.push_back(from_layout(options.layout, sizes, std::move(array.values)));
  }
  if (path.find("{r}") == std::string::npos) return std::move(parts.front());
  return joined_ranks(flag, options, sizes[3], parts, sizes[0] * sizes[1], of_queries);
}

std::vector<float> read_per_head(const char* flag, const std::string& path, Index heads) {
  NpyArray array = for_flag(flag, [&] { return read_npy(path, {1, 1, "1 accepted: [heads]"}); });
  if (array.shape[3] != heads)
    throw InputError(fmt::format("{} {}: {} given; accepted: {}, one per query head", flag, path,
                                 count_text(array.shape[3], "number"), heads));
  return std::move(array.values);
}

std::array<Index, 4> shape_in_file(Layout layout, const std::array<Index, 4>& sizes) {
  std::array<Index, 4> shape{};
  for (int i = 0; i < 4; ++i) shape[axes_of(layout)[i]] = sizes[i];
  return shape;
}

std::vector<float> from_layout(Layout layout, const std::array<Index, 4>& sizes,
                               std::vector<float> values) {
  return reordered(layout, sizes, std::move(values), false);
}

std::vector<float> to_layout(Layout layout, const std::array<Index, 4>& sizes,
                             std::vector<float> values) {
  return reordered(layout, sizes, std::move(values), true);
}

InputPlan plan_inputs(const RunOptions& options) {
  InputPlan plan;
  if (options.q) {
    plan = plan_files(options);
  } else if (options.text) {
    plan = plan_text(options);
  } else {
    plan.shape = shape_of(options);
  }
  if (options.q) {
    with_dashes([&] { validate(plan.shape); });
  } else {
    validate_for_flags(plan.shape, [&] { validate(plan.shape); });
  }
  plan.shape = plainest(plan.shape);
  if (options.dout) add_dout(options, plan);
  if (options.sink_logits) add_sinks(options, plan);
  return plan;
}

LoadedInputs load_inputs(const RunOptions& options, const InputPlan& plan) {
  const AttentionShape& shape = plan.shape;
  LoadedInputs loaded;
  const auto file = [&](const char* flag, const std::string& path, bool of_queries = false) {
    return read_tensor(flag, path, options, &loaded.remarks, of_queries ? &shape : nullptr);
  };
  AttentionInputs& inputs = loaded.tensors;
  if (options.q) {
    inputs.q = file("--q", *options.q, true);
    inputs.k = file("--k", *options.k);
    inputs.v = file("--v", *options.v);
  } else {
    inputs = whole_inputs(*generated_rows(options, shape, text_of(options, plan)), shape);
  }
  if (options.dout) inputs.dout = file("--dout", *options.dout, true);
  return loaded;
}

bool can_be_generated(const RunOptions& options) { return !options.q && !options.dout; }

std::string text_of(const RunOptions& options, const InputPlan& plan) {
  if (!options.text) return "";
  return for_flag("--text",
                  [&] { return read_text(*options.text, plan.shape.batch * plan.shape.seqlen); });
}

std::unique_ptr<RowSource> generated_rows(const RunOptions& options, const AttentionShape& shape,
                                          std::string text) {
  if (options.text) return std::make_unique<TextRows>(shape, std::move(text));
  return std::make_unique<RandomRows>(shape, options.seed);
}

namespace {

// An output while it is written. Its errors name its flag.
class Output {
 public:
  Output(const char* flag, const std::string& path)
      : flag_(flag), file_(for_flag(flag, [&] { return std::make_unique<AtomicFile>(path); })) {}

  template <class F>
  void write(F&& f) {
    for_flag(flag_, [&] { f(*file_); });
  }

 private:
  const char* flag_;
  std::unique_ptr<AtomicFile> file_;
};

}  // namespace

std::vector<OutputPlace> output_places(const RunOptions& options) {
  return {{"--out", options.out},
          {"--lse", options.lse},
          {"--dq", options.dq},
          {"--dk", options.dk},
          {"--dv", options.dv},
          {"--dsink", options.dsink},
          {"--trace", options.trace, options.trace && options.trace->ends_with('/')},
          {"--write-partition", options.write_partition}};
}

namespace {

// Write the recording to a file, or to a folder with a file per rank.
void write_recording(std::vector<Output>& files, const std::string& path,
                     std::unique_ptr<AtomicFolder>& folder, const Recording& recording) {
  if (!path.ends_with('/')) {
    files.emplace_back("--trace", path).write([&](AtomicFile& file) {
      write_chrome_trace(file, recording);
    });
    return;
  }
  folder = for_flag("--trace", [&] { return std::make_unique<AtomicFolder>(path); });
  for_flag("--trace", [&] {
    folder->fill([&](const std::string& place) {
      for (int rank = 0; rank < recording.info.world_size; ++rank) {
        AtomicFile file(fmt::format("{}/rank{}.json", place, rank));
        write_chrome_trace_of_rank(file, recording, rank);
        file.commit();
      }
    });
  });
}

// Put all that was written in its place, once all of it is on the disk. The renamings follow each
// other at once: whoever is killed leaves old files or new ones, and hardly ever some of both.
void commit(std::vector<Output>& files, const std::unique_ptr<AtomicFolder>& folder) {
  for (Output& file : files) file.write([](AtomicFile& f) { f.sync(); });
  for (Output& file : files) file.write([](AtomicFile& f) { f.prepare(); });
  for (Output& file : files) file.write([](AtomicFile& f) { f.commit(); });
  if (folder != nullptr) for_flag("--trace", [&] { folder->commit(); });
}

}  // namespace

void write_outputs(const RunOptions& options, const Problem& config, const RingRun& run, bool f64) {
  const AttentionShape& shape = config.shape;
  std::vector<Output> files;
  const auto write_tensor = [&](const char* flag, const std::optional<std::string>& path,
                                const std::vector<Index>& sizes, const std::vector<float>& values) {
    if (!path) return;
    files.emplace_back(flag, *path).write([&](AtomicFile& file) {
      write_npy(file, sizes, values.data(), f64);
    });
  };
  // Rows go out in the layout in which they came in.
  const auto write_rows = [&](const char* flag, const std::optional<std::string>& path,
                              Tensor tensor) {
    if (!path) return;
    const std::vector<float>& values = values_of(run.outputs, tensor);
    const std::array<Index, 4> sizes{shape.batch, heads_of(shape, tensor) / shape.batch,
                                     seqlen_of(shape, tensor), width_of(shape, tensor)};
    const auto in_file = shape_in_file(options.layout, sizes);
    write_tensor(flag, path, {in_file.begin() + (options.layout == Layout::thd), in_file.end()},
                 to_layout(options.layout, sizes, values));
  };
  write_rows("--out", options.out, Tensor::out);
  write_tensor("--lse", options.lse, {shape.batch, shape.num_heads, shape.queries()},
               run.outputs.lse);
  write_rows("--dq", options.dq, Tensor::dq);
  write_rows("--dk", options.dk, Tensor::dk);
  write_rows("--dv", options.dv, Tensor::dv);
  write_tensor("--dsink", options.dsink, {shape.num_heads}, run.outputs.dsink);
  std::unique_ptr<AtomicFolder> folder;
  if (options.trace) write_recording(files, *options.trace, folder, run.recording);
  if (options.write_partition)
    files.emplace_back("--write-partition", *options.write_partition).write([&](AtomicFile& file) {
      write_partition(file, config.partition_of_sequence());
    });
  commit(files, folder);
}

void write_trace(const RunOptions& options, const Recording& recording) {
  if (!options.trace) return;
  Recording named = recording;
  named.info.command = recorded_words();
  std::vector<Output> files;
  std::unique_ptr<AtomicFolder> folder;
  write_recording(files, *options.trace, folder, named);
  commit(files, folder);
}

}  // namespace ringscope
