// Turns the project's Markdown into HTML: headings, paragraphs, lists, tables, listings, quotes,
// folded answers, pictures and links. It knows what the project's own pages use, not all of
// Markdown, and reads trusted text alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ringscope {

struct Heading {
  std::string id, html;  // `html` is its text, ready for a page
  int level = 0;
};

struct HtmlText {
  std::string title;  // plain text of the first heading, which the body contains as well
  std::string body;
  std::vector<Heading> headings;
};

// Return the address that a link or a picture gets, or "" for none; then only its text stays.
using Resolve = std::function<std::string(const std::string& target)>;

HtmlText html_of(std::string_view markdown, const Resolve& resolve);

// Return `text` with the characters that HTML interprets replaced, also quotes.
std::string escaped(std::string_view text);

// ---
// The viewer as a page: what `site` and `view --html` share.

// A recording that a page brings along.
struct EmbeddedRecording {
  std::string name, bytes;
};

// Return the viewer and the figures, compiled for browsers, as a script that holds all they need,
// or "" where they were not built (`./ringscope site` builds them where there is emscripten).
std::string web_script();

// Return the viewer's page of a site, which loads its scripts from beside it. `gallery` are the
// recordings of the site, as items of a list.
std::string viewer_page(const std::string& gallery);

// Return a page that needs no other file: the viewer, opened on `recordings`. `script` is web_script().
std::string viewer_page(const std::string& script,
                        const std::vector<EmbeddedRecording>& recordings);

// Return a script that hands a recording to the page that loads it.
std::string recording_script(const std::string& name, const std::string& bytes);

}  // namespace ringscope
