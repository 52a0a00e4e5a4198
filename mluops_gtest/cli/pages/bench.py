"""What a bench found, as a person reads it."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console

from mluops_gtest.cli.terminal import whole_table
from mluops_gtest.results.reports.terminal import LINE, RIGHT, table_of
from mluops_gtest.results.reports.text import escape
from mluops_gtest.results.statistics import TimedPair, TimeVerdict, compare_backends
from mluops_gtest.results.times import duration, timing_stats

_COLOURS = {TimeVerdict.FASTER: "green", TimeVerdict.SLOWER: "red"}


def print_bench(console: Console, backends: Sequence[str], found: Sequence[TimedPair]) -> None:
    """A row per case that was timed, then what was not compared, then the sums."""
    first, second = (f"{number}: {escape(spec)}" for number, spec in enumerate(backends, 1))
    figures = (first, second, "2 over 1", "interval", "samples")
    table = table_of((("case",), LINE), (figures, RIGHT), (("2 is", ""), LINE))
    compared = [one for one in found if not one.problem]
    answers: Counter[TimeVerdict] = Counter()
    for one in compared:
        ours, theirs = one.samples
        said = compare_backends(ours, theirs, len(compared), one.overhead_ns)
        answers[said.answer] += 1
        word = said.answer.value
        table.add_row(
            escape(one.results[0].case),
            duration(timing_stats(ours).median),
            duration(timing_stats(theirs).median),
            f"{said.ratio:.3f}",
            f"{said.low:.3f} – {said.high:.3f}",
            str(len(ours)),
            f"[{_COLOURS[said.answer]}]{word}[/]" if said.answer in _COLOURS else word,
            said.remark,
        )
    if compared:
        whole_table(console, table)
    for one in found:
        if one.problem:
            result = next((result for result in one.results if result.outcome.blocks), one.results[0])
            console.print(
                f"[{result.outcome.tone.terminal}]{escape(result.case)}[/]: {escape(one.problem)}", soft_wrap=True
            )
    words = [f"{answers[answer]} {answer.value}" for answer in TimeVerdict if answers[answer]]
    left = len(found) - len(compared)
    words += [f"{left} not compared"] if left else []
    console.print(f"{second} against {first}: {', '.join(words)}", soft_wrap=True)
