// A folder for each mpirun. Those that start at once would otherwise make and remove Open MPI's one
// folder of the machine and user together, and now and then one of them fails.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace ringscope {

// Return NAME=VALUE for the environment of one mpirun. The folders go away with this process.
inline std::string mpi_folder_setting() {
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
  return "OMPI_MCA_orte_tmpdir_base=" + folder;
}

}  // namespace ringscope
