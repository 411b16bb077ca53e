// Which global positions a rank holds. The four fixed partitions give a rank one or two arithmetic
// runs (first, first + stride, …) in ascending order. Both directions of the mapping "local row <->
// global position" are therefore a few integer operations, with no table and nothing to send.
//
//   contiguous   rank r holds chunk r of N                        one run, stride 1
//   striped      position p lies on rank p mod N                  one run, stride N
//   zigzag       of 2N chunks, rank r holds r and 2N-1-r          two runs, stride 1
//   fold         in fold f = p div N, position p lies on rank     two runs, stride 2N,
//                p mod N when f is even, N-1 - p mod N when odd   alternating
//                (what S1 calls zig-zag)
//
// If the chunks don't divide the sequence, the first (seqlen mod chunks) of them are longer by one
// row. Any seqlen >= 0 and world_size >= 1 works, and a rank may hold nothing.
//
// Any other way is an Assignment, a table of the stretches of neighbouring positions that a rank
// holds; then the mapping is a binary search. Assignments come from a file, from a partition applied to
// each document by itself, and from a search.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/math.h"
#include "core/base/names.h"
#include "core/problem/mask.h"

namespace ringscope {

class AtomicFile;

// An arithmetic run of `count` positions: first, first + stride, ….
struct Run {
  Index first = 0;
  Index stride = 1;
  Index count = 0;

  constexpr bool operator==(const Run&) const = default;
  constexpr Index position(Index i) const { return first + stride * i; }
  // Return how many of the run's positions are < position.
  constexpr Index rows_below(Index position) const {
    return clamp(ceil_div(position - first, stride), 0, count);
  }
  constexpr Run slice(Index begin, Index end) const {
    return {position(begin), stride, max_of(end - begin, 0)};
  }
};

// Neighbouring positions from `first` on, which are the local rows from `local_first` on.
struct Stretch {
  Index first = 0;
  Index local_first = 0;
};

// The global positions of one rank's local rows 0, 1, …, ascending. The two runs have one stride
// and either follow each other or alternate (runs[0]: even local rows, runs[1]: odd). If there are
// stretches, they replace the runs; one entry more ends their table, {seqlen, rows in it}, and the
// local rows are [first_row, end_row) of it.
struct LocalRows {
  Run runs[2];
  bool alternating = false;
  const Stretch* stretches = nullptr;
  Index num_stretches = 0;
  Index first_row = 0, end_row = 0;
  Index distance = 0;  // by which the positions lie further on than the table says

  constexpr bool operator==(const LocalRows&) const = default;
  constexpr bool is_dealt() const { return stretches != nullptr; }
  constexpr Index size() const {
    return is_dealt() ? end_row - first_row : runs[0].count + runs[1].count;
  }
  // Return the local rows [begin, end) by themselves. Where two runs alternate, begin is even.
  constexpr LocalRows part(Index begin, Index end) const {
    LocalRows rows = *this;
    rows.first_row = first_row + begin;
    rows.end_row = first_row + end;
    if (!is_dealt())
      for (int k = 0; k < 2; ++k) rows.runs[k] = run_within(k, begin, end);
    return rows;
  }

  // Return the rows at positions that lie further on.
  constexpr LocalRows moved(Index further) const {
    LocalRows rows = *this;
    rows.distance += further;
    for (Run& run : rows.runs) run.first += further;
    return rows;
  }

  // Return the global position of local_row, which is in [0, size()).
  constexpr Index global_position(Index local_row) const {
    if (is_dealt()) {
      const Index row = first_row + local_row;
      const Stretch& stretch = stretches[stretch_of(row)];
      return distance + stretch.first + row - stretch.local_first;
    }
    if (alternating) return runs[local_row & 1].position(local_row >> 1);
    return local_row < runs[0].count ? runs[0].position(local_row)
                                     : runs[1].position(local_row - runs[0].count);
  }

  // Return how many local rows lie at global positions < global_position. This is also the first
  // local row at or after it.
  constexpr Index rows_below(Index global_position) const {
    if (is_dealt()) {
      const Index position = global_position - distance;
      const Index k = last_at_or_before(&Stretch::first, position);
      if (k < 0) return 0;
      const Index row = min_of(stretches[k].local_first + position - stretches[k].first,
                               stretches[k + 1].local_first);
      return clamp(row - first_row, 0, size());
    }
    return runs[0].rows_below(global_position) + runs[1].rows_below(global_position);
  }

  // Return the part of run k whose local rows lie in [begin, end).
  constexpr Run run_within(int k, Index begin, Index end) const {
    const Run& run = runs[k];
    if (alternating)
      return run.slice(clamp((begin + 1 - k) / 2, 0, run.count),
                       clamp((end + 1 - k) / 2, 0, run.count));
    const Index offset = k == 0 ? 0 : runs[0].count;
    return run.slice(clamp(begin - offset, 0, run.count), clamp(end - offset, 0, run.count));
  }

