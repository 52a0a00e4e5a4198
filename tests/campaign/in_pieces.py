"""Many tries in one process, for speed; one that takes its process down costs itself alone, as a case does."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Final

from tests.campaign.sandbox import ROOT

# Tries of one process; a hang, a leak or a crash in one of them is not carried on for ever.
PER_PROCESS: Final = 250


def tell(i: int, attempt: Callable[[int], str]) -> None:
    """Inside the process: try number i; `attempt` says what went wrong."""
    print(json.dumps({"at": i}), flush=True)
    if wrong := attempt(i):
        print(json.dumps({"at": i, "wrong": wrong}), flush=True)


def try_in_process(
    module: str, arguments: tuple[str, ...], piece: range, environment: Mapping[str, str]
) -> dict[int, str]:
    """What went wrong, by number: `python -m MODULE ARGUMENTS FIRST END` tells it line by line."""
    wrong: dict[int, str] = {}
    first = piece.start
    while first < piece.stop:
        command = [sys.executable, "-m", module, *arguments, str(first), str(piece.stop)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=dict(environment))
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        wrong |= {line["at"]: line["wrong"] for line in lines if "wrong" in line}
        if done.returncode == 0:
            break
        last = lines[-1]["at"] if lines else first
        wrong[last] = f"the process ended with {done.returncode}: {done.stderr[-400:]}"
        first = last + 1
    return wrong


def pieces(tries: range) -> list[range]:
    """The tries, process by process."""
    return [tries[start : start + PER_PROCESS] for start in range(0, len(tries), PER_PROCESS)]
