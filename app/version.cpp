#include "app/version.h"

#include "cuda/base/build_commit.h"

namespace ringscope {

std::string version_text() {
  const std::string commit = cuda::build_commit();
  return commit == "unknown" ? RINGSCOPE_VERSION : RINGSCOPE_VERSION ", commit " + commit;
}

}  // namespace ringscope
