"""The operator test report in Markdown that teams file with a change, in English or Chinese, filled in from results."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mluops_gtest.base.errors import ExitCode
from mluops_gtest.catalog.root import BUILTIN, recorded_roots
from mluops_gtest.core.cause import format_reason
from mluops_gtest.core.outcome import DRIFT_FACTOR, Outcome
from mluops_gtest.core.report import RunReport, TalliedResults, backend_of
from mluops_gtest.core.result import CaseResult, format_arbitration
from mluops_gtest.results.reports.markdown_summary import (
    CheckedPoint,
    OperatorSummary,
    Words,
    accuracy_standard,
    checked_points,
    checklist,
    code,
    describe_change,
    dtype_of,
    feature_tests,
    is_rejected,
    join_first,
    parameter_checks,
    shape_of,
    table,
    text,
    words,
)
from mluops_gtest.results.reports.words import MARKDOWN_WORDS
from mluops_gtest.results.times import CompetitorTime, Efficiency, TimedResult, TimingStats, timed_results

if TYPE_CHECKING:
    from mluops_gtest.results.history import CaseTrend

    _Past = Sequence[CaseTrend] | None
_Transitions = Mapping[str, str] | None
_Competitor = Mapping[str, CompetitorTime]
_MAX_OF_POINT = 3


def function_tests(report: RunReport, by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """A table per operator."""
    head = [say(key) for key in ("point", "description", "cases", "result", "remarks")]
    for operator, facts in by_operator.items():
        yield from (f"### {code(operator)}", "")
        whole = CheckedPoint(say("all_cases"), "", facts, facts.bad, bool(facts.results))
        points = (*checked_points(facts, report, say), whole)
        yield from table(head, (_point_row(point, say) for point in points), right=[2])


def _point_row(point: CheckedPoint, say: Words) -> list[str]:
    remarks = [name_first([bad.case for bad in point.bad], _MAX_OF_POINT, say)] if point.bad else []
    if not point.tested:
        return [point.name, point.description, "0", say("not_tested"), say("semicolon").join(remarks)]
    if point.tally.left_out:
        remarks.append(say("left_out", count=point.tally.left_out))
    result = say("bad", count=len(point.bad)) if point.bad else say("ok")
    count = str(len(point.tally.results))
    return [point.name, point.description, count, result, say("semicolon").join(remarks)]


def name_first(cases: Sequence[str], most: int, say: Words) -> str:
    """The first so many cases by name, and how many more there are."""
    return join_first([code(case) for case in cases], most, "comma", say)


_ABSENT = "–"


def performance(
    timed: Sequence[TimedResult], device: Mapping[str, Any] | None, competitor: _Competitor, say: Words
) -> Iterator[str]:
    """A row per case that was timed, beside the competitor's time where that is known."""
    if not timed:
        yield from (say("no_performance"), "")
        return
    yield say("no_device") if device is None else say("device", device=text(str(device.get("name", ""))))
    yield ""
    keys = ("hardware_time", "interface_time", "io_efficiency", "compute_efficiency", "workspace")
    beside = ("competitor_time", "competitor_share", "competitor_met") if competitor else ()
    head = [say(key) for key in ("operator", *keys, "dtype", "shape", "bottleneck", "accepted", *beside, "case")]
    rows = (_timed_row(one, competitor, say) for one in timed)
    yield from table(head, rows, right=[*range(1, 6), *([10, 11] if competitor else [])])


def _timed_row(one: TimedResult, competitor: _Competitor, say: Words) -> list[str]:
    result, share = one.result, one.efficiency
    assert result.perf is not None, "a timed result has samples"
    return [
        code(result.operator),
        _microseconds(one.device),
        _microseconds(one.interface),
        _ABSENT if share is None else percent(share.io),
        _ABSENT if share is None or share.compute is None else percent(share.compute),
        str(result.perf.workspace_bytes),
        dtype_of(result),
        code(shape_of(result)),
        _ABSENT if share is None else say(f"bound_{share.side}"),
        _ABSENT if share is None else say({True: "yes", False: "no", None: "too_short"}[share.accepted]),
        *(_beside(one, competitor.get(result.case), say) if competitor else ()),
        code(result.case),
    ]


