"""result.json: what a program answers, checked before it is believed."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import field

from mluops_gtest.backends.exec_backend.files import UnreadableError, open_regular
from mluops_gtest.model.numbers import checked_seconds, short
from mluops_gtest.model.status import Status
from mluops_gtest.value import Value

RESULT: Final = "result.json"
# Thousands of notes would fit; a larger file is a mistake.
RESULT_BYTES: Final = 1 << 20
_KEYS: Final = ("status", "scalars", "notes", "device_seconds", "declined")


class ProgramError(Exception):
    """The program did not do its part of the protocol; the case's outcome is error."""


class ProgramAnswer(Value):
    """The status with what else the program tells, or the reason why it declines."""

    status: Status = Status.SUCCESS
    scalars: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    device_seconds: float | None = None
    declined: str | None = None


def read_answer(path: Path, last_words: str = "") -> ProgramAnswer:
    """The answer in the file; `last_words` of the program explain a missing one."""
    try:
        with open_regular(path) as (file, size):
            if size > RESULT_BYTES:
                raise ProgramError(f"{path.name} holds {size} bytes; at most {RESULT_BYTES} are read")
            content = json.loads(file.read(RESULT_BYTES))
    except FileNotFoundError:
        raise ProgramError(f"the program ended without a status: it wrote no {path.name}{last_words}") from None
    except UnreadableError as error:
        raise ProgramError(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise ProgramError(f'{path.name} is not JSON, e.g. {{"status": 0}}: {error}') from error
    return _checked(content)


def _checked(content: Any) -> ProgramAnswer:
    _require(isinstance(content, dict), "must hold an object", content)
    unknown = sorted(set(content) - set(_KEYS))
    _require(not unknown, f"has unknown keys; known: {', '.join(_KEYS)}", unknown)
    if "declined" in content:
        declined = content["declined"]
        _require(isinstance(declined, str), "declined: must be the reason, a string", declined)
        return ProgramAnswer(declined=declined)
    scalars, notes = content.get("scalars", {}), content.get("notes", [])
    is_scalars = isinstance(scalars, dict) and all(type(value) is int for value in scalars.values())
    _require(is_scalars, "scalars: must be an object of integers", scalars)
    is_notes = isinstance(notes, list) and all(isinstance(note, str) for note in notes)
    _require(is_notes, "notes: must be a list of strings", notes)
    return ProgramAnswer(_status(content), scalars, tuple(notes), _device_seconds(content.get("device_seconds")))


def _device_seconds(value: Any) -> float | None:
    try:
        return None if value is None else checked_seconds(f"{RESULT} device_seconds is", value)
    except (TypeError, ValueError) as error:
        raise ProgramError(str(error)) from error


def _status(content: dict[str, Any]) -> Status:
    """By number or by name."""
    known = ", ".join(f"{status.value} {status.name}" for status in Status)
    _require("status" in content, f"has no status; known: {known}", content)
    word = content["status"]
    for status in Status:
        if (type(word) is int and word == status.value) or word == status.name:
            return status
    raise ProgramError(f"{RESULT}: unknown status {short(word)}; known: {known}")


def _require(holds: bool, message: str, found: Any) -> None:
    if not holds:
        raise ProgramError(f"{RESULT} {message}; found {short(found)}")
