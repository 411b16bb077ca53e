#include "core/ring/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/attention/blockwise.h"

namespace ringscope {
namespace {

using Kind = MemoryPart::Kind;

constexpr int kStatisticsBytes = 4 + 8 + 4;  // row_max and lse are f32, row_sum is f64

// Collects the parts of a bill.
class Bill {
 public:
  Bill(const Problem& job, double rows)
      : job_(job), rows_(rows), e_(job.storage_bytes()), block_(block_values(job.max_rows())) {}

  std::vector<MemoryPart> parts() {
    if (job_.scheme == Scheme::ulysses) {
      add_share_of_heads();
    } else {
      add_query_side(rows_, "b c d H", "b c H");
      if (job_.scheme == Scheme::allgather) {
        add_gathered_blocks();
      } else if (job_.scheme == Scheme::two_level && job_.nodes > 1 && job_.ranks_a_node() > 1) {
        add_two_level_blocks();
      } else {
        add_ring_blocks();
      }
    }
    if (job_.backward)
      // What other layers keep for their backward pass: Q, K, V, O as stored, row_max, row_sum.
      add(Kind::other, "other layers' Q, K, V, O",
          static_cast<double>(job_.layers - 1) *
              ((2 * query_values(job_.shape, rows_) + block_values(rows_)) * e_ +
               12 * row_values(job_.shape, rows_)),
          "(L-1) (2 b c d (H+G) e + 12 b c H)");
    add(Kind::other, "tile scratch",
        static_cast<double>(BlockwiseScratch::bytes(job_.shape.head_dim, job_.backward)),
        "tiles of 48 x 256, whatever c");
    return std::move(parts_);
  }

 private:
  // Return the number of values in K and V of `rows` rows.
  double block_values(double rows) const { return 2 * kv_values(job_.shape, rows); }

  void add(Kind kind, std::string name, double bytes, std::string formula, int buffers = 1,
           bool is_by_owner = false) {
    parts_.push_back({kind, std::move(name), bytes, std::move(formula), buffers, is_by_owner});
  }
  // Add a number of buffers of one size; the formula is that of one of them.
  void add_buffers(Kind kind, std::string name, int count, double bytes, const char* formula) {
    add(kind, std::move(name), count * bytes, fmt::format("{} x {}", count, formula), count);
  }

  // Add Q, output and row statistics of `rows` rows of all heads; with backward also dO, dQ and
  // delta. `v` and `r` are the formulas of the numbers of values and of rows.
  void add_query_side(double rows, const std::string& v, const std::string& r) {
    const double values = query_values(job_.shape, rows), heads = row_values(job_.shape, rows);
    add(Kind::q, "Q", values * e_, v + " e");
    add(Kind::out_accum, "output, f32", values * 4, "4 " + v);
    add(Kind::statistics, "row statistics", heads * kStatisticsBytes, "16 " + r);
    if (!job_.backward) return;
    add(Kind::dout, "dO", values * e_, v + " e");
    add(Kind::dq, "dQ, f32", values * 4, "4 " + v);
    add(Kind::delta, "row sums of dO O", heads * 4, "4 " + r);
  }

  void add_ring_blocks() {
    const int n = job_.world_size;
    // Blocks of different owners share a buffer, so each buffer has room for the largest.
    const int turns = std::min(n, job_.kv_buffers);  // buffers that blocks rotate through
    const int buffers = job_.backward && turns < n ? turns + 1 : turns;
    const char* const own = job_.backward && n > 2 ? "own, " : "";
    add_buffers(Kind::kv,
                buffers == 1 ? "KV block" : fmt::format("KV blocks: {}current, incoming", own),
                buffers, block_ * e_, "2 b c d G e");
    if (!job_.backward) return;
    add_buffers(Kind::gradients, n == 1 ? "dK, dV, f32" : "dK, dV, f32: summed, sent, incoming",
                n == 1 ? 1 : 3, block_ * 4, "8 b c d G");
  }

  // Each level has its own buffers, because a block from the previous node stays for a whole turn
  // around the node. Its gradient sum waits for that turn to end and travels during the next one.
  void add_two_level_blocks() {
    const int turns = std::min(job_.nodes, job_.kv_buffers);
    const int between = job_.backward && turns < job_.nodes ? turns + 1 : turns;
    const int inside = std::min(job_.nodes * (job_.ranks_a_node() - 1), job_.kv_buffers);
    add_buffers(Kind::kv, "KV blocks between nodes", between, block_ * e_, "2 b c d G e");
    add_buffers(Kind::kv_inside, "KV blocks inside a node", inside, block_ * e_, "2 b c d G e");
    if (!job_.backward) return;
    add_buffers(Kind::gradients, "dK, dV, f32: summed, sent, incoming", 3, block_ * 4, "8 b c d G");
    add_buffers(Kind::gradients, "dK, dV, f32, between nodes", 2, block_ * 4, "8 b c d G");
  }

