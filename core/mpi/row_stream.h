// Rows on their way between rank 0 and another rank, as one stream of values. Neither end holds
// more of it than two messages of 256 KiB.
#pragma once

#include <mpi.h>

#include <array>
#include <span>
#include <vector>

#include "core/mpi/mpi_calls.h"
#include "core/run/rows.h"

namespace ringscope {

// Return the number of values in `rows` of all the tensors.
Index values_in(const AttentionShape& shape, std::span<const Tensor> tensors,
                const LocalRows& rows);

// Sends `total` values to rank `to`.
class RowSender : public RowSink {
 public:
  RowSender(const AttentionShape& shape, int to, Index total, ProcessWait& wait);
  ~RowSender() override;

  void put(const RowsOfHead& piece, const float* from) override;
  // Return when all values have left.
  void finish();

 private:
  void send();

  AttentionShape shape_;
  int to_;
  Index left_;  // not put yet
  ProcessWait& wait_;
  std::array<std::vector<float>, 2> messages_;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::size_t filling_ = 0;
};

// Receives `total` values from rank `from`.
class RowReceiver : public RowSource {
 public:
  RowReceiver(const AttentionShape& shape, int from, Index total, ProcessWait& wait);
  ~RowReceiver() override;

  void get(const RowsOfHead& piece, float* to) override;

 private:
  void post(std::size_t message);

  AttentionShape shape_;
  int from_;
  Index left_;  // not posted yet
  ProcessWait& wait_;
  std::array<std::vector<float>, 2> messages_;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::size_t reading_ = 0;
  std::size_t at_ = 0;  // in messages_[reading_]
};

}  // namespace ringscope
