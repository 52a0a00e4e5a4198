"""What a run says of its backend and its folder: files, build ids of libraries, the git state, labels of the user."""

import hashlib
import os
import shutil
import struct
import subprocess
import sys
import time

import pytest

from mluops_gtest.backends import labels
from mluops_gtest.backends import labels as backend_files
from mluops_gtest.backends.labels import build_id, file_labels, git_labels, run_labels
from mluops_gtest.base.errors import UsageError
from mluops_gtest.running.settings import parse_labels
from tests.support.native import needs_gcc


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


NO_FILES = "numpy reference torch:cpu c:absent.so c: exec:'open exec: nonsense a..b:c :"


@pytest.mark.parametrize("spec", [*NO_FILES.split(), "no\0file.py"])
def test_no_file_no_label(here, spec):
    assert file_labels(spec, None) == {}


ID = bytes(range(20))


def note(order, name, kind, content):
    padded = [part + b"\0" * (-len(part) % 4) for part in (name, content)]
    return struct.pack(f"{order}III", len(name), len(content), kind) + b"".join(padded)


def elf(bits=64, order="<", notes=None, count=2):
    """A header and a table of segments: one to load, one of notes."""
    if notes is None:
        notes = note(order, b"GNU\0", 1, b"abi!") + note(order, b"GNU\0", 3, ID)
    identity = b"\x7fELF" + bytes([bits // 32, 1 if order == "<" else 2, 1]) + b"\0" * 9
    word = "Q" if bits == 64 else "I"
    header_size, size = (64, 56) if bits == 64 else (52, 32)
    offset = header_size + 2 * size
    header = struct.pack(
        f"{order}HHI{word * 3}IHHHHHH", 3, 62, 1, 0, header_size, 0, 0, header_size, size, count, 0, 0, 0
    )
    segments = b""
    for kind in (1, 4):
        if bits == 64:
            segments += struct.pack(f"{order}IIQQQQQQ", kind, 4, offset, 0, 0, len(notes), 0, 4)
        else:
            segments += struct.pack(f"{order}IIIIIIII", kind, offset, 0, 0, len(notes), 0, 4, 4)
    return identity + header + segments + notes


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_kind_of_file(tmp_path, bits, order):
    path = tmp_path / "lib.so"
    path.write_bytes(elf(bits, order))
    assert build_id(path) == ID.hex()


def test_files_without_one(tmp_path):
    path = tmp_path / "lib.so"
    other = note("<", b"GNU\0", 1, ID) + note("<", b"Go\0\0", 3, ID)
    for content in (b"", b"\x7fELF", b"#!/bin/sh\n", elf(notes=other), elf(notes=b""), elf(count=1), elf()[:70]):
        path.write_bytes(content)
        assert build_id(path) == ""
    assert build_id(tmp_path / "absent") == ""
    assert build_id(tmp_path) == ""


def test_any_damage_ends(tmp_path):
    path, whole = tmp_path / "lib.so", elf()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        assert isinstance(build_id(path), str)
        path.write_bytes(whole[:place])
        assert build_id(path) == ""


@pytest.mark.needs_gcc
class TestRealLibraries:
    pytestmark = needs_gcc

    def test_it_is_what_the_linker_was_told(self, tmp_path):
        source, library = tmp_path / "k.c", tmp_path / "libk.so"
        source.write_text("int k(void) { return 1; }\n")
        wanted = "0123456789abcdef" * 2
        subprocess.run(
            ["gcc", "-shared", "-fPIC", f"-Wl,--build-id=0x{wanted}", "-o", library, source], check=True, timeout=60
        )
        assert build_id(library) == wanted


NAMED = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")


def git(folder, *arguments):
    command = ["git", *NAMED, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


@pytest.fixture
def repository(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "kernel.c").write_text("1\n")
    git(folder, "add", "kernel.c")
    git(folder, "commit", "-q", "-m", "first")
    return folder


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
class TestGit:
    def test_clean_changed_and_detached(self, repository):
        commit = git(repository, "rev-parse", "HEAD")
        clean = {"git.commit": commit, "git.branch": "main", "git.state": "clean"}
        assert git_labels(repository) == clean
        (repository / "results.json").write_text("a new file is no change of the code")
        assert git_labels(repository) == clean
        (repository / "kernel.c").write_text("2\n")
        assert git_labels(repository) == {**clean, "git.state": "changed"}
        git(repository, "checkout", "-q", "--force", "--detach")
        assert git_labels(repository) == {"git.commit": commit, "git.state": "clean"}

    def test_a_staged_file_is_a_change(self, repository):
        (repository / "new.c").write_text("3\n")
        git(repository, "add", "new.c")
        assert git_labels(repository)["git.state"] == "changed"

    def test_outside_of_any_repository_and_before_the_first_commit(self, repository, tmp_path):
        folder = tmp_path / "folder"
        folder.mkdir()
        assert git_labels(folder) == {}
        git(folder, "init", "-q", "-b", "main")
        assert git_labels(folder) == {"git.branch": "main", "git.state": "clean"}

    def test_neither_hooks_nor_monitors_run_and_nothing_is_written(self, repository):
        proof = repository / "ran"
        program = repository / ".git" / "hooks" / "post-index-change"
        program.write_text(f"#!/bin/sh\ntouch {proof}\n")
        program.chmod(0o755)
        git(repository, "config", "core.fsmonitor", program)
        before = (repository / ".git" / "index").read_bytes()
        # The same content with another time: git would like to note that in its index.
        os.utime(repository / "kernel.c", (1, 1))
        assert git_labels(repository)["git.state"] == "clean"
        assert (repository / ".git" / "index").read_bytes() == before
        assert not proof.exists()

    def test_a_slow_status_costs_the_state_and_not_the_commit(self, repository, tmp_path, monkeypatch):
        slow = tmp_path / "bin" / "git"
        slow.parent.mkdir()
        slow.write_text(f'#!/bin/sh\ncase "$*" in *status*) sleep 600;; esac\nexec {shutil.which("git")} "$@"\n')
        slow.chmod(0o755)
        commit = git(repository, "rev-parse", "HEAD")
        monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
        monkeypatch.setattr(labels, "_PATIENCE_SECONDS", 0.5)
        begin = time.monotonic()
        assert git_labels(repository).get("git.commit", commit) == commit
        assert time.monotonic() - begin < 60


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_labels(tmp_path) == {}


def test_given_labels():
    labels = {"device": "mlu370", "url": "http://a/?b=c", "a_b-2": "ü x"}
    assert parse_labels([f"{name}={value}" for name, value in labels.items()]) == labels


BAD_NAMES = ("=x", "1st=x", "a b=x")
BAD_VALUES = ("", " ", "x" * 201, "a\nb", "\x1b[31mred")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["device"], "write NAME=VALUE, e.g. --label device=mlu370"),
        (["git.commit=abc"], "letters, digits, - and _"),
        (["n" * 65 + "=x"], "at most 64"),
        *(([word], "a name begins with a letter") for word in BAD_NAMES),
        *(([f"device={value}"], "one line of 1 to 200 characters") for value in BAD_VALUES),
        (["device=a", "device=b"], "--label device is given twice, as 'a' and as 'b'"),
        (["device=a", "device=a"], "given twice"),
    ],
)
def test_labels_that_are_none(words, message):
    with pytest.raises(UsageError) as caught:
        parse_labels(words)
    assert message in str(caught.value)


class TestLabelsOfARun:
    @pytest.fixture(autouse=True)
    def now(self, monkeypatch):
        monkeypatch.setattr(labels, "git_labels", lambda folder: {"git.commit": "now"})
        monkeypatch.setattr(labels, "file_labels", lambda spec, runtime: {"backend.file": f"{spec} {runtime}"})

    def test_a_new_run(self):
        assert run_labels({"device": "x"}, "c:k.so", "rt.so", "1.2\n3") == {
            "git.commit": "now",
            "backend.file": "c:k.so rt.so",
            "backend.version": "1.2 3",
            "device": "x",
        }

    def test_a_run_that_goes_on_tells_what_has_changed_since(self):
        before = {"git.commit": "then", "backend.file": "k None", "device": "x"}
        assert run_labels(before, "k", None, "") == {
            "git.commit": "differs: then | now",
            "backend.file": "k None",
            "device": "x",
        }
