"""`python -m tests.campaign`: all chapters, one table, exit 1 where a promise was broken."""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from tests.campaign.addresses import addresses
from tests.campaign.case_files import by_command, in_process
from tests.campaign.clusters import clusters
from tests.campaign.content import write_content
from tests.campaign.disks import disks
from tests.campaign.documents import documents
from tests.campaign.fault_runs import each_alone, guarded, shared_faults, together
from tests.campaign.faults import everything
from tests.campaign.histories import histories
from tests.campaign.interrupts import interrupts
from tests.campaign.kills import kills
from tests.campaign.own_process import own_process
from tests.campaign.paths import paths
from tests.campaign.searches import searches
from tests.campaign.tally import Tally, Try
from tests.campaign.users import become
from tests.campaign.words import words

T = TypeVar("T")
Chapter = Callable[[Path, Path, argparse.Namespace], list[Try]]


def main() -> int:
    """Run the chapters that are asked for; the exit code."""
    options = _options()
    if options.list:
        print(
            *(f"{fault.name:45} {fault.family:12} {', '.join(fault.outcomes)}" for fault in everything().values()),
            sep="\n",
        )
        return 0
    if options.user is not None:
        become(options.user)
    # Ended from outside, it still removes its folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tally = Tally()
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))
    try:
        root = write_content(folder, options.seed)
        for name, chapter in _chapters(options).items():
            start = time.monotonic()
            print(f"{name} … ", end="", flush=True)
            tally.add(chapter(folder / name, root, options))
            print(f"{time.monotonic() - start:.0f} s", flush=True)
    finally:
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{tally.markdown() if options.markdown else tally}\n")
    for failed in tally.failures():
        user = f" --user {options.user}" if options.user and failed.repro.startswith("python -m") else ""
        print(f"broken: {failed.kind}\n  repro: {failed.repro}{user}")
        for what in failed.broken[: None if options.verbose else 5]:
            print(f"  {what}")
    return 1 if tally.failures() else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=sys.modules["tests.campaign"].__doc__)
    parser.add_argument("--quick", action="store_true", help="a sample of everything, about a minute")
    parser.add_argument("--seed", type=int, default=1, help="what is drawn: orders, mutations, moments of kills")
    parser.add_argument("--only", metavar="NAME", help="one chapter, or faults of this name or family, each in a run")
    parser.add_argument("--part", type=_part, default=(1, 1), metavar="K/N", help="of all kinds this share, e.g. 1/2")
    parser.add_argument("--user", metavar="NAME", help="started by root: run as this user, e.g. nobody")
    parser.add_argument("--try", dest="one", type=int, metavar="N", help="of the chapter of --only, this try alone")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="commands at the same time")
    parser.add_argument("--list", action="store_true", help="every fault with the outcomes it may have")
    parser.add_argument("--markdown", action="store_true", help="the table as docs/reference/trust.md has it")
    parser.add_argument("--keep", action="store_true", help="keep the folder with all files")
    parser.add_argument("-v", "--verbose", action="store_true", help="everything that was broken")
    return parser.parse_args()


def _chapters(options: argparse.Namespace) -> dict[str, Chapter]:
    faults = everything()
    chosen = [fault for fault in faults.values() if options.only in (fault.name, fault.family)]
    if chosen:
        return {"alone": lambda folder, root, o: each_alone(folder, root, chosen, o.seed, o.jobs)}
    chapters: dict[str, Chapter] = {
        "together": _together,
        "alone": _alone,
        "guarded": lambda folder, root, o: guarded(folder, root, o.seed, jobs=3),
        "words": lambda folder, root, o: words(folder, root, quick=o.quick),
        "own_process": lambda folder, root, o: own_process(folder, root, o.jobs, quick=o.quick),
        "paths": lambda folder, root, o: paths(folder, root, o.seed, _tries(o, 8, 160), o.jobs),
        "interrupts": lambda folder, root, o: interrupts(folder, root, o.seed, _tries(o, 6, 120), o.jobs),
        "histories": lambda folder, root, o: histories(folder, root, o.jobs),
        "searches": lambda folder, _, o: searches(folder, o.seed, _tries(o, 1, 12), o.jobs),
        "clusters": lambda folder, root, o: clusters(folder, root, _tries(o, 0, 26)),
        "kills": lambda folder, root, o: kills(folder, root, o.seed, _tries(o, 3, 60), o.jobs),
        "case_files": lambda folder, _, o: in_process(folder, o.seed, _tries(o, 1000, 26000), o.jobs),
        "case_runs": lambda folder, _, o: by_command(folder, o.seed, _tries(o, 50, 1000), o.jobs),
        "documents": lambda folder, _, o: documents(folder, o.seed, _tries(o, 90, 1800), o.jobs),
        "addresses": lambda folder, root, o: addresses(folder, root, o.seed, _tries(o, 4, 110), o.jobs),
        "disks": lambda folder, root, o: disks(folder, root, o.seed, _tries(o, 2, 40), o.jobs),
    }
    if options.quick and options.only is None:
        del chapters["guarded"], chapters["clusters"]
    if options.only is None:
        shared = _share(list(chapters)[2:], options)
        chapters = {name: chapter for name, chapter in chapters.items() if name in ("together", "alone", *shared)}
    if options.only is not None and options.only not in chapters:
        sys.exit(f"--only {options.only}: neither a chapter ({', '.join(chapters)}) nor a fault (--list shows them)")
    return chapters if options.only is None else {options.only: chapters[options.only]}


def _part(word: str) -> tuple[int, int]:
    part, parts = map(int, word.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(word)
    return part, parts


def _share(items: Sequence[T], options: argparse.Namespace) -> list[T]:
    """Those of this part; with another seed other ones."""
    part, parts = options.part
    return [item for i, item in enumerate(items) if (i + options.seed) % parts == part - 1]


def _tries(options: argparse.Namespace, quick: int, full: int) -> range:
    """Which tries: one of them where --try asks for it."""
    if options.one is not None:
        return range(options.one, options.one + 1)
    return range(quick if options.quick else full)


def _together(folder: Path, root: Path, options: argparse.Namespace) -> list[Try]:
    faults = shared_faults()
    if options.quick:
        # Every hang waits for its time-out.
        hanging = [fault for fault in faults if "timed_out" in fault.outcomes]
        chosen = random.Random(options.seed).sample(hanging, 4)
        faults = [fault for fault in faults if fault not in hanging or fault in chosen]
    return together(folder, root, _share(faults, options), options.seed, jobs=6)


def _alone(folder: Path, root: Path, options: argparse.Namespace) -> list[Try]:
    faults = list(everything().values())
    if options.quick:
        # Those that have no place in the run with all others, and some that have.
        draw = random.Random(options.seed)
        faults = [fault for fault in faults if fault.alone][:2] + draw.sample(shared_faults(), 4)
    return each_alone(folder, root, _share(faults, options), options.seed, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
