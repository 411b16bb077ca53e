"""Answers as HTML, for notebooks and for pages."""

from __future__ import annotations

import html
from typing import Any, Iterable, Sequence

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


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table, or nothing if there are no rows."""
    lines = [
        "<tr>" + "".join(f"<td>{html.escape(text(cell))}</td>" for cell in row) + "</tr>\n"
        for row in rows
    ]
    heads = "".join(f"<th>{html.escape(one)}</th>" for one in head)
    return f"<table>\n<tr>{heads}</tr>\n{''.join(lines)}</table>\n" if lines else ""


def page(title: str, body: str) -> str:
    """Return a whole page."""
    return PAGE.format(title=html.escape(title), body=body)
