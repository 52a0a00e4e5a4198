"""The wheel carries its content, keeps site-packages clean, and works unpacked anywhere."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from mluops_gtest import __version__
from mluops_gtest.base.native.library import LIBRARY, compiler
from mluops_gtest.casefiles.lock import PACK
from mluops_gtest.cli.main import run_main
from tests.support.built_once import built_once

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CONTENT = ("docs", "generators", "cases", "prototxt")
NEEDED = ("mluops_gtest", *CONTENT, ".ci", "pyproject.toml", "README.md", "CHANGELOG.md", "cli.py")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    # Without the checkout on the path, so that only what the wheel brought can be found.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build needs, so that nothing is written into the checkout."""

    def build(folder: Path) -> None:
        folder.mkdir()
        for name in NEEDED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder / name)
        # Must not reach the wheel.
        (folder / "generators" / "__pycache__").mkdir()
        (folder / "generators" / "__pycache__" / "stale.pyc").touch()

    return built_once(tmp_path_factory, "wheel-source", build)


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def build(folder: Path) -> None:
        # Which machine code the compiler makes of the native core is no matter of the wheel.
        quick = folder.with_name("quick-cc")
        quick.write_text(f'#!/bin/sh\nexec {shlex.join(compiler() or ["false"])} "$@" -O0\n')
        quick.chmod(0o755)
        named = {"CC": str(quick)} if compiler() else {}
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source, **named)

    (built,) = built_once(tmp_path_factory, "wheel", build).glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_nothing_but_the_package_stands_at_the_top(names: set[str]) -> None:
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"mluops_gtest", f"mluops_test-{__version__}.dist-info"}


@pytest.mark.parametrize("folder", CONTENT)
def test_every_content_file_is_inside(source: Path, names: set[str], folder: str) -> None:
    files = [p for p in (source / folder).rglob("*") if p.is_file() and p.suffix not in (".pyc", ".prototxt")]
    wanted = {f"mluops_gtest/_content/{p.relative_to(source).as_posix()}" for p in files}
    if folder == "prototxt":
        wanted |= {f"mluops_gtest/_content/prototxt/{p.name}/{PACK}" for p in (source / folder).iterdir()}
    assert wanted
    assert wanted == {name for name in names if name.startswith(f"mluops_gtest/_content/{folder}/")}


def test_every_stored_case_is_in_the_pack_of_its_operator(source: Path, unpacked: Path) -> None:
    for folder in (source / "prototxt").iterdir():
        with ZipFile(unpacked / "mluops_gtest/_content/prototxt" / folder.name / PACK) as pack:
            assert pack.testzip() is None
            assert {name: pack.read(name) for name in pack.namelist()} == {
                path.name: path.read_bytes() for path in folder.glob("*.prototxt")
            }


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < 12_000_000


def test_a_damaged_pack_is_said(unpacked: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(unpacked, broken)
    pack = broken / "mluops_gtest/_content/prototxt/abs" / PACK
    pack.write_bytes(pack.read_bytes()[:-2000])
    words = [sys.executable, "-m", "mluops_gtest", "run", "abs/bfloat16_before_x_empty", "--root", "builtin"]
    named = {"PYTHONPATH": str(broken), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(words, cwd=tmp_path, env={**os.environ, **named}, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert f"{pack}: cannot be read" in done.stdout + done.stderr


def test_the_package_is_complete_and_typed(source: Path, names: set[str]) -> None:
    kinds = {".py", ".typed", ".css", ".js", ".txt"}
    parts = {p.relative_to(source).as_posix() for p in (source / "mluops_gtest").rglob("*") if p.suffix in kinds}
    assert {"mluops_gtest/py.typed", "mluops_gtest/results/reports/static/9-start.js"} <= parts <= names
    assert not [name for name in names if "__pycache__" in name]


def test_the_native_core_is_inside_where_there_is_a_compiler(wheel: Path, names: set[str], unpacked: Path) -> None:
    library = f"mluops_gtest/base/native/c/{LIBRARY.name}"
    assert (library in names) == (compiler() is not None)
    assert wheel.stem.endswith("-py3-none-any") == (library not in names)
    (metadata,) = unpacked.glob("*.dist-info/WHEEL")
    lines = metadata.read_text(encoding="utf-8").splitlines()
    assert f"Root-Is-Purelib: {str(library not in names).lower()}" in lines
    assert [line for line in lines if line.startswith("Tag:")] == [f"Tag: py3{wheel.stem.partition('-py3')[2]}"]


def test_a_wheel_of_the_source_distribution_holds_the_same(source: Path, names: set[str], tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=source)
    (archive,) = tmp_path.glob("*.tar.gz")
    run("tar", "-xf", archive, cwd=tmp_path)
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    # Without a compiler, since the machine code is no matter of the sources.
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=unpacked, PATH=str(tmp_path))
    (built,) = tmp_path.glob("*.whl")
    with ZipFile(built) as wheel:
        assert set(wheel.namelist()) == names - {f"mluops_gtest/base/native/c/{LIBRARY.name}"}


def test_a_machine_without_a_compiler_builds_a_pure_wheel_that_works(source: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=source, PATH=str(tmp_path))
    (built,) = tmp_path.glob("*-py3-none-any.whl")
    with ZipFile(built) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert "native core not used: it was not built" in ask(tmp_path / "unpacked", tmp_path, "--version", "-v")
    answer = ask(tmp_path / "unpacked", tmp_path, "run", "--op", "masked_im2col_forward", "--tag", "smoke")
    assert "passed" in answer


def test_the_script_is_declared(unpacked: Path) -> None:
    (entry_points,) = unpacked.glob("*.dist-info/entry_points.txt")
    assert "mluops-test = mluops_gtest.__main__:main" in entry_points.read_text(encoding="utf-8")


def ask(unpacked: Path, folder: Path, *arguments: str) -> str:
    """The unpacked wheel's answer, asked from an empty folder."""
    return run(
        sys.executable, "-m", "mluops_gtest", *arguments, cwd=folder, PYTHONPATH=str(unpacked), PYTHONSAFEPATH="1"
    )


def test_the_wheel_is_what_answers(unpacked: Path, tmp_path: Path) -> None:
    code = "import mluops_gtest; print(mluops_gtest.__file__)"
    where = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(unpacked), PYTHONSAFEPATH="1")
    assert Path(where.strip()).is_relative_to(unpacked)
    assert ask(unpacked, tmp_path, "--version") == f"mluops-test {__version__}\n"


def test_the_wheel_lists_the_same_cases_as_its_source(
    unpacked: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["list", "--all", "--format", "ids"]
    assert run_main(words) == 0
    listed = capsys.readouterr().out
    assert listed.split()
    assert ask(unpacked, tmp_path, *words) == listed


def test_the_wheel_runs_a_case(unpacked: Path, tmp_path: Path) -> None:
    answer = ask(unpacked, tmp_path, "run", "--op", "masked_im2col_forward", "--tag", "smoke")
    assert "passed" in answer


def test_the_wheel_writes_an_operator_that_passes(unpacked: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "mine")
    ask(unpacked, tmp_path, "new", "operator", "row_sum", "--root", root)
    ask(unpacked, tmp_path, "generate", "--op", "row_sum", "--root", root)
    assert " passed in " in ask(unpacked, tmp_path, "run", "--root", root)
