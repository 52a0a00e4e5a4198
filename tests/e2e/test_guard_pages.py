"""Reads and writes outside a buffer are caught at the very instruction, and told by place."""

import platform
import re
import sys

import pytest

from tests.e2e.conftest import SUPPORT, backends_in, only, wrong
from tests.support.native import compile_library, needs_gcc

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="guard pages need Linux")]
straying = backends_in("straying_backends")
CASE = "masked_im2col_forward/retinanet_3x3_twin_float"
EMPTY = "dynamic_scatter_backward/empty_is_not_strided"
tells_reads = platform.machine() in ("x86_64", "aarch64")
NO_ADDRESS = (
    "SIGSEGV without an address: a wild pointer, or an instruction that needs alignment; those fault here too, "
    "where a buffer is aligned to its element only"
)


def without_code(reason):
    """The reason without the place of the instruction, which is one of Python's own here."""
    return re.sub(r",? (in \S+\+0x[0-9a-f]+ \(\S+\+0x[0-9a-f]+\)|at \S+\+0x[0-9a-f]+)", "", reason)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compile_library(
        tmp_path_factory.mktemp("stray") / "straying.so", SUPPORT / "straying.c", flags=("-pthread",)
    )


@pytest.mark.skipif(not tells_reads, reason="faults are told by their signal alone on this machine")
@pytest.mark.parametrize(
    ("backend", "outcome", "reason", "side"),
    [
        ("ReadsPastTheEnd", "crashed", "SIGSEGV, read 4 bytes past the end of feature", "behind"),
        ("ReadsAcrossTheEnd", "crashed", "SIGSEGV, read 4 bytes past the end of feature", "behind"),
        ("ReadsTheSecondElementBehind", "crashed", "SIGSEGV, read 8 bytes past the end of feature", "behind"),
        ("ReadsBeforeTheStart", "crashed", "SIGSEGV, read 4 bytes before the start of feature", "in front of"),
        ("ReadsFarBehind", "crashed", "SIGSEGV, read 1048580 bytes past the end of feature", "behind"),
        ("ReadsFarInFront", "crashed", "SIGSEGV, read 62914560 bytes before the start of feature", "behind"),
        ("WritesPastTheEnd", "crashed", "SIGSEGV, wrote 4 bytes past the end of data_col", "behind"),
        ("WritesFarInFront", "crashed", "SIGSEGV, wrote 1048576 bytes before the start of data_col", "behind"),
        (
            "WritesIntoTheSlack",
            "memory",
            "wrote before the start of data_col, first at byte 1 in front of it",
            "behind",
        ),
        ("OverreadsItsWorkspace", "crashed", "SIGSEGV, read 29 bytes past the end of workspace", "behind"),
        ("FollowsNull", "crashed", "SIGSEGV, read at address 0x10, a null pointer", "behind"),
        ("FollowsAWildPointer", "crashed", "SIGSEGV, read at address 0x1234567890, far from every buffer", "behind"),
        ("SendsItselfTheSignal", "crashed", "killed by SIGSEGV", "behind"),
    ],
)
def test_where_a_backend_strays_is_told(run, backend, outcome, reason, side):
    result = run(CASE, "--backend", straying(backend), "--guard-pages")
    one = only(result)
    assert (one["outcome"], without_code(one["reason"])) == (outcome, reason)
    assert f"with an inaccessible page {side} every buffer" in one["notes"]
    assert one["repro"].endswith("--guard-pages")
    assert outcome != "crashed" or "straying_backends.py" in one["output"]  # the trace
    assert result.code == 1


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other machines tell an address for these")
def test_a_fault_without_an_address_speaks_of_alignment(run):
    one = only(run(CASE, "--backend", straying("FollowsWhatIsNoAddress"), "--guard-pages"))
    assert without_code(one["reason"]) == NO_ADDRESS


