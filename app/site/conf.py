"""Settings of the site's generator, Sphinx, and what our pages need beyond them: formulas as MathML, pictures with captions,
boxes of questions, and a policy that allows a page no scripts but the site's."""

import base64
import hashlib
import html
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

project = "Ringscope"
html_title = "Ringscope"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
# What of Markdown is MyST's alone is plain text in our pages.
myst_disable_syntax = ["myst_line_comment", "myst_block_break", "myst_target", "myst_role"]
suppress_warnings = ["toc.not_included"]  # pages of sources
exclude_patterns = ["static"]
highlight_language = "none"  # of a listing that names no language
pygments_style, pygments_dark_style = "colours.Light", "colours.Dark"
html_theme = "furo"
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#1d56b0", "color-brand-content": "#1d56b0", "color-brand-visited": "#1d56b0"},
    "dark_css_variables": {"color-brand-primary": "#8ab8ff", "color-brand-content": "#8ab8ff", "color-brand-visited": "#8ab8ff"},
}
html_sidebars = {"**": [f"sidebar/{part}.html" for part in ("brand", "search", "scroll-start", "navigation", "scroll-end")]}
html_static_path = ["static"]
html_css_files = ["style.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_math_renderer = "mathml"
html_use_index = False
html_copy_source = False
html_show_copyright = False
html_permalinks_icon = "#"
html_favicon = None

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self' data:; base-uri 'none'; form-action 'self'"
)


def write_inline(translator, node):
    translator.body.append(tex2mathml(node.astext().strip()))
    raise nodes.SkipNode


def write_display(translator, node):
    formula = tex2mathml(node.astext().strip(), as_block=True)
    translator.body.append(f'<div class="formula" tabindex="0" role="group" aria-label="Formula">{formula}</div>\n')
    raise nodes.SkipNode


def mark_questions(app, doctree):
    for quote in doctree.findall(nodes.block_quote):
        if quote.astext().startswith("Predict."):
            quote["classes"].append("predict")


def finish_page(app, page, template, context, doctree):
    """Give a picture that is a paragraph its caption, let it be opened by itself, and load it when it comes into sight."""
    picture = re.compile(r'<p><img alt="([^"]*)" src="([^"]+)" ?/?></p>')
    figure = r'<figure><a href="\2"><img alt="\1" src="\2" loading="lazy"></a><figcaption>\1</figcaption></figure>'
    context["body"] = picture.sub(figure, context.get("body", ""))
    context["metatags"] = context.get("metatags", "") + '<link rel="icon" href="data:,">'  # so none is asked for
    # Scripts of the search, and looks of extensions that aren't here, are left out.
    if page != "search":
        context["script_files"] = [each for each in context["script_files"] if re.search("furo.js|site.js", each.filename)]
    context["css_files"] = [each for each in context["css_files"] if "furo-extensions" not in each.filename]


def add_policies(app, error):
    """Say in every page which scripts may run in it: the site's, and those that stand in it now, by their hashes."""
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text()
        inline = re.findall(r"<script>(.*?)</script>", text, re.S)
        hashes = sorted({f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in inline})
        policy = html.escape(POLICY.format(scripts=" ".join(hashes)), quote=False)
        meta = f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        path.write_text(text.replace('<meta charset="utf-8">', meta, 1))


def setup(app):
    app.add_html_math_renderer("mathml", inline_renderers=(write_inline, None), block_renderers=(write_display, None))
    app.connect("doctree-read", mark_questions)
    app.connect("html-page-context", finish_page, priority=900)
    app.connect("build-finished", add_policies)
