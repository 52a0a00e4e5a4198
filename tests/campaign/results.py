"""What a run left in its folder, and whether it is what was promised."""

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

# What one and the same case may differ in between two runs.
_VARYING = ("seconds", "perf", "output", "notes")


def written_lines(folder: Path) -> list[dict[str, Any]]:
    """The results in results.jsonl, line by line; a torn line is none."""
    path = folder / "results.jsonl"
    found = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        with contextlib.suppress(ValueError):
            found.append(json.loads(line))
    return found


def reported(folder: Path) -> list[dict[str, Any]]:
    """The results in report.json; none where there is no report."""
    path = folder / "report.json"
    results: list[dict[str, Any]] = json.loads(path.read_text())["results"] if path.exists() else []
    return results


def lost_or_doubled(planned: Iterable[str], folder: Path) -> tuple[int, list[str]]:
    """How many planned cases have not exactly one result, in the report and line by line, and which."""
    names = list(planned)
    wrong: set[str] = set()
    for found in (
        Counter(one["case"] for one in reported(folder)),
        Counter(one["case"] for one in written_lines(folder)),
    ):
        wrong |= {name for name in names if found[name] != 1} | (set(found) - set(names))
    return len(wrong), [f"{name}: not exactly one result" for name in sorted(wrong)[:5]]


def comparable(folder: Path) -> dict[str, dict[str, Any]]:
    """The report by case, without what may vary from run to run."""
    return {one["case"]: {key: value for key, value in one.items() if key not in _VARYING} for one in reported(folder)}


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Which cases came out otherwise."""
    return [
        f"{name}: {key} was {str(before[name].get(key))[:60]}, is {str(now.get(name, {}).get(key))[:60]}"
        for name in before
        for key in before[name]
        if now.get(name, {}).get(key) != before[name][key]
    ][:5]
