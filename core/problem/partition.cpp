#include "core/problem/partition.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/npy.h"
#include "core/base/text.h"

namespace ringscope {
namespace {

constexpr std::string_view kDocuments = "documents:", kFile = "file:", kStriped = "striped:",
                           kPtrr = "ptrr:";

// Return the number of rows after `kind` in a partition's name, or 0.
Index rows_after(std::string_view kind, std::string_view name) {
  return name.starts_with(kind) ? parse_number<Index>(name.substr(kind.size())).value_or(0) : 0;
}

// Append `count` positions of `rank`.
void append(std::vector<DealtRun>& runs, int rank, Index count) {
  if (count == 0) return;
  if (!runs.empty() && runs.back().rank == rank) {
    runs.back().count += count;
  } else {
    runs.push_back({rank, count});
  }
}

[[noreturn]] void refuse_rank(Index rank, Index position, const std::string& accepted) {
  throw InputError("rank " + std::to_string(rank) + " of position " + std::to_string(position) +
                   " given; accepted: " + accepted);
}

std::vector<DealtRun> runs_of_file(const std::string& path) {
  const std::string image = read_file(path, ".npy file");
  return with_path_in_errors(path, [&] {
    std::vector<DealtRun> runs;
    Index position = 0;
    for (const Index rank : parse_npy_integers(image)) {
      if (rank < 0 || rank > std::numeric_limits<int>::max())
        refuse_rank(rank, position, "ranks from 0 to world_size - 1");
      append(runs, static_cast<int>(rank), 1);
      ++position;
    }
    return runs;
  });
}

// Return the positions of each document of `mask` dealt to all ranks by `kind`, which is contiguous or zigzag.
std::vector<DealtRun> runs_of_documents(const Mask& mask, PartitionKind kind, int world_size,
                                        Interval positions) {
  const Index n = world_size, chunks = kind == PartitionKind::zigzag ? 2 * n : n;
  std::vector<DealtRun> runs;
  for (Index d = 0; d < mask.num_documents; ++d)
    for (Index k = 0; k < chunks; ++k)
      append(runs, static_cast<int>(k < n ? k : chunks - 1 - k),
             balanced_chunk(intersection(mask.document(d), positions).size(), chunks, k).count);
  return runs;
}

// Return how many blocks of `block` keys the queries of each block of as many attend, in whole or in
// part.
std::vector<Index> key_blocks_met(const Mask& mask, Index block, Interval queries) {
  std::vector<Index> met;
  std::vector<Interval> blocks;  // of keys, that a query of the block meets
  for (Index first = queries.first; first < queries.last;
       first += min_of(block, queries.last - first)) {
    blocks.clear();
    for (Index i = first; i < min_of(first + block, queries.last); ++i)
      mask.for_allowed(i, [&](Interval keys) {
        blocks.push_back({keys.first / block, (keys.last - 1) / block + 1});
      });
    std::sort(blocks.begin(), blocks.end(),
              [](const Interval& a, const Interval& b) { return a.first < b.first; });
    Index count = 0, end = 0;
    for (const Interval& some : blocks) {
      count += max_of(some.last - max_of(some.first, end), 0);
      end = max_of(end, some.last);
    }
    met.push_back(count);
  }
  return met;
}

// Return blocks of queries dealt out by the work in them, the largest first: one to each rank, and then
// one to each in the opposite order. Equal blocks keep their order.
std::vector<DealtRun> runs_by_work(const Mask& mask, Index block, int world_size,
                                   Interval queries) {
  const std::vector<Index> work = key_blocks_met(mask, block, queries);
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return work[a] > work[b]; });
  std::vector<int> rank_of(work.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto ranks = static_cast<std::size_t>(world_size);
    const std::size_t place = k % ranks;
    rank_of[order[k]] = static_cast<int>(k / ranks % 2 == 0 ? place : ranks - 1 - place);
  }
  std::vector<DealtRun> runs;
  Index left = queries.size();
  for (const int rank : rank_of) {
    append(runs, rank, min_of(block, left));
    left -= min_of(block, left);
  }
  return runs;
}

}  // namespace

PartitionKind parse_partition(std::string_view text) { return parse_name(text, kAllPartitions); }

Assignment::Assignment(const std::vector<DealtRun>& runs, int world_size)
    : of_rank_(static_cast<std::size_t>(world_size)) {
  std::vector<Index> held(of_rank_.size(), 0);
  for (const DealtRun& run : runs) {
    if (run.rank < 0 || run.rank >= world_size)
      refuse_rank(run.rank, seqlen_,
                  world_size == 1 ? "rank 0" : "ranks from 0 to " + std::to_string(world_size - 1));
    const auto rank = static_cast<std::size_t>(run.rank);
    const bool goes_on = !runs_.empty() && runs_.back().rank == run.rank;
    append(runs_, run.rank, run.count);
    if (!goes_on && run.count > 0) of_rank_[rank].push_back({seqlen_, held[rank]});
    held[rank] += run.count;
    seqlen_ += run.count;
  }
  for (std::size_t rank = 0; rank < held.size(); ++rank)
    of_rank_[rank].push_back({seqlen_, held[rank]});
  max_rows_ = *std::max_element(held.begin(), held.end());
}