  void add_gathered_blocks() {
    const int n = job_.world_size;
    const double all = block_values(static_cast<double>(job_.shape.seqlen));
    add(Kind::kv, "KV blocks of all ranks", all * e_, "2 b S d G e", n, true);
    if (!job_.backward) return;
    add(Kind::gradients, "dK, dV of all ranks, f32", all * 4, "8 b S d G", n, true);
    if (n > 1) add(Kind::gradients, "incoming dK, dV, f32", block_ * 4, "8 b c d G");
  }

  // Ulysses: a rank holds the whole sequence of its share of the heads, and what is in transit
  // either way.
  void add_share_of_heads() {
    const AttentionShape& s = job_.shape;
    const double share = static_cast<double>(s.seqlen) / job_.world_size;
    add_query_side(share, "b S d H/N", "b S H/N");
    add(Kind::kv, "K, V", block_values(share) * e_, "2 b S d G/N e");
    if (job_.backward) add(Kind::gradients, "dK, dV, f32", block_values(share) * 4, "8 b S d G/N");
    if (job_.world_size > 1)
      add(Kind::kv, "on their way: Q, K, V or O",
          std::max(query_values(s, rows_) + block_values(rows_), 2 * query_values(s, rows_)) * e_,
          "max(b c d (H+2G), 2 b c d H) e");
  }

  const Problem& job_;
  double rows_;
  double e_;      // bytes of a stored value
  double block_;  // values of the largest KV block
  std::vector<MemoryPart> parts_;
};

}  // namespace

std::vector<MemoryPart> memory_parts(const Problem& job, double rows) {
  std::vector<MemoryPart> parts = Bill(job, rows).parts();
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
      rows_(problem.rows(rank)),
      scheme_(problem.scheme),
      backward_(problem.backward),
      kv_buffers_(std::min(problem.kv_buffers, problem.world_size)),
      ranks_per_node_(problem.scheme == Scheme::two_level ? problem.ranks_a_node()
                                                          : problem.world_size) {
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
  for (const MemoryPart& part : Bill(problem, static_cast<double>(rows_)).parts()) {
    switch (part.kind) {
      case Kind::q:
        allocate(q, part.bytes);
        break;
      case Kind::out_accum:
        allocate(out_accum, part.bytes);
        break;
      case Kind::statistics:
        allocate(row_max, part.bytes / kStatisticsBytes * sizeof(float));
        allocate(row_sum, part.bytes / kStatisticsBytes * sizeof(double));
        allocate(lse, part.bytes / kStatisticsBytes * sizeof(float));
        break;
      case Kind::dout:
        allocate(dout, part.bytes);
        break;
      case Kind::dq:
        allocate(dq, part.bytes);
        break;
      case Kind::delta:
        allocate(delta, part.bytes);
        break;
      case Kind::kv:
        allocate_all(kv_, part);
        break;
      case Kind::kv_inside:
        allocate_all(kv_inside_, part);
        break;
      case Kind::gradients:
        allocate_all(gradients_, part);
        break;
      case Kind::other:
        break;
    }
  }
}

Index RankMemory::predicted_bytes(const Problem& problem, int rank) {
  std::vector<MemoryPart> parts = memory_parts(problem, static_cast<double>(problem.rows(rank)));
  std::erase_if(parts, [](const MemoryPart& part) { return part.kind == Kind::other; });
  return static_cast<Index>(total_bytes(parts));
}

std::byte* RankMemory::own_kv() {
  return scheme_ == Scheme::allgather ? kv_of_owner(rank_) : kv_at_step(0);
}

std::byte* RankMemory::kv_at_step(int step) {
  // With backward, buffer 0 keeps the own block, and the later blocks rotate through the others.
  const int buffer = !backward_ ? step % kv_buffers_ : step == 0 ? 0 : 1 + (step - 1) % kv_buffers_;
  return kv_[static_cast<std::size_t>(buffer)].data();
}

std::byte* RankMemory::kv_at_turn(int outer, int inner) {
  if (inner == 0) return kv_at_step(outer);
  // Blocks rotate through the buffers, unless each has one.
  const auto buffers = static_cast<int>(kv_inside_.size());
  const int buffer = buffers == kv_buffers_ ? (outer * ranks_per_node_ + inner) % buffers
                                            : outer * (ranks_per_node_ - 1) + inner - 1;
  return kv_inside_[static_cast<std::size_t>(buffer)].data();
}

}  // namespace ringscope
