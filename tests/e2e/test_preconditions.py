"""Files whose data the document does not define: the case is broken (exit 3), no backend has failed."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.codec.case_files.case import write_case
from mluops_gtest.content.selection import Selected
from mluops_gtest.generate.source import StoredCases

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
def broken_file(catalogue, tmp_path):
    """Writes a stored case with other values in one input, or with other parameters."""

    def write(case_id, tensor, edit, params):
        draft = catalogue.drafts[case_id]
        source = StoredCases(catalogue, (Selected(draft.id, draft.operator, draft.tags, draft=draft),))
        case = source.load(case_id)
        inputs = tuple(edited(t, edit) if t.id == tensor else t for t in case.inputs)
        path = tmp_path / "broken.prototxt"
        case = replace(case, inputs=inputs, params={**case.params, **params})
        write_case(case, catalogue.operators[case.operator], path, source.schema)
        return path

    return write


def repeat_site(sites):
    sites[4] = sites[1]


def repeat_input(pairs):
    pairs[1, 0, 3] = pairs[1, 0, 0]


def repeat_output(pairs):
    pairs[2, 1, 5] = pairs[2, 1, 2]


def turn_centre(pairs):
    pairs[4, 1] = np.roll(pairs[4, 1], 1)


def leave_alone(values):
    del values


@pytest.mark.parametrize(
    ("case", "tensor", "edit", "params", "words"),
    [
        (SITES, "indices", repeat_site, {}, "rows 1 and 4 of indices are the same site"),
        (SITES, "indices", leave_alone, {"num_act_out": 1000}, "rows for 1000"),
        (SHIFTED, "indices", repeat_site, {}, "rows 1 and 4 of indices are the same site"),
        (PAIRS, "indice_pairs", repeat_input, {}, "indice_pairs[1, 0] names row"),
        (PAIRS, "indice_pairs", repeat_output, {}, "indice_pairs[2, 1] names row"),
        (CENTRED, "indice_pairs", turn_centre, {}, "indice_pairs[4], must join each of the 6 rows to itself"),
        (CENTRED, "indice_pairs", leave_alone, {"indice_num": (4, 2, 0, 5, 5, 1, 3, 2, 4)}, "must join each"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_the_case_is_broken_whatever_the_backend_answers(run, broken_file, backend, case, tensor, edit, params, words):
    result = run(broken_file(case, tensor, edit, params), "--backend", backend)
    assert result.code == 3
    (told,) = result.results.values()
    assert told["outcome"] == "error"
    assert "the case is broken" in told["reason"]
    assert words in told["reason"]


def test_verify_says_so_too(cli, broken_file):
    result = cli("verify", broken_file(SITES, "indices", repeat_site, {}))
    assert result.code == 3
    assert "the case is broken: rows 1 and 4 of indices are the same site" in result.out


def test_the_centre_may_stand_in_any_order(run, broken_file):
    def reverse(pairs):
        pairs[4] = pairs[4, :, ::-1]

    assert run(broken_file(CENTRED, "indice_pairs", reverse, {})).code == 0
