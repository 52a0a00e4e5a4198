"""The options of a run, in one table: each is declared once, with all that anybody needs to know of it.

From the table follow the options of the commands, the keys of mluops-test.toml, repro lines, what run.json records,
the refusals of what does not go together, and the keywords of `mluops_gtest.run`, which a test compares with it.
Neither click nor numpy is loaded for it.
"""

import os
import re
from collections.abc import Iterator, KeysView, Mapping
from typing import Any, Final, Literal

from msgspec import field
from msgspec.structs import asdict, replace

from mluops_gtest.backends.registry import is_in_process
from mluops_gtest.base.errors import UsageError, repr_short
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import Source, convert
from mluops_gtest.catalog.root import BUILTIN, recorded_roots, root_words
from mluops_gtest.core.case import Percentage, Query, required_millionths
from mluops_gtest.core.report import ReportFormat
from mluops_gtest.version import __version__

# Which outputs `--save-outputs` keeps.
Which = Literal["failed", "all"]


class Option(Value):
    """What is known of one option beside its name and its type."""

    default: Any
    # As the help page writes it, `-j --jobs N`; empty where the command line has something else for it.
    typed: str
    help: str
    # What click cannot tell from the type: size, devices, seed, samples, or which path it is.
    form: str = ""
    # The smallest number, or that which it must be above.
    least: int | None = None
    above: int | None = None
    # What the command line takes for it where nothing is typed, if that is another word; the help page tells it.
    untyped: Any = None
    show_default: bool = False
    # Its place in a repro line, values before flags; 0: it is not there.
    repro: int = 0
    # Its place among the keys of mluops-test.toml; 0: it is none of them.
    setting: int = 0
    # run.json has it.
    recorded: bool = True
    # What it is of no use without.
    needs: Literal["", "workers", "perf", "cluster"] = ""
    # What it does, for the message that refuses it beside `conflicts` or without what it needs.
    why: str = ""
    conflicts: tuple[str, ...] = ()
    # Why it does not go with a cluster.
    off_cluster: str = ""

    @property
    def flags(self) -> list[str]:
        """`-j` and `--jobs`; `--isolate/--no-isolate` is one."""
        return [word for word in self.typed.split() if word.startswith("-")]

    @property
    def metavar(self) -> str | None:
        """What stands for the value on the help page, where click has no word for it."""
        return " ".join(word for word in self.typed.split() if not word.startswith("-")) or None


_DECLARED: Final[list[Option]] = []


def option(default: Any, typed: str = "", words: str = "", *, required: bool = False, **more: Any) -> Any:
    """The default of a field of RunOptions, which takes its place in the table; `required`: run.json must have it."""
    _DECLARED.append(Option(default() if default is dict else default, typed, words, **more))
    return field() if required else field(default_factory=dict) if default is dict else field(default=default)