  // Return how many runs for_runs has for the local rows [begin, end), or a few more.
  constexpr Index num_runs(Index begin, Index end) const {
    if (!is_dealt()) return 2;
    return begin < end ? stretch_of(first_row + end - 1) - stretch_of(first_row + begin) + 1 : 0;
  }
  // Call f(run) for the runs that the local rows [begin, end) are, all of one stride.
  template <class F>
  constexpr void for_runs(Index begin, Index end, F&& f) const {
    if (!is_dealt()) {
      f(run_within(0, begin, end));
      return f(run_within(1, begin, end));
    }
    if (begin >= end) return;
    begin += first_row;
    end += first_row;
    for (Index k = stretch_of(begin); k < num_stretches && stretches[k].local_first < end; ++k) {
      const Stretch& stretch = stretches[k];
      const Index from = max_of(begin, stretch.local_first);
      f(Run{distance + stretch.first + from - stretch.local_first, 1,
            min_of(end, stretches[k + 1].local_first) - from});
    }
  }
  constexpr Index stride() const { return is_dealt() ? 1 : runs[0].stride; }

 private:
  // Return the last stretch whose member is at most `value`, or -1.
  constexpr Index last_at_or_before(Index Stretch::*member, Index value) const {
    Index low = 0, high = num_stretches;  // the number of such stretches lies in [low, high]
    while (low < high) {
      const Index middle = low + (high - low) / 2;
      if (stretches[middle].*member <= value) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - 1;
  }
  constexpr Index stretch_of(Index local_row) const {
    return last_at_or_before(&Stretch::local_first, local_row);
  }
};

// Consecutive positions that one rank holds.
struct DealtRun {
  int rank = 0;
  Index count = 0;

  bool operator==(const DealtRun&) const = default;
};

// Any assignment of the positions 0, 1, … to ranks.
class Assignment {
 public:
  // `runs` follow each other from position 0 on. Throw an InputError that names the first rank
  // outside 0 … world_size - 1.
  Assignment(const std::vector<DealtRun>& runs, int world_size);

  Index seqlen() const { return seqlen_; }
  int world_size() const { return static_cast<int>(of_rank_.size()); }
  LocalRows rows_of(int rank) const;
  Index max_rows() const { return max_rows_; }
  // Return the assignment as runs, of which neighbours have different ranks.
  const std::vector<DealtRun>& runs() const { return runs_; }

 private:
  Index seqlen_ = 0, max_rows_ = 0;
  std::vector<DealtRun> runs_;
  std::vector<std::vector<Stretch>> of_rank_;
};

// ---
// The four fixed partitions, which the head of this file defines, and `dealt`, which has a table.

enum class PartitionKind { contiguous, striped, zigzag, fold, dealt };
constexpr auto names_of(PartitionKind) {
  return list_of({"contiguous", "striped", "zigzag", "fold", "dealt"});
}
inline constexpr PartitionKind kAllPartitions[] = {
    PartitionKind::contiguous, PartitionKind::striped, PartitionKind::zigzag, PartitionKind::fold};

// Return the fixed kind that `text` names. Throw an InputError that lists the accepted names.
PartitionKind parse_partition(std::string_view text);

// Return chunk k of `chunks` balanced chunks, as a run of positions.
constexpr Run balanced_chunk(Index seqlen, Index chunks, Index k) {
  const Index length = seqlen / chunks, longer = seqlen % chunks;
  return {k * length + min_of(k, longer), 1, length + (k < longer ? 1 : 0)};
}

struct Partition {
  PartitionKind kind = PartitionKind::contiguous;
  Index seqlen = 0;
  int world_size = 1;
  const Assignment* assignment = nullptr;  // dealt

  // Return the rows that `rank` in [0, world_size) holds.
  constexpr LocalRows rows_of(int rank) const {
    if (seqlen == 0) return {};
    const Index n = world_size;
    switch (kind) {
      case PartitionKind::striped:
        return {{strided(rank, n), {seqlen, n, 0}}, false};
      case PartitionKind::zigzag:
        return {
            {balanced_chunk(seqlen, 2 * n, rank), balanced_chunk(seqlen, 2 * n, 2 * n - 1 - rank)},
            false};
      case PartitionKind::fold:
        return {{strided(rank, 2 * n), strided(2 * n - 1 - rank, 2 * n)}, true};
      case PartitionKind::dealt:
        return assignment->rows_of(rank);
      default:
        return {{balanced_chunk(seqlen, n, rank), {seqlen, 1, 0}}, false};
    }
  }

