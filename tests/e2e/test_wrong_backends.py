"""The harness is proved by backends that are wrong in one way each.

What their values, statuses and reasons come to is in tests/golden/fingerprints.json; here they go through workers.
"""

import pytest

from tests.e2e.conftest import wrong

pytestmark = pytest.mark.slow
# Judged by diff1 and diff2: one ulp passes.
NORMS = tuple(
    f"indice_convolution_backward_data/{case}" for case in ("centerpoint_0_twin_half", "weights_square_float")
)
# Judged by diff3 = 0: one ulp fails.
EXACT = tuple(f"masked_im2col_forward/{case}" for case in ("retinanet_3x3_twin_float", "order_of_rows_half"))
PAIRS = tuple(f"get_indice_pairs/{case}" for case in ("network_subm_41x1440x1440_twin", "kernel_even"))
POOL = ("--op", "voxel_pooling_forward", "--tag", "smoke")


@pytest.mark.parametrize(
    ("backend", "select", "outcome", "words"),
    [
        ("Exact", NORMS, "passed", ""),
        ("OneUlpOff", NORMS, "passed", ""),
        ("WritesPastTheEnd", NORMS, "memory", "wrote past the end of input_grad, first at byte 1 behind it"),
        ("WritesFarPastTheEnd", EXACT, "memory", "wrote past the end of data_col, first at byte 50000 behind it"),
        ("WritesBeforeTheStart", EXACT, "memory", "wrote before the start of data_col, first at byte 1 in front of it"),
        ("ChangesAnInput", NORMS, "memory", "changed the input output_grad (element 0)"),
        ("ChangesAnInput", PAIRS, "memory", "changed the input indices"),
        ("OverrunsWorkspace", EXACT, "memory", "of workspace"),
        ("AsksNegativeWorkspace", EXACT, "error", "workspace_size() returned -1"),
        ("ReturnsNonsense", NORMS, "error", "must return a Status"),
        ("Raises", NORMS, "error", "ZeroDivisionError: in my kernel"),
        ("NeedsTooMuch", NORMS, "crashed", "MemoryError: no NRAM left"),
        ("ReportsAnAbsurdCount", PAIRS, "failed", "num_act_out is "),
    ],
)
def test_each_kind_of_wrong_gets_its_outcome(run, backend, select, outcome, words):
    result = run(*select, "--backend", wrong(backend), "--isolate")
    assert result.results
    for one in result.results.values():
        assert one["outcome"] == outcome, one
        assert words in one["reason"]
    assert result.code == (0 if outcome == "passed" else 1)


@pytest.mark.parametrize("backend", ["Declines", "SupportsNothing"])
def test_a_backend_that_does_nothing_compares_nothing(run, backend):
    result = run(*EXACT, "--backend", wrong(backend))
    assert {r["outcome"] for r in result.results.values()} == {"skipped"}
    result.expect_output(5, "skipped")


def test_the_gaps_of_a_strided_output_are_looked_at_too(run):
    case = "masked_im2col_forward/data_col_strided"
    result = run(case, "--backend", wrong("WritesBetweenTheRows"))
    written = [r for r in result.results.values() if r["outcome"] == "failed"]
    assert written
    assert all("was written" in r["reason"] for r in written)


def test_repeated_runs_must_agree_bit_for_bit(run):
    assert run(*NORMS, "--backend", wrong("NeverTheSame")).code == 0
    result = run(*NORMS, "--backend", wrong("NeverTheSame"), "--repeat", 3)
    assert {r["outcome"] for r in result.results.values()} == {"failed"}
    assert all(
        "not reproducible: run 2 differs from run 1 in input_grad" in r["reason"] for r in result.results.values()
    )
    # Atomic adds: the document allows any order, so repeated runs may differ.
    assert run(*POOL, "--backend", wrong("NeverTheSame"), "--repeat", 3).code == 0
    assert run(*NORMS, "--backend", wrong("Exact"), "--repeat", 3).code == 0


def test_lost_bits_are_a_note_and_with_bitwise_a_failure(run):
    cases = ("--op", "masked_im2col_forward", "--tag", "nonfinite", "--tag", "precision", "-k", "float or half")
    relaxed = run(*cases, "--backend", wrong("LosesBits")).expect_code(0)
    noted = [r["case"] for r in relaxed.results.values() if any("bit for bit" in note for note in r["notes"])]
    assert noted
    strict = run(*cases, "--backend", wrong("LosesBits"), "--bitwise")
    assert [r["case"] for r in strict.results.values() if r["outcome"] == "failed"] == noted
    assert strict.code == 1
    assert run(*cases, "--backend", wrong("Exact"), "--bitwise").code == 0


def test_an_exception_is_told_with_its_traceback(run):
    result = run(*EXACT, "--backend", wrong("Raises"))
    assert "in my kernel" in result.out
    assert "wrong_backends.py" in result.out
    assert result.code == 1


@pytest.mark.parametrize(
    ("spec", "code", "words"),
    [
        ("nunpy", 2, "Did you mean 'numpy'"),
        (wrong("Missing"), 4, "has no attribute 'Missing'"),
        (wrong("NoName"), 4, "has no `name`"),
        (wrong("not_a_backend"), 4, "has no `name`"),
        (wrong("broken_factory"), 4, "RuntimeError: no device"),
        ("no/such/file.py:backend", 4, "does not exist"),
        ("no_such_module:backend", 4, "No module named"),
        ("json:loads", 4, "does not load"),
        (":x", 2, "Unknown backend"),
    ],
)
def test_a_backend_that_cannot_be_used_is_told_before_anything_runs(run, spec, code, words):
    result = run(*EXACT, "--backend", spec).expect_error(code, words)
    assert result.report is None
