"""Labels of a run: names and values that tell which code was tested, recorded by the harness or given by the user."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

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
