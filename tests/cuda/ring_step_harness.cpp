#include "tests/cuda/ring_step_harness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/ring/ring.h"
#include "cuda/kernels/row_kernels.h"
#include "tests/core/attention/blockwise_run.h"
#include "tests/core/ring/ring_case.h"
#include "tests/cuda/guarded_array.h"

#ifdef RINGSCOPE_MODEL
#include "cuda/emulator/simt.h"
#endif

namespace ringscope::cuda {

using blockwise_run_detail::gather;
using blockwise_run_detail::kNan;
using blockwise_run_detail::scatter;

namespace {

// The problem as ranks hold it, on the device.
class DealtProblem {
 public:
  DealtProblem(const StepCase& tested, const Tensors<float>& in)
      : tested_(tested),
        spec_(MaskSpec::parse(tested.mask)),
        mask_(spec_.for_seqlen(tested.seqlen)),
        partition_{tested.partition, tested.seqlen, tested.world_size},
        document_ends_(
            std::vector<Index>(mask_.document_ends, mask_.document_ends + mask_.num_documents)) {
    const Index heads = tested.batch * tested.heads, heads_kv = tested.batch * tested.heads_kv;
    for (int rank = 0; rank < tested.world_size; ++rank) {
      const LocalRows queries = tested.queries_of(rank), keys = partition_.rows_of(rank);
      q_.push_back(stored(in.q, heads, queries, tested.head_dim));
      k_.push_back(stored(in.k, heads_kv, keys, tested.head_dim));
      v_.push_back(stored(in.v, heads_kv, keys, tested.value_dim()));
      if (!in.dout.empty()) dout_.push_back(stored(in.dout, heads, queries, tested.value_dim()));
    }
  }

  Region region(int rank, int owner) const {
    LocalRows queries = tested_.queries_of(rank);
    for (Run& run : queries.runs) run.first += tested_.q_offset;
    return {mask_, queries, partition_.rows_of(owner)};
  }
  Region device_region(int rank, int owner) const {
    Region region = this->region(rank, owner);
    if (mask_.num_documents > 0) region.mask.document_ends = document_ends_.data();
    return region;
  }
  StepShape shape(int rank, int owner) const {
    return {tested_.batch,
            tested_.heads,
            tested_.heads_kv,
            rows(rank),
            static_cast<int>(partition_.rows_of(owner).size()),
            tested_.head_dim,
            tested_.head_dim_v};
  }
  int rows(int rank) const { return static_cast<int>(tested_.queries_of(rank).size()); }

  template <class Step>
  void set_inputs(Step& step, int rank, int owner) const {
    step.shape = shape(rank, owner);
    step.softmax_scale = tested_.softmax_scale();
    step.q = q_[rank].data();
    step.k = k_[owner].data();
    step.v = v_[owner].data();
    if constexpr (requires { step.dout; }) step.dout = dout_[rank].data();
  }

 private:
  GuardedArray<std::byte> stored(const std::vector<float>& tensor, Index heads,
                                 const LocalRows& rows, Index width) const {
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(heads * rows.size() * width * bytes_of(tested_.dtype)));
    gather(tested_.dtype, tensor, heads, std::ssize(tensor) / heads / width, width, rows,
           bytes.data());
    return GuardedArray<std::byte>(bytes);
  }

