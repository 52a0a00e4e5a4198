"""Chapter 6: what backends say reaches terminals, pages and annotations without anything that acts there."""

import unicodedata
from pathlib import Path

from tests.campaign.content import BACKEND, case_id
from tests.campaign.fault_runs import OPTIONS, shared_faults
from tests.campaign.sandbox import Sandbox
from tests.campaign.tally import Try

KIND = "words from outside, shown"
DIRECTIONS = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)}
BLANKS = "\n\t"
# For programs, which get what was said; the page shows it as text.
DATA = ("html", "junit", "ctrf", "json")


def acting(text: str) -> str:
    """Control characters, halves of characters and changes of direction in it."""
    found = {
        sign for sign in set(text) - set(BLANKS) if unicodedata.category(sign) in ("Cc", "Cs") or sign in DIRECTIONS
    }
    return " ".join(sorted(f"U+{ord(sign):04X}" for sign in found))


def words(folder: Path, root: Path, *, quick: bool) -> list[Try]:
    """A run of every fault that talks, shown in every way there is; quick: on the terminal and on a change."""
    box = Sandbox(folder)
    out = folder / "results"
    cases = [case_id(fault) for fault in shared_faults() if fault.family in ("text", "answers")]
    options = [option for option in OPTIONS if option != "-q"]
    shown = [
        ("run", *cases, "--root", root, "--out", out, "-v", *options),
        *(("report", out, "--format", name) for name in ("markdown", "html", "junit", "ctrf", "json")),
        *(
            ("gate", out, "--against", out, "--format", name)
            for name in ("table", "markdown", "github", "gitlab", "json")
        ),
        ("compare", out, out, "--all"),
        ("history", "add", out, "--db", folder / "history.sqlite"),
        ("history", "show", case_id(shared_faults()[0]), "--db", folder / "history.sqlite"),
    ]
    plugin = ["-rA", "-p", "no:cacheprovider", "-p", "mluops_gtest.pytest_plugin", "--mluops-root", root]
    for case in cases:
        plugin += ["--mluops-select", case] if case.endswith(("_escape_sequences", "_hostile_name", "_text")) else []
    shown.append((*plugin, "--mluops-backend", BACKEND))
    if quick:
        shown = [one for one in shown if one[0] == "run" or one[-1] in ("markdown", "github", BACKEND)]
    tries = []
    for arguments in shown:
        by_pytest = arguments[0] == plugin[0]
        done = box.run(*arguments, module="pytest" if by_pytest else "mluops_gtest")
        name = " ".join(str(word) for word in arguments[:1] + arguments[-2:])
        # pytest says with 1 that tests failed, and with all others that something else went wrong.
        bad_codes = {*range(256), None} - {1} if by_pytest else {None, 70}
        broken = [f"{name}: exit code {done.code}: {done.err[-300:]}"] if done.code in bad_codes else []
        for place, text in (("output", "" if arguments[-1] in DATA else done.out), ("errors", done.err)):
            if signs := acting(text):
                broken.append(f"{name}: {signs} in its {place}")
        # A job's log obeys lines that start so; only the gate for that service may write them.
        if arguments[-1] != "github" and any(line.startswith("::") for line in done.out.splitlines()):
            broken.append(f"{name}: a line starts with ::")
        left = len(done.processes), len(done.files)
        bug = int(done.code == 70)
        tries.append(Try(KIND, "python -m tests.campaign --only words", 0, 0, bug, *left, tuple(broken)))
    return tries
