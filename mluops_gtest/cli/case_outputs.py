"""The outputs of one case, from a call that is made now or from what a run saved, and their files for other tools."""

import shlex
from pathlib import Path

import numpy as np

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.files import replace_text
from mluops_gtest.catalog.root import root_words
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.core.case import Case
from mluops_gtest.core.result import CaseResult
from mluops_gtest.judging.blocks import widened
from mluops_gtest.results.folder import read_done, read_request, request_source
from mluops_gtest.results.saved_outputs import read_outputs, write_npy
from mluops_gtest.running.callers import open_callers
from mluops_gtest.running.case_run import Executor, Options
from mluops_gtest.running.options import RunOptions
from mluops_gtest.running.outputs import CaseOutputs, judged_again

SCRIPT = "look.py"


def run_now(session: Session, request: RunOptions, name: str) -> tuple[Case, CaseResult, CaseOutputs | None]:
    """Run the case as a run does; without outputs where the call did not answer, or had nothing to compute."""
    chosen = session.select_one(name)
    case = load(session, request, chosen)
    seen: list[CaseOutputs] = []

    def keep(outputs: CaseOutputs) -> None:
        # The buffers go with the worker.
        arrays = {name: np.array(array) for name, array in outputs.arrays.items()}
        seen.append(
            CaseOutputs(
                outputs.case, outputs.operator, outputs.expectation, outputs.result, arrays, dict(outputs.scalars)
            )
        )

    with open_callers(request, session.catalogue) as (caller, *_):
        executor = Executor(caller, Options(timeout=request.timeout, strict=request.strict), keep)
        result = executor.execute(case, session.catalogue.operators.get(case.operator))
    return case, result, seen[-1] if seen else None


def recorded(folder: Path, outputs: CaseOutputs) -> str:
    """The run's own verdict if it differs from the verdict on the values alone; else empty."""
    result = read_done(folder).get(outputs.case.id)
    if result is None or result.outcome is outputs.result.outcome:
        return ""
    return f"the run itself: {result.outcome.value}: {result.reason}"


def from_results(session: Session, request: RunOptions, name: str, folder: Path) -> CaseOutputs:
    """The outputs that a run saved for the case, judged again."""
    case = load(session, request, session.select_one(name))
    operator = session.catalogue.operators.get(case.operator)
    saved = None if operator is None else read_outputs(folder, case)
    if operator is None or saved is None:
        now = shlex.join(["mluops-test", "diff", case.id, *_diff_options(request)])
        raise UsageError(
            f"{folder}: no outputs of {case.id}. `run --save-outputs failed` keeps those of cases that fail and "
            f"answer, `--save-outputs all` those of all that compute; `{now}` runs the case now."
        )
    return judged_again(case, operator, *saved)


def _diff_options(request: RunOptions) -> list[str]:
    """What `diff CASE` needs to run the case as that run did."""
    options = ["--backend", request.backend, *root_words(request.roots)]
    for name, value in (("--runtime", request.runtime), ("--reseed", request.reseed)):
        options += [] if value is None else [name, str(value)]
    flags = (
        ("--serve", request.serve),
        ("--isolate", request.isolate is True),
        ("--no-isolate", request.isolate is False),
    )
    return options + [name for name, given in flags if given]


def load(session: Session, request: RunOptions, chosen: Selected) -> Case:
    """The case with the values that the request asks for."""
    source = session.source(
        (chosen,), strict=request.strict, allow_outside_paths=request.allow_outside_paths, reseed=request.reseed
    )
    return source.load(chosen.id)


def read_run(folder: Path) -> RunOptions:
    """The request of the run that wrote this folder."""
    return RunOptions.from_json(read_request(folder, "--from"), request_source(folder))


def save(folder: Path, case: Case, outputs: CaseOutputs | None) -> list[str]:
    """Inputs, got and expected as .npy files and a script that loads them; the names of the files."""
    files = {f"{t.id}.npy": (t.values, t.desc.dtype) for t in case.inputs if t.data is not None}
    if outputs is not None:
        # Only the rows that are compared.
        compared = {pair.tensor.id: (pair.got, pair.expected) for pair in outputs.pairs()}
        for tensor in outputs.expectation.outputs:
            sides = compared.get(tensor.id, (outputs.arrays[tensor.id], tensor.values))
            for side, array in zip(("got", "expected"), sides, strict=True):
                files[f"{tensor.id}.{side}.npy"] = (array, tensor.desc.dtype)
    for name, (array, dtype) in files.items():
        write_npy(folder / name, widened(array, dtype))
    if outputs is None:
        return [*files]
    worst = outputs.result.worst
    replace_text(folder / SCRIPT, _script(outputs.expectation.outputs[0].id if worst is None else worst.output))
    return [*files, SCRIPT]


def _script(output: str) -> str:
    """Five lines that load an output and print its worst element."""
    return f"""import numpy as np, pathlib
got, expected = (np.load(pathlib.Path(__file__).with_name(f"{output}.{{side}}.npy")) for side in ("got", "expected"))
error = np.where((got == expected) | np.isnan(got) & np.isnan(expected), 0, np.abs(got - expected.astype("c16")))
worst = np.unravel_index(np.argmax(np.nan_to_num(error, nan=np.inf)), error.shape)
print(f"{output}{{[int(i) for i in worst]}} = {{got[worst]}}, expected {{expected[worst]}}, error {{error[worst]}}")
"""
