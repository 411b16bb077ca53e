"""The fixture that pytest finds where this package is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest  # type: ignore[import-not-found, unused-ignore]

from .checks import Verdict
from .tables import page
from .testing import AttentionError
from .testing import assert_attention as assert_without_page


@pytest.fixture  # type: ignore[untyped-decorator, unused-ignore]
def assert_attention(tmp_path: Path) -> Callable[..., Verdict]:
    """ringscope.testing.assert_attention, which writes what is wrong to a page beside tmp_path."""

    def assert_with_page(*arguments: Any, **options: Any) -> Verdict:
        __tracebackhide__ = True
        try:
            return assert_without_page(*arguments, **options)
        except AttentionError as error:
            file = tmp_path.with_name(tmp_path.name + ".html")
            file.write_text(page(tmp_path.name, error.verdict._repr_html_()), encoding="utf-8")
            error.args = (f"{error}\npage: {file}",)
            raise

    return assert_with_page
