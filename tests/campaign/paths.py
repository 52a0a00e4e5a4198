"""Chapter 8: names, links and sizes of files lead nowhere but below the destination, and end in a sentence."""

import random
import re
from collections.abc import Callable
from pathlib import Path

from tests.campaign.content import calm_ids
from tests.campaign.sandbox import ROOT, Sandbox
from tests.campaign.tally import Try, try_all

CASE = ROOT / "prototxt" / "voxel_pooling_forward" / "order_of_axes.prototxt"
CASE_ID = "voxel_pooling_forward/order_of_axes"
# Done, refused as content, or not to be written; 2: refused before anything began.
GOOD_CODES = (0, 1, 2, 3, 74)
FIRST_INPUT_BYTES = 2 * 10 * 3 * 4
WRONG_KERNEL = (
    "import mluops_gtest as mt\n\n\nclass Wrong(mt.NumpyBackend):\n    name = 'wrong'\n\n"
    "    def run(self, call):\n        status = super().run(call)\n"
    "        call.array('output_features')[...] = 7\n        return status\n"
)
DESTINATIONS = ("x/y/z/", "out", "err", "tmp", "pids")
HUGE = 20 << 30
Drawn = tuple[str, list[str | Path]]


def paths(folder: Path, root: Path, seed: int, tries: range, at_once: int) -> list[Try]:
    """Drawn names and links for every command that writes where data says, and files larger than all memory."""

    def attempt(i: int) -> Try:
        draw = random.Random(f"{seed}/paths/{i}")
        kind, prepare = list(KINDS.items())[i % len(KINDS)]
        box = Sandbox(folder / str(i))
        for name in ("source", "x/y/z"):
            (box.folder / name).mkdir(parents=True)
        _elsewhere(box.folder).mkdir()
        (_elsewhere(box.folder) / "victim").write_text("precious")
        arguments = prepare(box.folder, root, draw)
        before = _outside(box.folder)
        done = box.run(*arguments)
        broken = [f"{str(what)[:200]}: changed outside of its destination" for what in _outside(box.folder) ^ before]
        if done.code not in GOOD_CODES or (done.code in (2, 3, 74) and not done.err.strip() + done.out.strip()):
            broken.append(f"{' '.join(map(str, arguments))}: exit code {done.code}: {done.err[-400:]}")
        repro = f"python -m tests.campaign --only paths --try {i} --seed {seed}"
        return done.as_try(kind, repro, 0, broken)

    return try_all(attempt, tries, at_once)


def _elsewhere(folder: Path) -> Path:
    """A folder beside that of the try, which no command has business with."""
    return folder.with_name(f"{folder.name}-elsewhere")


def _outside(folder: Path) -> set[tuple[str, int, str]]:
    """All that stands around the destinations, and of files elsewhere what they hold."""
    found = {(path.name, 0, path.read_text(errors="replace")) for path in _elsewhere(folder).iterdir()}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if not (name.startswith(DESTINATIONS) or name.endswith("_minimised.prototxt")):
            found.add((name, path.lstat().st_size if path.is_file() else 0, ""))
    return found


def _case_with_blob(folder: Path, draw: random.Random) -> Path:
    """A case whose first input stands in a file with a drawn name; `deep` is a link that makes some of them right."""
    source, elsewhere = folder / "source", _elsewhere(folder)
    (source / "a/b/c/d/e").mkdir(parents=True)
    (source / "deep").symlink_to(source / "a/b/c/d/e")
    (source / "away").symlink_to(_elsewhere(folder))
    up = "/".join([".."] * draw.randint(1, 6))
    path = draw.choice(
        (
            *("deep/../../../../../.profile", f"deep/{up}/.profile", f"{up}/{elsewhere.name}/blob", "away/blob"),
            *(str(elsewhere / "blob"), "/etc/hostname", "./.profile", "a//../.profile", ".", "", "\\0x", "n" * 300),
        )
    )
    for place in (source / ".profile", elsewhere / "blob"):
        place.write_bytes(bytes(FIRST_INPUT_BYTES))
    text = CASE.read_text()
    first = re.findall(r"input \{.*?\n\}", text, re.DOTALL)[0]
    tensor = re.sub(r"  value_[a-z]+: .*\n", "", first)
    case = source / "case.prototxt"
    case.write_text(text.replace(first, f'{tensor[:-1]}  path: "{path}"\n}}'))
    return case