def _beside(one: TimedResult, other: CompetitorTime | None, say: Words) -> list[str]:
    if other is None:
        return [_ABSENT] * 3
    share = other.share(one.latency.median)
    met = say("remarked", words=say("yes" if share >= other.wanted else "no"), remark=f"≥ {_ratio(other.wanted)}")
    return [f"{other.nanoseconds / 1000:.1f}", _ratio(share), met]


def percent(share: float) -> str:
    """A share with as many digits as a reader needs."""
    return f"{share * 100:.1f} %"


def _ratio(share: float) -> str:
    """A share of any size, beyond 100 % in whole numbers."""
    return f"{share * 100:.3g} %" if share < 1 else f"{share * 100:.0f} %"


def _microseconds(figures: TimingStats | None) -> str:
    return _ABSENT if figures is None else f"{figures.median / 1000:.1f}"


_MAX_PROBLEMS = 100
_MAX_OF_GROUP = 5


def conclusions(report: RunReport, timed: Sequence[TimedResult], competitor: _Competitor, say: Words) -> Iterator[str]:
    """One sentence on the whole, counts, then the open problems and what was not shown."""
    counts = (f"{say(f'outcome_{word}')} {count}" for word, count in report.summary.items())
    second = say("counts", counts=say("comma").join(counts))
    yield from (say("sentences", first=verdict(report, say), second=second), "")
    shares = [(one.result, one.efficiency) for one in timed]
    slow = [(result, share) for result, share in shares if share is not None and share.accepted is False]
    if timed:
        judged = sum(share is not None and share.accepted is not None for _, share in shares)
        yield from (say("measured", cases=len(timed), low=len(slow), unjudged=len(timed) - judged), "")
    compared = [(one, competitor[one.result.case]) for one in timed if one.result.case in competitor]
    behind = [(one, other) for one, other in compared if other.share(one.latency.median) < other.wanted]
    if competitor:
        absent = len(competitor) - len(compared)
        yield from (say("compared", cases=len(compared), behind=len(behind), untimed=absent), "")
    yield from (f"### {say('problems')}", "")
    problems = [*_problems(report, say), *(_slow(result, share, say) for result, share in slow)]
    problems += [_behind(one, other, say) for one, other in behind]
    for number, problem in enumerate(problems[:_MAX_PROBLEMS], 1):
        yield f"{number}. {problem}"
    if not problems:
        described = any(share is not None for _, share in shares)
        yield say("no_problems" if described else "unjudged" if timed else "unmeasured")
    if len(problems) > _MAX_PROBLEMS:
        yield from ("", say("more_problems", count=len(problems) - _MAX_PROBLEMS))
    yield ""
    remarks = [f"- {remark}" for remark in _remarks(report, say)]
    if remarks:
        yield from (*remarks, "")


def verdict(report: RunReport, say: Words) -> str:
    """Whether the results stand against the change, in a sentence."""
    backend = text(backend_of(report))
    bad = sum(result.outcome.blocks for result in report.results)
    if bad:
        passed = report.summary.get("passed", 0)
        verdict = say("blocked", cases=len(report.results), backend=backend, passed=passed, bad=bad)
    elif report.exit_code is ExitCode.EMPTY:
        verdict = say("nothing", backend=backend)
    else:
        ran = sum(result.outcome is not Outcome.SKIPPED for result in report.results)
        verdict = say("clear", cases=ran, backend=backend)
    return say("sentences", first=say("interrupted"), second=verdict) if report.interrupted else verdict


