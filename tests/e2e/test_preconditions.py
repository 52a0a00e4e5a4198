"""Files whose data the document does not define: skipped, with --strict an error (exit 3); no backend has failed."""

from dataclasses import replace

import numpy as np
import pytest

import mluops_gtest as mt
from mluops_gtest.casefiles.writer import write_case
from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases

SITES, SHIFTED = "get_indice_pairs/valid_default", "get_indice_pairs/valid_sub_m"
PAIRS, CENTRED = (
    "indice_convolution_backward_data/every_pair_used",
    "indice_convolution_backward_data/sub_m_like_default_1",
)


def edited(tensor, edit):
    values = np.array(tensor.values)
    edit(values)
    return replace(tensor, data=values.reshape(-1))


@pytest.fixture
def rewritten(catalogue, tmp_path):
    """Writes a stored case as `change` makes it."""

    def write(case_id, change):
        draft = catalogue.drafts[case_id]
        source = StoredCases(catalogue, (Selected(draft.id, draft.operator, draft.tags, draft=draft),))
        path = tmp_path / "broken.prototxt"
        write_case(change(source.load(case_id)), catalogue.operators[draft.operator], path, source.schema)
        return path

    return write


@pytest.fixture
def broken_file(rewritten):
    """Writes a stored case with other values in one input, or with other parameters."""

    def write(case_id, tensor, edit, params):
        def change(case):
            inputs = tuple(edited(t, edit) if t.id == tensor else t for t in case.inputs)
            return replace(case, inputs=inputs, params={**case.params, **params})

        return rewritten(case_id, change)

    return write


def repeat_site(sites):
    sites[4] = sites[1]


def repeat_input(pairs):
    pairs[1, 0, 3] = pairs[1, 0, 0]


def repeat_output(pairs):
    pairs[2, 1, 5] = pairs[2, 1, 2]


def roll_centre(pairs):
    pairs[4, 1] = np.roll(pairs[4, 1], 1)


def leave_alone(values):
    del values


@pytest.mark.parametrize(
    ("case", "tensor", "edit", "params", "words"),
    [
        (SITES, "indices", repeat_site, {}, "indices has one position twice, at [1] and [4]"),
        (SHIFTED, "indices", repeat_site, {}, "indices has one position twice, at [1] and [4]"),
        (PAIRS, "indice_pairs", repeat_input, {}, "indice_pairs[1, 0] names row"),
        (PAIRS, "indice_pairs", repeat_output, {}, "indice_pairs[2, 1] names row"),
        (CENTRED, "indice_pairs", roll_centre, {}, "indice_pairs[4], must join each of the 6 rows to itself"),
        (CENTRED, "indice_pairs", leave_alone, {"indice_num": (4, 2, 0, 5, 5, 1, 3, 2, 4)}, "must join each"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_no_backend_is_held_to_it(run, broken_file, backend, case, tensor, edit, params, words):
    path = broken_file(case, tensor, edit, params)
    # Exit 5: nothing was compared.
    result = run(path, "--backend", backend)
    (told,) = result.results.values()
    assert (result.code, told["outcome"], told["compared"]) == (5, "skipped", False)
    (cause,) = told["causes"]
    assert (cause["kind"], cause["operator"]) == ("undefined_call", case.partition("/")[0])
    assert words in cause["text"]
    strict = run(path, "--backend", backend, "--strict")
    (told,) = strict.results.values()
    assert (strict.code, told["outcome"]) == (3, "error")
    assert "the case is broken, no backend can be held to it: " in told["reason"]
    assert words in told["reason"]
    assert told["repro"].endswith(" --strict")


def test_a_stored_count_of_more_rows_than_there_are_is_an_error_of_the_file(run, broken_file):
    result = run(broken_file(SITES, "indices", leave_alone, {"num_act_out": 1000}))
    (told,) = result.results.values()
    assert (result.code, told["outcome"]) == (3, "error")
    assert "rows for 1000" in told["reason"]


def test_what_only_the_reference_finds_out_is_undefined_too(run, rewritten):
    def shorten(case):
        bare = [replace(t, data=None) for t in case.outputs]
        bare[0] = replace(bare[0], desc=replace(bare[0].desc, dims=(3, 4)))
        return replace(case, outputs=tuple(bare), baseline_stored=False, params={**case.params, "num_act_out": None})

    path = rewritten(SITES, shorten)
    (told,) = run(path).results.values()
    assert told["outcome"] == "skipped"
    assert told["reason"] == "get_indice_pairs does not define this call: out_indices has 3 rows for 28 output sites"
    assert run(path, "--strict").code == 3


def test_verify_bench_diff_and_python_say_the_same(cli, broken_file):
    path = broken_file(SITES, "indices", repeat_site, {})
    site = "indices has one position twice, at [1] and [4]"
    words = f"get_indice_pairs does not define this call: {site}"
    result = cli("verify", path).expect_code(5)
    assert result.lines == [f"skipped {path}: {words}", "0 verified, 0 differ, 1 skipped"]
    cli("verify", path, "--strict").expect_output(3, f"the case is broken, no backend can be held to it: {site}")
    for command in (["bench", path, "--backend", "numpy", "--backend", "reference"], ["diff", path, "-b", "numpy"]):
        result = cli(*command).expect_code(5)
        assert words in " ".join(result.out.split())
        assert cli(*command, "--strict").code == 3
    assert mt.run(str(path)).exit_code == 5
    assert mt.run(str(path), strict=True).exit_code == 3


def test_the_centre_may_stand_in_any_order(run, broken_file):
    def reverse(pairs):
        pairs[4] = pairs[4, :, ::-1]

    assert run(broken_file(CENTRED, "indice_pairs", reverse, {})).code == 0
