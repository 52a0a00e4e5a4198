"""Section 1: what the operator is held to, what it supports, which features were tested."""

import math
from collections.abc import Callable, Iterator, Mapping

from mluops_gtest.model.report import RunReport
from mluops_gtest.model.result import CaseResult, Outcome
from mluops_gtest.reports.markdown.operator_summary import (
    OperatorSummary,
    TestPoint,
    checked_points,
    is_rejected,
    ranks,
)
from mluops_gtest.reports.markdown.translations import Words, code, table, text

_MAX_NAMED = 5


def change(by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """The description that is written by hand, and whom it concerns."""
    yield f"> {say('write_here')}"
    yield ""
    yield f"- {say('affected')}{say('colon')}{say('comma').join(map(code, by_operator))}"
    yield ""


def accuracy_standard(by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """What each output was held to, and how much of it was used."""
    rows = [
        [code(operator), code(output), dtype, criteria, largest]
        for operator, facts in by_operator.items()
        for (output, dtype, criteria), largest in _standards(facts, say).items()
    ]
    if not rows:
        yield say("no_standard")
        yield ""
        return
    yield from table([say(key) for key in ("operator", "output", "dtype", "criteria", "largest")], rows)
    own = sum(bool(result.info.own_criteria) for facts in by_operator.values() for result in facts.results)
    if own:
        yield from (say("own_criteria", cases=own), "")


def _standards(facts: OperatorSummary, say: Words) -> dict[tuple[str, str, str], str]:
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for result in facts.results:
        dtypes = {tensor.id: tensor.dtype for tensor in result.info.outputs}
        for output in dict.fromkeys(reading.output for reading in result.readings):
            if output in result.info.own_criteria:
                continue
            readings = [reading for reading in result.readings if reading.output == output]
            criteria = say("comma").join(
                f"{r.criterion} ≤ {r.threshold:g}" if r.criterion != "exact" else say("exact") for r in readings
            )
            largest = found.setdefault((output, dtypes.get(output, "–"), criteria), {})
            for reading in readings:
                # Of a NaN and a number the NaN is the news.
                before = largest.get(reading.criterion, reading.value)
                largest[reading.criterion] = before if math.isnan(before) else max(reading.value, before)
    return {
        key: say("comma").join(f"{criterion} {value:.3g}" for criterion, value in sorted(largest.items()))
        for key, largest in sorted(found.items())
    }


def checklist(report: RunReport, by_operator: Mapping[str, OperatorSummary], device: str, say: Words) -> Iterator[str]:
    """What the results show to be supported; nothing is claimed that no case has shown."""
    environment = [report.environment.get(key) for key in ("platform", "machine")]
    platform = [report.backend.get("name"), device, *environment]
    items: list[tuple[str, str]] = [
        ("platform", say("comma").join(text(str(word)) for word in platform if word)),
        ("layouts", _each(by_operator, lambda facts: _shown(facts.by_layout, say))),
        ("ranks", _each(by_operator, lambda facts: ranks(facts, say))),
        ("zero", _each(by_operator, lambda facts: _zero(facts.zero_elements, say))),
        ("dtypes", _each(by_operator, lambda facts: _shown(facts.by_dtype, say))),
        ("limits", _each(by_operator, lambda facts: _limits(facts, say))),
    ]
    rows = [[str(number), say(key), detail] for number, (key, detail) in enumerate(items, 1)]
    yield from table([say("number"), say("item"), say("detail")], rows, right=[0])


def _each(by_operator: Mapping[str, OperatorSummary], describe: Callable[[OperatorSummary], str]) -> str:
    if len(by_operator) == 1:
        return describe(next(iter(by_operator.values())))
    return "<br>".join(f"{code(operator)} {describe(facts)}" for operator, facts in by_operator.items())


def _shown(groups: Mapping[str, TestPoint], say: Words) -> str:
    """Each value that a case passed with; one with failures says so."""
    words = [
        key if tally.holds else say("remarked", words=key, remark=_verdict(tally, say)) for key, tally in groups.items()
    ]
    return say("comma").join(words) or say("not_tested")


def _verdict(tally: TestPoint, say: Words) -> str:
    if tally.bad:
        return say("failing")
    return say("supported") if tally.passed else say("not_tested")


def _zero(tally: TestPoint, say: Words) -> str:
    """Taken or refused, as the document has it, where that was shown."""
    refused = [result for result in tally.results if is_rejected(result) and result.outcome.passes]
    if tally.bad or not refused:
        return _verdict(tally, say)
    if len(refused) == tally.passed:
        return say("refused_by_design")
    checks = dict.fromkeys(result.info.check for result in refused)
    return say("partly_refused", checks=say("comma").join(map(code, checks)))


def _limits(facts: OperatorSummary, say: Words) -> str:
    words = []
    largest = facts.largest
    if largest is not None:
        words.append(say("largest_tensor", tensor=code(f"{largest.id}[{','.join(map(str, largest.dims))}]")))
    if facts.too_large.bad:
        words.append(say("not_refused", count=len(facts.too_large.bad)))
    elif facts.too_large.passed:
        words.append(say("refused", count=facts.too_large.passed))
    return say("semicolon").join(words) or say("not_tested")


def feature_tests(facts: OperatorSummary, report: RunReport, say: Words) -> Iterator[str]:
    """A ticked box per point that was tested and holds in every operator."""
    for point in checked_points(facts, report, say):
        box = "x" if point.holds else " "
        ran = len(point.tally.results) - point.tally.left_out
        words = f"{ran - len(point.bad)}/{ran}" if point.tested else say("not_tested")
        yield f"- [{box}] {point.name}{say('colon')}{words}"
    yield ""


def parameter_checks(by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """How invalid calls were answered, by the status that the document asks for."""
    rows = [
        [code(operator), status, str(len(tally.results)), str(tally.passed), _differing(tally.results, say)]
        for operator, facts in by_operator.items()
        for status, tally in facts.by_expected_status.items()
    ]
    if not rows:
        yield say("no_checks")
        yield ""
        return
    head = [say(key) for key in ("operator", "expected_status", "cases", "as_expected", "differing")]
    yield from table(head, rows, right=[2, 3])


def _differing(results: tuple[CaseResult, ...], say: Words) -> str:
    others = [result for result in results if result.outcome is not Outcome.PASSED]
    named = [say("answered", case=code(result.case), status=_answer(result, say)) for result in others[:_MAX_NAMED]]
    if len(others) > _MAX_NAMED:
        named.append(say("and_more", count=len(others) - _MAX_NAMED))
    return say("semicolon").join(named)


def _answer(result: CaseResult, say: Words) -> str:
    if result.status is None:
        return f"{say('no_status')} ({say(f'outcome_{result.outcome.value}')})"
    same = result.status is result.expected_status
    return f"{result.status.name} ({say(f'outcome_{result.outcome.value}')})" if same else result.status.name
