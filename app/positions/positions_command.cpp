// `ringscope positions`: who holds what, in the conventions of this project and of other libraries.
#include "app/command_line/commands.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/command_line/option_groups.h"
#include "app/report/fields.h"
#include "app/report/machine.h"
#include "app/report/terminal.h"
#include "core/base/files.h"
#include "core/base/npy.h"
#include "core/base/text.h"
#include "core/problem/conventions.h"

namespace ringscope {

struct PositionsOptions {
  Problem job;  // its shape has a seqlen alone
  std::optional<int> rank;
  Convention convention = Convention::ringscope;
  Index label_shift = 1;
  std::optional<std::string> out;
  bool json = false;
};

namespace {

// Return about how many bytes the ranks' rows take, and what is printed and written of them.
double bytes_of(const PositionsOptions& options, const Mask& mask) {
  const Problem& job = options.job;
  const double ranks = options.rank ? 1 : job.world_size;
  const double rows =
      static_cast<double>(padded_cu_seqlens(options.convention, mask, job.world_size).back()) *
      ranks / job.world_size;
  const double ends = ranks * static_cast<double>(mask.num_documents + 1);
  return rows * ((options.json ? 150 : 80) + (options.out ? 24 : 0)) + 40 * ends + 200 * ranks;
}

// Return "0-3 9 -", where '-' alone is a number below 0.
std::string ranges_text(const std::vector<Index>& numbers) {
  std::string text;
  for (std::size_t at = 0; at < numbers.size();) {
    std::size_t end = at + 1;
    while (end < numbers.size() && numbers[at] >= 0 && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ' ';
    text += numbers[at] < 0 ? "-"
            : end - at == 1 ? fmt::format("{}", numbers[at])
                            : fmt::format("{}-{}", numbers[at], numbers[end - 1]);
    at = end;
  }
  return text.empty() ? "none" : text;
}

std::vector<int> ranks_of(const PositionsOptions& options) {
  std::vector<int> ranks;
  for (int rank = 0; rank < options.job.world_size; ++rank)
    if (!options.rank || rank == *options.rank) ranks.push_back(rank);
  return ranks;
}

std::string positions_text(const PositionsOptions& options, const std::vector<FedRows>& fed) {
  std::string text =
      fmt::format("{} positions on {}, {}, mask {}, as {} has them\n", options.job.shape.seqlen,
                  count_text(options.job.world_size, "rank"), options.job.partition.name(),
                  options.job.mask.name(), name_of(options.convention));
  const std::vector<int> ranks = ranks_of(options);
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    text += fmt::format("\nrank {}, {}\n", ranks[k],
                        count_text(static_cast<Index>(fed[k].positions.size()), "row"));
    for (const auto& [name, numbers] : {std::pair{"positions", &fed[k].positions},
                                        {"labels", &fed[k].labels},
                                        {"rope", &fed[k].rope_positions}})
      text += fmt::format("  {:<12}{}\n", name, ranges_text(*numbers));
    text += "  cu_seqlens  ";
    for (const Index end : fed[k].cu_seqlens) text += fmt::format("{} ", end);
    text.back() = '\n';
    if (fed[k].cu_seqlens_k.empty()) continue;
    text += fmt::format("  {:<12}{}-{}\n  cu_seqlens_k {}\n", "local_k", fed[k].local_k.first,
                        fed[k].local_k.last - 1, fmt::join(fed[k].cu_seqlens_k, " "));
  }
  return text + "\n-  padding, or the last row of a document, which predicts nothing\n";
}

std::string positions_json(const PositionsOptions& options, const std::vector<FedRows>& fed) {
  const Problem& job = options.job;
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const std::vector<int> ranks = ranks_of(options);
  std::vector<Fields> of_ranks;
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    of_ranks.push_back({{"rank", ranks[k]},
                        {"positions", fed[k].positions},
                        {"cu_seqlens", fed[k].cu_seqlens},
                        {"labels", fed[k].labels},
                        {"rope_positions", fed[k].rope_positions}});
    const Interval keys = fed[k].local_k;
    if (keys.size() > 0)
      of_ranks.back() =
          of_ranks.back() + Fields{{"cu_seqlens_k", fed[k].cu_seqlens_k},
                                   {"local_k_slice", std::vector<Index>{keys.first, keys.last}}};
  }
  return json_line(
      {{"convention", name_of(options.convention)},
       {"seqlen", job.shape.seqlen},
       {"world_size", job.world_size},
       {"partition", job.partition.name()},
       {"mask", job.mask.name()},
       {"cu_seqlens", padded_cu_seqlens(Convention::ringscope, mask, job.world_size)},
       {"cu_seqlens_padded", padded_cu_seqlens(options.convention, mask, job.world_size)},
       {"ranks", of_ranks}});
}

// Write the positions: [rows] of one rank, or [world_size, most rows], filled up with kPadding.
void write_positions(const PositionsOptions& options, const std::vector<FedRows>& fed) {
  std::size_t most = 0;
  for (const FedRows& rows : fed) most = std::max(most, rows.positions.size());
  std::vector<Index> values, shape = {static_cast<Index>(most)};
  for (const FedRows& rows : fed) {
    values.insert(values.end(), rows.positions.begin(), rows.positions.end());
    values.resize(values.size() + most - rows.positions.size(), kPadding);
  }
  if (!options.rank) shape.insert(shape.begin(), static_cast<Index>(fed.size()));
  AtomicFile file(*options.out);
  write_npy_integers(file, shape, values);
  file.commit();
}

constexpr Index kMostPositions = Index{1} << 24;  // that are listed

// Throw InputError naming the flag, the value and what would be accepted.
void complete(PositionsOptions& options, bool partition_given) {
  complete_problem("positions", options.job);
  const Problem& job = options.job;
  const std::string convention = fmt::format("with --convention {}", name_of(options.convention));
  if (job.shape.seqlen > kMostPositions || job.world_size > kMostPositions)
    contradiction("positions",
                  fmt::format("{} positions on {} given", job.shape.seqlen,
                              count_text(job.world_size, "rank")),
                  fmt::format("up to {} of either", kMostPositions));
  if (options.rank)
    for_flag("--rank:",
             [&] { integer_in<int>(std::to_string(*options.rank), 0, job.world_size - 1); });
  if (options.convention == Convention::ringscope) return;
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  const Index chunks = 2 * Index{job.world_size};
  const auto require_multiple = [&](Index of, const std::string& what) {
    if (job.shape.seqlen % of != 0)
      contradiction("--seqlen", fmt::format("{} given {}", job.shape.seqlen, convention),
                    fmt::format("a multiple of {}, as it asserts", what));
  };
  if (options.convention == Convention::ring_flash_attention_llama3 ||
      options.convention == Convention::megatron_contiguous)
    require_multiple(job.world_size, fmt::format("the {} ranks", job.world_size));
  if (options.convention == Convention::megatron && !job.mask.has_documents())
    require_multiple(chunks, fmt::format("{}, two chunks a rank", chunks));
  if (options.convention == Convention::pytorch_ptrr) {
    if (!partition_given) options.job.partition = PartitionSpec::parse("ptrr:1");
    const Index block = job.partition.block_rows();
    if (block == 0 || block > job.shape.seqlen)
      contradiction("--partition", fmt::format("'{}' given {}", job.partition.name(), convention),
                    "ptrr:ROWS, of the sequence's rows at most");
    const Index of_all = block * job.world_size;
    return require_multiple(of_all, fmt::format("{}, a block a rank", of_all));
  }
  for (Index d = 0; d < mask.num_documents && options.convention == Convention::pytorch; ++d)
    if (mask.document(d).size() % chunks != 0)
      contradiction("--mask", fmt::format("'{}' given {}", job.mask.name(), convention),
                    fmt::format("documents of multiples of {} positions, as "
                                "_PerDocumentHeadTailLoadBalancer asserts",
                                chunks));
  const std::string kind = holds_shares(options.convention, mask, job.world_size) ? "contiguous"
                                                                                  : "zigzag",
                    deal = kind == "zigzag" && job.mask.has_documents() ? "documents:zigzag" : kind;
  if (partition_given && job.partition.name() != kind && job.partition.name() != deal)
    contradiction("--partition", fmt::format("'{}' given {}", job.partition.name(), convention),
                  kind);
  options.job.partition = PartitionSpec::parse(deal);
}

}  // namespace

