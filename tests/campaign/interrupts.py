"""Chapter 9: Ctrl-C while a command imports a drawn module: exit code 130, one word, nothing left."""

import random
from pathlib import Path

from tests.campaign.content import calm_ids
from tests.campaign.sandbox import Sandbox
from tests.campaign.tally import Try, try_all

INTERRUPTED = 130
# Loaded by Python before the command: notes what is imported, and interrupts at one of these names.
HOOK = """
import os, signal, sys

class _Interrupt:
    begun = False

    def find_spec(self, name, path=None, target=None):
        # Before that Python itself is at work, which ends as it likes.
        self.begun = self.begun or name == "mluops_gtest.cli"
        if not self.begun:
            return None
        if os.environ.get("CAMPAIGN_NOTE"):
            with open(os.environ["CAMPAIGN_NOTE"], "a") as file:
                file.write(name + "\\n")
        if name == os.environ.get("CAMPAIGN_INTERRUPT"):
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, _Interrupt())
"""


def interrupts(folder: Path, root: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Of all modules that commands import, drawn ones, each with an interrupt in the middle."""
    folder.mkdir(parents=True)
    (folder / "sitecustomize.py").write_text(HOOK)
    commands = (("run", calm_ids()[0], "--root", root, "--out", "results", "-q"), ("list", "--all"), ("--help",))
    modules = [_imported(folder, i, command) for i, command in enumerate(commands)]

    def attempt(i: int) -> Try:
        chosen = i % len(commands)
        module = random.Random(f"{seed}/interrupts/{i}").choice(modules[chosen])
        box = _box(folder / str(i))
        done = box.run(*commands[chosen], environment={"CAMPAIGN_INTERRUPT": module})
        broken = [] if done.code == INTERRUPTED else [f"{module}: exit code {done.code}: {done.err[-500:]}"]
        repro = f"python -m tests.campaign --only interrupts --try {i} --seed {seed}"
        return done.as_try("Ctrl-C during imports", repro, 0, broken)

    return try_all(attempt, tries, at_once)


def _box(folder: Path) -> Sandbox:
    box = Sandbox(folder)
    box.environment["PYTHONPATH"] = f"{folder.parent}:{box.environment['PYTHONPATH']}"
    return box


def _imported(folder: Path, i: int, command: tuple[str | Path, ...]) -> list[str]:
    """What the command imports once it has begun, in its order."""
    note = folder / f"imported-{i}"
    # The first run keeps in the cache what others need not import again.
    _box(folder / f"first-{i}").run(*command)
    done = _box(folder / f"undisturbed-{i}").run(*command, environment={"CAMPAIGN_NOTE": str(note)})
    if done.code != 0:
        raise RuntimeError(f"{command}: exit code {done.code}: {done.err}")
    return list(dict.fromkeys(note.read_text().splitlines()))
