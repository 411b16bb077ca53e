// The viewer as a page: what `site` and `view --html` share.
#pragma once

#include <string>
#include <vector>

namespace ringscope {

// A recording that a page brings along.
struct EmbeddedRecording {
  std::string name, text;
};

// Return the viewer and the figures, compiled for browsers, as a script that holds all they need, or "" where they
// were not built (`./ringscope site` builds them where there is emscripten).
std::string web_script();

// Return the viewer's page of a site, which loads its scripts from beside it.
std::string viewer_page();

// Return a page that needs no other file: the viewer, opened on `recordings`. `script` is web_script().
std::string viewer_page(const std::string& script,
                        const std::vector<EmbeddedRecording>& recordings);

// Return a script that hands a recording to the page that loads it.
std::string recording_script(const std::string& name, const std::string& text);

}  // namespace ringscope