  const StepCase tested_;
  const MaskSpec spec_;
  const Mask mask_;
  const Partition partition_;
  GuardedArray<Index> document_ends_;
  std::vector<GuardedArray<std::byte>> q_, k_, v_, dout_;
};

struct Step {
  int number;
  int owner;
  bool last;
};

std::vector<Step> steps_of(const StepCase& tested, int rank) {
  const RingSchedule ring{rank, tested.world_size};
  if (tested.only_step >= 0) return {{tested.only_step, ring.owner(tested.only_step), true}};
  std::vector<Step> steps;
  for (int step = 0; step < ring.steps(); ++step)
    steps.push_back({step, ring.owner(step), ring.is_last(step)});
  return steps;
}

// Pairs must be exact. A tile that the first and last row's intervals enclose may be visited
// without need, and a full one may be taken for partial (at a tail), but no more than that.
void expect_counted(const StepCounters& counted, const Region& region, const TileShape& tile,
                    Index heads) {
  EXPECT_EQ(static_cast<Index>(counted.pairs), region.pairs());
  Index total = 0, needed = 0, full = 0, enclosed = 0;
  for (Index i = 0; i < region.queries.size(); i += tile.rows)
    for (Index k = 0; k < region.keys.size(); k += tile.keys) {
      const Interval rows{i, min_of(i + tile.rows, region.queries.size())};
      const Interval keys{k, min_of(k + tile.keys, region.keys.size())};
      const TileClass tile_class = region.tile_class(rows, keys);
      const Interval hull{region.allowed_rows(rows.first).first,
                          region.allowed_rows(rows.last - 1).last};
      total += heads;
      full += tile_class == TileClass::full ? heads : 0;
      needed += tile_class != TileClass::empty ? heads : 0;
      enclosed += hull.first < keys.last && keys.first < hull.last ? heads : 0;
    }
  const auto count = [](unsigned long long n) { return static_cast<Index>(n); };
  const Index visited = count(counted.tiles_full) + count(counted.tiles_partial);
  EXPECT_EQ(visited + count(counted.tiles_skipped), total);
  EXPECT_LE(count(counted.tiles_full), full);
  EXPECT_GE(visited, needed);
  EXPECT_LE(visited, enclosed);
}

// Name the kernels that the running test has met, whom gpu-check credits or blames together.
void record_kernel(const Kernel& kernel) {
  static std::map<const testing::TestInfo*, std::set<int>> all;
  std::set<int>& met = all[testing::UnitTest::GetInstance()->current_test_info()];
  met.insert(kernel.number);
  testing::Test::RecordProperty("kernel", fmt::format("{}", fmt::join(met, " ")));
}

RingReference reference_of(const StepCase& tested) {
  return RingReference(tested.shape(), tested.dtype, tested.mask, tested.softmax_scale(),
                       tested.seed);
}

// Whether `value`, stored in the case's dtype, is as near to `expected` as the CPU is, allowing for
// what design and head comment allow. `width`: values in a row, in which the CPU's second run is
// reversed.
bool expect_near(const char* name, const RingReference& reference, DType stored_in,
                 std::vector<float> value, const std::vector<float>& single,
                 const std::vector<float>& single_reversed,
                 const std::vector<double>& single_expected, const std::vector<double>& expected,
                 Index width, double plain_error = 0) {
  for (float& x : value) x = round_to(stored_in, x);
  const double single_error = std::max(
      {max_abs_error(single, single_expected),
       max_abs_error(single_reversed, reversed_rows(single_expected, width)), plain_error});
  const double error = max_abs_error(value, expected);
  const double tolerance = 2 * single_error + reference.slack(single_expected);
  EXPECT_LE(error, tolerance) << name;
  return error <= tolerance;
}

// All that a run gives, of either pass.
std::vector<std::vector<float>> run_of(const Kernel& kernel, const StepCase& tested,
                                       const Tensors<float>& in) {
  if (kernel.pass() == KernelPass::forward) {
    ForwardRun run = run_forward(kernel, tested, in);
    return {std::move(run.out), std::move(run.lse)};
  }
  BackwardRun run = run_backward(kernel, tested, in);
  return {std::move(run.dq), std::move(run.dk), std::move(run.dv)};
}

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
  });
}

// Run so often that repeatability shows, which costs time on the model: there only short cases run
// under every schedule, the others under one of them.
std::vector<std::vector<float>> repeated(const Kernel& kernel, const StepCase& tested,
                                         const Tensors<float>& in) {
#ifdef RINGSCOPE_MODEL
  const model::Schedule schedules[] = {
      {},
      {model::ThreadOrder::descending, false, 1},
      {model::ThreadOrder::shuffled, true, tested.seed},
  };
  const bool all = tested.seqlen <= 40;
  model::set_schedule(schedules[all ? 0 : tested.seed % std::size(schedules)]);
  auto result = run_of(kernel, tested, in);
  for (std::size_t i = 1; all && i < std::size(schedules); ++i) {
    model::set_schedule(schedules[i]);
    EXPECT_TRUE(same_bits(result, run_of(kernel, tested, in)))
        << "another order of threads gives other bits";
  }
  model::set_schedule({});
#else
  auto result = run_of(kernel, tested, in);
  EXPECT_TRUE(!kernel.repeats_bits || same_bits(result, run_of(kernel, tested, in)))
      << "a second run gives other bits";
#endif
  return result;
}

}  // namespace

