"""Which files a backend comes from, found without loading it."""

import hashlib
import sys

import pytest

from mluops_gtest.backends import labels as backend_files
from mluops_gtest.backends.labels import file_labels


def digest_label(path):
    return f"{path.name} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return tmp_path


def write(path, content="raise SystemExit('loaded')\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


@pytest.mark.parametrize("spec", ["mine.py", "mine.py:backend", "mine:backend"])
def test_a_python_file_by_path_and_by_name(here, spec):
    file = write(here / "mine.py")
    assert file_labels(spec, None) == {"backend.file": digest_label(file)}


def test_a_module_in_a_package_is_found_without_running_the_package(here):
    write(here / "team_kernels" / "__init__.py")
    kernels = write(here / "team_kernels" / "inner.py")
    assert file_labels("team_kernels.inner:Backend", None) == {"backend.file": digest_label(kernels)}
    assert "team_kernels" not in sys.modules
    assert file_labels("team_kernels.absent:Backend", None) == {}


def test_a_library_and_its_runtime(here):
    library, runtime = write(here / "libk.so", "k"), write(here / "librt.so", "r")
    labels = f"{digest_label(library)}, {digest_label(runtime)}"
    assert file_labels("c:./libk.so", "librt.so") == {"backend.file": labels}


def test_a_library_that_the_loader_finds(here, monkeypatch):
    library = write(here / "deep" / "libmluops.so", "k")
    assert file_labels("c:libmluops.so", None) == {}
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{here / 'nowhere'}:{library.parent}")
    assert file_labels("c:libmluops.so", None) == {"backend.file": digest_label(library)}
    assert file_labels("mlu", None)["backend.file"].startswith(digest_label(library))


def test_a_program_with_its_script(here):
    script = write(here / "serve.py", "pass")
    program = write(here / "my program", "#!/bin/sh\n")
    program.chmod(0o755)
    assert file_labels("exec:'./my program' serve.py --fast", None) == {
        "backend.file": f"{digest_label(program)}, {digest_label(script)}"
    }


def test_a_large_file_is_named_without_a_digest(here, monkeypatch):
    write(here / "libk.so", "k" * 10)
    monkeypatch.setattr(backend_files, "_MAX_BYTES", 9)
    assert file_labels("c:./libk.so", None) == {"backend.file": "libk.so"}


@pytest.mark.parametrize(
    "spec",
    [
        "numpy",
        "reference",
        "torch:cpu",
        "c:absent.so",
        "c:",
        "exec:'open",
        "exec:",
        "nonsense",
        "a..b:c",
        ":",
        "no\0file.py",
    ],
)
def test_no_file_no_label(here, spec):
    assert file_labels(spec, None) == {}
