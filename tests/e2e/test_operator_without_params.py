"""An operator without parameters goes through every door: the case schema has no message for it."""

import json
import shlex
import sys

import pytest

from tests.conftest import ROOT
from tests.support.native import compile_library, needs_gcc
from tests.support.toy_root import GENERATOR, write_toy_root

EXAMPLE = ROOT / "examples" / "c_backend"
C_API = '''
"""The C function."""

from mluops_gtest.authoring.c_api import HANDLE, CFunction, CSignature, tensor

C_API = (CSignature(CFunction("mluOpScaleBy", (HANDLE, *tensor("x", "y")))),)
'''
LIBRARY = """
#include "checks.h"
#include "scale_by.h"

mluOpStatus_t mluOpScaleBy(mluOpHandle_t handle, const mluOpTensorDescriptor_t x_desc, const void *x,
                           const mluOpTensorDescriptor_t y_desc, void *y) {
    if (handle == NULL || x_desc == NULL || y_desc == NULL || x_desc->rank != 1) return MLUOP_STATUS_BAD_PARAM;
    for (int64_t i = 0; i < element_count(x_desc); i++) ((float *)y)[i] = 2 * ((const float *)x)[i];
    return MLUOP_STATUS_SUCCESS;
}
"""
PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
for line in sys.stdin:
    folder = Path(line.rstrip("\\n"))
    call = json.loads((folder / "call.json").read_text())
    x, y = call["tensors"]
    status = 0 if len(x["descriptor"]["dims"]) == 1 else 3
    if status == 0 and call["params"] == {} and 0 not in x["descriptor"]["dims"]:
        (np.fromfile(folder / x["data"], "<f4") * 2).tofile(folder / y["data"])
    (folder / "result.json").write_text(json.dumps({"status": status}))
    print("done", flush=True)
"""


@pytest.fixture
def root(cli, tmp_path):
    """The toy operator with its factor fixed at 2, generated."""
    bare = GENERATOR.replace('call.param("factor")', "2").replace('{"factor": 2, **params}', "params")
    bare = bare.replace(
        '    params=ParamMessage("scale_param", 9001, "ScaleParam", (ParamField("factor", 1, default=2),)),\n', ""
    )
    assert "factor" not in bare
    folder = write_toy_root(tmp_path / "bare", parts={"__init__": bare, "c_api": C_API})
    cli("generate", "--all", "--root", folder).expect_code(0)
    assert cli("generate", "--all", "--check", "--root", folder).code == 0
    return folder


def test_files_and_lock_hold_no_parameters(cli, root, tmp_path):
    assert "param" not in (root / "prototxt" / "scale_by" / "ramp_3.prototxt").read_text()
    lock = (root / "prototxt" / "scale_by" / "baselines.lock").read_text().splitlines()
    assert all(json.loads(line).get("params", {}) == {} for line in lock)
    binary = tmp_path / "binary"
    assert cli("convert", root / "prototxt" / "scale_by", binary, "--root", root).code == 0
    assert cli("run", binary, "--root", root).code == 0
    assert cli("verify", "--all", "--root", root).code == 0
    assert cli("export", "--tag", "boundary", "--out", tmp_path / "released", "--root", root).code == 0
    schema = cli("schema", "--root", root).out
    assert "SCALE = 9999" in schema
    assert "scale_param" not in schema


def test_it_is_listed_and_shown(cli, root):
    page = cli("ops", "scale_by", "--root", root)
    assert "no parameters" in page.lines
    assert cli("show", "scale_by/ramp_3", "--root", root).code == 0
    listed = json.loads(cli("list", "--format", "json", "--root", root).out)
    assert {json.dumps(case["params"]) for case in listed} == {"{}"}


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_it_runs_and_is_reported(cli, run, root, backend, tmp_path):
    result = run("--all", "--root", root, "--backend", backend, "--reseed", "3").expect_code(0)
    assert set(result.report["summary"]) == {"passed"}
    for form in ("html", "markdown", "text", "junit", "ctrf"):
        assert cli("report", result.folder, "--format", form, "-o", tmp_path / form).code == 0


@pytest.mark.slow
def test_a_program_gets_no_parameters(run, root, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    run(
        "--all", "--root", root, "--backend", f"exec:{shlex.join([sys.executable, str(program)])}", "--serve"
    ).expect_code(0)


class TestWithGcc:
    pytestmark = needs_gcc

    @pytest.mark.slow
    def test_a_c_function_takes_none(self, cli, run, root, tmp_path):
        (tmp_path / "scale_by.h").write_text(cli("ops", "scale_by", "--c", "--root", root).out)
        source = tmp_path / "scale_by.c"
        source.write_text(LIBRARY)
        common = [EXAMPLE / name for name in ("handle.c", "descriptors.c", "checks.c")]
        library = compile_library(tmp_path / "lib.so", source, *common, flags=(f"-I{EXAMPLE}", f"-I{tmp_path}"))
        result = run("--all", "--root", root, "--backend", f"c:{library}").expect_code(0)
        assert set(result.report["summary"]) == {"passed"}


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("params: {factor: 2}", "unknown parameter 'factor'. Known: none"),
        ("change: {params: {factor: 2}}", "unknown parameter 'factor'. Known: none"),
    ],
)
def test_a_case_cannot_give_it_parameters(cli, root, declared, told):
    with (root / "cases" / "scale_by.yaml").open("a") as file:
        file.write(f'- {{name: more, tags: [random], doc: "§1", data: {{recipe: ramp, count: 3}}, {declared}}}\n')
    cli("generate", "--all", "--root", root).expect_error(3, told)