def _converts(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    case = _case_with_blob(folder, draw)
    more = draw.choice(([], ["--allow-outside-paths"]))
    return ["convert", case, folder / "x/y/z" / draw.choice(("case.pb", "case.prototxt")), *more]


def _exports(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    _case_with_blob(folder, draw)
    more = draw.choice(([], ["--allow-outside-paths"]))
    form = draw.choice(("pb", "prototxt"))
    return ["export", folder / "source", "--out", folder / "x/y/z/out", "--format", form, *more]


def _minimises(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    """Into the folder of the command, where a link waits; or of a case with a drawn name of a data file."""
    (folder / "source" / "wrong.py").write_text(WRONG_KERNEL)
    link = folder / f"{draw.choice(('order_of_axes', 'case'))}_minimised.prototxt"
    link.symlink_to(_elsewhere(folder) / draw.choice(("victim", "new")))
    case: str | Path = draw.choice((CASE_ID, _case_with_blob(folder, draw)))
    where = draw.choice(([], ["--out", folder / "x/y/z/case.prototxt"]))
    return ["minimise", case, "--backend", f"{folder / 'source' / 'wrong.py'}:Wrong", *where]


def _converts_into_links(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    (folder / "source/sub").mkdir()
    (folder / "source/sub/case.prototxt").write_text(CASE.read_text())
    name = draw.choice(("sub", "sub/case.pb"))
    link = folder / "x/y/z" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(_elsewhere(folder) / ("" if name == "sub" else draw.choice(("victim", "new"))))
    return ["convert", folder / "source", folder / "x/y/z"]


def _saves_outputs_into_links(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    results = folder / "x/y/z/results"
    results.mkdir()
    (results / "outputs").symlink_to(_elsewhere(folder))
    return ["run", CASE_ID, "--save-outputs", "all", "--out", results, "-q"]


def _locks_a_link(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    from mluops_gtest.results.folder import LOCK

    results = folder / "x/y/z/results"
    results.mkdir()
    (results / LOCK).symlink_to(_elsewhere(folder) / draw.choice(("victim", "new")))
    return ["run", calm_ids()[0], "--root", root, "--out", results, "-q"]


def _reads_huge_files(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    """Sparse ones, larger than the sandbox's limit on memory."""
    source, target = folder / "source", folder / "x/y/z/case.pb"
    name, arguments = draw.choice(
        (
            ("case.prototxt", ["run", source / "case.prototxt", "--out", target.with_name("results"), "-q"]),
            ("case.pb", ["run", source / "case.pb", "--out", target.with_name("results"), "-q"]),
            ("case.prototxt", ["convert", source / "case.prototxt", target]),
            ("case.pb", ["convert", source / "case.pb", target.with_name("case.prototxt")]),
            ("report.json", ["report", source, "--format", "markdown"]),
            ("report.json", ["gate", source, "--against", source]),
            ("results.jsonl", ["run", "--resume", source, "-q"]),
            ("run.json", ["run", "--resume", source, "-q"]),
            ("waivers.yaml", ["gate", source, "--against", source, "--waivers", source / "waivers.yaml"]),
            ("baseline.json", ["gate", source, "--against", source / "baseline.json"]),
            ("history.sqlite", ["history", "show", "--db", source / "history.sqlite"]),
            ("device.yaml", ["device-spec", source / "device.yaml"]),
            ("cases/x.yaml", ["list", "--all", "--root", source]),
            ("mluops-test.toml", ["--settings", source / "mluops-test.toml", "list"]),
        )
    )
    (source / name).parent.mkdir(exist_ok=True)
    with open(source / name, "wb") as file:
        file.truncate(HUGE)
    return list(arguments)


def _reads_huge_blobs(folder: Path, root: Path, draw: random.Random) -> list[str | Path]:
    """A data file of 20 GiB beside a case: of the size that its tensor says, or of another one."""
    case = _case_with_blob(folder, draw)
    text = re.sub(r'path: ".*"', 'path: "blob"', case.read_text())
    if draw.random() < 0.7:
        text = re.sub(r"dims: \d+", f"dims: {HUGE // 4 // 30}", text, count=1)
    case.write_text(text)
    with open(folder / "source" / "blob", "wb") as file:
        file.truncate(HUGE)
    return draw.choice(
        (
            ["convert", case, folder / "x/y/z/case.pb"],
            ["run", case, "--out", folder / "x/y/z/results", "-q"],
            ["export", case, "--out", folder / "x/y/z/exported"],
        )
    )


KINDS: dict[str, Callable[[Path, Path, random.Random], list[str | Path]]] = {
    "names of data files, converted": _converts,
    "names of data files, exported": _exports,
    "names of data files, minimised": _minimises,
    "links in a destination": _converts_into_links,
    "links in a results folder": _saves_outputs_into_links,
    "a lock that is a link": _locks_a_link,
    "sparse files of 20 GiB": _reads_huge_files,
    "sparse data files of 20 GiB": _reads_huge_blobs,
}
