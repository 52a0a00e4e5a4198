"""Causes in words: the one place per language where reasons are made."""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from mluops_gtest.model.cause import AfterTimedCalls, Cause, PassedAtTry, UnderStress
from mluops_gtest.model.reasons import chinese, english


class _Language(NamedTuple):
    """The words for every kind of cause, and what stands between them."""

    words: dict[type, str | Callable[[Any], str]]
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
        made = language.words[type(cause)]
        words = made.format(cause) if isinstance(made, str) else made(cause)
        if isinstance(cause, PassedAtTry | AfterTimedCalls | UnderStress):
            before += words + language.colon
        else:
            said.append(words)
    return before + language.semicolon.join(said)
