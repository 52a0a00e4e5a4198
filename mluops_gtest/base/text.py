"""Text for people: plurals, text from outside that cannot steer what shows it, labels of a run.

Text from outside is what a backend, a file or a name says; of an endless one the head and the tail are kept. Labels are
names and values that tell which code was tested, recorded by the harness or given by
the user.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final


def pluralize(number: int, noun: str) -> str:
    """`1 case`, `2 cases`."""
    return f"{number} {noun}{'s' * (number != 1)}"


# Colours, which say nothing here.
_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
# Controls of both kinds, marks without a width, direction marks and overrides, separators that break lines, lone
# halves of a pair, and what XML has no way to write. Line feeds and tabs stay.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def strip_controls(text: str) -> str:
    """The text without colours; whatever else would not show as itself stands as an escape, \\x1b or \\u202e.

    Applied to JSON it changes only how characters are written, never what they are.
    """
    # Nearly all text, and long listings above all.
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return _UNFIT.sub(_escaped, _COLOURS.sub("", text.replace("\r\n", "\n")))


def is_plain(text: str) -> bool:
    """`strip_controls` would change nothing."""
    return "\r\n" not in text and not _UNFIT.search(text)


def strip_to_line(text: str) -> str:
    """The same on one line, so that nothing in it passes for a line of ours or for a command of a CI system."""
    if text.isascii() and text.isprintable():
        return text
    return " ".join(strip_controls(text).split("\n"))


def strip_values(value: Any) -> Any:
    """The record of lists and dicts with every text in it stripped."""
    return map_texts(value, strip_controls)


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """The record of lists and mappings with every text in it changed, those of keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {map_texts(key, change): map_texts(item, change) for key, item in value.items()}
    return [map_texts(item, change) for item in value] if isinstance(value, list | tuple) else value


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return f"\\x{code:02x}"
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def cut_text(text: str, most: int) -> str:
    """The text, of a longer one its head and tail with the number of characters between."""
    if len(text) <= most:
        return text
    words = f"\n[… {len(text) - most} characters cut …]\n"
    kept = max(0, most - len(words))
    tail = kept - kept // 2
    return text[: kept // 2] + words + text[len(text) - tail :]


COMMIT: Final = "git.commit"
BRANCH: Final = "git.branch"
STATE: Final = "git.state"
CLEAN: Final = "clean"
FILE: Final = "backend.file"
BUILD_ID: Final = "backend.build_id"
VERSION: Final = "backend.version"

# Names with a dot are the harness's own, so that a user's label never hides one of them.
GIVEN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
ANY_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
MAX_LETTERS: Final = 200
_DIFFERS: Final = "differs: "
_BETWEEN: Final = " | "
_ABSENT: Final = "–"
_HASH: Final = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30,54}\b")


def merged_labels(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The labels of several parts of one run: what all agree on as it is, everything else as `differs: A | B`."""
    merged = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = list(dict.fromkeys(value for part in parts for value in _values(part.get(name, _ABSENT))))
        merged[name] = values[0] if len(values) == 1 else _DIFFERS + _BETWEEN.join(values)
    return merged


def _values(value: str) -> list[str]:
    """What was merged before is not merged into a value of its own."""
    return value.removeprefix(_DIFFERS).split(_BETWEEN) if value.startswith(_DIFFERS) else [value]


def short_value(value: str) -> str:
    """The value with its git hashes cut to ten digits."""
    return _HASH.sub(r"\1", value)


def commit_words(labels: Mapping[str, str]) -> str:
    """The commit in ten digits, with a + where files had changed since; empty where none is known."""
    commit = short_value(labels.get(COMMIT, ""))
    return f"{commit}+" if commit and labels.get(STATE, CLEAN) != CLEAN else commit


def label_words(labels: Mapping[str, str]) -> str:
    """All labels but the commit and its state, in one line."""
    return ", ".join(f"{name}={short_value(value)}" for name, value in labels.items() if name not in (COMMIT, STATE))