LocalRows Assignment::rows_of(int rank) const {
  const std::vector<Stretch>& stretches = of_rank_[rank];
  LocalRows rows;
  rows.stretches = stretches.data();
  rows.num_stretches = static_cast<Index>(stretches.size()) - 1;
  rows.end_row = stretches.back().local_first;
  return rows;
}

PartitionSpec PartitionSpec::parse(std::string_view text) {
  for (const PartitionKind kind : kAllPartitions)
    if (text == name_of(kind)) return kind;
  PartitionSpec spec(PartitionKind::dealt);
  spec.name_ = text;
  const bool is_file = text.starts_with(kFile) && text.size() > kFile.size();
  if (!is_file && text != "searched" && text != "documents:contiguous" &&
      text != "documents:zigzag" && rows_after(kStriped, text) < 1 && rows_after(kPtrr, text) < 1)
    throw InputError("'" + std::string(text) + "' given; accepted: " + kAcceptedPartitions);
  if (is_file)
    spec.file_runs_ = std::make_shared<const std::vector<DealtRun>>(
        runs_of_file(std::string(text.substr(kFile.size()))));
  return spec;
}

Index PartitionSpec::block_rows() const { return rows_after(kPtrr, name_); }

PartitionSpec PartitionSpec::dealt(std::string name, const std::vector<DealtRun>& runs,
                                   int world_size) {
  PartitionSpec spec(PartitionKind::dealt);
  spec.name_ = std::move(name);
  spec.assignment_ = std::make_shared<const Assignment>(runs, world_size);
  return spec;
}

PartitionSpec PartitionSpec::recorded(std::string_view text, const std::vector<Index>& numbers,
                                      Index seqlen, int world_size) {
  if (numbers.empty()) return parse_partition(text);
  std::vector<DealtRun> runs;
  Index left = seqlen;
  for (std::size_t at = 0; at + 1 < numbers.size(); at += 2) {
    const Index rank = numbers[at], count = numbers[at + 1];
    if (rank < 0 || rank >= world_size || count < 1 || count > left) break;
    left -= count;
    runs.push_back({static_cast<int>(rank), count});
  }
  if (left > 0 || numbers.size() != 2 * runs.size())
    throw InputError(
        "a deal of other positions than 0 to seqlen - 1 given; accepted: pairs of a "
        "rank and a number of positions");
  return dealt(std::string(text), runs, world_size);
}

std::vector<Index> PartitionSpec::numbers() const {
  std::vector<Index> numbers;
  if (assignment_ == nullptr) return numbers;
  for (const DealtRun& run : assignment_->runs()) {
    numbers.push_back(run.rank);
    numbers.push_back(run.count);
  }
  return numbers;
}

std::string PartitionSpec::identity() const {
  if (file_runs_ == nullptr) return name_;
  std::vector<Index> numbers;
  for (const DealtRun& run : *file_runs_) numbers.insert(numbers.end(), {run.rank, run.count});
  return name_ + " with the hash " + std::to_string(hash_of(numbers));
}

void PartitionSpec::deal_out(const Mask& mask, int world_size, Interval positions) {
  if (kind_ != PartitionKind::dealt || is_searched()) return;
  std::vector<DealtRun> runs;
  if (file_runs_ != nullptr) {
    runs = *file_runs_;
    Index length = 0;
    for (const DealtRun& run : runs) length += run.count;
    if (length != positions.size())
      throw InputError("an array of " + std::to_string(length) +
                       " ranks given; accepted: one for each of the " +
                       std::to_string(positions.size()) + " positions");
  } else if (const Index stripe = rows_after(kStriped, name_); stripe > 0) {
    const Index all = positions.size();
    for (Index first = 0; first < all; first += min_of(stripe, all - first))
      append(runs, static_cast<int>(first / stripe % world_size), min_of(stripe, all - first));
  } else if (block_rows() > 0) {
    runs = runs_by_work(mask, block_rows(), world_size, positions);
  } else if (mask.num_documents > 0) {
    runs = runs_of_documents(mask, parse_partition(name_.substr(kDocuments.size())), world_size,
                             positions);
  } else {
    throw InputError(
        "a mask without documents given; accepted: it together with --mask documents:L1,L2,...");
  }
  assignment_ = std::make_shared<const Assignment>(runs, world_size);
}

Partition PartitionSpec::of(Index seqlen, int world_size) const {
  if (kind_ != PartitionKind::dealt) return {kind_, seqlen, world_size};
  if (assignment_ == nullptr || assignment_->seqlen() != seqlen ||
      assignment_->world_size() != world_size)
    throw InputError("partition: '" + name_ + "' given, which is not dealt out to " +
                     std::to_string(world_size) + " ranks; accepted: a fixed partition");
  return {kind_, seqlen, world_size, assignment_.get()};
}

void write_partition(AtomicFile& file, const Partition& partition) {
  std::vector<Index> ranks(partition.seqlen);
  for (int rank = 0; rank < partition.world_size; ++rank) {
    const LocalRows rows = partition.rows_of(rank);
    for (Index row = 0; row < rows.size(); ++row) ranks[rows.global_position(row)] = rank;
  }
  write_npy_integers(file, {partition.seqlen}, ranks);
}

}  // namespace ringscope
