"""Causes in words: the one place per language where reasons are made."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from mluops_gtest.core.cause import Cause, Prelude
from mluops_gtest.core.reasons import chinese, english
from mluops_gtest.core.reasons.notation import Words, worded


class _Language(NamedTuple):
    """The words for every kind of cause, and what stands between them."""

    words: Words
    colon: str
    semicolon: str


LANGUAGES: Final = {
    "en": _Language(english.WORDS, ": ", "; "),
    "zh": _Language(chinese.WORDS, "：", "；"),
}


def reason_of(causes: Iterable[Cause], lang: str = "en") -> str:
    """All causes in one line; empty where there is none."""
    language = LANGUAGES[lang]
    before, said = "", []
    for cause in causes:
        words = worded(language.words, cause)
        if isinstance(cause, Prelude):
            before += words + language.colon
        else:
            said.append(words)
    return before + language.semicolon.join(said)
