// NCCL as a table of functions, looked for when a program first needs it: most machines lack NCCL,
// and the same program is to run there too. What NCCL returns becomes an exception that says what
// failed and what NCCL calls it. Rank and step are added on the way up (core/ring/ring.h).
#pragma once

#include <nccl.h>

#include <string>

#include "core/base/error.h"

namespace ringscope::cuda {

// By NCCL's names without "nccl".
struct NcclApi {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&::ncclCommFinalize) comm_finalize = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  // Null before NCCL 2.19.
  decltype(&::ncclCommRegister) comm_register = nullptr;
  decltype(&::ncclCommDeregister) comm_deregister = nullptr;
};

struct NcclLibrary {
  const NcclApi* api = nullptr;
  std::string path;     // that it was found under; empty when it is linked
  std::string why_not;  // one line when there is none
};

// Looks once: RINGSCOPE_NCCL_LIBRARY (a file) when that is set, else libnccl.so.2 where the system
// looks, else the library that belongs to the header of the build. Thread-safe, never throws.
const NcclLibrary& nccl_library();

// Throws RunError when there is none.
const NcclApi& nccl_or_throw();

// "2.28.9"; 0 for "unknown".
std::string nccl_version_text(int version);
// Of the library, as NCCL_VERSION makes it.
int nccl_version();

// A RunError whose text is "FUNCTION: MESSAGE (what NCCL says of the last error)".
class NcclError : public RunError {
 public:
  NcclError(ncclResult_t status, const char* function, const std::string& last_error, int rank = -1,
            int step = -1);
  ncclResult_t status() const { return status_; }

 private:
  ncclResult_t status_;
};

}  // namespace ringscope::cuda
