"""Section 4: what the results come to, and every problem that stays open."""

from collections.abc import Iterator, Sequence

from mluops_gtest.errors import ExitCode
from mluops_gtest.model.reasons import reason_of
from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.reports.markdown.function_tests import named
from mluops_gtest.reports.markdown.operator_summary import OperatorSummary
from mluops_gtest.reports.markdown.performance import percent
from mluops_gtest.reports.markdown.points import checked_points
from mluops_gtest.reports.markdown.syntax import code, text
from mluops_gtest.reports.markdown.translations import Words
from mluops_gtest.timing.efficiency import Efficiency
from mluops_gtest.timing.performance import TimedResult

_MAX_PROBLEMS = 100
_MAX_NAMED = 5


def conclusions(report: RunReport, timed: Sequence[TimedResult], say: Words) -> Iterator[str]:
    """One sentence on the whole, counts, then the open problems and what was not shown."""
    yield say("sentences", first=_verdict(report, say), second=_counts(report, say))
    yield ""
    shares = [(one.result, one.efficiency) for one in timed]
    slow = [(result, share) for result, share in shares if share is not None and share.accepted is False]
    if timed:
        described = any(share is not None for _, share in shares)
        yield say("measured" if described else "measured_only", cases=len(timed), low=len(slow))
        yield ""
    yield f"### {say('problems')}"
    yield ""
    problems = [*_problems(report, say), *(_slow(result, share, say) for result, share in slow)]
    for number, problem in enumerate(problems[:_MAX_PROBLEMS], 1):
        yield f"{number}. {problem}"
    if not problems:
        yield say("no_problems")
    if len(problems) > _MAX_PROBLEMS:
        yield ""
        yield say("more_problems", count=len(problems) - _MAX_PROBLEMS)
    yield ""
    remarks = [f"- {remark}" for remark in _remarks(report, say)]
    if remarks:
        yield from (*remarks, "")


def _verdict(report: RunReport, say: Words) -> str:
    backend = text(str(report.backend.get("name", "")))
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


def _counts(report: RunReport, say: Words) -> str:
    counts = (f"{say(f'outcome_{word}')} {count}" for word, count in report.summary.items())
    return say("counts", counts=say("comma").join(counts))


def _problems(report: RunReport, say: Words) -> Iterator[str]:
    """Blocking results, those of one cause together, the largest group first."""
    blocking = [result for result in report.results if result.outcome.blocks]
    if not blocking:
        return
    # Late: the report of a run that passed needs none of it.
    from mluops_gtest.explain.groups import cause_groups
    from mluops_gtest.model.reasons.explained import headline_words

    for group in cause_groups(blocking, report.results, report.shapes):
        first, language = group.first, say("language")
        why = reason_of(first.causes, language) if group.headline is None else headline_words(group.headline, language)
        operators = say("comma").join(code(name) for name in sorted({result.operator for result in group.members}))
        words = {"operator": operators, "outcome": say(f"outcome_{first.outcome.value}"), "cases": len(group.members)}
        lines = [say("problem", reason=text(why) or say("none"), **words)]
        lines.append(f"{say('problem_cases')}{say('colon')}{named(group.members, _MAX_NAMED, say)}")
        lines += [f"{say('arbitrated')}{say('colon')}{text(words)}" for words in _arbitrated(first, language)]
        if first.repro:
            lines.append(f"{say('repro')}{say('colon')}{code(first.repro)}")
        yield "<br>\n   ".join(lines)


def _arbitrated(result: CaseResult, language: str) -> Iterator[str]:
    """Who is right about the outputs in dispute."""
    if result.arbitrated:
        from mluops_gtest.model.reasons.arbitrated import arbitration_words

        yield from (arbitration_words(found, language) for found in result.arbitrated)


def _slow(result: CaseResult, share: Efficiency, say: Words) -> str:
    return say(
        "low",
        operator=code(result.operator),
        case=code(result.case),
        side=say(f"side_{share.side}"),
        reached=percent(share.reached),
        wanted=f"{share.wanted * 100:.0f} %",
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
    for outcome, key in ((Outcome.SKIPPED, "skipped"), (Outcome.XFAILED, "waived")):
        reasons: dict[str, int] = {}
        for result in report.results:
            if result.outcome is outcome:
                reason = reason_of(result.causes, say("language"))
                reasons[reason] = reasons.get(reason, 0) + 1
        for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
            yield say(key, cases=count, reason=text(reason) or say("none"))
