#include "core/ring/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/attention/blockwise.h"

namespace ringscope {
namespace {

using Kind = MemoryPart::Kind;

constexpr int kStatisticsBytes = 4 + 8 + 4;  // row_max and lse are f32, row_sum is f64

// Return what the scheme holds besides; none where ranks hold their own tensors and a ring's buffers.
std::optional<Extras> extras_of(const Problem& job) {
  if (job.world_size == 1 || job.scheme->extras == nullptr) return std::nullopt;
  return job.scheme->extras(job);
}

Index extra_kv_rows(const Problem& job) {
  const Index rows = job.partition_of_sequence().max_rows();
  // The largest part of a block that is cut at even rows.
  const int parts = job.layout().row_parts;
  return parts > 1 ? min_of(rows, rows / parts + 2) : rows;
}

}  // namespace

Bill::Bill(const Problem& job, double query_rows, double rows)
    : job_(job),
      query_rows_(query_rows),
      rows_(rows),
      e_(job.storage_bytes()),
      block_(block_values(job.shape, job.max_rows())) {}

std::vector<MemoryPart> Bill::parts() {
  const std::optional<Extras> extras = extras_of(job_);
  add_query_side(extras.value_or(Extras{}));
  if (extras) {
    add_blocks_and_extras(*extras);
  } else if (job_.scheme->blocks != nullptr) {
    job_.scheme->blocks(job_, *this);
  } else {
    add_ring_blocks();
  }
  if (job_.backward)
    // What other layers keep for their backward pass: Q, K, V, O as stored, row_max, row_sum.
    add(Kind::other, "other layers' Q, K, V, O",
        static_cast<double>(job_.layers - 1) *
            ((query_values(job_.shape, query_rows_) + out_values(job_.shape, query_rows_) +
              block_values(job_.shape, rows_)) *
                 e_ +
             12 * row_values(job_.shape, query_rows_)),
        has_two_widths() ? "(L-1) (b c (d+v) (H+G) e + 12 b c H)"
                         : "(L-1) (2 b c d (H+G) e + 12 b c H)");
  add(Kind::other, "tile scratch",
      static_cast<double>(BlockwiseScratch::bytes(job_.shape, job_.backward)),
      "tiles of 48 x 256, whatever c");
  return std::move(parts_);
}

std::string Bill::block_text(bool is_f32, std::string_view rows, std::string_view heads) const {
  const char* const e = is_f32 ? "" : " e";
  if (has_two_widths()) return fmt::format("{}b {} (d+v) {}{}", is_f32 ? "4 " : "", rows, heads, e);
  return fmt::format("{} b {} d {}{}", is_f32 ? 8 : 2, rows, heads, e);
}

void Bill::add(Kind kind, std::string name, double bytes, std::string formula, int buffers,
               bool is_by_owner) {
  parts_.push_back({kind, std::move(name), bytes, std::move(formula), buffers, is_by_owner});
}

void Bill::add_buffers(Kind kind, std::string name, int count, double bytes,
                       const std::string& formula) {
  add(kind, std::move(name), count * bytes, fmt::format("{} x {}", count, formula), count);
}

void Bill::add_blocks(Kind kind, std::string name, int count) {
  add_buffers(kind, std::move(name), count, block_ * e_, block_text(false));
}

void Bill::add_gradients(std::string name, int count) {
  add_buffers(Kind::gradients, std::move(name), count, block_ * 4, block_text(true));
}

// Add Q, output and row statistics of the rank's rows and, behind them, of slots for queries from
// elsewhere; with backward also dO, dQ and delta.
void Bill::add_query_side(const Extras& x) {
  const auto d = static_cast<double>(job_.shape.head_dim);
  const auto v = static_cast<double>(job_.shape.value_dim());
  const double own_rows = row_values(job_.shape, query_rows_);
  const double slot_rows = static_cast<double>(job_.shape.batch * x.heads) * job_.max_query_rows();
  const char* const c = job_.deals_queries_apart() ? "q" : "c";
  const auto add_rows = [&](Kind kind, const char* name, int slots, double bytes_of_row,
                            const char* unit) {
    add(kind, name, (own_rows + slots * slot_rows) * bytes_of_row,
        slots == 0 ? fmt::format("b {} H {}", c, unit)
                   : fmt::format("(b {} H + {} b {} {}) {}", c, slots, c, x.heads, unit));
  };
  add_rows(Kind::q, "Q", x.q, d * e_, "d e");
  add_rows(Kind::out_accum, "output, f32", x.states, v * 4, has_two_widths() ? "4 v" : "4 d");
  add_rows(Kind::statistics, "row statistics", x.states, kStatisticsBytes, "16");
  if (!job_.backward) return;
  add_rows(Kind::dout, "dO", x.q, v * e_, has_two_widths() ? "v e" : "d e");
  add_rows(Kind::dq, "dQ, f32", x.states, d * 4, "4 d");
  add_rows(Kind::delta, "row sums of dO O", x.q, 4, "4");
}

void Bill::add_ring_blocks() {
  const int n = job_.world_size;
  // Blocks of different owners share a buffer, so each buffer has room for the largest.
  const int turns = std::min(n, job_.kv_buffers);  // buffers that blocks rotate through
  const int buffers = job_.backward && turns < n ? turns + 1 : turns;
  const char* const own = job_.backward && n > 2 ? "own, " : "";
  add_blocks(Kind::kv,
             buffers == 1 ? "KV block" : fmt::format("KV blocks: {}current, incoming", own),
             buffers);
  if (!job_.backward) return;
  if (n == 1) return add_gradients("dK, dV, f32", 1);
  const bool in_parts = job_.parts_blocks();
  add_gradients(in_parts ? "dK, dV, f32: own, summed, sent, incoming, returned"
                         : "dK, dV, f32: summed, sent, incoming",
                in_parts ? 5 : 3);
}

void Bill::add_gathered_blocks() {
  const int n = job_.world_size;
  const double all = block_values(job_.shape, static_cast<double>(job_.shape.seqlen));
  add(Kind::kv, "KV blocks of all ranks", all * e_, block_text(false, "S"), n, true);
  if (!job_.backward) return;
  add(Kind::gradients, "dK, dV of all ranks, f32", all * 4, block_text(true, "S"), n, true);
  if (n > 1) add(Kind::gradients, "incoming dK, dV, f32", block_ * 4, block_text(true));
}

// Add the rank's own block and buffers for those from elsewhere.
void Bill::add_blocks_and_extras(const Extras& x) {
  const double extra = static_cast<double>(job_.shape.batch * x.kv_heads * extra_kv_rows(job_) *
                                           (job_.shape.head_dim + job_.shape.value_dim()));
  const auto formula = [&](bool is_f32) {
    return block_text(is_f32, std::to_string(extra_kv_rows(job_)), std::to_string(x.kv_heads));
  };
  add(Kind::kv, "own KV block", block_ * e_, block_text(false));
  if (x.kv > 0)
    add_buffers(Kind::kv_inside, "KV blocks from elsewhere", x.kv, extra * e_, formula(false));
  if (!job_.backward) return;
  add(Kind::gradients, "own dK, dV, f32", block_ * 4, block_text(true));
  if (x.gradients > 0)
    add_buffers(Kind::gradients, "dK, dV, f32: summed, sent, incoming, one share", x.gradients,
                extra * 4, formula(true));
}

std::vector<MemoryPart> memory_parts(const Problem& job, double query_rows, double rows) {
  std::vector<MemoryPart> parts = Bill(job, query_rows, rows).parts();
  std::erase_if(parts, [](const MemoryPart& part) { return part.bytes == 0; });
  return parts;
}

double total_bytes(const std::vector<MemoryPart>& parts) {
  double total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

RankMemory::RankMemory(const Problem& problem, int rank, MemorySpace& space)
    : meter_(space),
      rank_(rank),
      rows_(problem.query_rows(rank)),
      backward_(problem.backward),
      kv_buffers_(std::min(problem.kv_buffers, problem.world_size)),
      ranks_per_node_(problem.scheme->course == Course::turns ? problem.ranks_a_node()
                                                              : problem.world_size),
      own_rows_of_heads_(row_values(problem.shape, rows_)),
      head_dim_(problem.shape.head_dim),
      value_dim_(problem.shape.value_dim()),
      storage_bytes_(bytes_of(problem.dtype)) {
  if (const std::optional<Extras> extras = extras_of(problem))
    slot_rows_ = problem.shape.batch * extras->heads * problem.partitions().queries.max_rows();
  const auto allocate = [&]<class T>(Buffer<T>& buffer, double bytes) {
    if (!(bytes < 0x1p63)) throw std::bad_alloc();
    buffer = {&meter_, static_cast<Index>(bytes) / static_cast<Index>(sizeof(T))};
  };
  const auto allocate_all = [&](auto& buffers, const MemoryPart& part) {
    const double row_bytes = part.bytes / static_cast<double>(max_of(problem.shape.seqlen, 1));
    for (int i = 0; i < part.buffers; ++i)
      allocate(buffers.emplace_back(), part.is_by_owner
                                           ? row_bytes * static_cast<double>(problem.rows(i))
                                           : part.bytes / part.buffers);
  };
  for (const MemoryPart& part :
       Bill(problem, static_cast<double>(rows_), static_cast<double>(problem.rows(rank))).parts()) {
    const Kind kind = part.kind;
    const double rows = part.bytes / kStatisticsBytes;  // of the statistics
    if (kind == Kind::q) allocate(q, part.bytes);
    if (kind == Kind::out_accum) allocate(out_accum, part.bytes);
    if (kind == Kind::statistics) {
      allocate(row_max, rows * sizeof(float));
      allocate(row_sum, rows * sizeof(double));
      allocate(lse, rows * sizeof(float));
    }
    if (kind == Kind::dout) allocate(dout, part.bytes);
    if (kind == Kind::dq) allocate(dq, part.bytes);
    if (kind == Kind::delta) allocate(delta, part.bytes);
    if (kind == Kind::kv) has_all_owners_ = part.is_by_owner, allocate_all(kv_, part);
    if (kind == Kind::kv_inside) allocate_all(kv_inside_, part);
    if (kind == Kind::gradients) allocate_all(gradients_, part);
  }
}

Index RankMemory::predicted_bytes(const Problem& problem, int rank) {
  std::vector<MemoryPart> parts =
      memory_parts(problem, static_cast<double>(problem.query_rows(rank)),
                   static_cast<double>(problem.rows(rank)));
  std::erase_if(parts, [](const MemoryPart& part) { return part.kind == Kind::other; });
  return static_cast<Index>(total_bytes(parts));
}

std::byte* RankMemory::own_kv() { return has_all_owners_ ? kv_of_owner(rank_) : kv_at_step(0); }

std::byte* RankMemory::kv_at_step(int step) {
  // With backward, buffer 0 keeps the own block, and the later blocks rotate through the others.
  const int buffer = !backward_ ? step % kv_buffers_ : step == 0 ? 0 : 1 + (step - 1) % kv_buffers_;
  return kv_[buffer].data();
}

std::byte* RankMemory::kv_at_turn(int outer, int inner) {
  if (inner == 0) return kv_at_step(outer);
  // Blocks rotate through the buffers, unless each has one.
  const auto buffers = static_cast<int>(kv_inside_.size());
  const int buffer = buffers == kv_buffers_ ? (outer * ranks_per_node_ + inner) % buffers
                                            : outer * (ranks_per_node_ - 1) + inner - 1;
  return kv_inside_[buffer].data();
}

}  // namespace ringscope