class RunOptions(Value):
    """Everything that decides what a run does, in the order of the help page; run.json holds it."""

    selection: Query
    roots: tuple[str, ...] = option(
        (BUILTIN,),
        "--root",
        "Use your own folder with generators/, cases/ and prototxt/ instead of the built-in content; repeat it "
        "to use several, e.g. --root builtin --root ../my_operators.",
        form="root",
        untyped=(BUILTIN,),
        setting=2,
        required=True,
    )
    backend: str = option(
        "numpy",
        "--backend -b",
        "What to test: numpy, reference, c:LIBRARY, mlu, exec:COMMAND, torch[:DEVICE], an entry point, "
        "module:attribute or path/file.py[:attribute], e.g. -b my_kernels.py (its `backend`).",
        show_default=True,
        repro=2,
        setting=1,
        required=True,
    )
    runtime: str | None = option(
        None,
        "--runtime LIB",
        "For c:LIBRARY: the library that has the cnrt functions, e.g. --runtime libcnrt.so.",
        repro=1,
    )
    serve: bool = option(
        False, "--serve", "For exec:COMMAND: keep one process running instead of starting one per call.", repro=10
    )
    out: str | None = option(
        None,
        "--out",
        "Folder for run.json, results.jsonl and report.json, e.g. --out results.  [default: ./mluops-results/<time>]",
        form="folder",
        recorded=False,
    )
    overwrite: bool = option(
        False, "--overwrite", "Replace the run in the --out folder, e.g. --out results --overwrite.", recorded=False
    )
    isolate: bool | None = option(
        None,
        "--isolate/--no-isolate",
        "Run the backend in worker processes, or in this one.  [default: isolated, except numpy and reference]",
        repro=21,
    )
    jobs: int = option(
        1,
        "-j --jobs N",
        "Use N worker processes, e.g. -j 2.  [default: 1]",
        least=1,
        setting=4,
        needs="workers",
        off_cluster="a cluster has as many workers as it has",
    )
    devices: tuple[int, ...] = option(
        (), "--devices", "Use one worker per device, e.g. --devices 0,1.", form="devices", least=0, needs="workers"
    )
    timeout: float | None = option(
        None,
        "--timeout SECONDS",
        "Stop a case in a worker after so long, e.g. --timeout 20.  [default: 60, plus 1 per megabyte of tensors]",
        above=0,
        repro=3,
        setting=3,
        needs="workers",
    )
    memory_limit: int | None = option(
        None,
        "--memory-limit",
        "Memory that a case may use beyond the loaded backend and the tensors, e.g. --memory-limit 2G.",
        form="size",
        least=1,
        repro=4,
        needs="workers",
    )
    fresh_workers: bool = option(
        False,
        "--fresh-workers",
        "Run every case in a new worker, so that no case sees what another left behind, e.g. --fresh-workers "
        "--backend c:./libk.so.",
        repro=20,
        needs="workers",
    )
    guard_pages: bool = option(
        False,
        "--guard-pages",
        "Find reads and writes outside a buffer: call every case twice, with inaccessible memory right after "
        "every buffer, then right before it, e.g. --backend c:./libmykernels.so --guard-pages.",
        repro=14,
        needs="workers",
    )
    repeat: int = option(
        1,
        "--repeat N",
        "Run each case N times and require outputs that are equal bit for bit, e.g. --repeat 5.",
        least=1,
        show_default=True,
        repro=5,
    )
    stress: str | None = option(
        None,
        "--stress SECONDS|Nx",
        "Look for races: repeat the cases for so long in all, or each N times, in workers with different numbers "
        "of threads (OMP_NUM_THREADS and the like), and count the repetitions that fail or leave other bits; "
        "elements further off than arithmetic allows fail. Without a selection it takes the cases tagged race; "
        "e.g. --stress 60 or --stress 20x.",
        repro=6,
        needs="workers",
        why="repeats every case itself",
        conflicts=("repeat", "reruns", "perf", "guard_pages"),
        off_cluster="say how often each case is repeated, e.g. --stress 20x",
    )
    reruns: int = option(
        0,
        "--reruns N",
        "Try a failed case up to N more times; one that then passes is flaky, e.g. --reruns 2.",
        least=0,
        repro=7,
    )
    fail_on_leak: bool = option(
        False,
        "--fail-on-leak",
        "Fail a case whose call keeps more memory each time; without this it is a note, e.g. --backend "
        "c:./libk.so --fail-on-leak.",
        repro=17,
        setting=5,
        needs="workers",
    )
    bitwise: bool = option(
        False, "--bitwise", "Where a criterion is diff3 = 0, also require equal bits (−0, NaN payloads).", repro=11
    )
    # True fails the case, None reports such elements, False does not check.
    elementwise: bool | None = option(
        None,
        "--elementwise/--no-elementwise",
        "Elements further off than arithmetic allows: fail the case, or do not check. Default: report them.",
        repro=12,
    )
    arbitrate: bool = option(
        False,
        "--arbitrate",
        "Where outputs differ from their baselines, recompute the worst 1000 elements exactly and say who is "
        "right, e.g. my_cases/ --backend c:./libmykernels.so --arbitrate.",
        repro=13,
    )
    stop_at_first: bool = option(
        False, "-x --exitfirst", "Stop at the first case that fails; run the smallest cases first."
    )
    perf: bool = option(
        False, "--perf", "Also time every case that computes and passes, e.g. --perf --tag network.", repro=18
    )
    warmup: int = option(
        3,
        "--warmup W",
        "Untimed calls before the first sample, e.g. --warmup 10.",
        least=0,
        show_default=True,
        needs="perf",
    )
    # None: as many as it takes.
    samples: int | None = option(
        None,
        "--samples N|auto",
        "Timed calls per case, e.g. --samples 100; auto goes on until the median is known to 1 %, but stops at "
        "1000 calls or about two seconds.",
        form="samples",
        least=1,
        untyped="auto",
        show_default=True,
        repro=8,
        needs="perf",
    )
    cold_cache: bool = option(
        False, "--cold-cache", "Empty this machine's caches before each sample.", repro=19, needs="perf"
    )
    device_spec: str | None = option(
        None,
        "--device-spec FILE",
        "Compare times with what the device can do at best, e.g. --device-spec host.yaml (see: device-spec --help).",
        form="existing file",
        needs="perf",
    )
    # None: the declared values. The command line draws a number for `random`.
    reseed: int | None = option(
        None,
        "--reseed N|random",
        "Use other random values and fresh baselines, so that no lookup table passes, e.g. --reseed 7.",
        form="seed",
        repro=9,
    )
    save_outputs: Which | None = option(
        None,
        "--save-outputs",
        "Keep what the backend computed as .npy files in the results folder, for `diff`, e.g. --save-outputs failed.",
        off_cluster="outputs stay on the workers; run the failing case here with it",
    )
    require_coverage: Percentage | None = option(
        None,
        "--require-coverage PERCENT",
        "Exit 5 unless so many of the selected cases passed or failed, not skipped, e.g. --require-coverage 95%.",
        setting=7,
    )
    shard: str | None = option(None, "--shard I/N", "Run only part I of N of the selected cases, e.g. --shard 2/5.")
    failed: str | None = option(
        None,
        "--failed RESULTS",
        "Run only what did not pass in an earlier run (a results folder or a report.json), the smallest cases "
        "first, e.g. --failed results --op get_indice_pairs.",
        form="results",
        recorded=False,
    )
    # Results with times; once the run is planned a digest of the times that the shards were cut by.
    times: str | None = option(
        None,
        "--times RESULTS",
        "Balance the shards by the times of an earlier run (a results folder or a report.json), e.g. --shard 2/5 "
        "--times last-night.",
        form="results",
    )
    allow_empty_shard: bool = option(
        False,
        "--allow-empty-shard",
        "Accept a shard without cases, e.g. --shard 9/9 --allow-empty-shard.",
        recorded=False,
    )
    cluster: str | None = option(
        None,
        "--cluster ADDRESS",
        "Run on a Dask cluster: tcp://SCHEDULER:8786 (or tls://, ucx://), local:N for N processes here, or "
        "path/file.py:FUNCTION that makes one, e.g. --cluster tcp://node1:8786.",
    )
    ship: tuple[str, ...] = option(
        (),
        "--ship PATH",
        "Send this file of the backend to the cluster's workers, e.g. --backend c:./libk.so --ship ./libk.so "
        "--cluster local:2.",
        form="existing file",
        needs="cluster",
        why="sends files to the workers of a cluster",
    )
    judge_here: bool = option(
        False,
        "--judge-here",
        "With --cluster: fetch the outputs of all cases and judge them on this machine; else 2 % are, by draw.",
        needs="cluster",
        why="is about workers of a cluster",
    )
    # Format → file, written at the end; the command line has an option for each format.
    reports: dict[ReportFormat, str] = option(dict)
    # What the user says, and from the beginning of the run on also what the harness recorded.
    labels: dict[str, str] = option(
        dict,
        "--label NAME=VALUE",
        "Name this run in history, compare and reports, e.g. --label device=mlu370 --label compiler=4.1.0; git "
        "commit and backend file are always recorded.",
        setting=9,
    )
    strict: bool = option(
        False,
        "--strict",
        "Treat notes about a case file, and calls that the operator does not define, as errors.",
        repro=15,
    )
    allow_outside_paths: bool = option(
        False,
        "--allow-outside-paths",
        "Let case files read data files outside their own folder (only for files you trust).",
        repro=16,
    )
    # The settings file that was in force; its values are resolved here.
    settings: str | None = option(None)

    def __post_init__(self) -> None:
        """Refuse what cannot be read at the end of the run."""
        if self.require_coverage is not None:
            required_millionths(self.require_coverage)

    @property
    def isolated(self) -> bool:
        """Run in worker processes: if asked to, or by default for everything that is not built in."""
        return not is_in_process(self.backend) if self.isolate is None else self.isolate

    @property
    def slots(self) -> tuple[int | None, ...]:
        """One device (or none in particular) per worker."""
        return self.devices or (None,) * self.jobs

    def changed(self) -> KeysView[str]:
        """The options that do not have their defaults, in the order of the table."""
        return {name: None for name, one in OPTIONS.items() if getattr(self, name) != one.default}.keys()

    def single_values(self) -> Iterator[tuple[str, Option, Any]]:
        """Every value, those of a tuple one by one, with the name and the option; None is no value."""
        for name, one in OPTIONS.items():
            values = getattr(self, name)
            for value in values if isinstance(values, tuple) else (values,):
                if value is not None:
                    yield name, one, value

    def repro_options(self) -> tuple[str, ...]:
        """What a repro line needs after `mluops-test run CASE`: the values, then the flags."""
        words = [*root_words(self.roots, self.settings)]
        given = self.changed() | (set() if self.settings is None else {"backend"})
        for name in sorted(given, key=lambda one: OPTIONS[one].repro):
            if OPTIONS[name].repro:
                value, (yes, _, no) = getattr(self, name), OPTIONS[name].flags[0].partition("/")
                words.append(no if value is False else yes)
                if not isinstance(value, bool):
                    words.append(str(value).removesuffix(".0") if isinstance(value, float) else str(value))
        return tuple(words)

    def to_json(self, ids: list[str], left_out: int) -> dict[str, Any]:
        """For run.json; the ids are written out, so that a resumed run plans the very same cases."""
        record = {name: value for name, value in asdict(self).items() if name == "selection" or OPTIONS[name].recorded}
        what = {"selection": asdict(self.selection), "cases": ids, "left_out": left_out}
        return {"format": 1, "tool_version": __version__, **record, **what}

    @staticmethod
    def from_json(record: dict[str, Any], source: Source) -> "RunOptions":
        """The options in run.json; what no command line could make is refused."""
        from mluops_gtest.results.records import check_labels  # late: a new run reads none

        options = convert({**record, "roots": recorded_roots(record)}, RunOptions, source)
        check_labels(options.labels, replace(source, at="$.labels"))
        for name, one, value in options.single_values():
            least = one.above if one.least is None else one.least
            if least is not None and not least <= value < 2**63:
                raise source.error(f"{value} is too small; it must be at least {least}", f".{name}")
        if options.stress is not None:
            try:
                Stress.parse(options.stress)
            except UsageError as error:
                raise source.error(str(error).removesuffix("."), ".stress") from error
        words = {name: getattr(options, name) for name in ("backend", "roots", "runtime", "device_spec")}
        for name, values in {**words, **{f"reports.{form}": file for form, file in options.reports.items()}}.items():
            for value in values if isinstance(values, tuple) else (values or "",):
                if "\0" in value:
                    raise source.error(f"{repr_short(value)} is not a valid name", f".{name}")
        return options