  // Return the most rows that any rank holds: ceil(seqlen / world_size) for the fixed kinds.
  constexpr Index max_rows() const {
    return kind == PartitionKind::dealt ? assignment->max_rows() : ceil_div(seqlen, world_size);
  }

 private:
  constexpr Run strided(Index first, Index stride) const {
    return {first, stride, Run{first, stride, seqlen}.rows_below(seqlen)};
  }
};

// How the keys are dealt out, and the queries: as the keys are or, where there are fewer of them or they
// have a partition of their own, by another one of their numbers. Query 0 stands at first_query.
struct Partitions : Partition {
  Partition queries;
  Index first_query = 0;

  constexpr Partitions() = default;
  constexpr Partitions(PartitionKind of_both, Index rows, int ranks)
      : Partitions(Partition{of_both, rows, ranks}) {}
  constexpr Partitions(const Partition& both)  // NOLINT: one partition deals both
      : Partition(both), queries(both) {}
  constexpr Partitions(const Partition& keys, const Partition& of_queries, Index first)
      : Partition(keys), queries(of_queries), first_query(first) {}

  // Return the positions of the queries that `rank` in [0, world_size) holds.
  constexpr LocalRows queries_of(int rank) const {
    return queries.rows_of(rank).moved(first_query);
  }
};

// ---
// Partitions as people write them: a fixed one, `striped:ROWS` (stripes of so many positions go to
// the ranks in turn), `ptrr:ROWS` (blocks of so many, by the work in them: PyTorch's "processing-time
// based round-robin"), `documents:P`, `file:RANKS.npy`, `searched`. All but the first become
// positions only when assignment() or take() is called.

inline constexpr const char* kAcceptedPartitions =
    "contiguous, striped, zigzag, fold, striped:ROWS, ptrr:ROWS, documents:contiguous, "
    "documents:zigzag, file:RANKS.npy, searched";

class PartitionSpec {
 public:
  PartitionSpec(PartitionKind kind = PartitionKind::contiguous)  // NOLINT: a kind is a partition
      : name_(name_of(kind)), kind_(kind) {}

  // Parse `text`, and read the file that it names: an array [seqlen] of integers, the rank of each
  // position. Throw an InputError that names the value and what is accepted.
  static PartitionSpec parse(std::string_view text);
  // Return a partition of that name which is already dealt out. Throw as Assignment().
  static PartitionSpec dealt(std::string name, const std::vector<DealtRun>& runs, int world_size);
  // Return the partition of a recording, with the runs of its deal as rank, count, rank, count, ….
  // Throw InputError if they don't make up `seqlen` positions.
  static PartitionSpec recorded(std::string_view text, const std::vector<Index>& numbers,
                                Index seqlen, int world_size);

  operator PartitionKind() const { return kind_; }  // NOLINT: as above
  const std::string& name() const { return name_; }
  // Return the name by which recorded() knows the partition.
  std::string_view recorded_name() const {
    return kind_ == PartitionKind::dealt ? name_ : name_of(kind_);
  }
  bool is_searched() const { return name_ == "searched"; }
  // Return ROWS of `ptrr:ROWS`, or 0.
  Index block_rows() const;
  const Assignment* assignment() const { return assignment_.get(); }
  // Return the deal's runs as numbers, as recorded() takes them. Empty for a fixed partition.
  std::vector<Index> numbers() const;
  // Return a text that differs where the name or a file's contents differ.
  std::string identity() const;

  // Partitions the positions of a sequence out, or some of them, unless the partition is fixed or searched.
  // Throw InputError for a file of another length or with a rank outside, and for a mask that has no
  // documents to deal.
  void deal_out(const Mask& mask, int world_size) { deal_out(mask, world_size, {0, mask.seqlen}); }
  void deal_out(const Mask& mask, int world_size, Interval positions);
  // Take the deal that a search found: `found` is dealt out. From then on the partition is of its
  // kind, but keeps its own name.
  void take(const PartitionSpec& found) {
    kind_ = found.kind_;
    assignment_ = found.assignment_;
    found_ = found.name_;
  }
  // Return the name of the deal that a search found, or "".
  const std::string& found() const { return found_; }
  // Return the partition, which points into this object. Throw InputError for positions that have
  // not been dealt, or have been for another sequence.
  Partition of(Index seqlen, int world_size) const;

 private:
  std::string name_;
  PartitionKind kind_;
  std::shared_ptr<const std::vector<DealtRun>> file_runs_;
  std::shared_ptr<const Assignment> assignment_;
  std::string found_;
};

inline std::string_view name_of(const PartitionSpec& partition) { return partition.name(); }

// Write the rank of each position as an integer array [seqlen], .npy, which `file:` reads back.
// The caller commits the file. Throw RunError as AtomicFile::write does.
void write_partition(AtomicFile& file, const Partition& partition);

}  // namespace ringscope
