#include "core/mpi/mpi_session.h"

#include <mpi.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "core/base/clock.h"
#include "core/mpi/mpi_calls.h"

namespace ringscope {

namespace {

// Send rank 0's invitation to all ranks. No lifeline could end the wait yet, so it has a deadline.
std::string broadcast_invitation(const std::string& invitation, int rank, double timeout_s) {
  std::array<char, 4096> text{};
  if (invitation.size() >= text.size())
    throw RunError("this host has too many addresses for an invitation of " +
                       std::to_string(text.size()) + " bytes",
                   rank);
  std::memcpy(text.data(), invitation.data(), invitation.size());
  const std::int64_t begin_ns = monotonic_ns();
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Ibcast(text.data(), static_cast<int>(text.size()), MPI_CHAR, 0, MPI_COMM_WORLD, &request),
      "MPI_Ibcast");
  wait_for_request(request, [&] {
    if (seconds_since(begin_ns) > timeout_s)
      throw RunError("no message from the other ranks for " + std::to_string(timeout_s) + " s",
                     rank);
  });
  return text.data();
}

}  // namespace

MpiSession::MpiSession(double timeout_s) {
  int given = 0;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size_);
  if (given < MPI_THREAD_SERIALIZED)
    throw RunError("this MPI cannot be called by two threads in turn (MPI_THREAD_SERIALIZED)",
                   rank_);
  if (rank_ == 0) {
    LifelineDoor door;
    broadcast_invitation(door.invitation(), rank_, timeout_s);
    lifeline_ = Lifeline::host(std::move(door), world_size_, timeout_s);
  } else {
    lifeline_ =
        Lifeline::join(broadcast_invitation("", rank_, timeout_s), rank_, world_size_, timeout_s);
  }
}

MpiSession::~MpiSession() = default;

void MpiSession::finish() {
  if (finished_) return;
  finished_ = true;
  lifeline_->leave();
  MPI_Finalize();
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