int carry_out(const PositionsOptions& options) {
  std::vector<std::string> inputs;
  add_files_in({options.job.mask.name(), options.job.partition.name()}, inputs);
  check_output_places({{"--out", options.out}}, inputs, options.json);
  Problem job = options.job;
  const Mask mask = job.mask.for_seqlen(job.shape.seqlen);
  require_bytes(bytes_of(options, mask), "fewer positions or ranks, or --rank for one of them");
  deal_out_as_given(job);
  std::vector<FedRows> fed;
  for (const int rank : ranks_of(options))
    fed.push_back(
        fed_rows(options.convention, mask, job.partition_of_sequence(), rank, options.label_shift));
  if (options.out) for_flag("--out", [&] { write_positions(options, fed); });
  print_out(options.json ? positions_json(options, fed) : positions_text(options, fed));
  return 0;
}

Finish declare_positions(CommandFlags& flags) {
  const auto options = std::make_shared<PositionsOptions>();
  options->job = planned_problem();
  Problem& job = options->job;
  for (const char* row : {"seqlen", "world-size", "partition", "mask"}) flags.row(job, row);
  flags.integer("--rank", options->rank, "this rank alone (all)", 0);
  flags.name(
      "--convention", options->convention,
      "ringscope|ring-flash-attention|ring-flash-attention-llama3|transformer-engine|pytorch|"
      "pytorch-ptrr|megatron|megatron-contiguous",
      "whose; the others' chunks are zigzag, of documents padded to 2N rows, equal shares, or "
      "blocks by their work (ringscope)",
      [](const std::string& text) { return parse_name(text, kAllOf<Convention>); });
  flags.integer("--label-shift", options->label_shift,
                "a row predicts the token so many positions on, as heads of multi-token prediction "
                "do (1)",
                1, kMostPositions, "K");
  flags.path("--out", options->out,
             "write the positions, .npy integers [rows] of a rank, or [ranks, rows] with -1 where "
             "there is none");
  flags.flag("--json", options->json, "print one JSON object");
  return [options, &flags] {
    complete(*options, flags.given("--partition"));
    return *options;
  };
}

}  // namespace ringscope
