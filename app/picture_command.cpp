#include "app/picture_command.h"

#include "app/view_command.h"
#include "core/base/error.h"
#ifdef RINGSCOPE_HAS_VIEWER
#include "viz/app/sweep_view.h"
#endif

namespace ringscope {

void require_pictures(const std::string& flag) {
  const std::string why = why_no_viewer();
  if (!why.empty()) throw InputError(flag + ": " + why + "; accepted: --csv FILE");
}

#ifdef RINGSCOPE_HAS_VIEWER

void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path) {
  viz::write_sweep_picture(table, machine, path);
}

#else

void write_sweep_picture(const SweepTable&, const std::string&, const std::string&) {
  require_pictures("--picture");
}

#endif

}  // namespace ringscope
