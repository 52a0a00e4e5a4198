"""Chapter 12: address limits (`ulimit -v`): what they leave no room for ends with exit 74 or 3 and a sentence."""

import random
from pathlib import Path

from tests.campaign.content import BACKEND, calm_ids
from tests.campaign.paths import CASE, CASE_ID
from tests.campaign.results import lost_or_doubled
from tests.campaign.sandbox import ROOT, Finished, Sandbox
from tests.campaign.tally import Try, try_all

# Its tensors and what it is judged by need some 300 MB.
LARGE = "get_indice_pairs/network_subm_41x1440x1440"
# Python itself starts with the least; with the most, all is well.
LEAST, MOST = 32 << 20, 3 << 30
# Enough room; of a case, or of all of it too little.
GOOD_CODES = (0, 3, 74)


def addresses(folder: Path, root: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Commands with drawn limits, in turn; the first ones have the controller and a worker too small for a case."""
    results = folder / "before" / "results"
    before = Sandbox(folder / "before").run("run", *calm_ids()[:3], "--root", root, "--out", results, "-q")
    assert before.code == 0, before.err
    # Made once, so that the tries are about running it.
    made = Sandbox(folder / "made").run("run", LARGE, "--out", folder / "made" / "results", "-q")
    assert made.code == 0, made.err

    def attempt(i: int) -> Try:
        kinds = _kinds(root, results)
        kind, arguments = list(kinds.items())[i % len(kinds)]
        draw = random.Random(f"{seed}/addresses/{i}")
        most = int(LEAST * (MOST / LEAST) ** draw.random())
        box = Sandbox(folder / str(i))
        done = box.run(*arguments, most_addresses=most)
        broken = _wrong(done, f"{most >> 20} MiB: {' '.join(arguments)}")
        lost = 0
        if arguments[0] == "run" and done.code in (0, 3):
            lost, words = lost_or_doubled((LARGE,) if LARGE in arguments else calm_ids()[:3], box.folder / "results")
            broken += words
        repro = f"python -m tests.campaign --only addresses --try {i} --seed {seed}"
        return done.as_try(f"an address limit, {kind}", repro, lost, broken)

    return try_all(attempt, tries, at_once)


def _wrong(done: Finished, what: str) -> list[str]:
    if done.code not in GOOD_CODES:
        return [f"{what}: exit code {done.code}: {done.out[-300:]}{done.err[-600:]}"]
    if done.code and not (done.out + done.err).strip():
        return [f"{what}: exit code {done.code} without a word"]
    if done.code == 74 and len(done.err.strip().splitlines()) > 3:
        return [f"{what}: more than a sentence: {done.err[-500:]}"]
    return []


def _kinds(root: Path, results: Path) -> dict[str, tuple[str, ...]]:
    """What runs with a limit."""
    out = ("--out", "results", "-q")
    calm = ("run", *calm_ids()[:3], "--root", str(root), *out, "-b", BACKEND)
    return {
        "a large case": ("run", LARGE, *out),
        "a large case in a worker": ("run", LARGE, "--isolate", *out),
        "small cases": (*calm, "--no-isolate"),
        "small cases in workers": (*calm, "--isolate", "-j", "2"),
        "generating": ("generate", LARGE, "--out", "made"),
        "verifying": ("verify", CASE_ID),
        "fuzzing": ("fuzz", "--op", "ball_query", "--cases", "20", "--seed", "1", "--corpus", "corpus"),
        "converting": ("convert", str(CASE), "case.pb"),
        "reporting": ("report", str(results), "--format", "html", "-o", "report.html"),
        "gating": ("gate", str(results), "--against", str(results)),
        "listing": ("list", "--all", "--root", str(ROOT)),
    }
