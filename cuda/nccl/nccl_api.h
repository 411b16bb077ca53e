// Loads NCCL as a table of functions when a program first needs it, because most machines lack NCCL
// and the same program must run there too. A failed call becomes an exception that says what failed
// and what NCCL calls it. Callers add rank and step (core/ring/ring.h).
#pragma once

#include <nccl.h>

#include <string>

#include "core/base/error.h"

namespace ringscope::cuda {

// The functions that every NCCL of 2.14 or later has: FORM(member, function).
#define RINGSCOPE_NCCL_FUNCTIONS(FORM)                \
  FORM(get_version, ncclGetVersion)                   \
  FORM(get_unique_id, ncclGetUniqueId)                \
  FORM(comm_init_rank_config, ncclCommInitRankConfig) \
  FORM(comm_finalize, ncclCommFinalize)               \
  FORM(comm_destroy, ncclCommDestroy)                 \
  FORM(comm_abort, ncclCommAbort)                     \
  FORM(comm_get_async_error, ncclCommGetAsyncError)   \
  FORM(get_error_string, ncclGetErrorString)          \
  FORM(get_last_error, ncclGetLastError)              \
  FORM(send, ncclSend)                                \
  FORM(recv, ncclRecv)                                \
  FORM(group_start, ncclGroupStart)                   \
  FORM(group_end, ncclGroupEnd)

// Members have NCCL's names without "nccl".
struct NcclApi {
#define RINGSCOPE_MEMBER(member, function) decltype(&::function) member = nullptr;
  RINGSCOPE_NCCL_FUNCTIONS(RINGSCOPE_MEMBER)
#undef RINGSCOPE_MEMBER
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
