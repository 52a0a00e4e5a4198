"""What fuzzing draws for each operator: the kernels answer as the references say, no call contradicts a proof, and
nothing is drawn that documents leave open."""

from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.call import Status
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.mutants import can_be_written
from mluops_gtest.search.symbolic_call import never_written

OPERATORS = load_operators(Path(__file__).parents[2])
# CI draws other calls than the benchmarks.
SEED, CASES = 1, 200
# Their documents ask for equality.
COPYING = {"dynamic_scatter_backward", "get_indice_pairs", "masked_col2im_forward", "masked_im2col_forward"}
# Their documents exclude NaN and Inf, or do not speak of them.
FINITE = {
    "dynamic_scatter_backward",
    "indice_convolution_backward_data",
    "indice_convolution_backward_filter",
    "indice_convolution_forward",
}
# The tensors whose layouts documents have checked, and what else is a layout of a tensor's own.
CHECKED = {
    "indice_convolution_backward_data": {"filters"},
    "indice_convolution_forward": {"filters"},
    "masked_col2im_forward": {"im"},
    "masked_im2col_forward": {"feature"},
    "three_interpolate_backward": {"grad_output", "indices", "weights", "grad_features"},
    "three_interpolate_forward": {"features", "indices", "weights", "output"},
}
OWN = {"indice_convolution_backward_filter": {"filters_grad": {"ARRAY", "HWCN"}}}
DEVICES = {None, 200, 220, 270, 290, 370, 590}


def test_cases_name_devices_that_documents_name(catalogue):
    assert [draft.id for draft in catalogue.drafts.values() if draft.expect.arch not in DEVICES] == []


def is_defined(name, case):
    """What the document of the operator asks of the numbers of a call that computes."""
    floats = {tensor.id: tensor.values for tensor in case.tensors if tensor.desc.dtype.is_float}
    if name in FINITE and not all(np.isfinite(values).all() for values in floats.values()):
        return False
    if name == "dynamic_point_to_voxel_forward" and case.params["reduce_type"] == 2:
        valid = (case.tensor("coors").values >= 0).all(axis=1)
        if np.isnan(floats["feats"][valid]).any():
            return False
    tiny = np.finfo(np.float32).smallest_normal
    singles = [values for values in floats.values() if values.dtype == np.float32]
    return name in COPYING or not any(((values != 0) & (np.abs(values) < tiny)).any() for values in singles)


def check_layouts(name, operator, case):
    """A tensor has a layout of its own, or a check refuses the call."""
    for spec in operator.tensors:
        own = OWN.get(name, {}).get(spec.id, {layout.value for layout in spec.layouts})
        if spec.id not in case.expect.null_descriptor and case.tensor(spec.id).desc.layout.value not in own:
            assert spec.id in CHECKED.get(name, ())
            assert case.expect.status is not Status.SUCCESS


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_drawn_calls_are_answered_as_by_the_reference_and_leave_nothing_open_and_contradict_no_proof(name):
    """All in one test: to draw takes most of its time."""
    operator, space = OPERATORS[name], OPERATORS.part(name, SPACE)
    assert space is not None, "every operator can be fuzzed"
    draws = Draws(operator, space, SEED)
    options = Options(elementwise=True, bounds_alone=True)
    executor = CaseRun(InlineCaller(Implementation(name, operator.kernel)), options)
    computed = 0
    with np.errstate(all="ignore"):
        drawn = [one for one in map(draws.draw, range(CASES)) if one is not None]
        for one in drawn:
            case = one.case
            result = executor.run_case(case, operator)
            assert result.outcome is Outcome.PASSED, f"{case.id} {one.faults}: {result.reason}"
            assert case.expect.arch in DEVICES, case.id
            check_layouts(name, operator, case)
            if operator.computes(case.expect.status, case.expect.check):
                computed += 1
                assert is_defined(name, case), f"{case.id} {one.faults}"
    assert len(drawn) > 0.9 * CASES, "few draws are passed over"
    assert computed > 0.4 * CASES, "most calls compute"
    assert len({one.case.expect.check for one in drawn}) > 20, "and the others reach many checks"
    unwritable = {check.name for check in operator.checks if check.subsumed is None and never_written(operator, check)}
    refused = [one.case for one in drawn if one.case.expect.check in unwritable]
    assert not any(map(can_be_written, refused)), "proved: no call that these checks answer has an output to write to"
    assert refused or not unwritable, "and some proof is put to the test"