ForwardRun run_forward(const Kernel& kernel, const StepCase& tested, const Tensors<float>& in) {
  record_kernel(kernel);
  const DealtProblem problem(tested, in);
  const Index heads = tested.batch * tested.heads, d_v = tested.value_dim();
  const Index seqlen = tested.seqlen_q();
  const GuardedArray<float> sinks(tested.sinks);
  ForwardRun run{std::vector<float>(heads * seqlen * d_v, kNan),
                 std::vector<float>(heads * seqlen, kNan)};
  for (int rank = 0; rank < tested.world_size; ++rank) {
    const Index rows = heads * problem.rows(rank);
    if (rows == 0) continue;
    GuardedArray<float> out(rows * d_v), row_max(rows), lse(rows);
    GuardedArray<double> row_sum(rows);
    GuardedArray<RowInterval> allowed(problem.rows(rank));
    GuardedArray<StepCounters> counters(1);
    bool first = true;
    for (const Step& step : steps_of(tested, rank)) {
      SCOPED_TRACE(fmt::format("rank {} step {} owner {}", rank, step.number, step.owner));
      const Region region = problem.region(rank, step.owner);
      ForwardStep args;
      problem.set_inputs(args, rank, step.owner);
      args.first = first;
      args.last = step.last;
      args.allowed_keys = allowed.data();
      args.row_max = row_max.data();
      args.row_sum = row_sum.data();
      args.out = out.data();
      args.lse = lse.data();
      args.counters = counters.data();
      if (!tested.sinks.empty()) args.sink_logits = sinks.data();
      if (region.keys.size() == 0 || (tested.skip_empty && region.pairs() == 0)) {
        if (step.last) launch_finish(args, nullptr);
        continue;
      }
      launch_allowed_keys(problem.device_region(rank, step.owner), allowed.data(), nullptr);
      counters.fill(0);
      kernel.launch(args, tested.dtype, tested.tile, nullptr);
      RINGSCOPE_CUDA(cudaDeviceSynchronize());
      expect_counted(counters.download()[0], region, kernel.tiles[tested.tile], heads);
      first = false;
    }
    RINGSCOPE_CUDA(cudaDeviceSynchronize());
    EXPECT_TRUE(out.guards_intact() && row_max.guards_intact() && row_sum.guards_intact() &&
                lse.guards_intact() && counters.guards_intact())
        << "rank " << rank << " wrote outside of its outputs";
    const LocalRows mine = tested.queries_of(rank);
    scatter(out.download().data(), heads, seqlen, d_v, mine, false, run.out);
    scatter(lse.download().data(), heads, seqlen, 1, mine, false, run.lse);
  }
  return run;
}

std::vector<float> delta_of(const StepCase& tested, const Tensors<float>& in,
                            const ExactForward& forward) {
  const Index d_v = tested.value_dim();
  std::vector<float> delta;
  for (std::size_t row = 0; row < forward.lse.size(); ++row)
    delta.push_back(static_cast<float>(std::inner_product(
        &forward.out[row * d_v], &forward.out[row * d_v] + d_v, &in.dout[row * d_v], 0.0)));
  return delta;
}

