"""Chapter 1: every fault in a run of its own and all of them in one run, each costing its own case alone."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.campaign.content import BACKEND, CALM, calm_ids, case_id, tiny_ids
from tests.campaign.faults import Fault, everything
from tests.campaign.results import lost_or_doubled, reported, written_lines
from tests.campaign.sandbox import Finished, Sandbox
from tests.campaign.tally import Try

# Long enough for a machine that is busy with other things, short enough for thirty hangs.
TIMEOUT_SECONDS = 5
OPTIONS = ("-q", "--isolate", "--memory-limit", "768M", "--timeout", str(TIMEOUT_SECONDS), "-b", BACKEND)
# Cases failed; or none did.
GOOD_CODES = (0, 1)
CALM_CASES = 5


def guarded(folder: Path, root: Path, seed: int, jobs: int) -> list[Try]:
    """The faults of memory and of ends with `--guard-pages`: what touches the pages is `crashed` as well."""
    chosen = [fault for fault in shared_faults() if fault.family in ("memory", "signals", "answers")]
    faults = [replace(fault, outcomes=(*fault.outcomes, "crashed")) for fault in chosen]
    return together(folder, root, faults, seed, jobs, "guarded", ("--guard-pages",))


def together(
    folder: Path,
    root: Path,
    faults: Sequence[Fault],
    seed: int,
    jobs: int,
    chapter: str = "together",
    more: Sequence[str] = (),
) -> list[Try]:
    """One run with all these faults and all calm cases, in the root's order."""
    repro = f"python -m tests.campaign --only {chapter} --seed {seed}"
    kind = "all in one run" if not more else " ".join(more)
    box = Sandbox(folder)
    planned = [*(case_id(fault) for fault in faults), *calm_ids()]
    done = box.run("run", *planned, "--root", root, "--out", folder / "results", "-j", str(jobs), *OPTIONS, *more)
    broken = [] if done.code in GOOD_CODES else [f"exit code {done.code}"]
    lost, words = lost_or_doubled(planned, folder / "results")
    results = {one["case"]: one for one in reported(folder / "results")}
    tries = []
    for fault in faults:
        one = results.get(case_id(fault))
        outcomes = (*fault.outcomes, "timed_out") if fault.slow else fault.outcomes
        wrong = () if one is None else tuple(_wrong(one, outcomes))
        tries.append(Try(f"{fault.family}, {kind}", repro, bugs=_bug(one), broken=wrong))
    for name, one in results.items():
        if CALM in name and not _blames(one, faults):
            broken += _wrong(one, ("passed",))
    tries.append(_whole(f"calm cases, {kind}", repro, done, lost, [*broken, *words], list(results.values())))
    return tries


def alone(folder: Path, root: Path, fault: Fault, seed: int, jobs: int) -> Try:
    """A run with this fault and a few calm cases; one that takes the controller down is resumed."""
    repro = f"python -m tests.campaign --only {fault.name} --seed {seed}"
    box = Sandbox(folder)
    out = folder / "results"
    draw = random.Random(f"{seed}/{fault.name}")
    calm = (*draw.sample(calm_ids(), CALM_CASES), draw.choice(tiny_ids()))
    planned = list(dict.fromkeys((case_id(fault), *calm)))
    jobs = 1 if fault.lonely else jobs
    more = (*(("--fresh-workers",) if fault.fresh else ()), *(("--timeout", "60") if fault.slow else ()))
    done = box.run("run", *planned, "--root", root, "--out", out, "-j", str(jobs), *OPTIONS, *more)
    broken: list[str] = []
    if fault.alone and fault.name != "pesters_the_controller":
        first, done = done, box.run("run", "--resume", out, "-q")
        files = [name for name in first.files if not (fault.may_leave and name.startswith(fault.may_leave))]
        done = replace(done, processes=(*first.processes, *done.processes), files=(*files, *done.files))
        broken += ["a trace in the killed run"] * min(first.tracebacks, 1)
    if done.code not in GOOD_CODES:
        broken.append(f"exit code {done.code}: {done.err[-300:]}")
    lost, words = lost_or_doubled(planned, out)
    results = {one["case"]: one for one in reported(out)}
    for name, one in results.items():
        if name == case_id(fault) or not _blames(one, [fault]):
            broken += _wrong(one, fault.outcomes if name == case_id(fault) else ("passed",))
    return _whole(fault.family, repro, done, lost, [*broken, *words], [*results.values(), *written_lines(out)])


def each_alone(folder: Path, root: Path, faults: Sequence[Fault], seed: int, at_once: int) -> list[Try]:
    """Every fault in a run of its own, some runs at the same time."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(
            pool.map(lambda item: alone(folder / item[1].name, root, item[1], seed, 1 + item[0] % 3), enumerate(faults))
        )


def shared_faults() -> list[Fault]:
    """Those that leave the controller, the workers beside them and the code of their own alone."""
    return [fault for fault in everything().values() if not (fault.alone or fault.fresh or fault.lonely)]


def _blames(one: dict[str, Any], faults: Sequence[Fault]) -> bool:
    """What it failed for is one of these that leave what nobody can see, see promise 1 of docs/reference/trust.md."""
    unseen = [fault for fault in faults if fault.unseen]
    if any(f"only after {case_id(fault)}," in one["reason"] for fault in unseen):
        return True
    # Among others a flaky case could be flaky for any of them.
    return one["outcome"] == "flaky" and len(faults) == len(unseen)


def _bug(one: dict[str, Any] | None) -> int:
    return int(one is not None and ("bug of mluops-test" in one["reason"] or one.get("bug", False)))


def _wrong(one: dict[str, Any], outcomes: Sequence[str]) -> list[str]:
    found = []
    if one["outcome"] not in outcomes:
        found.append(f"{one['case']}: {one['outcome']} ({one['reason'][:120]}), may be {' or '.join(outcomes)}")
    if one["outcome"] == "passed" and not one["compared"]:
        found.append(f"{one['case']}: passed with nothing compared")
    if not all(len(one[key]) < 4 << 20 for key in ("reason", "output")):
        found.append(f"{one['case']}: a result without a limit")
    return found


def _whole(
    kind: str, repro: str, done: Finished, lost: int, broken: Sequence[str], results: Sequence[dict[str, Any]]
) -> Try:
    bugs = max(int(done.code == 70), *(_bug(one) for one in results), 0)
    return replace(done.as_try(kind, repro, lost, broken), bugs=bugs)
