"""The programs of examples/exec_backend through every case of their operator."""

import json
import re
import shlex
import subprocess
import sys

import pytest

from mluops_gtest.backends.exec_backend import ExecBackend
from mluops_gtest.casefiles.writer import CallFolderWriter
from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from tests.conftest import ROOT
from tests.support.native import needs_gcc

EXAMPLES = ROOT / "examples" / "exec_backend"
PAGE = ROOT / "docs" / "reference" / "backends.md"
PYTHON = shlex.join([sys.executable, str(EXAMPLES / "masked_im2col.py")])


@pytest.fixture(scope="module")
def voxel_pooling(tmp_path_factory):
    """The C example, compiled; every warning is an error, and so is every slip that the sanitizers see."""
    program = tmp_path_factory.mktemp("exec") / "voxel pooling"
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover=all"]
    command = ["gcc", "-std=c11", "-O2", *strict, "-o", str(program), str(EXAMPLES / "voxel_pooling.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return shlex.quote(str(program))


@pytest.fixture
def outcomes(catalogue):
    """Runs the declared cases that a filter takes; answers what is to be seen of each."""

    def run(command, serve, takes):
        # Only what is committed: to make the large ones costs more than to run them.
        stored = (draft for draft in catalogue.drafts.values() if catalogue.stored_path(draft.id).exists())
        drafts = [draft for draft in stored if takes(draft)]
        source = StoredCases(catalogue, tuple(Selected(d.id, d.operator, d.tags, draft=d) for d in drafts))
        backend = ExecBackend(command, CallFolderWriter(catalogue.operators), serve)
        executor = CaseRun(InlineCaller(backend), Options(bitwise=True))
        results = [executor.run_case(source.load(d.id), catalogue.operators[d.operator]) for d in drafts]
        backend.close()
        return {result.case: (result.outcome.value, result.reason) for result in results}

    return run


def of(operator, *tags):
    """All cases of an operator whose result is defined, or those with one of the tags."""
    return lambda draft: (
        draft.operator == operator
        and "undefined" not in draft.tags
        and (not tags or not set(tags).isdisjoint(draft.tags))
    )


@pytest.fixture
def command(request):
    """The words of the example in that language."""
    return PYTHON if request.param == "python" else request.getfixturevalue("voxel_pooling")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "operator", "serve", "tags", "least"),
    [
        pytest.param("c", "voxel_pooling_forward", True, (), 200, marks=needs_gcc),
        pytest.param("c", "voxel_pooling_forward", False, ("smoke", "negative"), 50, marks=needs_gcc),
        ("python", "masked_im2col_forward", True, (), 200),
        ("python", "masked_im2col_forward", False, ("smoke",), 0),
    ],
    indirect=["command"],
)
def test_the_examples_pass(command, outcomes, operator, serve, tags, least):
    found = outcomes(command, serve, of(operator, *tags))
    assert len(found) > least
    assert found == dict.fromkeys(found, ("passed", ""))


@pytest.mark.parametrize("command", [pytest.param("c", marks=needs_gcc), "python"], indirect=True)
def test_the_examples_decline_what_they_do_not_offer(command, outcomes):
    found = outcomes(command, True, of("dynamic_scatter_backward", "smoke"))
    assert set(found.values()) == {("skipped", "declined: no kernel for dynamic_scatter_backward")}


def test_the_page_shows_what_the_harness_writes(catalogue, tmp_path):
    """Its call.txt and call.json are those of the case it names."""
    _, _, text = PAGE.read_text(encoding="utf-8").partition("## Any program")
    case_id = re.search(r"`(voxel_pooling_forward/\w+)`", text)[1]
    shown = dict(reversed(re.findall(r"```(json|text)\n(.*?)```", text, re.DOTALL)))  # the first of each
    draft = catalogue.drafts[case_id]
    source = StoredCases(catalogue, (Selected(draft.id, draft.operator, draft.tags, draft=draft),))
    script = tmp_path / "keep.sh"
    script.write_text(f'cp "$1"/call.* {shlex.quote(str(tmp_path))}\n')
    backend = ExecBackend(f"sh {shlex.quote(str(script))}", CallFolderWriter(catalogue.operators))
    CaseRun(InlineCaller(backend), Options()).run_case(source.load(case_id), catalogue.operators[draft.operator])
    assert json.loads(shown["json"]) == json.loads((tmp_path / "call.json").read_text())
    assert shown["text"] == (tmp_path / "call.txt").read_text()
