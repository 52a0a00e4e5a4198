"""Slips of an operator's author: the message names the file and the line, what is wrong and what to do."""

import re
import shutil

import pytest

from tests.e2e.conftest import SUPPORT, replace_in

NAME = "row_sum"
# Of an operator in part files.
INIT, CHECKS, REFERENCE, RECIPES, KERNEL = ("__init__", "checks", "reference", "recipes", "kernel")


@pytest.fixture
def spoil(tmp_path):
    """A copy of the operator in which some text of a file is replaced; the root, and where the line stands."""

    def copy(part, right, wrong):
        root = tmp_path / "spoiled"
        shutil.copytree(SUPPORT / "folder_root", root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        path = root / "cases" / f"{NAME}.yaml" if part == "cases" else root / "generators" / NAME / f"{part}.py"
        text = path.read_text()
        assert right in text
        # What a slip needs beyond the names that the file imports already.
        path.write_text(
            text.replace(right, wrong).replace("    DType,\n", "    DType,\n    EnumSpec,\n    QueryChecks,\n")
        )
        return root, path

    return copy


def line_of(path, text):
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


# The part, what is replaced by what, a text of the line that the message names, and what it says.
WHEN_LOADED = {
    "two checks of one name": (
        CHECKS, "*descriptors_present(_TENSORS,", '*descriptors_present(("values", *_TENSORS),',
        "*descriptors_present(", r"two checks are called 'values_desc_null'\. Give each its own name",
    ),
    "a check of one's own whose name is taken": (
        CHECKS, '"output_dtype"', '"output_rank"', "require(", "two checks are called 'output_rank'",
    ),
    "two tensors of one name": (
        INIT, 'TensorSpec("segments"', 'TensorSpec("values"', 'TensorSpec("values"', "two tensors are called 'values'"
    ),
    "no criteria for a type": (
        INIT, "DType.HALF: diff1_and_diff2(3e-3)", "DType.HALF: ()", 'OutputSpec("output"',
        "no criteria for half. Add them"
    ),
    "no criteria at all": (
        INIT, "{DType.FLOAT: diff1_and_diff2(1e-5), DType.HALF: diff1_and_diff2(3e-3)}", "{}", 'OutputSpec("output"',
        r"has no criteria. Write {DType.FLOAT: diff1_and_diff2\(3e-3\)} or similar."
    ),
    "rows of no result": (
        INIT, "DType.HALF: diff1_and_diff2(3e-3)}", 'DType.HALF: diff1_and_diff2(3e-3)}, rows_owned="count"',
        'OutputSpec("output"', "owns the rows of 'count', which is neither a result nor another output. Known: none",
    ),
    "a size of an unknown tensor": (
        INIT, '"rows": SizedAxis("values", 0)', '"rows": SizedAxis("value", 0)', 'sizes={"rows"',
        "the size 'rows' is that of an unknown tensor 'value'. Did you mean 'values'?",
    ),
    "a query that makes an unknown check": (
        INIT, "    checks=CHECKS,", '    checks=CHECKS, queries={"askSize": QueryChecks(("handel_null",))},',
        '("handel_null",)', "the query askSize makes an unknown check 'handel_null'. Did you mean 'handle_null'?",
    ),
    "a query that is silent on nothing": (
        INIT, "    checks=CHECKS,", '    checks=CHECKS, queries={"askSize": QueryChecks(("arch",), ("output_rank",))},',
        '("output_rank",)', "the query askSize is silent on 'output_rank', which is none of its checks. Add it",
    ),
    "an unknown type of a parameter": (
        INIT, '"num_segments", 1, "int32"', '"num_segments", 1, "int"',
        'ParamField("num_segments"', "has the type 'int'. Did you mean 'int64'?",
    ),
    "an unknown label of a parameter": (
        INIT, '"int32", "required"', '"int32", "needed"', 'ParamField("num_segments"',
        "has the label 'needed'. Known: opt",
    ),
    "an enum without values": (
        INIT, '1, "int32"', '1, "enum"', 'ParamField("num_segments"', "is an enum without values. Add enum=EnumSpec",
    ),
    "a default that the enum does not have": (
        INIT, 'ParamField("num_segments", 1, "int32", "required")',
        'ParamField("num_segments", 1, "enum", default="THREE", enum=EnumSpec("Few", {"ONE": 1, "TWO": 2}))',
        'ParamField("num_segments"', "has the default 'THREE', which Few does not have. Known: ONE, TWO",
    ),
    "two parameters of one number": (
        INIT, '(ParamField("num_segments", 1, "int32", "required"),)',
        '(ParamField("num_segments", 1), ParamField("rest", 1))', 'ParamField("num_segments"',
        "have the number 1. Number them",
    ),
    "a name that is not there": (
        REFERENCE, "from mluops_gtest.authoring import Baseline", "from mluops_gtest.authoring import Basline",
        "import Basline", "the file does not load: ImportError: cannot import name 'Basline'",
    ),
    "a bracket that is not closed": (
        RECIPES, '"cancelling": cancelling}', '"cancelling": cancelling', "RECIPES:",
        "the file does not load: SyntaxError",
    ),
}  # fmt: skip

WHEN_GENERATED = {
    "a misspelt output": (
        REFERENCE, 'Baseline({"output"', 'Baseline({"ouput"',
        "def reference", "returns the output 'ouput', which the operator does not declare. Did you mean 'output'?",
    ),
    "no baseline": (REFERENCE, "    return Baseline", "    Baseline", "def reference", "returns None. Let it return"),
    "a wrong type of a baseline": (
        REFERENCE, "sums.astype(values.dtype)", "sums", "def reference",
        r"returns 'output' as float64, the call wants float. Round once at the end, by .astype\(call.tensor\('output",
    ),
    "a wrong shape of a baseline": (
        REFERENCE, '"output": sums', '"output": (sums.T if call.outputs else sums)', "def reference",
        r"returns 'output' with the shape \[3, 20\], the case row_sum/network_twin_float .* has \[20, 3\]\. Correct",
    ),
    "a wrong shape that a check refuses": (
        REFERENCE, '"output": sums', '"output": sums.T', 'checks.py:dim("output", 0',
        "but the operator's checks say BAD_PARAM .check output_dim0.: output must have num_segments rows",
    ),
    "a result that is not declared": (
        REFERENCE, "sums.astype(values.dtype)}", 'sums.astype(values.dtype)}, {"count": 3}', "def reference",
        "returns the scalar result 'count', which the operator does not declare",
    ),
    "a result that is missing": (
        INIT, '"required"),)', '"required"), ParamField("count", 2, result=True))', "reference.py:def reference",
        "does not return the scalar result 'count'. Add it to the Baseline",
    ),
    "a misspelt input": (
        RECIPES, 'RecipeOutput({"values"', 'RecipeOutput({"value"', "def scattered",
        "recipe 'scattered' makes the input 'value', which row_sum does not have. Did you mean 'values'?",
    ),
    "a missing input": (
        RECIPES, ', "segments": segments.astype("<i4")}', "}", "def scattered",
        "does not make the input 'segments'. Add"
    ),
    "a misspelt parameter": (
        RECIPES, '{"num_segments": 4, **params}', '{"num_segments": 4, "num_segment": 4, **params}', "def scattered",
        "makes the parameter 'num_segment', which row_sum does not have. Did you mean 'num_segments'?",
    ),
    "a missing parameter": (
        RECIPES, '"<i4")}, params)', '"<i4")}, {})', "def scattered",
        "does not make the parameter 'num_segments'. Add it",
    ),
    "a wrong type of an input": (
        RECIPES, 'segments.astype("<i4")', "segments", "def scattered",
        r"makes 'segments' as int64; it must be int32\. Write \.astype",
    ),
    "an input that is no array": (
        RECIPES, 'segments.astype("<i4")', "segments.tolist()", "def scattered",
        "makes 'segments' as list; it must be int32",
    ),
    "a recipe without a result": (
        RECIPES, "    return _output(_lattice(draw, dtype, rows", "    _output(_lattice(draw, dtype, rows",
        "def scattered", "recipe 'scattered' returns None. Let it return RecipeOutput",
    ),
    "a recipe that raises": (
        RECIPES, "_lattice(draw, dtype, rows, channels)", "_lattice(draw, dtype, row, channels)",
        "_lattice(draw, dtype, row, channels)",
        r"case row_sum/network_float: recipe 'scattered' .*NameError: name 'row' is not defined",
    ),
    "a reference that raises": (
        REFERENCE, 'call.array("segments")', 'call.array("segment")', 'call.array("segment")', r"KeyError: 'segment'",
    ),
    "a check that raises": (
        CHECKS, 'call.param("num_segments")', 'call.param("num_segment")', 'call.param("num_segment")',
        r"KeyError: 'num_segment' .*; raised by the check output_dim0",
    ),
    "a check before the one that it needs": (
        CHECKS, "    *descriptors_present(_TENSORS, \"§3\"),\n    rank(\"values\", 2, \"§2\"),",
        "    rank(\"values\", 2, \"§2\"),\n    *descriptors_present(_TENSORS, \"§3\"),", 'rank("values"',
        r"the descriptor of 'values' is null .*; raised by the check values_rank",
    ),
    "an argument that the recipe does not take": (
        "cases", "{recipe: scattered, rows: 160, ", "{recipe: scattered, row: 160, ", "recipes.py:def scattered",
        r"recipe 'scattered' \(.*recipes\.py:\d+\) takes no argument 'row'\. Did you mean 'rows'\?",
    ),
}  # fmt: skip


def assert_error_at(result, root, path, line, words):
    """Exit code 3, the words, and the place: the line with that text, in the spoiled file or in `file.py:text`."""
    assert result.code == 3, result.out + result.err
    assert re.search(words, result.err), result.err
    file, _, text = line.rpartition(".py:")
    place = root / "generators" / NAME / f"{file}.py" if file else path
    assert f"{place}:{line_of(place, text)}" in result.err, result.err


@pytest.mark.parametrize("way", WHEN_LOADED)
def test_a_slip_that_shows_when_the_operator_is_loaded(cli, spoil, way):
    part, right, wrong, line, words = WHEN_LOADED[way]
    root, path = spoil(part, right, wrong)
    assert_error_at(cli("ops", "--root", root), root, path, line, words)


@pytest.mark.slow
@pytest.mark.parametrize("way", WHEN_GENERATED)
def test_a_slip_that_shows_when_cases_are_generated(cli, spoil, way):
    part, right, wrong, line, words = WHEN_GENERATED[way]
    root, path = spoil(part, right, wrong)
    assert_error_at(cli("generate", "--all", "--root", root), root, path, line, words)


def test_a_slip_that_all_cases_show_is_told_once(cli, spoil):
    root, _ = spoil(REFERENCE, 'Baseline({"output"', 'Baseline({"ouput"')
    (line,) = cli("generate", "--all", "--root", root).err.splitlines()
    assert re.search(r"Known: output\. \(\d\d cases\)$", line)


def test_a_kernel_without_a_status(cli, run, spoil):
    root, path = spoil(KERNEL, "    return Status.SUCCESS if status is None else status", "")
    assert cli("generate", "--all", "--root", root).code == 0
    result = run("row_sum/rows_2", "--root", root).expect_code(1)
    place = f"{path}:{line_of(path, 'def kernel')}"
    assert (
        f"{place}: the kernel of row_sum returns None. Let it return a Status."
        in result.results["row_sum/rows_2"]["reason"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_a_reference_that_was_spoiled_after_its_cases_were_output(cli, run, spoil, backend):
    """Stored baselines are compared as they are; who asks the reference learns of the slip."""
    root, path = spoil(REFERENCE, "sums.astype(values.dtype)", "sums.astype(values.dtype)")
    assert cli("generate", "--all", "--root", root).code == 0
    spoil(REFERENCE, 'Baseline({"output"', 'Baseline({"ouput"')
    place = f"{path}:{line_of(path, 'def reference')}"
    result = run("row_sum/rows_2", "--root", root, "--backend", backend)
    told = result.results["row_sum/rows_2"]["reason"]
    assert result.code == (0 if backend == "numpy" else 1)
    assert (f"{place}: the reference of row_sum returns the output 'ouput'" in told) is (backend == "reference")
    assert place in cli("verify", "--all", "--root", root).out


# Suspects of an operator, and what is said of each.
SUSPECTS = {
    'lambda call: {"output": call.array("value")}': r"fails: KeyError: 'value' \(PLACE\)\. It must give outputs",
    'lambda call: call.array("values")': r"returns ndarray\. Let it return {output: array}\.",
    'lambda call: {"ouput": call.array("values")}': (
        r"names the output 'ouput', which the operator does not declare\. Did you mean 'output'\?"
    ),
    'lambda call: {"output": 0}': r"returns 0 as 'output'\. Return a numpy array\.",
    'lambda call: {"output": call.array("output")[:1]}': (
        r"returns 'output' with the shape \[1, \d+\], the call has \[\d+, \d+\]\."
    ),
}


def test_a_spoiled_suspect_costs_its_own_explanation_alone(cli, run, spoil):
    """A note names the operator, the suspect and its line; all else that is known of the failure is told."""
    lines = "".join(f'\n        "mistake {i}": {function},' for i, function in enumerate(SUSPECTS))
    root, path = spoil(INIT, "    recipes=RECIPES,", f"    recipes=RECIPES,\n    suspects={{{lines}\n    }},")
    assert cli("generate", "--all", "--root", root).code == 0
    replace_in(path.with_name("kernel.py"), "output[present] = ", "output[present] = 0 * ")
    result = run("row_sum/rows_63", "--root", root).expect_code(1)
    (case,) = result.results.values()
    for i, words in enumerate(SUSPECTS.values()):
        place = f"{path}:{line_of(path, f'mistake {i}')}"
        (note,) = (one for one in case["notes"] if f"mistake {i}" in one)
        assert note.startswith(f"{place}: the suspect 'mistake {i}' of row_sum ")
        assert re.search(words.replace("PLACE", re.escape(place)), note), note
    assert "all of output is zero" in result.out
    assert "a bug of mluops-test" not in str(result.report)
