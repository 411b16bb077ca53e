// Loads NCCL as a table of functions when a program first needs it, because most machines lack NCCL
// and the same program must run there too. A failed call becomes an exception that says what failed
// and what NCCL calls it. Callers add rank and step (core/ring/ring.h).
#pragma once

#include <nccl.h>

#include <string>

#include "core/base/error.h"

namespace ringscope::cuda {

// Members have NCCL's names without "nccl".
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
  std::string path;     // where the library was found; empty when it is linked
  std::string why_not;  // one line when there is no library
};

// Look for NCCL once: in the file RINGSCOPE_NCCL_LIBRARY when that is set, else as libnccl.so.2
// where the system looks, else in the library of the build's header. Thread-safe, never throws.
const NcclLibrary& nccl_library();

// Throw RunError when NCCL is missing.
const NcclApi& nccl_or_throw();

// Return, for example, "2.28.9", or "unknown" for 0.
std::string nccl_version_text(int version);
// Return the library's version in the form of NCCL_VERSION.
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
