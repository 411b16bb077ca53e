// Writes ImGui's draw lists as a page of PDF 1.7 (ISO 32000-1): shapes as paths, text as text in the
// embedded typeface, so that it can be searched and copied, and textures as images.
#include <fmt/format.h>
#include <imgui_internal.h>

#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "viz/window/fonts.h"
#include "viz/window/outlines.h"
#include "viz/window/pictures.h"
#include "viz/window/software_renderer.h"

#define STB_TRUETYPE_IMPLEMENTATION
#define STBTT_STATIC
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_truetype.h>
#pragma GCC diagnostic pop

namespace ringscope::viz {
namespace {

// Objects, numbered from 1, and the table of where they begin (7.5).
class PdfFile {
 public:
  // Return the number of an object that put() gets later.
  int reserve() {
    offsets_.push_back(0);
    return static_cast<int>(offsets_.size());
  }
  int put(const std::string& object) { return put(reserve(), object); }
  int put(int number, const std::string& object) {
    offsets_[static_cast<std::size_t>(number) - 1] = text_.size();
    text_ += fmt::format("{} 0 obj\n{}\nendobj\n", number, object);
    return number;
  }
  // Put a stream, whose dictionary begins with `entries`.
  int put_stream(const std::string& entries, const std::string& bytes, bool packs = true) {
    const std::string stored = packs ? deflated(bytes) : bytes;
    return put(fmt::format("<<{}{}/Length {}>>\nstream\n{}\nendstream", entries,
                           packs ? "/Filter/FlateDecode" : "", stored.size(), stored));
  }
  std::string finished(int catalog) {
    const std::size_t table = text_.size();
    text_ += fmt::format("xref\n0 {}\n0000000000 65535 f \n", offsets_.size() + 1);
    for (const std::size_t offset : offsets_) text_ += fmt::format("{:010} 00000 n \n", offset);
    return text_ + fmt::format("trailer\n<</Size {}/Root {} 0 R>>\nstartxref\n{}\n%%EOF\n",
                               offsets_.size() + 1, catalog, table);
  }

 private:
  std::string text_ = "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n";  // the second line says that bytes follow
  std::vector<std::size_t> offsets_;
};

// A font of the typeface (9.7): texts name glyphs by number, and a table says which character each is.
class PdfFont {
 public:
  explicit PdfFont(bool strong) : file_(font_file(strong)) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(file_.data());
    if (file_.empty() || stbtt_InitFont(&font_, bytes, 0) == 0)
      throw InputError(
          "this build has no typeface for a PDF; accepted: PNG or SVG, or a build where there is "
          "Roboto (Debian package fonts-roboto-unhinted)");
    to_thousandths_ = 1000 * stbtt_ScaleForMappingEmToPixels(&font_, 1);
  }

  // Return the glyphs of a text in hexadecimal digits, and add their widths at size 1 to `width`.
  std::string glyphs_of(std::string_view text, double& width) {
    std::string digits;
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at < end;) {
      unsigned character = 0;
      at += ImTextCharFromUtf8(&character, at, end);
      const int glyph = stbtt_FindGlyphIndex(&font_, static_cast<int>(character));
      used_[glyph] = character;
      digits += fmt::format("{:04x}", glyph);
      width += width_of(glyph) / 1000;
    }
    return digits;
  }

  int put_into(PdfFile& pdf, const char* name) const {
    int box[4], ascent = 0, descent = 0, gap = 0;
    stbtt_GetFontBoundingBox(&font_, &box[0], &box[1], &box[2], &box[3]);
    stbtt_GetFontVMetrics(&font_, &ascent, &descent, &gap);
    const auto scaled = [&](int units) { return std::lround(units * to_thousandths_); };
    const int file = pdf.put_stream(fmt::format("/Length1 {}", file_.size()), std::string(file_));
    const int descriptor = pdf.put(fmt::format(
        "<</Type/FontDescriptor/FontName/{}/Flags 4/FontBBox[{} {} {} {}]/ItalicAngle 0/Ascent {}"
        "/Descent {}/CapHeight {}/StemV 90/FontFile2 {} 0 R>>",
        name, scaled(box[0]), scaled(box[1]), scaled(box[2]), scaled(box[3]), scaled(ascent),
        scaled(descent), scaled(ascent), file));
    std::string widths, characters;
    for (const auto& [glyph, character] : used_) {
      widths += fmt::format("{}[{}]", glyph, short_number(width_of(glyph)));
      // One line each, because a list may have at most 100 (Adobe Technical Note 5411).
      characters += fmt::format("1 beginbfchar <{:04x}> <{:04x}> endbfchar\n", glyph, character);
    }
    const int unicode =
        pdf.put_stream("",
                       "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n"
                       "/CMapName /Characters def /CMapType 2 def\n"
                       "1 begincodespacerange <0000> <ffff> endcodespacerange\n" +
                           characters + "endcmap end end\n");
    const int glyphs = pdf.put(fmt::format(
        "<</Type/Font/Subtype/CIDFontType2/BaseFont/{}/CIDSystemInfo<</Registry(Adobe)"
        "/Ordering(Identity)/Supplement 0>>/FontDescriptor {} 0 R/CIDToGIDMap/Identity/W[{}]>>",
        name, descriptor, widths));
    return pdf.put(fmt::format(
        "<</Type/Font/Subtype/Type0/BaseFont/{}/Encoding/Identity-H/DescendantFonts[{} 0 R]"
        "/ToUnicode {} 0 R>>",
        name, glyphs, unicode));
  }

