"""Backends with a mistake each on a few cases, and what the harness makes of them: outcome, fingerprint, reason."""

from mluops_gtest.catalog.selection import Selected
from mluops_gtest.catalog.source import StoredCases
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from tests.support import wrong_backends

CASES = (
    "masked_im2col_forward/edge_top_float",
    "masked_im2col_forward/feature_desc_null",
    "get_indice_pairs/handle_null",
    "get_indice_pairs/all_slots_valid_kernel_1",
    "indice_convolution_backward_data/centerpoint_0_twin_float",
    "voxel_pooling_forward/batches_2",
)
BACKENDS = (
    "OneUlpOff",
    "Transposed",
    "AllZero",
    "WithNan",
    "WithInfinityAndZeros",
    "OneElementWrong",
    "LeavesOneUnwritten",
    "WritesPastTheEnd",
    "WritesBeforeTheStart",
    "ChangesAnInput",
    "OverrunsWorkspace",
    "AsksNegativeWorkspace",
    "WrongStatus",
    "ReturnsNonsense",
    "LeavesOutputUntouched",
    "WritesOnFailure",
    "ReportsAnAbsurdCount",
    "Declines",
    "SupportsNothing",
    "Raises",
    "NeedsTooMuch",
    "NeverTheSame",
    "ForgetsScalars",
    "WrongScalars",
)


def planted(catalogue, cases=CASES):
    """Backend → case that does not pass → [outcome, fingerprint, reason], every call made twice."""
    drafts = [catalogue.drafts[name] for name in cases]
    source = StoredCases(catalogue, tuple(Selected(d.id, d.operator, d.tags, draft=d) for d in drafts))
    return {
        name: {
            case.id: [result.outcome.value, result.fingerprint, result.reason[:200]]
            for case in map(source.load, cases)
            for result in [execute(name, case, catalogue.operators)]
            if result.outcome is not Outcome.PASSED
        }
        for name in BACKENDS
    }


def execute(name, case, operators):
    executor = CaseRun(InlineCaller(getattr(wrong_backends, name)()), Options(repeat=2))
    return executor.run_case(case, operators[case.operator])
