// The part of the toolbar that its keyboard shortcuts need.
#pragma once

namespace ringscope::viz {

// Put the text cursor into the search field when the toolbar is next drawn with its search open.
void focus_search();

}  // namespace ringscope::viz
