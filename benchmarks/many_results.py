"""Commands that read results, on many of them: `python -m benchmarks many-results`.

Each is a process of its own, beside `python -c "import numpy, click"` on 10 000 results; on 100 000 its memory is held
against 500 MB and its processor time per result against that of 10 000. Results are those of a real run with planted
mistakes, copied under other names with other sizes, readings and times: one in eight has failed and is explained.
`many-results/page` is the time until a browser shows the first screen of the page of 100 000 results.
"""

import atexit
import contextlib
import hashlib
import io
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count, islice
from pathlib import Path

from benchmarks.processes import IMPORTS, Commands, ProcessUsage, commands
from benchmarks.rows import Goal, Rounds, Row
from mluops_gtest.cli.main import run_main
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.folder import ResultsFolder, read_report
from mluops_gtest.results.writer import write_results

BACKEND = '''\
import numpy as np

import mluops_gtest as mt


class Mistaken(mt.NumpyBackend):
    """Right but for a mistake in each of three operators, one type that it declines, and a printed line."""

    name = "mistaken"

    def run(self, call):
        inputs = [one for one in call.inputs.values() if one is not None]
        if call.operator == "masked_im2col_forward" and any(one.dtype.value == "half" for one in inputs):
            raise mt.Declined("half is not built")
        status = super().run(call)
        outputs = {name: one.array for name, one in call.outputs.items() if one is not None}
        if status is not mt.Status.SUCCESS or any(array is None or not array.size for array in outputs.values()):
            return status
        if call.operator == "voxel_pooling_forward":
            outputs["output_features"][..., 8:] = 0
        elif call.operator == "three_interpolate_forward" and inputs[0].dtype.value == "half":
            (output,) = outputs.values()
            output[-1] *= -1
            print("three_interpolate: half path")
        elif call.operator == "ball_query":
            idx = outputs["idx"]
            idx[..., 4:] = 0
        return status


backend = Mistaken()
'''
OPERATORS = ("voxel_pooling_forward", "three_interpolate_forward", "ball_query", "masked_im2col_forward")
TIMED = "three_nn_forward"
PEER = "import numpy, click"
MANY, VERY_MANY = 10_000, 100_000
LARGEST = "500 MB"
SCREEN = "2 s"
# The name of the row: the words of the command. RUN and BEFORE are results folders, OUT is a file, NEW is a database.
COMMANDS = {
    "html": ("report", "RUN", "--format", "html", "-o", "OUT"),
    "gate": ("gate", "RUN", "--against", "BEFORE"),
    "merge": ("merge", "RUN", "--out", "OUT-merged", "--overwrite"),
    "history-add": ("history", "add", "RUN", "--db", "NEW"),
    "explain": ("explain", "RUN"),
}


def sample(folder: Path) -> RunReport:
    """A real run: passed, failed with explanations, negative and declined cases, and one operator with times."""
    (folder / "mistaken.py").write_text(BACKEND)
    small = ["-k", "not network and not 65537", "--shard", "1/5"]
    common = [*small, "--backend", str(folder / "mistaken.py"), "--no-isolate", "-q"]
    parts = {
        "plain": [word for operator in OPERATORS for word in ("--op", operator)],
        "timed": ["--op", TIMED, "--perf", "--samples", "30"],
    }
    for name, arguments in parts.items():
        with contextlib.redirect_stdout(io.StringIO()):
            run_main(["run", *arguments, *common, "--out", str(folder / name), "--overwrite"])
    plain, timed = (read_report(folder / name) for name in parts)
    return replace(plain, results=(*plain.results, *timed.results), shapes={**plain.shapes, **timed.shapes})


def copies(results: tuple[CaseResult, ...]) -> Iterator[CaseResult]:
    """The results without end, each time under other names, with other sizes of inputs, readings and times."""
    for number in count():
        for one in results:
            yield _copy(one, number)


def _copy(one: CaseResult, number: int) -> CaseResult:
    case = f"{one.case}_{number}"
    # Between 1/2 and 1, the same for the same case: passed readings stay within.
    factor = 0.5 + int(hashlib.sha256(case.encode()).hexdigest()[:6], 16) / 2**25
    larger = tuple(replace(tensor, dims=(tensor.dims[0] + number, *tensor.dims[1:])) for tensor in one.info.inputs)
    perf = one.perf and replace(one.perf, samples_ns=tuple(round(ns * factor) for ns in one.perf.samples_ns))
    return replace(
        one,
        case=case,
        readings=tuple(replace(reading, value=reading.value * factor) for reading in one.readings),
        seconds=one.seconds * factor,
        repro=one.repro.replace(one.case, case),
        fingerprint=one.fingerprint and f"v1:{hashlib.sha256(case.encode()).hexdigest()[:12]}",
        perf=perf,
        info=replace(one.info, inputs=larger, doc=f"{one.info.doc} ({number})"),
    )


