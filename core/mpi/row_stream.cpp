#include "core/mpi/row_stream.h"

#include <algorithm>

namespace ringscope {

namespace {

constexpr Index kMessageValues = 1 << 16;

void keep_if_posted(std::array<std::vector<float>, 2>& messages,
                    const std::array<MPI_Request, 2>& requests) {
  for (std::size_t i = 0; i < 2; ++i)
    if (requests[i] != MPI_REQUEST_NULL) keep_until_exit(std::move(messages[i]));
}

}  // namespace

Index values_in(const AttentionShape& shape, std::span<const Tensor> tensors,
                const LocalRows& rows) {
  Index total = 0;
  for (const Tensor tensor : tensors)
    total += heads_of(shape, tensor) * rows.size() * width_of(shape, tensor);
  return total;
}

RowSender::RowSender(const AttentionShape& shape, int to, Index total, ProcessWait& wait)
    : shape_(shape), to_(to), left_(total), wait_(wait) {
  for (auto& message : messages_)
    message.reserve(static_cast<std::size_t>(min_of(total, kMessageValues)));
}

void RowSender::put(const RowsOfHead& piece, const float* from) {
  Index count = piece.count() * width_of(shape_, piece.tensor);
  if (count > left_) throw RunError("more rows were given than were agreed on");
  while (count > 0) {
    std::vector<float>& message = messages_[filling_];
    const Index fits = min_of(count, kMessageValues - static_cast<Index>(message.size()));
    message.insert(message.end(), from, from + fits);
    from += fits;
    count -= fits;
    left_ -= fits;
    if (static_cast<Index>(message.size()) == kMessageValues || left_ == 0) send();
  }
}

void RowSender::send() {
  const std::vector<float>& message = messages_[filling_];
  check_mpi(MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_FLOAT, to_,
                      number_of(Tag::rows), MPI_COMM_WORLD, &requests_[filling_]),
            "MPI_Isend");
  filling_ = 1 - filling_;
  wait_.until_complete(requests_[filling_], to_);
  messages_[filling_].clear();
}

void RowSender::finish() {
  if (left_ != 0) throw RunError("fewer rows were given than were agreed on");
  for (MPI_Request& request : requests_) wait_.until_complete(request, to_);
}

RowSender::~RowSender() { keep_if_posted(messages_, requests_); }

RowReceiver::RowReceiver(const AttentionShape& shape, int from, Index total, ProcessWait& wait)
    : shape_(shape), from_(from), left_(total), wait_(wait) {
  post(0);
  post(1);
}

RowReceiver::~RowReceiver() { keep_if_posted(messages_, requests_); }

void RowReceiver::post(std::size_t message) {
  const Index count = min_of(left_, kMessageValues);
  left_ -= count;
  messages_[message].resize(static_cast<std::size_t>(count));
  if (count == 0) return;
  check_mpi(MPI_Irecv(messages_[message].data(), static_cast<int>(count), MPI_FLOAT, from_,
                      number_of(Tag::rows), MPI_COMM_WORLD, &requests_[message]),
            "MPI_Irecv");
}

void RowReceiver::get(const RowsOfHead& piece, float* to) {
  auto count = static_cast<std::size_t>(piece.count() * width_of(shape_, piece.tensor));
  while (count > 0) {
    const std::vector<float>& message = messages_[reading_];
    if (message.empty()) throw RunError("more rows were asked for than were agreed on");
    if (at_ == 0) wait_.until_complete(requests_[reading_], from_);
    const std::size_t here = std::min(count, message.size() - at_);
    to = std::copy_n(message.data() + at_, here, to);
    count -= here;
    at_ += here;
    if (at_ < message.size()) continue;
    post(reading_);
    reading_ = 1 - reading_;
    at_ = 0;
  }
}

}  // namespace ringscope