@pytest.mark.needs_gcc
class TestInNativeCode:
    pytestmark = needs_gcc

    @pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86-64")
    def test_an_instruction_that_needs_alignment(self, run, library, monkeypatch):
        monkeypatch.setenv("STRAY_LIBRARY", str(library))
        one = only(run(CASE, "--backend", straying("NeedsAlignment"), "--guard-pages"))
        assert without_code(one["reason"]) == NO_ADDRESS

    @pytest.mark.skipif(not tells_reads, reason="faults are told by their signal alone on this machine")
    @pytest.mark.parametrize("backend", ["ReadsInAThread", "ReadsInAThreadThatHoldsTheLock"])
    def test_in_a_thread_that_python_does_not_know(self, run, library, monkeypatch, backend):
        monkeypatch.setenv("STRAY_LIBRARY", str(library))
        one = only(run(CASE, "--backend", straying(backend), "--guard-pages", "--timeout", 60))
        assert without_code(one["reason"]) == "SIGSEGV, read 4 bytes past the end of data_col"


@pytest.mark.parametrize("backend", ["ReadsPastTheEnd", "ReadsBeforeTheStart", "ReadsFarBehind"])
def test_without_the_option_nobody_finds_a_read(run, backend):
    assert run(CASE, "--backend", straying(backend)).code == 0


def test_every_case_is_called_at_the_end_of_its_pages_and_at_their_start(run, tmp_path, monkeypatch):
    monkeypatch.setenv("STRAY_FILE", str(tmp_path / "told"))
    assert run(CASE, "--backend", straying("TellsItsAddresses"), "--guard-pages", "--repeat", 2).code == 0
    # Two calls in which no buffer ends within a page, then two in which none begins within one.
    assert (tmp_path / "told").read_text().splitlines() == ["True False"] * 2 + ["False True"] * 2


def test_an_empty_tensor_has_no_byte_to_read(run):
    assert run(EMPTY, "--backend", straying("ReadsTheEmptyTensor")).code == 0
    one = only(run(EMPTY, "--backend", straying("ReadsTheEmptyTensor"), "--guard-pages"))
    assert one["outcome"] == "crashed"
    if tells_reads:
        assert without_code(one["reason"]) == "SIGSEGV, read 4 bytes past the end of grad_voxel_feats"


def test_a_pointer_kept_from_an_earlier_call_faults(run):
    selection = ("--op", "masked_im2col_forward", "--tag", "smoke")
    assert run(*selection, "--backend", straying("KeepsAPointer")).code == 0
    result = run(*selection, "--backend", straying("KeepsAPointer"), "--guard-pages")
    assert {r["outcome"] for r in result.results.values()} == {"crashed"}


def test_address_space_is_given_back(run, tmp_path, monkeypatch):
    monkeypatch.setenv("STRAY_FILE", str(tmp_path / "told"))
    selection = ("--op", "masked_im2col_forward", "-k", "boundary")
    assert run(*selection, "--backend", straying("MeasuresItsAddressSpace"), "--guard-pages").code == 0
    sizes = [int(line) for line in (tmp_path / "told").read_text().split()]
    assert len(sizes) > 20
    # One reservation alone is half a gigabyte; what differs between cases is their own tensors.
    assert max(sizes) - min(sizes) < 256 << 20


@pytest.mark.parametrize(
    "arguments", [("--isolate",), ("--backend", wrong("Exact")), ("--backend", "reference", "--isolate")]
)
def test_what_is_right_passes(run, arguments):
    result = run(
        "--tag", "smoke", "-k", "twin or order", *arguments, "--guard-pages", "--memory-limit", "4G"
    ).expect_code(0)
    assert len({r["operator"] for r in result.results.values()}) >= 5
    assert result.report["backend"]["guard_pages"] is True


def test_a_declined_case_is_skipped_as_ever(run):
    one = only(run(CASE, "--backend", straying("Declines"), "--guard-pages"))
    assert (one["outcome"], one["notes"]) == ("skipped", [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--guard-pages needs worker processes; backend 'numpy' runs inline: add --isolate"),
        (("--backend", "exec:true"), "backend 'exec:true' has its own memory"),
        (("--backend", "torch"), "backend 'torch' has its own memory"),
        (("--backend", "mlu"), "backend 'mlu' has its own memory"),
        (
            ("--backend", "c:libk.so", "--runtime", "librt.so"),
            "backend 'c:libk.so' with --runtime librt.so has its own memory",
        ),
        (("--backend", straying("HasADevice")), "backend HasADevice has its own memory"),
        (("--isolate", "--perf"), "leave out one of them"),
    ],
)
def test_what_cannot_be_guarded_is_refused(run, arguments, words):
    run(CASE, *arguments, "--guard-pages").expect_error(2, words)
