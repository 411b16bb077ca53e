#include "core/cost/memory.h"

#include <algorithm>

#include "core/attention/blockwise.h"

namespace ringscope {
namespace {

// Collect parts under the names that the tables print.
class Bill {
 public:
  explicit Bill(const Problem& job) : job_(job), e_(job.storage_bytes()) {}

  void add(const std::string& name, double bytes, const std::string& formula) {
    if (bytes > 0) parts_.push_back({name, bytes, formula});
  }

  // Add Q, output and row statistics of `query` values in `rows_and_heads` rows; with backward also
  // dO, dQ and delta. `v` and `r` are the formulas of the two numbers.
  void add_query_side(double query, double rows_and_heads, const std::string& v,
                      const std::string& r) {
    add("Q", query * e_, v + " e");
    add("output, f32", query * 4, "4 " + v);
    // row_max and lse are f32, row_sum is f64.
    add("row statistics", rows_and_heads * 16, "16 " + r);
    if (!job_.backward) return;
    add("dO", query * e_, v + " e");
    add("dQ, f32", query * 4, "4 " + v);
    add("row sums of dO O", rows_and_heads * 4, "4 " + r);
  }

  // Add what other layers keep for their backward pass: Q, K, V, O as stored, row_max, row_sum.
  void add_other_layers(double rows) {
    if (!job_.backward) return;
    const AttentionShape& s = job_.shape;
    const double layer =
        2 * (query_values(s, rows) + kv_values(s, rows)) * e_ + 12 * row_values(s, rows);
    add("other layers' Q, K, V, O", static_cast<double>(job_.layers - 1) * layer,
        "(L-1) (2 b c d (H+G) e + 12 b c H)");
  }

  std::vector<MemoryPart> take() {
    add("tile scratch",
        static_cast<double>(BlockwiseScratch::bytes(job_.shape.head_dim, job_.backward)),
        "tiles of 48 x 256, whatever c");
    return std::move(parts_);
  }

 private:
  const Problem& job_;
  double e_;
  std::vector<MemoryPart> parts_;
};

void add_ring_blocks(const Problem& job, Bill& bill) {
  const int n = job.world_size;
  // Blocks of different owners share a buffer, so each buffer has room for the largest.
  const double block = 2 * kv_values(job.shape, job.max_rows());
  const int turns = std::min(n, job.kv_buffers);  // buffers that blocks rotate through
  const int buffers = job.backward && turns < n ? turns + 1 : turns;
  const std::string own = job.backward && n > 2 ? "own, " : "";
  bill.add(buffers == 1 ? "KV block" : "KV blocks: " + own + "current, incoming",
           buffers * block * job.storage_bytes(), std::to_string(buffers) + " x 2 b c d G e");
  if (!job.backward) return;
  const int gradients = n == 1 ? 1 : 3;
  bill.add(gradients == 1 ? "dK, dV, f32" : "dK, dV, f32: summed, sent, incoming",
           gradients * block * 4, std::to_string(gradients) + " x 8 b c d G");
}

// Each level has its own buffers, because a block from the previous node stays for a whole turn
// around the node. Its gradient sum waits for that turn to end and travels during the next one.
void add_two_level_blocks(const Problem& job, Bill& bill) {
  const int places = job.ranks_a_node();
  if (job.nodes == 1 || places == 1) return add_ring_blocks(job, bill);
  const double block = 2 * kv_values(job.shape, job.max_rows());
  const int turns = std::min(job.nodes, job.kv_buffers);
  const int between = job.backward && turns < job.nodes ? turns + 1 : turns;
  const int inside = std::min(job.nodes * (places - 1), job.kv_buffers);
  bill.add("KV blocks between nodes", between * block * job.storage_bytes(),
           std::to_string(between) + " x 2 b c d G e");
  bill.add("KV blocks inside a node", inside * block * job.storage_bytes(),
           std::to_string(inside) + " x 2 b c d G e");
  if (!job.backward) return;
  bill.add("dK, dV, f32: summed, sent, incoming", 3 * block * 4, "3 x 8 b c d G");
  bill.add("dK, dV, f32, between nodes", 2 * block * 4, "2 x 8 b c d G");
}

void add_gathered_blocks(const Problem& job, Bill& bill) {
  const double all = 2 * kv_values(job.shape, static_cast<double>(job.shape.seqlen));
  bill.add("KV blocks of all ranks", all * job.storage_bytes(), "2 b S d G e");
  if (!job.backward) return;
  bill.add("dK, dV of all ranks, f32", all * 4, "8 b S d G");
  if (job.world_size > 1)
    bill.add("incoming dK, dV, f32", 2 * kv_values(job.shape, job.max_rows()) * 4, "8 b c d G");
}

}  // namespace

std::vector<MemoryPart> memory_parts(const Problem& job, double rows) {
  const AttentionShape& s = job.shape;
  Bill bill(job);
  if (job.scheme != Scheme::ulysses) {
    bill.add_query_side(query_values(s, rows), row_values(s, rows), "b c d H", "b c H");
    if (job.scheme == Scheme::ring) add_ring_blocks(job, bill);
    if (job.scheme == Scheme::two_level) add_two_level_blocks(job, bill);
    if (job.scheme == Scheme::allgather) add_gathered_blocks(job, bill);
  } else {
    // A rank holds the whole sequence of its share of the heads, and what is in transit either way.
    const double share = static_cast<double>(s.seqlen) / job.world_size;
    const double kv = 2 * kv_values(s, share);
    bill.add_query_side(query_values(s, share), row_values(s, share), "b S d H/N", "b S H/N");
    bill.add("K, V", kv * job.storage_bytes(), "2 b S d G/N e");
    if (job.backward) bill.add("dK, dV, f32", kv * 4, "8 b S d G/N");
    if (job.world_size > 1)
      bill.add("on their way: Q, K, V or O",
               std::max(query_values(s, rows) + 2 * kv_values(s, rows), 2 * query_values(s, rows)) *
                   job.storage_bytes(),
               "max(b c d (H+2G), 2 b c d H) e");
  }
  bill.add_other_layers(rows);
  return bill.take();
}

double total_bytes(const std::vector<MemoryPart>& parts) {
  double total = 0;
  for (const MemoryPart& part : parts) total += part.bytes;
  return total;
}

double peak_bytes(const Problem& job) { return total_bytes(memory_parts(job, job.max_rows())); }

double ring_values_of_s0(const AttentionShape& shape, double rows) {
  return 2 * query_values(shape, rows) + 4 * kv_values(shape, rows);
}

double score_matrix_bytes(const AttentionShape& shape, double value_bytes) {
  const auto seqlen = static_cast<double>(shape.seqlen);
  return row_values(shape, seqlen) * seqlen * value_bytes;
}

}  // namespace ringscope
