"""A folder, an environment and a token of its own for every command: what it leaves behind can be told apart."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.campaign.tally import Try

ROOT: Final = Path(__file__).parents[2]
TOKEN: Final = "CAMPAIGN_TOKEN"
PIDS: Final = "CAMPAIGN_PIDS"
# How long what a run started may take to disappear after it.
GRACE_SECONDS: Final = 10.0
MAX_SECONDS: Final = 300.0
# A broken promise must not take the machine down that the campaign runs on.
MAX_MEMORY: Final = 8 << 30


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it left."""

    code: int | None  # None: it did not end by itself
    out: str
    err: str
    processes: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def tracebacks(self) -> int:
        """How many of Python's traces reached the user."""
        return sum(text.count("Traceback (most recent call last)") for text in (self.out, self.err))

    def as_try(self, kind: str, repro: str, lost: int, broken: Sequence[str]) -> Try:
        """What it counts for."""
        traces = [f"a trace: {text[-1500:]}" for text in (self.out, self.err) if "Traceback (most" in text]
        left = [f"left: {name}" for name in (*self.processes, *self.files)]
        return Try(
            kind, repro, lost, self.tracebacks, int(self.code == 70), len(self.processes), len(self.files),
            (*broken, *left, *traces),
        )  # fmt: skip


class Sandbox:
    """Runs commands in `folder`; its `tmp` must be as empty afterwards as it was before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tmp = folder / "tmp"
        self.tmp.mkdir(parents=True)
        self.pids = folder / "pids"
        self.token = uuid.uuid4().hex
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MLUOPS_TEST_")},
            "MLUOPS_TEST_SETTINGS": "none",
            TOKEN: self.token,
            PIDS: str(self.pids),
            "TMPDIR": str(self.tmp),
            "MLUOPS_TEST_CACHE": str(folder.parent / "cache"),
            "PYTHONPATH": os.pathsep.join((str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep))),
            "PYTHONDONTWRITEBYTECODE": "1",
            "COLUMNS": "120",
        }

    def start(
        self,
        arguments: Sequence[str | Path],
        stdout: Path | None = None,
        most_file_bytes: int | None = None,
        environment: Mapping[str, str] | None = None,
        module: str = "mluops_gtest",
        most_addresses: int = MAX_MEMORY,
    ) -> "subprocess.Popen[bytes]":
        """Start `mluops-test ARGUMENTS`, or another module's program, in a session of its own."""

        def limit() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # children of nohup would ignore it
            resource.setrlimit(resource.RLIMIT_AS, (most_addresses, most_addresses))
            if most_file_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, most_file_bytes))

        piped = most_file_bytes is not None  # a limit on files holds for those that a command prints to, too
        with open(stdout or self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            return subprocess.Popen(
                [sys.executable, "-m", module, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else out,
                stderr=subprocess.PIPE if piped else err,
                cwd=self.folder,
                env={**self.environment, **(environment or {})},
                start_new_session=True,
                preexec_fn=limit,
            )

    def finish(self, process: "subprocess.Popen[bytes]", seconds: float = MAX_SECONDS) -> Finished:
        """Wait for it, then look for what it left; ends what is still there."""
        code: int | None
        try:
            if process.stderr is not None:
                for name, data in zip(("out", "err"), process.communicate(timeout=seconds), strict=True):
                    (self.folder / name).write_bytes(data)
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
            process.kill()
            process.wait()
        left = self._wait_until_alone()
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        files = tuple(sorted(str(path.relative_to(self.tmp)) for path in self.tmp.rglob("*")))
        for path in self.tmp.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        return Finished(
            code, _text(self.folder / "out"), _text(self.folder / "err"), tuple(name for _, name in left), files
        )

    def run(self, *arguments: str | Path, **how: Any) -> Finished:
        """Run what `start` starts to its end."""
        return self.finish(self.start(arguments, **how))

    def _wait_until_alone(self) -> list[tuple[int, str]]:
        deadline = time.monotonic() + GRACE_SECONDS
        while (left := list(self.processes())) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def processes(self) -> Iterator[tuple[int, str]]:
        """Who carries the token, or is one of those that noted themselves because they drop their environment."""
        noted = set(self.pids.read_text().split()) if self.pids.exists() else set()
        mine = f"{TOKEN}={self.token}".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                pid = int(entry.name)
                ours = mine in (entry / "environ").read_bytes() or f"{pid}:{started(pid)}" in noted
                if ours and state(pid) != "Z":
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    yield pid, command[:80]


def started(pid: int) -> str:
    """When the process started, in the kernel's ticks: with the number it names one process for ever."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def state(pid: int) -> str:
    """One letter: R, S, Z, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _text(path: Path) -> str:
    # A flood is looked at by its head and its tail.
    data = path.read_bytes() if path.exists() else b""
    return (data if len(data) < 4 << 20 else data[: 2 << 20] + data[-2 << 20 :]).decode(errors="replace")