BackwardRun run_backward(const Kernel& kernel, const StepCase& tested, const Tensors<float>& in) {
  record_kernel(kernel);
  const DealtProblem problem(tested, in);
  const Index heads = tested.batch * tested.heads, heads_kv = tested.batch * tested.heads_kv;
  const Index seqlen = tested.seqlen, seqlen_q = tested.seqlen_q();
  const Index d = tested.head_dim, d_v = tested.value_dim();
  const ExactForward forward = exact_forward(tested, in);
  const std::vector<float> delta = delta_of(tested, in, forward);
  BackwardRun run{std::vector<float>(heads * seqlen_q * d, kNan),
                  std::vector<float>(heads_kv * seqlen * d, 0.0f),
                  std::vector<float>(heads_kv * seqlen * d_v, 0.0f)};
  for (int rank = 0; rank < tested.world_size; ++rank) {
    const LocalRows mine = tested.queries_of(rank);
    if (mine.size() == 0) continue;
    const auto local = [&]<class T>(const std::vector<T>& whole) {
      std::vector<T> part;
      for (Index head = 0; head < heads; ++head)
        for (Index i = 0; i < mine.size(); ++i)
          part.push_back(whole[head * seqlen_q + mine.global_position(i)]);
      return part;
    };
    const GuardedArray<float> row_max(local(forward.row_max)), deltas(local(delta));
    const GuardedArray<double> row_sum(local(forward.row_sum));
    GuardedArray<float> dq(heads * mine.size() * d);
    GuardedArray<RowInterval> allowed_keys(mine.size());
    GuardedArray<StepCounters> counters(1);
    GuardedArray<std::byte> workspace(
        backward_workspace_bytes({tested.batch, tested.heads, tested.heads_kv,
                                  static_cast<int>(mine.size()), static_cast<int>(tested.seqlen)}));
    bool first = true;
    for (const Step& step : steps_of(tested, rank)) {
      SCOPED_TRACE(fmt::format("rank {} step {} owner {}", rank, step.number, step.owner));
      const Region region = problem.region(rank, step.owner);
      const Index keys = region.keys.size();
      if (keys == 0 || (tested.skip_empty && region.pairs() == 0)) continue;
      GuardedArray<RowInterval> allowed_queries(keys);
      GuardedArray<float> dk(heads_kv * keys * d), dv(heads_kv * keys * d_v);
      BackwardStep args;
      problem.set_inputs(args, rank, step.owner);
      args.allowed_keys = allowed_keys.data();
      args.allowed_queries = allowed_queries.data();
      args.row_max = row_max.data();
      args.row_sum = row_sum.data();
      args.delta = deltas.data();
      args.dq = dq.data();
      args.dk = dk.data();
      args.dv = dv.data();
      args.workspace = workspace.data();
      args.first = std::exchange(first, false);
      args.counters = counters.data();
      launch_allowed_keys(problem.device_region(rank, step.owner), allowed_keys.data(), nullptr);
      launch_allowed_queries(allowed_keys.data(), static_cast<int>(mine.size()),
                             allowed_queries.data(), static_cast<int>(keys), nullptr);
      counters.fill(0);
      kernel.launch(args, tested.dtype, tested.tile, nullptr);
      RINGSCOPE_CUDA(cudaDeviceSynchronize());
      expect_counted(counters.download()[0], region, kernel.tiles[tested.tile], heads);
      EXPECT_TRUE(dk.guards_intact() && dv.guards_intact() && counters.guards_intact() &&
                  workspace.guards_intact());
      scatter(dk.download().data(), heads_kv, seqlen, d, region.keys, true, run.dk);
      scatter(dv.download().data(), heads_kv, seqlen, d_v, region.keys, true, run.dv);
    }
    if (first) dq.fill(0);
    EXPECT_TRUE(dq.guards_intact());
    scatter(dq.download().data(), heads, seqlen_q, d, mine, false, run.dq);
  }
  return run;
}

namespace {

// What a kernel gives for a problem that the CPU's oracle has no case of.
void expect_matches_plain_forms(const Kernel& kernel, const StepCase& tested) {
  const Tensors<float> in = inputs_of(tested);
  const std::vector<std::vector<float>> run = repeated(kernel, tested, in);
  const auto expect = [&](const char* name, DType stored_in, std::vector<float> value,
                          std::vector<double> plain, const std::vector<double>& exact) {
    for (float& x : value) x = round_to(stored_in, x);
    for (double& x : plain) x = round_to(stored_in, static_cast<float>(x));
    double largest = 1;
    for (const double x : exact)
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
    const double slack = tested.dtype == DType::f32 ? 1e-6 * largest : 2e-3;
    EXPECT_LE(max_abs_error(value, exact), 2 * max_abs_error(plain, exact) + slack) << name;
  };
  if (kernel.pass() == KernelPass::forward) {
    const ExactForward exact = exact_forward(tested, in), plain = plain_forward(tested, in);
    expect("out", tested.dtype, run[0], plain.out, exact.out);
    expect("lse", DType::f32, run[1], plain.lse, exact.lse);
  } else {
    const Gradients exact = exact_backward(tested, in), plain = plain_backward(tested, in);
    expect("dq", tested.dtype, run[0], plain.dq, exact.dq);
    expect("dk", tested.dtype, run[1], plain.dk, exact.dk);
    expect("dv", tested.dtype, run[2], plain.dv, exact.dv);
  }
}

}  // namespace

