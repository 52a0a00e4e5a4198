"""A device without subnormal floats keeps to every document that asks for diff1 and diff2."""

import pytest

from tests.e2e.conftest import SUPPORT

# Their documents ask for equality of what is copied or chosen, with cases of any bits.
COPYING = {
    "abs", "active_rotated_filter_forward", "dynamic_scatter_backward", "masked_col2im_forward",
    "masked_im2col_forward", "psamask_backward", "psamask_forward", "roipoint_pool3d", "tin_shift_backward",
    "tin_shift_forward", "voxelization",
}  # fmt: skip
# Theirs ask for equality of products: there is no threshold that results near 0 keep to.
MULTIPLYING = {"moe_dispatch_backward_data", "moe_dispatch_forward"}
BACKENDS = ("FlushesResults", "FlushesAll")


def options(backend):
    return "--no-isolate", "--backend", f"{SUPPORT / 'flushing_backends.py'}:{backend}"


def not_passed(results):
    return {case for case, result in results.items() if result["outcome"] != "passed"}


@pytest.mark.slow(seconds=10)
def test_no_default_case_of_arithmetic_fails_it(run):
    """One that flushes all flushes results, too."""
    result = run(*options("FlushesAll"), "--no-elementwise")
    assert {case for case in not_passed(result.results) if case.partition("/")[0] not in COPYING} == set()
    assert {case.partition("/")[0] for case in not_passed(result.results)} == COPYING


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_tag_tells_it_apart(run, backend):
    result = run("--tag", "subnormal", *options(backend)).expect_code(1)
    told = not_passed(result.results)
    # diff1 and diff2 do not see numbers this small, and where results are flushed alone, lifted ones stay.
    lifted = {case for case in result.results if "lifted" in case}
    words = ("/subnormal_", "/grads_tiny_", "/largest_of_tiny")
    small = {case for case in result.results if any(word in case for word in words)}
    unseen = {case for case in small if case.partition("/")[0] not in MULTIPLYING}
    unseen = unseen | lifted if backend == "FlushesResults" else unseen - lifted
    assert told == result.results.keys() - unseen
    assert len(told) >= 15


def test_the_tag_asks_nothing_else(run):
    assert run("--tag", "subnormal").code == 0
