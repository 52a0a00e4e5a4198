"""What mluops-test says of itself."""

import pytest

from mluops_gtest.base.native import arrays as comparing
from mluops_gtest.cli.commands.doctor import disagreements
from mluops_gtest.cli.main import run_main
from mluops_gtest.version import __version__
from tests.support.native_core import NATIVE, going

# Its place in struct figures of native.h.
LARGEST = 7


@pytest.mark.parametrize("arguments", [["--version", "-v"], ["-v", "--version"], ["-V", "--verbose"]])
def test_a_verbose_version_says_what_it_runs_on(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with going(NATIVE):
        assert run_main(arguments) == 0
    first, *others = capsys.readouterr().out.splitlines()
    assert first == f"mluops-test {__version__}"
    assert [line.split()[0] for line in others] == ["python", "numpy", "native"]
    assert others[-1].startswith("native core active (")


def test_the_doctor_finds_the_installation_sound(capsys: pytest.CaptureFixture[str]) -> None:
    with going(NATIVE):
        assert run_main(["doctor", "--self"]) == 0
    assert capsys.readouterr().out.endswith("the native core and numpy find the same figures, bit for bit\n")


def test_the_doctor_needs_something_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["doctor"]) == 2
    assert "--backend BACKEND, or --self" in capsys.readouterr().err


def test_the_doctor_finds_a_core_that_miscounts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = comparing.NativePair.figures

    def wrong(self, first, cells):
        found = list(right(self, first, cells))
        found[LARGEST] *= 1 + 2**-52
        return tuple(found)

    monkeypatch.setattr(comparing.NativePair, "figures", wrong)
    with going(NATIVE):
        assert disagreements()
        assert run_main(["doctor", "--self"]) == 1
    assert "set MLUOPS_TEST_NATIVE=0 and report it" in capsys.readouterr().out
