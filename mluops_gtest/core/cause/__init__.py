"""Why a case came to its outcome: a small type per kind that carries its words in both languages.

A result has a tuple of them, the main one first. Files hold the `kind` and the fields; nobody reads words back. Only
text that comes from outside (a backend's own words, an exception's message) is kept as text. A new cause is a class in
one of the two modules, and nothing else.
"""

# ruff: noqa: F403 - all of them, so that a cause is written `cause.Declined`
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mluops_gtest.core.cause import infrastructure, verdict
from mluops_gtest.core.cause.infrastructure import *
from mluops_gtest.core.cause.infrastructure import CauseBase, Prelude
from mluops_gtest.core.cause.verdict import *
from mluops_gtest.core.wording import Wording, union_of_kinds

if TYPE_CHECKING:
    Cause = CauseBase
else:
    Cause = union_of_kinds(CauseBase, vars(infrastructure), vars(verdict))

_COLON: Final = Wording(": ", "：")
_SEMICOLON: Final = Wording("; ", "；")


def format_reason(causes: Iterable[Cause], lang: str = "en") -> str:
    """All causes in one line; empty where there is none."""
    before, parts = "", []
    for cause in causes:
        if isinstance(cause, Prelude):
            before += cause.format(lang) + _COLON.format(lang)
        else:
            parts.append(cause.format(lang))
    return before + _SEMICOLON.format(lang).join(parts)
