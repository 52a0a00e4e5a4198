"""Every operator on drawn calls: reference, kernel and literal definition agree, all checks are asked in order, and
nothing is drawn that documents leave open."""

import numpy as np
import pytest

from generators.ball_query import mutants as row_by_row
from generators.get_indice_pairs import mutants as step_by_step
from generators.masked_col2im_forward import mutants as pixel_copy
from generators.masked_im2col_forward import mutants as window_copy
from generators.three_interpolate_backward.mutants import variant as backward_variant
from generators.three_interpolate_forward.mutants import variant as forward_variant
from generators.three_nn_forward.mutants import search
from generators.voxel_pooling_forward import mutants as point_by_point
from mluops_gtest.catalog.check_order import EMPTY_EXCLUDES
from mluops_gtest.catalog.derived_lock import derived_path, read_derived
from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Status
from mluops_gtest.core.operator_parts import EXACT, MUTANTS, SPACE
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.search.audit_declarations import Implementation, judged
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.fault_search import Shows, aims_of
from mluops_gtest.search.mutants import subject_of
from tests.conftest import ROOT
from tests.support.operator_calls import OPERATORS, FaultyCalls, disagreements

# CI draws other calls than the benchmarks.
SEED, CASES = 1, 200
# Elements of one output that are compared with their definition.
PLACES = 50
# What wrong implementations vary, as it stands: they have the one mistake that their name says.
UNBROKEN = {
    "ball_query": row_by_row.write,
    "dynamic_point_to_voxel_forward": type(
        OPERATORS.part("dynamic_point_to_voxel_forward", MUTANTS)[0].run.__self__
    )().run,
    "get_indice_pairs": step_by_step.write,
    "masked_col2im_forward": lambda call: pixel_copy.apply(pixel_copy.Steps(), call),
    "masked_im2col_forward": lambda call: window_copy.apply(window_copy.Steps(), call),
    "three_interpolate_backward": backward_variant("", "").run,
    "three_interpolate_forward": forward_variant("", "").run,
    "three_nn_forward": search,
    "voxel_pooling_forward": lambda call: point_by_point.apply(point_by_point.Steps(), call),
}
# Their documents ask for equality.
COPYING = {
    "abs",
    "active_rotated_filter_forward",
    "dynamic_scatter_backward",
    "get_indice_pairs",
    "masked_col2im_forward",
    "masked_im2col_forward",
    "psamask_backward",
    "psamask_forward",
    "roipoint_pool3d",
    "tin_shift_backward",
    "tin_shift_forward",
    "voxelization",
}
# Their documents exclude NaN and Inf, or do not speak of them.
FINITE = {
    "div",
    "dynamic_scatter_backward",
    "indice_convolution_backward_data",
    "indice_convolution_backward_filter",
    "indice_convolution_forward",
    "sqrt",
}
# The tensors whose layouts documents have checked, and what else is a layout of a tensor's own.
CHECKED = {
    "indice_convolution_backward_data": {"filters"},
    "indice_convolution_forward": {"filters"},
    "masked_col2im_forward": {"im"},
    "masked_im2col_forward": {"feature"},
    "points_in_boxes": {"points", "boxes", "points_indices"},
    "psamask_backward": {"dy", "dx"},
    "psamask_forward": {"x", "y"},
    "three_interpolate_backward": {"grad_output", "indices", "weights", "grad_features"},
    "three_interpolate_forward": {"features", "indices", "weights", "output"},
}
OWN = {"indice_convolution_backward_filter": {"filters_grad": {"ARRAY", "HWCN"}}}
# Operators whose wrong implementations are right somewhere, but for a sum with what marks unwritten memory.
NEVER_RIGHT = {"masked_col2im_forward": set(), "masked_im2col_forward": {"adds_to_data_col"}}
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
    for spec in (one for one in operator.tensors if case.has(one.id)):
        own = OWN.get(name, {}).get(spec.id, {layout.value for layout in spec.own_layouts})
        if spec.id not in case.expect.null_descriptor and case.tensor(spec.id).desc.layout.value not in own:
            assert spec.id in CHECKED.get(name, ())
            assert case.expect.status is not Status.SUCCESS


