"""Chapter 11: searches for failing and for smaller calls end at a call, never in an error of their own."""

from pathlib import Path

from tests.campaign.sandbox import Sandbox
from tests.campaign.tally import Try, try_all

# A kernel that reads one dilation wrong: every call that shows it is made as small as it goes.
WRONG_DILATION = """
import mluops_gtest as mt
from msgspec.structs import replace


class Wrong(mt.NumpyBackend):
    name = "wrong"

    def run(self, call):
        if call.params and "dilation" in call.params:
            first, *others = call.params["dilation"]
            call = replace(call, params={**call.params, "dilation": (first + 1, *others)})
        return super().run(call)
"""
GOOD_CODES = (0, 1)


def searches(folder: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Hunts on get_indice_pairs, each with a seed of its own."""

    def attempt(i: int) -> Try:
        box = Sandbox(folder / str(i))
        (box.folder / "wrong.py").write_text(WRONG_DILATION)
        options = ("--cases", "40", "--seed", str(seed * 1000 + i), "--corpus", box.folder / "corpus")
        done = box.run("fuzz", "--op", "get_indice_pairs", "--backend", f"{box.folder / 'wrong.py'}:Wrong", *options)
        broken = [] if done.code in GOOD_CODES else [f"exit code {done.code}: {done.out[-300:]} {done.err[-300:]}"]
        return done.as_try(
            "fuzz, one dilation wrong", f"python -m tests.campaign --only searches --try {i} --seed {seed}", 0, broken
        )

    return try_all(attempt, tries, at_once)
