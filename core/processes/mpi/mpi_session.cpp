#include "core/processes/mpi/mpi_session.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "core/processes/mpi/mpi_calls.h"

namespace ringscope {

namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 30;  // because MPI counts bytes in an int

// Call move(bytes, size) for the pieces of `text`, after its size has been moved likewise, and set
// its size in between.
template <class Move>
void move_text(std::string& text, const Move& move) {
  std::uint64_t size = text.size();
  move(reinterpret_cast<char*>(&size), sizeof size);
  text.resize(size);
  for (std::size_t at = 0; at < size; at += kPieceBytes)
    move(text.data() + at, std::min(size - at, kPieceBytes));
}

// Return an open door of rank 0 for the hosts of all ranks; none on the others.
std::optional<LifelineDoor> open_door(int rank, int world_size) {
  std::string cards(kMaxHostCard * static_cast<std::size_t>(rank == 0 ? world_size : 0), '\0');
  std::string mine = host_card();
  mine.resize(kMaxHostCard);
  constexpr int kBytes = static_cast<int>(kMaxHostCard);
  check_mpi(
      MPI_Gather(mine.data(), kBytes, MPI_CHAR, cards.data(), kBytes, MPI_CHAR, 0, MPI_COMM_WORLD),
      "MPI_Gather");
  if (rank != 0) return std::nullopt;
  std::vector<std::string> all;
  for (std::size_t at = 0; at < cards.size(); at += kMaxHostCard)
    all.emplace_back(cards.substr(at, kMaxHostCard).c_str());
  return LifelineDoor(all);
}

// Return rank 0's invitation on all ranks.
std::string share_invitation(const std::optional<LifelineDoor>& door) {
  std::array<char, 4 * kMaxHostCard> text{};
  if (door) door->invitation().copy(text.data(), text.size() - 1);
  check_mpi(MPI_Bcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, MPI_COMM_WORLD),
            "MPI_Bcast");
  return text.data();
}

}  // namespace

// Before there is a lifeline, the process that waits for this one keeps the deadline.
MpiSession::MpiSession(double timeout_s, Lifeline::OnFailure on_failure, SharedStage* stage)
    : stage_(stage) {
  // Open MPI would give the processor away in each look of ours (Patience).
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
  int given = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
  if (stage_ != nullptr) *stage_ = world_size_ == 1 ? Stage::alone : Stage::meeting;
  std::optional<LifelineDoor> door = open_door(rank_, world_size_);
  const std::string invitation = share_invitation(door);
  if (door)
    lifeline_ = Lifeline::host(std::move(*door), world_size_, timeout_s, std::move(on_failure));
  else
    lifeline_ = Lifeline::join(invitation, rank_, world_size_, timeout_s, std::move(on_failure));
  if (stage_ != nullptr && world_size_ > 1) *stage_ = Stage::watched;
  if (given < MPI_THREAD_SERIALIZED)
    lifeline_->fail(
        RunError("this MPI cannot be called by two threads in turn (MPI_THREAD_SERIALIZED)"));
}

std::vector<std::string> MpiSession::gather(const std::string& mine) {
  ProcessWait wait(lifeline_->pulse());
  std::vector<std::string> all = {mine};
  if (rank_ != 0) {
    move_text(all[0], [&](char* bytes, std::size_t size) {
      wait.send(bytes, static_cast<Index>(size), MPI_CHAR, 0, Tag::text);
    });
    return {};
  }
  for (int peer = 1; peer < world_size_; ++peer)
    move_text(all.emplace_back(), [&](char* bytes, std::size_t size) {
      wait.receive(bytes, static_cast<Index>(size), MPI_CHAR, peer, Tag::text);
    });
  return all;
}

std::string MpiSession::broadcast(std::string of_rank_0) {
  ProcessWait wait(lifeline_->pulse());
  if (rank_ != 0) of_rank_0.clear();
  move_text(of_rank_0, [&](char* bytes, std::size_t size) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibcast(bytes, static_cast<int>(size), MPI_CHAR, 0, MPI_COMM_WORLD, &request),
              "MPI_Ibcast");
    wait.until_complete(request, rank_ == 0 ? -1 : 0);
  });
  return of_rank_0;
}

std::vector<std::string> MpiSession::all_gather(const std::string& mine) {
  std::vector<std::string> all = gather(mine);
  all.resize(world_size_);
  for (std::string& each : all) each = broadcast(std::move(each));
  return all;
}

void MpiSession::finalize() {
  if (std::exchange(is_finalized_, true)) return;
  lifeline_->doing("in MPI_Finalize");
  MPI_Finalize();
  lifeline_->doing("waiting for rank 0");
}

void MpiSession::finish() {
  finalize();
  lifeline_->leave();
  if (stage_ != nullptr) *stage_ = Stage::alone;
}

bool launched_by_mpi() {
  // The variables are those of Open MPI; MPICH, Intel MPI and others that speak PMI; any PMIx;
  // MVAPICH2; and srun, whose step must have more than one task.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK",
                           "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE"})
    if (std::getenv(name) != nullptr) return true;
  const char* const tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return std::getenv("SLURM_PROCID") != nullptr && tasks != nullptr && std::atoi(tasks) > 1;
}

int launched_rank() {
  for (const char* name :
       {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"})
    if (const char* const rank = std::getenv(name)) return std::atoi(rank);
  return -1;
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0, major = 0, minor = 0;
  MPI_Get_library_version(text.data(), &length);
  MPI_Get_version(&major, &minor);
  // Open MPI: "Open MPI v4.1.4, package: ..."; MPICH: "MPICH Version:\t4.0.2\nMPICH Release ...".
  std::string name;
  for (const char c : std::string_view(text.data())) {
    if (c == ',' || c == '\n') break;
    if (c != ':') name += c == '\t' ? ' ' : c;
  }
  for (const std::string_view noise : {" Version", "v"}) {
    const std::size_t at = name.find(noise);
    const bool is_before_number = at != std::string::npos && at + noise.size() < name.size() &&
                                  (noise != "v" || (name[at + 1] >= '0' && name[at + 1] <= '9'));
    if (is_before_number) name.erase(at, noise.size());
  }
  return name + ", MPI " + std::to_string(major) + "." + std::to_string(minor);
}

}  // namespace ringscope
