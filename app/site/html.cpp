#include "app/site/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>
#include <regex>

#include "app/report/fields.h"
#include "core/base/files.h"
#include "core/base/markdown.h"
#include "core/base/text.h"
#include "lessons/book/lesson.h"

namespace ringscope {

namespace {

bool is_address(const std::string& text) { return text.find("://") != std::string::npos; }

// Mark the comments of a C++ listing, which is escaped already.
std::string with_comments(const std::string& code) {
  static const std::regex comment(R"((^|[ \t])(//[^\n]*))");
  return std::regex_replace(code, comment, "$1<span class=\"comment\">$2</span>");
}

class Converter {
 public:
  explicit Converter(const Resolve& resolve) : resolve_(resolve) {}

  HtmlText convert(std::string_view markdown) {
    blocks(blocks_of(markdown), text_.body);
    return std::move(text_);
  }

 private:
  std::string inline_html(std::string_view markdown) const {
    std::string html;
    bool is_picture = false;
    for (const TextSpan& span : spans_of(markdown)) {
      switch (span.kind) {
        case TextSpan::Kind::plain: {
          std::string plain = span.text;
          is_picture = plain.ends_with('!');
          if (is_picture) plain.pop_back();
          // An address in <> is shown, not linked, because a site leads nowhere else.
          static const std::regex address(R"(<(https?://[^>]+)>)");
          html += escaped(std::regex_replace(plain, address, "$1"));
          continue;
        }
        case TextSpan::Kind::strong:
        case TextSpan::Kind::term: {
          const char* const tag = span.kind == TextSpan::Kind::strong ? "strong" : "em";
          html += fmt::format("<{0}>{1}</{0}>", tag, inline_html(span.text));
          break;
        }
        case TextSpan::Kind::code:
          html += "<code>" + escaped(span.text) + "</code>";
          break;
        case TextSpan::Kind::link:
          html += is_picture ? picture(span) : link(span);
          break;
      }
      is_picture = false;
    }
    return html;
  }

  std::string link(const TextSpan& span) const {
    const std::string text = inline_html(span.text);
    if (is_address(span.target))
      return text + " <span class=\"address\">(" + escaped(span.target) + ")</span>";
    const std::string href = resolve_(span.target);
    return href.empty() ? text : fmt::format("<a href=\"{}\">{}</a>", escaped(href), text);
  }

  std::string picture(const TextSpan& span) const {
    const std::string source = resolve_(span.target);
    if (source.empty()) return "<em>" + escaped(span.text) + "</em>";
    return fmt::format(
        "<figure><a href=\"{0}\"><img src=\"{0}\" alt=\"{1}\" loading=\"lazy\"></a><figcaption>{2}"
        "</figcaption></figure>",
        escaped(source), escaped(span.text), inline_html(span.text));
  }

  std::string unique_id(const std::string& plain) {
    const std::string id = anchor_of(plain);
    const int earlier = ids_[id]++;
    return earlier == 0 ? id : fmt::format("{}-{}", id, earlier);
  }

  void heading(const TextBlock& block, std::string& html) {
    std::string plain;
    for (const TextSpan& span : spans_of(block.text)) plain += span.text;
    if (text_.title.empty()) text_.title = plain;
    text_.headings.push_back({unique_id(plain), inline_html(block.text), block.level});
    const Heading& made = text_.headings.back();
    html += fmt::format("<h{0} id=\"{1}\">{2}</h{0}>\n", made.level, made.id, made.html);
  }

  void table(const TextBlock& block, std::string& html) const {
    const std::vector<std::vector<std::string>> rows = cells_of(block.text);
    const auto row = [&](std::size_t number, const char* tag) {
      html += "<tr>";
      for (std::size_t i = 0; i < rows[number].size(); ++i) {
        const bool is_right = i < rows[1].size() && rows[1][i].ends_with("-:");
        html += fmt::format("<{0}{1}>{2}</{0}>", tag, is_right ? " class=\"number\"" : "",
                            inline_html(rows[number][i]));
      }
      html += "</tr>\n";
    };
    html += "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"table\"><table>\n";
    if (std::any_of(rows[0].begin(), rows[0].end(),
                    [](const std::string& cell) { return !cell.empty(); })) {
      html += "<thead>";
      row(0, "th");
      html += "</thead>";
    }
    html += "<tbody>\n";
    for (std::size_t i = 2; i < rows.size(); ++i) row(i, "td");
    html += "</tbody></table></div>\n";
  }