 private:
  double width_of(int glyph) const {
    int advance = 0, bearing = 0;
    stbtt_GetGlyphHMetrics(&font_, glyph, &advance, &bearing);
    return advance * to_thousandths_;
  }

  std::string_view file_;
  stbtt_fontinfo font_{};
  double to_thousandths_ = 0;
  std::map<int, unsigned> used_;  // and the character of each
};

// Writes the page's content. Its points are ImGui's, with y downwards.
class PdfPage : public Outlines {
 public:
  explicit PdfPage(const Box& shown) {
    add("{0} 0 0 -{0} {1} {2} cm q\n", short_number(kPrinted), short_number(-shown.x0 * kPrinted),
        short_number(shown.y1 * kPrinted));
  }

  void clip(const Box& to) override {
    add("Q q {} {} {} {} re W n\n", short_number(to.x0), short_number(to.y0),
        short_number(to.width()), short_number(to.height()));
  }

  void shape(Color color, const Loops& loops) override {
    if (loops.empty()) return;  // nothing between no lines, which PDF can't fill
    use(color);
    for (const auto& loop : loops) {
      for (const ImVec2& at : loop)
        add("{} {} {} ", short_number(at.x), short_number(at.y), &at == loop.data() ? 'm' : 'l');
      content_ += "h ";
    }
    content_ += "f\n";
  }

  void text(const TextRun& run) override {
    use(run.color);
    PdfFont& font = fonts_.try_emplace(run.strong, run.strong).first->second;
    double width = 0;
    const std::string glyphs = font.glyphs_of(run.text, width);
    // It is as wide as ImGui draws it, whose glyphs lie on a grid of their own.
    const double stretch = width > 0 ? 100 * (run.end - run.begin) / (width * run.size) : 100;
    add("BT /F{:d} {} Tf {} Tz 1 0 0 -1 {} {} Tm <{}> Tj ET\n", run.strong, short_number(run.size),
        short_number(stretch), short_number(run.begin), short_number(run.baseline), glyphs);
  }

  void picture(const Box& box, const Image& image) override {
    add("q {} 0 0 -{} {} {} cm /P{} Do Q\n", short_number(box.width()), short_number(box.height()),
        short_number(box.x0), short_number(box.y1), pictures_.size());
    pictures_.push_back(image);
  }

  std::string finished(const Box& shown) {
    PdfFile pdf;
    const int catalog = pdf.reserve(), pages = pdf.reserve();
    std::string fonts, alphas, pictures;
    for (const auto& [strong, font] : fonts_)
      fonts += fmt::format("/F{:d} {} 0 R", strong,
                           font.put_into(pdf, strong ? "Roboto-Medium" : "Roboto-Regular"));
    for (const unsigned alpha : alphas_)
      alphas += fmt::format("/A{}<</ca {}>>", alpha, short_number(alpha / 255.0));
    for (std::size_t i = 0; i < pictures_.size(); ++i)
      pictures += fmt::format("/P{} {} 0 R", i, put_picture(pdf, pictures_[i]));
    const int content = pdf.put_stream("", content_ + "Q\n");
    const int page = pdf.put(fmt::format(
        "<</Type/Page/Parent {} 0 R/MediaBox[0 0 {} {}]/Contents {} 0 R/Resources<</Font<<{}>>"
        "/ExtGState<<{}>>/XObject<<{}>>>>>>",
        pages, short_number(shown.width() * kPrinted), short_number(shown.height() * kPrinted),
        content, fonts, alphas, pictures));
    const int note =
        pdf.put_stream("/Type/Metadata/Subtype/XML", xmp_of_comment(), false);  // seen by tools
    pdf.put(pages, fmt::format("<</Type/Pages/Kids[{} 0 R]/Count 1>>", page));
    pdf.put(catalog, fmt::format("<</Type/Catalog/Pages {} 0 R/Metadata {} 0 R>>", pages, note));
    return pdf.finished(catalog);
  }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(content_), format, std::forward<Values>(values)...);
  }

  void use(Color color) {
    const auto share = [&](int shift) {
      return fmt::format("{:.3f}", (color >> shift & 255) / 255.0);
    };
    alphas_.insert(color >> 24);
    add("/A{} gs {} {} {} rg\n", color >> 24, share(0), share(8), share(16));
  }

  // Put an image, and as its mask what is transparent of it.
  static int put_picture(PdfFile& pdf, const Image& image) {
    std::string colors, alphas;
    for (const Color color : image.pixels) {
      for (int shift = 0; shift < 24; shift += 8) colors += static_cast<char>(color >> shift & 255);
      alphas += static_cast<char>(color >> 24);
    }
    const std::string entries =
        fmt::format("/Type/XObject/Subtype/Image/Width {}/Height {}/BitsPerComponent 8",
                    image.width, image.height);
    std::string mask;
    if (alphas.find_first_not_of('\xff') != alphas.npos)
      mask =
          fmt::format("/SMask {} 0 R", pdf.put_stream(entries + "/ColorSpace/DeviceGray", alphas));
    return pdf.put_stream(entries + "/ColorSpace/DeviceRGB" + mask, colors);
  }

  std::string content_;
  std::map<bool, PdfFont> fonts_;
  std::set<unsigned> alphas_;
  std::vector<Image> pictures_;
};

}  // namespace

std::string pdf_of(const ImDrawData& data, const Box& shown) {
  PdfPage page(shown);
  trace_outlines(data, page);
  return page.finished(shown);
}

}  // namespace ringscope::viz
