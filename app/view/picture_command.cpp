#include "app/view/picture_command.h"

#include "app/view/view_command.h"
#include "core/base/error.h"
#ifdef RINGSCOPE_HAS_VIEWER
#include "viz/window/loss_view.h"
#endif

namespace ringscope {

void require_pictures(const std::string& flag, const std::string& instead) {
  const std::string why = why_no_viewer();
  if (!why.empty()) throw InputError(flag + ": " + why + "; accepted: " + instead);
}

#ifdef RINGSCOPE_HAS_VIEWER

void write_sweep_picture(const SweepTable& table, const std::string& machine,
                         const std::string& path) {
  viz::write_sweep_picture(table, machine, path);
}

void write_loss_picture(const LossCurve& curve, const std::string& path) {
  viz::write_loss_picture(curve, path);
}

#else

void write_sweep_picture(const SweepTable&, const std::string&, const std::string&) {
  require_pictures("--picture");
}

void write_loss_picture(const LossCurve&, const std::string&) {
  require_pictures("--picture", "--loss-csv FILE");
}

#endif

}  // namespace ringscope
