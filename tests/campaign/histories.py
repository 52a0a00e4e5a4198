"""Chapter 12: what a call leaves and nobody looks for is never taken for a fault of the next case alone."""

from pathlib import Path

from tests.campaign.content import calm_ids
from tests.campaign.results import reported
from tests.campaign.sandbox import Sandbox
from tests.campaign.tally import Try, try_all

# Wrong by what this process ran before, once in all, or always.
REMEMBERS = """
from pathlib import Path

import numpy as np

from mluops_gtest import Status

ONCE = Path(__file__).with_name("once")


class Doubles:
    name = "remembers"

    def __init__(self):
        self.calls = 0

    def run(self, call):
        call.array("y")[...] = call.array("x") * np.float32(2) + self.is_wrong()
        self.calls += 1
        return Status.SUCCESS


class OnlyAfter(Doubles):
    def is_wrong(self):
        return self.calls > 0


class Once(Doubles):
    def is_wrong(self):
        if self.calls == 0 or ONCE.exists():
            return False
        ONCE.touch()
        return True


class Always(Doubles):
    def is_wrong(self):
        return True
"""
CASES = calm_ids()[1:4]
# Of the three cases; a worker in which history was found is replaced.
OUTCOMES = {
    "OnlyAfter": ["passed", "failed", "passed"],
    "Once": ["passed", "flaky", "passed"],
    "Always": ["failed", "failed", "failed"],
}


def histories(folder: Path, root: Path, at_once: int) -> list[Try]:
    """Backends that are wrong after another call, once, and always."""

    def attempt(name: str) -> Try:
        box = Sandbox(folder / name)
        (box.folder / "remembers.py").write_text(REMEMBERS)
        backend = ("-b", f"{box.folder / 'remembers.py'}:{name}", "-j", "1")
        done = box.run("run", *CASES, "--root", root, "--out", box.folder / "results", "-q", *backend)
        results = reported(box.folder / "results")
        found = [one["outcome"] for one in results]
        broken = [] if found == OUTCOMES[name] else [f"{found} instead of {OUTCOMES[name]}: {done.err[-300:]}"]
        named = [cause["case"] for one in results for cause in one["causes"] if cause["kind"] == "only_after"]
        if named != ([CASES[0]] if name == "OnlyAfter" else []):
            broken.append(f"only_after names {named}")
        repro = "python -m tests.campaign --only histories"
        return done.as_try("wrong by what ran before", repro, len(CASES) - len(results), broken)

    return try_all(attempt, OUTCOMES, at_once)
