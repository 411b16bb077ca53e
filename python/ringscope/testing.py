"""Assertions about attention, for tests. In pytest there is also the fixture `assert_attention`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .checks import Verdict, check

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import CheckOptions


class AttentionError(AssertionError):
    """Outputs of an attention are wrong. `verdict` is the Verdict on them."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__("\n".join([str(verdict), *verdict.complaints()]))
        self.verdict = verdict


def assert_attention(out: Any, q: Any, k: Any, v: Any, **options: Unpack[CheckOptions]) -> Verdict:
    """Return the Verdict of check(), which takes the same arguments, on right outputs.

    Throws AttentionError, an AssertionError that names the mistake, the first wrong rows and the
    largest errors beside what is accepted, for wrong ones; and RingscopeError as check() does.
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead
    verdict = check(out, q, k, v, **options)
    if not verdict:
        raise AttentionError(verdict)
    return verdict
