"""Answers as HTML, for notebooks and for pages."""

from __future__ import annotations

import html
from typing import Any, Iterable, Mapping, Sequence

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px sans-serif; margin: 2em }} td, th {{ padding: 2px 12px; text-align: left }}</style>
{body}</html>
"""


def text(value: Any) -> str:
    """Return a value as a person reads it, in three digits if it is a fraction."""
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def paragraph(value: Any) -> str:
    """Return a line of text."""
    return f"<p>{html.escape(text(value))}</p>\n"


def table(keys: Sequence[str], objects: Iterable[Mapping[str, Any]]) -> str:
    """Return a table with a row for each object, or nothing if there are none."""
    heads = "".join(f"<th>{html.escape(key.replace('_', ' '))}</th>" for key in keys)
    rows = [
        "<tr>" + "".join(f"<td>{html.escape(text(one.get(key)))}</td>" for key in keys) + "</tr>\n"
        for one in objects
    ]
    return f"<table>\n<tr>{heads}</tr>\n{''.join(rows)}</table>\n" if rows else ""


def page(title: str, body: str) -> str:
    """Return a whole page."""
    return PAGE.format(title=html.escape(title), body=body)