def computes(name, case):
    return OPERATORS[name].computes(case.expect.status, case.expect.check)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_drawn_calls_are_answered_by_the_kernel_as_by_the_reference(name):
    """All in one test: to draw and to search for faults takes most of its time."""
    operator, options = OPERATORS[name], Options(elementwise=True, bounds_alone=True)
    space = OPERATORS.part(name, SPACE)
    draws = Draws(operator, space, SEED)
    with np.errstate(all="ignore"):
        drawn = [one for one in map(draws.draw, range(CASES)) if one is not None]
        computing = [one for one in drawn if computes(name, one.case)]
        for run, calls in ((operator.kernel, drawn), (UNBROKEN.get(name, operator.kernel), computing)):
            executor = CaseRun(InlineCaller(Implementation(name, run)), options)
            for one in calls:
                result = executor.run_case(one.case, operator)
                assert result.outcome is Outcome.PASSED, f"{one.case.id} {one.faults}: {result.reason}"
        for one in drawn:
            assert one.case.expect.arch in DEVICES, one.case.id
            check_layouts(name, operator, one.case)
        for one in computing:
            assert_reference_is_the_definition(name, one.case)
            assert is_defined(name, one.case), f"{one.case.id} {one.faults}"
        assert_kernel_asks_every_check_in_order(operator, FaultyCalls(draws))
    assert len(drawn) > 0.9 * CASES, "few draws are passed over"
    assert len(computing) > 0.4 * CASES, "most calls compute"
    reached = {one.case.expect.check for one in drawn}
    assert len(reached) > 20, "and the others reach many checks"
    assert not any(check.subsumed for check in operator.checks if check.name in reached), "that calls can reach"
    if name in NEVER_RIGHT:
        assert never_right(name, [one.case for one in computing]) == NEVER_RIGHT[name]


def assert_reference_is_the_definition(name, case):
    """Its values are the exact ones, rounded once, and it writes to no input."""
    operator = OPERATORS[name]
    call = bind_values(case, operator)
    assert operator.broken(call) is None
    _, found = disagreements(case, operator, OPERATORS.part(name, EXACT), PLACES)
    assert found == [], case.id
    for argument in filter(None, call.inputs.values()):
        if argument.array is not None:
            argument.array.flags.writeable = False
    assert all(array.flags.c_contiguous for array in operator.reference(call).outputs.values())


def assert_kernel_asks_every_check_in_order(operator, calls):
    """In calls that a forgotten check, one that comes too late or two neighbours in another order answer otherwise."""
    for aim in aims_of(operator)[0]:
        case = calls.reach(aim)
        if case is None:
            # Not every check can be told, or answers where an output can be written. Where a draw with more faults does
            # it all the same, the kernel has answered that one.
            assert aim.shows is not Shows.ANSWERED or is_excused(operator, aim), f"no call is found for {aim}"
            continue
        assert aim.later is None or case.expect.check == aim.check
        result = judged(operator.name, operator.kernel, case, operator)
        assert result.outcome is Outcome.PASSED, f"{aim}: {result.reason}"
    subsumed = {check.name for check in operator.checks if check.subsumed is not None}
    assert subsumed <= calls.broken_by_one_fault(), "calls break them"
    assert subsumed.isdisjoint(calls.answering), "but another one answers first"


def is_excused(operator, aim):
    """The derivation of cases knows why no call breaks both: the later one asks for no elements, the first for many."""
    derivation = read_derived(derived_path(ROOT / "cases" / f"{operator.name}.yaml"))
    pairs = {(one.first, one.later) for one in derivation.unseen if one.reason == EMPTY_EXCLUDES}
    return (aim.check, aim.later) in pairs


def never_right(name, drawn):
    """The wrong implementations that fail every call: they have more than one mistake.

    That none is right everywhere is the audit's rule.
    """
    subject = subject_of(Session(), name, seeds=0)
    cases = [*drawn, *subject.computing]
    return {
        mutant.name
        for mutant in subject.mutants
        if not any(judged(name, mutant.fresh(), case, subject.operator).outcome is Outcome.PASSED for case in cases)
    }