def _problems(report: RunReport, say: Words) -> Iterator[str]:
    """Blocking results, those of one cause together, the largest group first."""
    blocking = [result for result in report.results if result.outcome.blocks]
    if not blocking:
        return
    # Late: the report of a run that passed needs none of it.
    from mluops_gtest.core.readings import format_headline
    from mluops_gtest.judging.groups import cause_groups

    for group in cause_groups(blocking, report.results, report.shapes):
        first, head, language = group.example, group.headline, say("language")
        why = format_reason(first.causes, language) if head is None else format_headline(head, language)
        operators = say("comma").join(code(name) for name in sorted({result.operator for result in group.members}))
        words = {"operator": operators, "outcome": say(f"outcome_{first.outcome.value}"), "cases": len(group.members)}
        facts = [("problem_cases", name_first([result.case for result in group.members], _MAX_OF_GROUP, say))]
        facts += [("cause", code(group.mark))] if head is not None else []
        facts += [("arbitrated", text(format_arbitration(found, language))) for found in first.arbitrated]
        facts += [("repro", code(first.repro))] if first.repro else []
        lines = [f"{say(key)}{say('colon')}{fact}" for key, fact in facts]
        yield "<br>\n   ".join([say("problem", reason=text(why) or say("none"), **words), *lines])


def _slow(result: CaseResult, share: Efficiency, say: Words) -> str:
    return say(
        "low",
        operator=code(result.operator),
        case=code(result.case),
        side=say(f"side_{share.side}"),
        reached=percent(share.reached),
        wanted=f"{share.wanted * 100:.0f} %",
    )


def _behind(one: TimedResult, other: CompetitorTime, say: Words) -> str:
    return say(
        "behind",
        operator=code(one.result.operator),
        case=code(one.result.case),
        reached=_ratio(other.share(one.latency.median)),
        wanted=_ratio(other.wanted),
    )


def _remarks(report: RunReport, say: Words) -> Iterator[str]:
    """What the results do not show: points without cases, and cases left out with their reasons."""
    points = checked_points(OperatorSummary(tuple(report.results)), report, say)
    untested = [point.name for point in points if not point.tested]
    if untested:
        yield say("untested", points=say("comma").join(untested))
    stress = [result.stress for result in report.results if result.stress is not None]
    if stress:
        yield say(
            "stressed",
            repetitions=sum(reading.repetitions for reading in stress),
            cases=len(stress),
            failing=sum(reading.failed > 0 for reading in stress),
            varying=sum(reading.differing > 0 and not reading.failed for reading in stress),
        )
    for result in report.results:
        if result.leak is not None and not result.outcome.blocks:
            yield say("leak", case=code(result.case), words=format_reason((result.leak,), say("language")))
    for outcome, key in ((Outcome.SKIPPED, "skipped"), (Outcome.XFAILED, "waived")):
        left_out = (result for result in report.results if result.outcome is outcome)
        reasons = Counter(format_reason(result.causes, say("language")) for result in left_out)
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            yield say(key, cases=count, reason=text(reason) or say("none"))


_MAX_NAMED = 20
_GOOD_NEWS = {"still_passing", "fixed", "new", "still_skipped"}


def against(transitions: Mapping[str, str], say: Words) -> Iterator[str]:
    """How many cases made each transition, and which they are where it is no good news."""
    keys = {case: word.replace(" ", "_") for case, word in transitions.items()}
    rows = []
    for key, count in sorted(Counter(keys.values()).items(), key=lambda item: (item[0] in _GOOD_NEWS, item)):
        cases = [] if key in _GOOD_NEWS else sorted(case for case, found in keys.items() if found == key)
        word = say(f"transition_{key}") if f"transition_{key}" in MARKDOWN_WORDS["en"] else key.replace("_", " ")
        rows.append([word, str(count), name_first(cases, _MAX_NAMED, say)])
    yield from table([say("transition"), say("cases"), say("remarks")], rows, right=[1])


