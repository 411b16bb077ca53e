// How a test starts mpirun. Open MPI 4 reads the names that begin with OMPI_MCA, Open MPI 5 and later those
// that begin with PRTE_MCA.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

namespace ringscope {

// Return the folder of one mpirun. Those that start at once would otherwise make and remove Open MPI's one
// folder of the machine and user together, and now and then one of them fails. It goes away with this
// process.
inline std::string mpi_folder() {
  struct Parent {
    char path[32] = "/tmp/ringscope-mpi-XXXXXX";
    int children = 0;
    Parent() {
      if (::mkdtemp(path) == nullptr) path[0] = '\0';
    }
    ~Parent() {
      std::error_code ignored;
      if (path[0] != '\0') std::filesystem::remove_all(path, ignored);
    }
  };
  static Parent parent;
  const std::string folder = parent.path + ("/" + std::to_string(parent.children++));
  std::filesystem::create_directories(folder);
  return folder;
}

// Return NAME=VALUE for the environment of one mpirun, which root may start. What is left of a failed job is
// killed at once.
inline std::vector<std::string> mpi_settings() {
  const std::string folder = mpi_folder();
  return {"OMPI_ALLOW_RUN_AS_ROOT=1",
          "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
          "OMPI_MCA_odls_base_sigkill_timeout=0",
          "PRTE_MCA_odls_base_sigkill_timeout=0",
          "OMPI_MCA_orte_tmpdir_base=" + folder,
          "PRTE_MCA_prte_tmpdir_base=" + folder};
}

// Return mpirun and its flags. Ranks may outnumber the cores. They are bound to none, because tests run side by
// side, and a bound rank 0 would run the threads that it compares with on one core.
inline std::vector<std::string> mpirun_words() {
  return {"mpirun", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"};
}

}  // namespace ringscope
