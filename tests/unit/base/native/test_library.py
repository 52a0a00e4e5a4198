"""The library is used where it fits its sources and nobody has turned it off; else there is a reason for people."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mluops_gtest.base.errors import UsageError
from mluops_gtest.base.native import library
from mluops_gtest.base.native.library import LIBRARY, build, build_unless_current, compiler, load, native_core
from tests.conftest import ROOT
from tests.support.native_core import NATIVE, built, going


@pytest.fixture(autouse=True)
def _fresh_core(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv(library.ENVIRONMENT, raising=False)
    native_core.cache_clear()
    yield
    native_core.cache_clear()


def test_0_turns_it_off_and_an_unknown_word_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.ENVIRONMENT, "0")
    assert native_core() == (None, None, "MLUOPS_TEST_NATIVE=0")
    native_core.cache_clear()
    monkeypatch.setenv(library.ENVIRONMENT, "fast")
    with pytest.raises(UsageError, match=r"NATIVE=fast is not known. Allowed: 0, 1, baseline, avx2, avx512"):
        native_core()


def test_a_library_that_was_not_built_or_is_none_is_told(tmp_path: Path) -> None:
    assert "was not built" in load(tmp_path / LIBRARY.name).words
    (tmp_path / LIBRARY.name).write_bytes(b"no library")
    assert "cannot be loaded" in load(tmp_path / LIBRARY.name).words


def test_a_library_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with going(NATIVE):
        pass
    monkeypatch.setattr(library, "sources_digest", lambda: "other")
    core = load(library.LIBRARY)
    assert core.library is None
    assert core.words == "not used: it was built from other sources; install mluops-test again"


def test_the_digest_changes_with_every_source_and_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.c").write_text("1")
    one = library.sources_digest(tmp_path)
    (tmp_path / "b.h").write_text("")
    two = library.sources_digest(tmp_path)
    monkeypatch.setattr(library, "FLAGS", (*library.FLAGS, "-g"))
    assert len({one, two, library.sources_digest(tmp_path)}) == 3


def test_without_a_compiler_an_old_library_goes_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / LIBRARY.name
    old.write_bytes(b"of older sources")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert build_unless_current(old) == "no C compiler"
    assert not old.exists()


def test_a_current_library_is_not_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    current = tmp_path / LIBRARY.name
    current.write_bytes(b"\0" + library.sources_digest().encode())
    monkeypatch.setattr(library, "build", lambda target: pytest.fail("built again"))
    assert build_unless_current(current) is None


def test_a_compiler_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "false")
    assert build_unless_current(tmp_path / LIBRARY.name) == "false answers 1"
    assert not (tmp_path / LIBRARY.name).exists()


def test_no_flag_changes_a_rounding() -> None:
    flags = {*library.FLAGS, *(flag for flags in library.LEVELS.values() for flag in flags)}
    assert "-ffp-contract=off" in flags
    assert not flags & {"-Ofast", "-ffast-math", "-march=native", "-mfma", "-funsafe-math-optimizations"}


def test_it_says_which_instructions_it_uses() -> None:
    with going(NATIVE):
        assert native_core().words == f"active ({built().level})"


TESTS = ("tests/unit/base/native", "tests/unit/judging/test_criteria.py")


def runtime(name: str) -> str:
    """The file of a sanitizer's own library, which must be loaded before all others."""
    asked = subprocess.run([*compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


@pytest.mark.needs_gcc
@pytest.mark.slow(seconds=40)
def test_the_tests_of_the_library_pass_under_sanitizers(tmp_path: Path) -> None:
    target = tmp_path / LIBRARY.name
    flags = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
    assert build(target, flags) is None
    environment = os.environ | {
        "LD_PRELOAD": " ".join(map(runtime, ("libasan.so", "libubsan.so"))),
        # The interpreter itself leaks, and numpy asks for more than there is. Where memory was asked for is told by a
        # debugger; to note it at every request, and to keep what is freed for long, takes most of the time.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:malloc_context_size=0:quarantine_size_mb=16",
        "MLUOPS_TEST_NATIVE_FILE": str(target),
        "MLUOPS_TEST_EXAMPLES": "5",
    }
    # The other types read the same bounds.
    chosen = ("-m", "not slow", "-k", "not (bounds_that_shrink and (half or double))")
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:cacheprovider", *chosen, *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "passed" in done.stdout