def over_time(trends: "Sequence[CaseTrend]", say: Words) -> Iterator[str]:
    """The cases that flake, flip or drift; a word of comfort where none does."""
    rows = []
    for trend in trends:
        drift = trend.drifts[0] if trend.drifts else None
        drifted = drift is not None and drift.factor >= DRIFT_FACTOR
        if not (trend.flake_rate or trend.flips or drifted):
            continue
        grown = f"{drift.output} {drift.criterion} ×{drift.factor:.3g}" if drift is not None and drifted else ""
        flakes = f"{(trend.flake_rate or 0) * 100:.0f} %"
        rows.append([code(trend.case), str(len(trend.ran)), flakes, str(trend.flips), grown])
    if not rows:
        runs = max((len(trend.points) for trend in trends), default=0)
        yield from (say("unremarkable", runs=runs), "")
        return
    yield from table([say(key) for key in ("case", "runs", "flake_rate", "flips", "drift")], rows, right=[1, 2, 3])


def render_markdown(
    report: RunReport,
    transitions: _Transitions = None,
    lang: str = "en",
    past: "_Past" = None,
    competitor: _Competitor = MappingProxyType({}),
) -> list[str]:
    """The document in one piece; `transitions` are case → word, `competitor` the times to compare with."""
    say = words(lang)
    if isinstance(report.results, TalliedResults):
        # It goes through them many times, and has no room for all of them.
        report = replace(report, results=tuple(map(_drop_unused, report.results)))
    return ["\n".join(_lines(report, transitions, past, competitor, say)).rstrip("\n") + "\n"]


def _drop_unused(result: CaseResult) -> CaseResult:
    """The result without what the document never says."""
    info, repro = replace(result.info, doc=""), result.repro if result.outcome.blocks else ""
    output = result.output if is_rejected(result) else ""
    return replace(result, profile=None, worst=None, repro=repro, notes=(), output=output, info=info)


def _lines(
    report: RunReport, transitions: _Transitions, past: "_Past", competitor: _Competitor, say: Words
) -> Iterator[str]:
    names = sorted({result.operator for result in report.results})
    by_operator = {name: OperatorSummary(tuple(r for r in report.results if r.operator == name)) for name in names}
    yield from (f"# {say('title', operators=say('comma').join(map(text, names)) or say('none'))}", "")
    yield from (f"**{say('verdict')}{say('colon')}{verdict(report, say)}**", "")
    backend = code(backend_of(report))
    yield from (say("made", version=report.tool_version, started=report.started, backend=backend), "")
    if report.labels:
        labels = (f"{text(name)} {code(value)}" for name, value in report.labels.items())
        yield from (say("labels", labels=say("comma").join(labels)), "")
    roots, settings = recorded_roots(report.selection), report.environment.get("settings")
    if roots != [BUILTIN]:
        yield from (say("roots", roots=say("comma").join(map(code, roots))), "")
    if settings:
        yield from (say("settings_file", file=code(settings)), "")
    if report.is_isolated is False:
        yield from (say("isolation_off"), "")
    if report.reseed is not None:
        yield from (say("reseeded", number=report.reseed, fixed=report.fixed), "")
    yield from _section("change", describe_change(by_operator, say), say)
    yield from _section("standard", accuracy_standard(by_operator, say), say, level=3)
    yield from _section("checklist", checklist(report, by_operator, say), say, level=3)
    yield from _section("features", feature_tests(OperatorSummary(tuple(report.results)), report, say), say, level=3)
    yield from _section("checks", parameter_checks(by_operator, say), say, level=3)
    yield from _section("function", function_tests(report, by_operator, say), say)
    device = report.environment.get("device")
    timed = timed_results(report, device)
    yield from _section("performance", performance(timed, device, competitor, say), say)
    yield from _section("conclusions", conclusions(report, timed, competitor, say), say)
    if transitions is not None:
        yield from _section("against", against(transitions, say), say, level=3)
    if past is not None:
        yield from _section("history", over_time(past, say), say, level=3)


def _section(key: str, body: Iterator[str], say: Words, *, level: int = 2) -> Iterator[str]:
    yield from (f"{'#' * level} {say(key)}", "", *body)