void expect_matches_oracle(const Kernel& kernel, const StepCase& given) {
  StepCase tested = given;
  if (!kernel.carries_state) tested.world_size = 1;
  tested.only_step = std::min(tested.only_step, tested.world_size - 1);
  const HeadDims dims(tested.head_dim, tested.value_dim());
  if (!kernel.has_tile(dims, tested.tile)) tested.tile = kernel.tile_for(dims, 227 * 1024);
  SCOPED_TRACE(to_string(tested));
  if (!tested.is_square()) return expect_matches_plain_forms(kernel, tested);
  const RingReference reference = reference_of(tested);
  const Tensors<float> in = random_tensors(tested.shape(), tested.seed, tested.dtype);
  const std::vector<std::vector<float>> run = repeated(kernel, tested, in);
  const BlockwiseRun &single = reference.single, &reversed = reference.single_reversed;
  const NaiveResult<double>& oracle = reference.oracle;
  const Index d = tested.head_dim;
  bool near;
  if (kernel.pass() == KernelPass::forward) {
    std::vector<double> out = oracle.out, lse = oracle.lse;
    if (tested.only_step >= 0) {
      const ExactForward exact = exact_forward(tested, in);
      out = exact.out;
      lse = exact.lse;
    }
    near = expect_near("out", reference, tested.dtype, run[0], single.out, reversed.out, oracle.out,
                       out, d) &
           expect_near("lse", reference, DType::f32, run[1], single.lse, reversed.lse, oracle.lse,
                       lse, 1);
  } else {
    const Gradients exact = exact_backward(tested, in), plain = plain_backward(tested, in);
    const auto near_one =
        [&](const char* name, const std::vector<float>& value, const std::vector<float>& alone,
            const std::vector<float>& alone_reversed, const std::vector<double>& exact_alone,
            const std::vector<double>& expected, std::vector<double> plain_value) {
          for (double& x : plain_value) x = round_to(tested.dtype, static_cast<float>(x));
          return expect_near(name, reference, tested.dtype, value, alone, alone_reversed,
                             exact_alone, expected, d, max_abs_error(plain_value, expected));
        };
    near = near_one("dq", run[0], single.dq, reversed.dq, oracle.dq, exact.dq, plain.dq) &
           near_one("dk", run[1], single.dk, reversed.dk, oracle.dk, exact.dk, plain.dk) &
           near_one("dv", run[2], single.dv, reversed.dv, oracle.dv, exact.dv, plain.dv);
  }
  if (!near)
    ADD_FAILURE() << "reproduce with: "
                  << reference.command(reference.config(tested.partition, tested.world_size),
                                       "cuda");
}

void expect_same_bits_under_all_schedules(const Kernel& kernel, const StepCase& tested) {
  SCOPED_TRACE(to_string(tested));
  const Tensors<float> in = inputs_of(tested);
  const auto expected = run_of(kernel, tested, in);
#ifdef RINGSCOPE_MODEL
  for (const auto order : {model::ThreadOrder::ascending, model::ThreadOrder::descending,
                           model::ThreadOrder::shuffled})
    for (const bool async_late : {true, false}) {
      model::set_schedule({order, async_late, 7});
      EXPECT_TRUE(same_bits(expected, run_of(kernel, tested, in)))
          << "order " << static_cast<int>(order) << " async_late " << async_late;
    }
  model::set_schedule({});
#else
  EXPECT_TRUE(same_bits(expected, run_of(kernel, tested, in)));
#endif
}

}  // namespace ringscope::cuda
