"""What reports say in English and Chinese: the pages of one run and of several, and the test report in Markdown."""

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import ISOLATION_OFF

# Table → key → (English, Chinese); [transitions] has the Chinese alone, of what is a key of other files as well.
_TABLES: Final = tomllib.loads(files(__package__).joinpath("static", "words.toml").read_text(encoding="utf-8"))
_TRANSITIONS: Final[Mapping[str, str]] = _TABLES["transitions"]
_OUTCOMES: Final = {outcome.value: (outcome.words["en"], outcome.words["zh"]) for outcome in Outcome}


def _by_language(table: Mapping[str, tuple[str, str]]) -> dict[str, dict[str, str]]:
    """Language → key → words."""
    return {lang: {key: both[place] for key, both in table.items()} for place, lang in enumerate(("en", "zh"))}


PAGE_WORDS: Final = _by_language(
    {
        **_TABLES["page"],
        **{f"m_{word}": (word, chinese) for word, chinese in _TRANSITIONS.items()},
        **{f"o_{outcome}": words for outcome, words in _OUTCOMES.items()},
    }
)
MATRIX_WORDS: Final = _by_language(_TABLES["matrix"])
MARKDOWN_WORDS: Final = _by_language(
    {
        **{f"outcome_{outcome}": words for outcome, words in _OUTCOMES.items()},
        **{f"transition_{word.replace(' ', '_')}": (word, chinese) for word, chinese in _TRANSITIONS.items()},
        "isolation_off": (ISOLATION_OFF, _TABLES["isolation_off"]["zh"]),
        **_TABLES["markdown"],
    }
)
