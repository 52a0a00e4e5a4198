"""`--backend c:LIBRARY` and `mlu` as a user meets them."""

import re
from pathlib import Path

import pytest

from tests.e2e.conftest import only
from tests.support.native import compile_library, needs_gcc

pytestmark = needs_gcc

FAKE = Path(__file__).parents[1] / "unit" / "backends" / "fake_mluops.c"
COMPUTES = "masked_im2col_forward/edge_top_float"
REFUSES = "masked_im2col_forward/feature_desc_null"


@pytest.fixture
def library(tmp_path):
    """A fake library with these features; strings such as refusing="function" are in force from the start."""

    def make(*features, **strings):
        target = tmp_path / f"libfake{len(list(tmp_path.glob('libfake*')))}.so"
        words = (*features, *(f'{name.upper()}="{value}"' for name, value in strings.items()))
        return compile_library(target, FAKE, flags=tuple(f"-D{word}" for word in words))

    return make


@pytest.mark.parametrize(
    ("backend", "words"),
    [("c:./absent.so", r"absent\.so does not load: .*cannot open shared object file"), ("mlu", r"libcnrt\.so")],
)
def test_a_library_that_does_not_load_ends_the_run(run, backend, words):
    result = run(COMPUTES, "--backend", backend).expect_code(4)
    assert re.search(words, result.err)


@pytest.mark.parametrize(
    ("case", "features", "reason"),
    [
        (COMPUTES, ["NO_IM2COL"], "does not export mluOpMaskedIm2colForward"),
        ("dynamic_scatter_backward/arch_270", [], "library cannot simulate an older device"),
    ],
)
def test_what_a_library_does_not_offer_is_skipped_with_the_reason(run, library, case, features, reason):
    result = run(case, "--no-isolate", "--backend", f"c:{library(*features)}")
    assert (result.code, only(result)["outcome"]) == (5, "skipped")
    assert reason in only(result)["reason"]


@pytest.mark.slow
def test_a_refusing_setter_is_named_and_decides(run, library):
    backend = f"c:{library(refusing='mluOpSetTensorDescriptor_v2')}"
    result = run(COMPUTES, "--backend", backend).expect_code(1)
    assert only(result)["outcome"] == "wrong_status"
    assert only(result)["reason"] == (
        "answered BAD_PARAM (status from mluOpSetTensorDescriptor_v2 for feature), expected SUCCESS"
    )
    result = run(REFUSES, "--backend", backend)
    assert only(result)["outcome"] == "passed"
    assert only(result)["notes"] == ["status from mluOpSetTensorDescriptor_v2 for mask_h_idx"]


def test_a_refusing_query_is_named(run, library):
    backend = f"c:{library(refusing='mluOpGetMaskedIm2colForwardWorkspaceSize')}"
    result = run(COMPUTES, "--no-isolate", "--backend", backend)
    assert only(result)["outcome"] == "wrong_status"
    assert only(result)["reason"] == "mluOpGetMaskedIm2colForwardWorkspaceSize answered BAD_PARAM"


@pytest.mark.slow
@pytest.mark.parametrize("features", [(), ("RUNTIME", "NOTIFIERS")])
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("past the end", "wrote past the end of data_col, first at byte 3 behind it"),
        ("before the start", "wrote before the start of data_col, first at byte 4 in front of it"),
        ("change the input", "changed the input feature (element 2)"),
    ],
)
def test_forbidden_writes_read_the_same_wherever_the_memory_is(run, library, features, how, reason):
    result = run(COMPUTES, "--no-isolate", "--backend", f"c:{library(*features, behaviour=how)}").expect_code(1)
    assert only(result)["outcome"] == "memory"
    assert only(result)["reason"] == reason


def test_an_output_that_is_left_alone_is_found(run, library):
    result = run(COMPUTES, "--no-isolate", "--backend", f"c:{library('RUNTIME')}")
    assert only(result)["outcome"] == "failed"
    assert "elements were never written" in only(result)["reason"]


def test_host_memory_is_noted_and_a_runtime_may_come_from_elsewhere(run, library):
    result = run(COMPUTES, "--no-isolate", "--backend", f"c:{library()}")
    assert only(result)["notes"] == ["no runtime: host memory, null queue, time by the wall clock"]
    result = run(COMPUTES, "--no-isolate", "--backend", f"c:{library()}", "--runtime", library("RUNTIME", "NOTIFIERS"))
    assert only(result)["notes"] == []
