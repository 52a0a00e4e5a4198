"""`--backend c:LIBRARY` and `mlu` as a user meets them."""

from pathlib import Path

import pytest

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


def only(result):
    (found,) = result.results.values()
    return found


def test_a_missing_library_ends_the_run(run):
    result = run(COMPUTES, "--backend", "c:./absent.so")
    assert result.code == 4
    assert "absent.so does not load" in result.err
    assert "cannot open shared object file" in result.err


@pytest.mark.slow
def test_a_library_without_core_functions_ends_the_run(run, library):
    result = run(COMPUTES, "--backend", f"c:{library('NO_CORE')}")
    assert result.code == 4
    assert "does not export mluOpCreateTensorDescriptor" in result.err


def test_mlu_without_its_libraries_ends_the_run(run):
    result = run(COMPUTES, "--backend", "mlu")
    assert result.code == 4
    assert "libcnrt.so" in result.err


def test_an_operator_without_its_function_is_skipped_by_the_functions_name(run, library):
    result = run(COMPUTES, "--no-isolate", "--backend", f"c:{library('NO_IM2COL')}")
    assert result.code == 5
    assert only(result)["outcome"] == "skipped"
    assert only(result)["reason"].endswith("does not export mluOpMaskedIm2colForward")


def test_cases_about_older_devices_are_skipped_without_the_hook(run, library):
    result = run("dynamic_scatter_backward/arch_270", "--no-isolate", "--backend", f"c:{library()}")
    assert result.code == 5
    assert "library cannot simulate an older device" in only(result)["reason"]


@pytest.mark.slow
def test_a_refusing_setter_is_named_and_decides(run, library):
    backend = f"c:{library(refusing='mluOpSetTensorDescriptor_v2')}"
    result = run(COMPUTES, "--backend", backend)
    assert result.code == 1
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
    result = run(COMPUTES, "--no-isolate", "--backend", f"c:{library(*features, behaviour=how)}")
    assert result.code == 1
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
