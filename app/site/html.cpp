#include "app/site/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>

#include "app/report/fields.h"
#include "core/base/files.h"
#include "core/base/text.h"
#include "lessons/book/lesson.h"
#include "lessons/book/prose.h"
#include "lessons/book/source.h"

namespace ringscope {

namespace {

using lessons::Span;
using Lines = std::vector<std::string>;

bool is_address(const std::string& text) { return text.find("://") != std::string::npos; }

// Return the number of blanks that begin a line.
std::size_t indent_of(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Return the length of an item's indentation and marker, "- " or "1. ", or 0 for another line.
std::size_t item_length(const std::string& line) {
  static const std::regex pattern(R"(^ *(-|\d+\.) +)");
  std::smatch match;
  return std::regex_search(line, match, pattern) ? static_cast<std::size_t>(match.length()) : 0;
}

// Mark the comments of a C++ listing, which is escaped already.
std::string with_comments(const std::string& code) {
  static const std::regex comment(R"((^|[ \t])(//[^\n]*))");
  return std::regex_replace(code, comment, "$1<span class=\"comment\">$2</span>");
}

class Converter {
 public:
  explicit Converter(const Resolve& resolve) : resolve_(resolve) {}

  HtmlText convert(std::string_view markdown) {
    blocks(lessons::lines_of(markdown), text_.body);
    return std::move(text_);
  }

 private:
  std::string inline_html(std::string_view markdown) const {
    std::string html;
    bool is_picture = false;
    for (const Span& span : lessons::spans_of(markdown)) {
      switch (span.kind) {
        case Span::Kind::plain: {
          std::string plain = span.text;
          is_picture = plain.ends_with('!');
          if (is_picture) plain.pop_back();
          // An address in <> is shown, not linked, because a site leads nowhere else.
          static const std::regex address(R"(<(https?://[^>]+)>)");
          html += escaped(std::regex_replace(plain, address, "$1"));
          continue;
        }
        case Span::Kind::strong:
        case Span::Kind::term: {
          const char* const tag = span.kind == Span::Kind::strong ? "strong" : "em";
          html += fmt::format("<{0}>{1}</{0}>", tag, inline_html(span.text));
          break;
        }
        case Span::Kind::code:
          html += "<code>" + escaped(span.text) + "</code>";
          break;
        case Span::Kind::link:
          html += is_picture ? picture(span) : link(span);
          break;
      }
      is_picture = false;
    }
    return html;
  }

  std::string link(const Span& span) const {
    const std::string text = inline_html(span.text);
    if (is_address(span.target))
      return text + " <span class=\"address\">(" + escaped(span.target) + ")</span>";
    const std::string href = resolve_(span.target);
    return href.empty() ? text : fmt::format("<a href=\"{}\">{}</a>", escaped(href), text);
  }

  std::string picture(const Span& span) const {
    const std::string source = resolve_(span.target);
    if (source.empty()) return "<em>" + escaped(span.text) + "</em>";
    return fmt::format(
        "<figure><a href=\"{0}\"><img src=\"{0}\" alt=\"{1}\" loading=\"lazy\"></a><figcaption>{2}"
        "</figcaption></figure>",
        escaped(source), escaped(span.text), inline_html(span.text));
  }

  std::string unique_id(const std::string& plain) {
    const std::string id = lessons::anchor_of(plain);
    const int earlier = ids_[id]++;
    return earlier == 0 ? id : fmt::format("{}-{}", id, earlier);
  }

  void heading(const std::string& line, std::string& html) {
    const std::size_t level = line.find_first_not_of('#');
    const std::string markdown = line.substr(std::min(level + 1, line.size()));
    std::string plain;
    for (const Span& span : lessons::spans_of(markdown)) plain += span.text;
    if (text_.title.empty()) text_.title = plain;
    text_.headings.push_back({unique_id(plain), inline_html(markdown), static_cast<int>(level)});
    const Heading& made = text_.headings.back();
    html += fmt::format("<h{0} id=\"{1}\">{2}</h{0}>\n", level, made.id, made.html);
  }

  void table(const Lines& lines, std::size_t& at, std::string& html) const {
    const auto cells = [this](const std::string& line) {
      std::vector<std::string> row;
      std::string cell;
      for (std::size_t i = 1; i < line.size(); ++i) {
        if (line[i] == '|') {
          row.push_back(inline_html(cell.substr(indent_of(cell))));
          cell.clear();
        } else {
          if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') ++i;
          cell += line[i];
        }
      }
      return row;
    };
    const std::vector<std::string> head = cells(lines[at]);
    std::vector<bool> right;
    for (const std::string& rule : cells(lines[at + 1]))
      right.push_back(rule.find("-:") != std::string::npos);
    const auto row = [&](const std::vector<std::string>& texts, const char* tag) {
      html += "<tr>";
      for (std::size_t i = 0; i < texts.size(); ++i)
        html += fmt::format("<{0}{1}>{2}</{0}>", tag,
                            i < right.size() && right[i] ? " class=\"number\"" : "", texts[i]);
      html += "</tr>\n";
    };
    html += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n";
    if (std::any_of(head.begin(), head.end(),
                    [](const std::string& cell) { return !cell.empty(); })) {
      html += "<thead>";
      row(head, "th");
      html += "</thead>";
    }
    html += "<tbody>\n";
    for (at += 2; at < lines.size() && lines[at].starts_with('|'); ++at)
      row(cells(lines[at]), "td");
    html += "</tbody></table></div>\n";
  }

  // Convert a list that begins at `at`, with the lists inside its items.
  void list(const Lines& lines, std::size_t& at, std::string& html) {
    const std::size_t margin = indent_of(lines[at]);
    const bool numbered = lines[at][margin] != '-';
    html += numbered ? "<ol>\n" : "<ul>\n";
    while (at < lines.size() && item_length(lines[at]) > 0 && indent_of(lines[at]) == margin) {
      const std::size_t width = item_length(lines[at]);
      Lines item = {lines[at].substr(width)};
      for (++at; at < lines.size(); ++at) {
        const std::string& line = lines[at];
        if (line.empty() ? at + 1 < lines.size() && indent_of(lines[at + 1]) >= width &&
                               !lines[at + 1].empty()
                         : indent_of(line) > margin)
          item.push_back(line.substr(std::min(width, indent_of(line))));
        else
          break;
      }
      std::string inside;
      blocks(item, inside);
      if (inside.starts_with("<p>") && inside.find("<p>", 1) == std::string::npos) {
        inside.erase(inside.find("</p>"), 4);
        inside.erase(0, 3);
      }
      html += "<li>" + inside + "</li>\n";
      if (at + 1 < lines.size() && lines[at].empty() && item_length(lines[at + 1]) > 0 &&
          indent_of(lines[at + 1]) == margin)
        ++at;  // items with a blank line between them are one list
    }
    html += numbered ? "</ol>\n" : "</ul>\n";
  }

  static void listing(const std::string& code, bool is_code, std::string& html) {
    const std::string text = escaped(code);
    html += fmt::format("<pre tabindex=\"0\"><code>{}</code></pre>\n",
                        is_code ? with_comments(text) : text);
  }

  void blocks(const Lines& lines, std::string& html) {
    for (std::size_t at = 0; at < lines.size();) {
      const std::string& line = lines[at];
      const auto gather = [&](const std::string& mark) {
        Lines inside;
        for (; at < lines.size() && lines[at].starts_with(mark); ++at)
          inside.push_back(lines[at].substr(std::min(mark.size() + 1, lines[at].size())));
        return inside;
      };
      if (line.empty()) {
        ++at;
      } else if (line.starts_with("<!--")) {
        while (at < lines.size() && lines[at++].find("-->") == std::string::npos) {
        }
      } else if (line.starts_with("```")) {
        std::string code;
        for (++at; at < lines.size() && lines[at] != "```"; ++at) code += lines[at] + "\n";
        ++at;
        listing(code, line == "```cpp", html);
      } else if (line.starts_with("    ")) {
        std::string code;
        for (; at < lines.size() &&
               (lines[at].starts_with("    ") ||
                (lines[at].empty() && at + 1 < lines.size() && lines[at + 1].starts_with("    ")));
             ++at)
          code += (lines[at].empty() ? "" : lines[at].substr(4)) + "\n";
        listing(code, false, html);
      } else if (line.starts_with("<details><summary>")) {
        const std::string summary = line.substr(18, line.find("</summary>") - 18);
        Lines inside;
        for (++at; at < lines.size() && lines[at] != "</details>"; ++at)
          inside.push_back(lines[at]);
        ++at;
        html += "<details class=\"answer\"><summary>" + inline_html(summary) + "</summary>\n";
        blocks(inside, html);
        html += "</details>\n";
      } else if (line[0] == '#') {
        heading(line, html);
        ++at;
      } else if (line[0] == '>') {
        const bool asks = line.starts_with("> **Predict.**");
        html += asks ? "<blockquote class=\"predict\">" : "<blockquote>";
        blocks(gather(">"), html);
        html += "</blockquote>\n";
      } else if (line[0] == '|' && at + 1 < lines.size() && lines[at + 1].starts_with("|-")) {
        table(lines, at, html);
      } else if (item_length(line) > 0) {
        list(lines, at, html);
      } else {
        std::string paragraph;
        for (; at < lines.size() && !lines[at].empty() &&
               (paragraph.empty() || item_length(lines[at]) == 0) &&
               !lines[at].starts_with("```") && !lines[at].starts_with("<details>");
             ++at)
          paragraph += (paragraph.empty() ? "" : "\n") + lines[at].substr(indent_of(lines[at]));
        const std::string text = inline_html(paragraph);
        html += text.starts_with("<figure>") ? text + "\n" : "<p>" + text + "</p>\n";
      }
    }
  }

  const Resolve& resolve_;
  HtmlText text_;
  std::map<std::string, int> ids_;
};

}  // namespace

HtmlText html_of(std::string_view markdown, const Resolve& resolve) {
  return Converter(resolve).convert(markdown);
}

std::string escaped(std::string_view text) {
  constexpr const char* kNames[] = {"&amp;", "&lt;", "&gt;", "&quot;"};
  std::string html;
  for (const char c : text) {
    const std::size_t at = std::string_view("&<>\"").find(c);
    html += at == std::string_view::npos ? std::string(1, c) : kNames[at];
  }
  return html;
}

namespace {

// Return `text` as a literal of JavaScript that may stand in a page.
std::string literal(const std::string& text) {
  std::string quoted = Json(text).text();
  for (std::size_t at = 0; (at = quoted.find('<', at)) != std::string::npos;)
    quoted.replace(at, 1, "\\u003c");
  return quoted;
}

std::string page(const std::string& title, const std::string& scripts, bool is_part_of_site) {
  return filled(
      lessons::embedded_text("app/site/viewer.html"),
      {{"title", escaped(title)},
       {"text",
        is_part_of_site ? " <a href=\"../index.html\">The text of this site</a> does not." : ""},
       {"scripts", scripts}});
}

}  // namespace

std::string web_script() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path :
       {program.parent_path() / "share/ringscope/ringscope_web.js",
        fs::path(RINGSCOPE_SOURCE_DIR) / "build/wasm/viz/web/ringscope_web.js"})
    if (fs::is_regular_file(path, error)) return read_file(path.string(), "script");
  return "";
}

std::string viewer_page() {
  return page("The viewer · Ringscope",
              "<script src=\"ringscope.js\"></script>\n<script src=\"viewer.js\"></script>\n",
              true);
}

std::string viewer_page(const std::string& script,
                        const std::vector<EmbeddedRecording>& recordings) {
  std::string scripts;
  const auto add = [&](std::string text) {
    // Nothing inside may end the element.
    for (std::size_t at = 0; (at = text.find("</script", at)) != std::string::npos; at += 9)
      text.insert(at + 1, "\\");
    scripts += "<script>" + text + "</script>\n";
  };
  std::string title;
  for (const EmbeddedRecording& recording : recordings) {
    add(recording_script(recording.name, recording.text));
    title += recording.name + " · ";
  }
  add(script);
  add(std::string(lessons::embedded_text("app/site/viewer.js")));
  return page(title + "Ringscope", scripts, false);
}

std::string recording_script(const std::string& name, const std::string& text) {
  return fmt::format(
      "window.ringscopeRecordings = window.ringscopeRecordings || "
      "{{}};\nwindow.ringscopeRecordings[{}] = {};\n",
      literal(name), literal(text));
}

}  // namespace ringscope
