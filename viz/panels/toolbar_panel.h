// What the toolbar shares with those who press its keys.
#pragma once

namespace ringscope::viz {

// The next toolbar drawn with its search open puts the text cursor there.
void focus_search();

}  // namespace ringscope::viz