def make_folder(folder: Path, real: RunReport, number: int, *, earlier: bool = False) -> Path:
    """A results folder with so many results; of an earlier run one in twenty has other readings."""
    results = sorted(islice(copies(real.results), number), key=lambda result: result.case)
    if earlier:
        results[::20] = map(_less, results[::20])
    report = replace(real, results=tuple(results), selection={**real.selection, "shard": None, "cases": number})
    with ResultsFolder.new(folder, overwrite=True, advice="") as claimed:
        write_results(claimed, report)
    return folder


def _less(one: CaseResult) -> CaseResult:
    return replace(one, readings=tuple(replace(reading, value=reading.value * 0.9) for reading in one.readings))


@cache
def _folder() -> Path:
    kept = tempfile.TemporaryDirectory()
    atexit.register(kept.cleanup)
    return Path(kept.name)


@cache
def _real() -> RunReport:
    return sample(_folder())


@cache
def places(number: int) -> dict[str, str]:
    """What the words of the commands stand for, with so many results."""
    folder = _folder() / str(number)
    folder.mkdir()
    run = make_folder(folder / "run", _real(), number)
    before = make_folder(folder / "before", _real(), number, earlier=True)
    named = {"RUN": run, "BEFORE": before, "NEW": folder / "new.sqlite", "OUT": folder / "out"}
    return {word: str(path) for word, path in named.items()}


def measure_command(python: Commands, name: str, number: int) -> ProcessUsage:
    known = places(number)
    Path(known["NEW"]).unlink(missing_ok=True)
    # What failed has failed: gate and merge say so with 1.
    return python.ours(*(known.get(word, word) for word in COMMANDS[name]), right=(0, 1))


_KEPT: defaultdict[tuple[str, str], list[tuple[ProcessUsage, ProcessUsage]]] = defaultdict(list)


def both(
    what: str, name: str, take: Callable[[], tuple[ProcessUsage, ProcessUsage]]
) -> Iterator[tuple[ProcessUsage, ProcessUsage]]:
    """Rounds of two commands; those that another row has taken of the same command are not taken again."""
    kept = _KEPT[what, name]
    for number in count():
        if number == len(kept):
            kept.append(take())
        yield kept[number]


def against_imports(name: str, cpu: bool) -> Rounds:
    with commands() as python:
        rounds = both(PEER, name, lambda: (measure_command(python, name, MANY), python.take(*IMPORTS)))
        next(rounds)
        for ours, peer in rounds:
            if cpu:
                yield {"ours": ours.cpu_seconds, PEER: peer.cpu_seconds}
            else:
                yield {"ours": ours.seconds, PEER: peer.seconds}


def grown(python: Commands, name: str) -> Iterator[tuple[ProcessUsage, ProcessUsage]]:
    """The command on many and on very many results."""
    return both("growth", name, lambda: (measure_command(python, name, MANY), measure_command(python, name, VERY_MANY)))


def memory(name: str) -> Rounds:
    with commands() as python:
        for _, very_many in grown(python, name):
            yield {"ours": very_many.peak_bytes, LARGEST: 500e6}


def growth(name: str) -> Rounds:
    """Processor seconds per 10 000 results."""
    with commands() as python:
        for many, very_many in grown(python, name):
            yield {"ours": very_many.cpu_seconds * MANY / VERY_MANY, f"of {MANY}": many.cpu_seconds}


def first_screen() -> Rounds:
    """Seconds from the navigation until the first screen is made, in headless Chromium."""
    from tests.support.chromium import Chromium

    page = _folder() / "page.html"
    with contextlib.redirect_stdout(io.StringIO()):
        run_main(["report", places(VERY_MANY)["RUN"], "-o", str(page)])
    seen = (
        "new Promise((done) => { const look = () => { const [mark] = performance.getEntriesByName('first screen');"
        " if (mark) done(mark.startTime); else setTimeout(look, 10); }; look(); })"
    )
    with tempfile.TemporaryDirectory() as folder:
        browser = Chromium(Path(folder))
        try:
            browser.window(1400, 900)
            while True:
                browser.open(page.as_uri())
                yield {"ours": browser.value(seen) / 1e3, SCREEN: 2.0}
        finally:
            browser.close()


def rows() -> Iterator[Row]:
    for name, words in COMMANDS.items():
        what, goals = f"`mluops-test {' '.join(words)}`", (Goal(PEER, 10),)
        yield Row(f"many-results/{name}", what, lambda name=name: against_imports(name, cpu=False), goals)  # type: ignore[misc]
        yield Row(f"many-results/{name}/cpu", what, lambda name=name: against_imports(name, cpu=True), goals)  # type: ignore[misc]
        largest = (Goal(LARGEST, 1),)
        yield Row(f"many-results/{name}/memory", what, lambda name=name: memory(name), largest, unit="B")  # type: ignore[misc]
        # Results of a large file are read again for each pass over them, so that they need not be held.
        linear = (Goal(f"of {MANY}", 2),)
        yield Row(f"many-results/{name}/growth", what, lambda name=name: growth(name), linear)  # type: ignore[misc]
    yield Row("many-results/page", "first screen of 100 000 results in Chromium", first_screen, (Goal(SCREEN, 1),))