  void item(const TextBlock& block, std::string& html) {
    const bool has_paragraphs = std::any_of(
        block.inside.begin(), block.inside.end(),
        [](const TextBlock& inside) { return inside.kind == TextBlock::Kind::paragraph; });
    html += "<li>";
    if (!block.text.empty())
      html += has_paragraphs ? paragraph(block.text) : inline_html(block.text) + "\n";
    blocks(block.inside, html);
    html += "</li>\n";
  }

  std::string paragraph(const std::string& markdown) const {
    const std::string text = inline_html(markdown);
    return text.starts_with("<figure>") ? text + "\n" : "<p>" + text + "</p>\n";
  }

  void blocks(const std::vector<TextBlock>& blocks, std::string& html) {
    const char* list = "";  // the open one's tag
    const auto go_on_in = [&](const char* tag) {
      if (list == std::string_view(tag)) return;
      if (*list != '\0') html += fmt::format("</{}>\n", list);
      if (*tag != '\0') html += fmt::format("<{}>\n", tag);
      list = tag;
    };
    for (const TextBlock& block : blocks) {
      go_on_in(block.kind != TextBlock::Kind::item ? "" : block.marker == "-" ? "ul" : "ol");
      switch (block.kind) {
        case TextBlock::Kind::heading:
          heading(block, html);
          break;
        case TextBlock::Kind::paragraph:
          html += paragraph(block.text);
          break;
        case TextBlock::Kind::item:
          item(block, html);
          break;
        case TextBlock::Kind::quote: {
          const bool asks =
              !block.inside.empty() && block.inside[0].text.starts_with("**Predict.**");
          html += asks ? "<blockquote class=\"predict\">" : "<blockquote>";
          this->blocks(block.inside, html);
          html += "</blockquote>\n";
          break;
        }
        case TextBlock::Kind::listing: {
          const std::string text = escaped(block.text);
          html += fmt::format("<pre tabindex=\"0\"><code>{}</code></pre>\n",
                              block.marker == "cpp" ? with_comments(text) : text);
          break;
        }
        case TextBlock::Kind::table:
          table(block, html);
          break;
        case TextBlock::Kind::fold:
          html += "<details class=\"answer\"><summary>" + inline_html(block.text) + "</summary>\n";
          this->blocks(block.inside, html);
          html += "</details>\n";
          break;
      }
    }
    go_on_in("");
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

// `allowed` are the scripts that may run in the page; `gallery` is empty outside of a site.
std::string page(const std::string& title, const std::string& allowed, const std::string& scripts,
                 const std::string& gallery) {
  const bool is_part_of_site = !gallery.empty();
  return filled(
      lessons::embedded_text("app/site/viewer.html"),
      {{"title", escaped(title)},
       {"allowed", allowed},
       {"text",
        is_part_of_site ? " <a href=\"../index.html\">The text of this site</a> does not." : ""},
       {"home", is_part_of_site ? "<a href=\"../index.html\">Ringscope</a> · " : ""},
       {"gallery", gallery},
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

std::string viewer_page(const std::string& gallery) {
  return page("The viewer · Ringscope", "'self'",
              "<script src=\"ringscope.js\"></script>\n<script src=\"viewer.js\"></script>\n",
              gallery);
}

std::string viewer_page(const std::string& script,
                        const std::vector<EmbeddedRecording>& recordings) {
  // The page's own scripts know a number that nobody can guess. No others run.
  std::random_device random;
  std::string nonce;
  for (int i = 0; i < 4; ++i) nonce += fmt::format("{:08x}", random());
  std::string scripts;
  const auto add = [&](std::string text) {
    // Nothing inside may end the element.
    for (std::size_t at = 0; (at = text.find("</script", at)) != std::string::npos; at += 9)
      text.insert(at + 1, "\\");
    scripts += "<script nonce=\"" + nonce + "\">" + text + "</script>\n";
  };
  std::string title;
  for (const EmbeddedRecording& recording : recordings) {
    add(recording_script(recording.name, recording.bytes));
    title += recording.name + " · ";
  }
  add(script);
  add(std::string(lessons::embedded_text("app/site/viewer.js")));
  return page(title + "Ringscope", "'nonce-" + nonce + "'", scripts, "");
}

std::string recording_script(const std::string& name, const std::string& bytes) {
  std::string quoted = Json(name).text();  // in which nothing may end the element
  for (std::size_t at = 0; (at = quoted.find('<', at)) != std::string::npos;)
    quoted.replace(at, 1, "\\u003c");
  return fmt::format(
      "window.ringscopeRecordings = window.ringscopeRecordings || "
      "{{}};\nwindow.ringscopeRecordings[{}] = \"{}\";\n",
      quoted, base64(bytes));
}

}  // namespace ringscope
