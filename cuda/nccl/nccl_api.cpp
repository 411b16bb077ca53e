#include "cuda/nccl/nccl_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace ringscope::cuda {
namespace {

#ifdef RINGSCOPE_MODEL

NcclLibrary open_library() {
#define RINGSCOPE_ADDRESS(member, function) &function,
  static const NcclApi api{RINGSCOPE_NCCL_FUNCTIONS(RINGSCOPE_ADDRESS) & ncclCommRegister,
                           &ncclCommDeregister};
#undef RINGSCOPE_ADDRESS
  return {&api, "", ""};
}

#else

// The library that belongs to the header of the build; empty when the build found none.
#ifndef RINGSCOPE_NCCL_LIBRARY
#define RINGSCOPE_NCCL_LIBRARY ""
#endif

std::vector<std::string> places() {
  if (const char* const given = std::getenv("RINGSCOPE_NCCL_LIBRARY"); given != nullptr)
    return {given};
  std::vector<std::string> all = {"libnccl.so.2", "libnccl.so"};
  if (*RINGSCOPE_NCCL_LIBRARY != '\0') all.push_back(RINGSCOPE_NCCL_LIBRARY);
  return all;
}

NcclLibrary open_library() {
  // Never closed, because NCCL has threads of its own.
  void* library = nullptr;
  std::string path, error;
  for (const std::string& place : places()) {
    path = place;
    library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    if (error.empty()) error = dlerror();
  }
  if (library == nullptr)
    return {nullptr, "",
            "NCCL is not found (" + error +
                "); install libnccl2, or set RINGSCOPE_NCCL_LIBRARY to the file libnccl.so.2"};
  static NcclApi api;
  std::string missing;
  const auto find = [&](auto& function, const char* name, bool needed = true) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)> >(dlsym(library, name));
    if (function == nullptr && needed) missing = name;
  };
#define RINGSCOPE_FIND(member, function) find(api.member, #function);
  RINGSCOPE_NCCL_FUNCTIONS(RINGSCOPE_FIND)
#undef RINGSCOPE_FIND
  find(api.comm_register, "ncclCommRegister", false);
  find(api.comm_deregister, "ncclCommDeregister", false);
  if (!missing.empty())
    return {nullptr, path,
            path + " lacks " + missing + "; NCCL 2.14 or later is needed, with nonblocking calls"};
  return {&api, path, ""};
}

#endif

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = open_library();
  return library;
}

const NcclApi& nccl_or_throw() {
  const NcclLibrary& library = nccl_library();
  if (library.api == nullptr) throw RunError("backend nccl: " + library.why_not);
  return *library.api;
}

std::string nccl_version_text(int version) {
  if (version <= 0) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

int nccl_version() {
  int version = 0;
  const NcclApi* const api = nccl_library().api;
  return api != nullptr && api->get_version(&version) == ncclSuccess ? version : 0;
}

NcclError::NcclError(ncclResult_t status, const char* function, const std::string& last_error,
                     int rank, int step)
    : RunError(
          [&] {
            std::string text =
                fmt::format("{}: {}", function, nccl_or_throw().get_error_string(status));
            std::string said = last_error;
            for (char& c : said)
              if (c == '\n') c = ' ';
            while (!said.empty() && said.back() == ' ') said.pop_back();
            return said.empty() ? text : text + " (" + said + ")";
          }(),
          rank, step),
      status_(status) {}

}  // namespace ringscope::cuda
