"""The verdicts on a case, one table that every report, the gate and the terminal read; and words in both languages.

Words stand where a value is defined, and are formatted in one way. At the end: when a reading that still passes has
grown enough to be told, one rule for the gate and for the history.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Union, dataclass_transform

import msgspec

from mluops_gtest.base.frozen import TableEnum


class Wording(NamedTuple):
    """The same words in English and in Chinese."""

    en: str
    zh: str

    def format(self, lang: str, /, *values: object, **named_values: object) -> str:
        """The words in that language, with their places filled."""
        return str(getattr(self, lang)).format(*values, **named_values)


class _Attributes:
    """The attributes of a value as the names in a pattern."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __getitem__(self, name: str) -> Any:
        return getattr(self._value, name)


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Worded(msgspec.Struct, frozen=True):
    """A value whose class has `en` and `zh`: patterns of its attributes, or methods where grammar needs them."""

    def format(self, lang: str = "en") -> str:
        """What is said of this value."""
        words = getattr(self, lang)
        return words.format_map(_Attributes(self)) if isinstance(words, str) else str(words())


def union_of_kinds(base: type[Worded], *namespaces: Mapping[str, object]) -> Any:
    """The type of what files may hold: any kind of `base` in these modules; what only groups kinds has no words."""
    values = (value for namespace in namespaces for value in namespace.values())
    kinds = (value for value in values if isinstance(value, type) and issubclass(value, base) and hasattr(value, "en"))
    return Union[tuple(kinds)]  # noqa: UP007 - of a tuple


class Tone(TableEnum):
    """What kind of news an outcome is: the name of its colour on pages, and its colour in a terminal."""

    GOOD = ("good", "green")
    BAD = ("bad", "bold red")
    ODD = ("odd", "magenta")
    WARN = ("warn", "magenta")
    CALM = ("calm", "yellow")

    def __init__(self, _name: str, terminal: str) -> None:
        self.terminal = terminal


class Outcome(TableEnum):
    """The verdict on one case; `blocks` alone decides what stops a merge."""

    # In files       blocks  sign  tone       in English            in Chinese
    PASSED = ("passed", False, "✓", Tone.GOOD, "passed", "通过")
    FAILED = ("failed", True, "✗", Tone.BAD, "failed", "失败")
    WRONG_STATUS = ("wrong_status", True, "≠", Tone.BAD, "wrong status", "状态码错误")
    MEMORY = ("memory", True, "⚠", Tone.BAD, "memory", "内存错误")
    CRASHED = ("crashed", True, "✸", Tone.BAD, "crashed", "崩溃")
    TIMED_OUT = ("timed_out", True, "◷", Tone.BAD, "timed out", "超时")
    SUSPECT = ("suspect", True, "?", Tone.ODD, "suspect", "存疑")
    SKIPPED = ("skipped", False, "–", Tone.CALM, "skipped", "跳过")
    ERROR = ("error", True, "!", Tone.BAD, "error", "错误")
    XFAILED = ("xfailed", False, "w", Tone.CALM, "waived failure", "已豁免的失败")
    XPASSED = ("xpassed", True, "W", Tone.ODD, "waived but passes", "已豁免但通过")
    NOT_RUN = ("not_run", True, "○", Tone.WARN, "not run", "未运行")
    FLAKY = ("flaky", True, "~", Tone.ODD, "flaky", "结果不稳定")

    def __init__(self, _word: str, blocks: bool, sign: str, tone: Tone, english: str, chinese: str) -> None:
        self.blocks = blocks
        self.sign = sign
        self.tone = tone
        self.words = {"en": english, "zh": chinese}

    @property
    def passes(self) -> bool:
        """It passed, be it in spite of a waiver."""
        return self in (Outcome.PASSED, Outcome.XPASSED)

    @property
    def may_become_flaky(self) -> bool:
        """The backend did it and may do otherwise when it is asked again; a suspect case is the same the next time."""
        return self.fails and self is not Outcome.FLAKY

    @property
    def fails(self) -> bool:
        """It says that the kernel is wrong; these outcomes, and no others, can be waived."""
        return self.blocks and not self.passes and self not in (Outcome.SUSPECT, Outcome.NOT_RUN)

    @property
    def tells_a_mistake(self) -> bool:
        """What the backend did was looked at and is wrong, or proves nothing; an error may be anybody's slip."""
        return self.blocks and self.was_called and not self.passes and self not in (Outcome.ERROR, Outcome.FLAKY)

    @property
    def was_called(self) -> bool:
        """The backend was asked."""
        return self not in (Outcome.SKIPPED, Outcome.NOT_RUN)

    @property
    def ends_a_call(self) -> bool:
        """A call may come to it; the others are said by whoever plans and waives."""
        return self not in (Outcome.NOT_RUN, Outcome.XFAILED, Outcome.XPASSED)

    @property
    def is_of_values(self) -> bool:
        """What the outputs hold decided it."""
        return self in (Outcome.PASSED, Outcome.FAILED, Outcome.SUSPECT)

    @property
    def has_no_answer(self) -> bool:
        """It blocks, and no answer of the backend could be judged."""
        return self in (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.ERROR, Outcome.NOT_RUN)

    @property
    def is_unstable(self) -> bool:
        """It crashed, hung, flaked or wrote where it must not."""
        return self in (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.FLAKY, Outcome.MEMORY)


# The order in which people look at a list of cases.
_BY_GRAVITY = "crashed timed_out memory failed wrong_status error flaky suspect xpassed not_run xfailed skipped passed"
GRAVEST_FIRST = tuple(Outcome.named(word) for word in _BY_GRAVITY.split())


# A growth by more than this factor is drift.
DRIFT_FACTOR = 4.0
# A share of one-sided errors: its size is no measure of how large the errors are.
SIZELESS = "diff4"
# One or two roundings of the type; what is smaller is chance, and growing from there is no drift.
FLOOR = 2.0**-22
_FLOORS = {"half": 2.0**-9, "bfloat16": 2.0**-9, "complex_half": 2.0**-9}


def reading_floor(dtype: str) -> float:
    """The reading below which differences of that type mean nothing."""
    return _FLOORS.get(dtype, FLOOR)