# By the names of their fields.
OPTIONS: Final[Mapping[str, Option]] = dict(zip(RunOptions.__struct_fields__[1:], _DECLARED, strict=True))


class RunRecord(Value):
    """What run.json says beside the options."""

    cases: tuple[str, ...]
    left_out: int


# Seconds in all, or repetitions of each case; more digits are no time that somebody waits.
_WORD: Final = re.compile(r"(?P<times>[1-9]\d{0,8})x|(?P<seconds>\d{1,8}(?:\.\d{1,6})?)", re.ASCII)


class Stress(Value):
    """How long cases are repeated: for so many seconds, or exactly so many times each."""

    seconds: float = 0.0
    # None: as often as the seconds allow, and with every number of threads at least once.
    times: int | None = None

    @staticmethod
    def parse(word: str) -> "Stress":
        """`60` → 60 seconds for all cases together; `20x` → each case 20 times."""
        found = _WORD.fullmatch(word.strip())
        if found is None or (found["seconds"] and float(found["seconds"]) == 0):
            raise UsageError(
                f"--stress {repr_short(word)}: write the seconds for all cases together, e.g. --stress 60, "
                "or how often each case runs, e.g. --stress 20x."
            )
        return Stress(times=int(found["times"])) if found["times"] else Stress(float(found["seconds"]))

    def shared(self, cases: int, slots: int) -> "Stress":
        """What falls to one case."""
        return replace(self, seconds=self.seconds * slots / max(cases, 1))


def thread_counts(cores: int | None = None) -> tuple[int, ...]:
    """The numbers of threads that repetitions take in turn: all cores, few, none beside it, more than there are."""
    cores = cores or os.cpu_count() or 1
    return tuple(dict.fromkeys((max(cores, 2), 2, 1, 2 * cores, cores + 1)))
