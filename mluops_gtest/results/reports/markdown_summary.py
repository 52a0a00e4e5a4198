"""What the results of one operator say of each point that a test report asks for, and section 1 of that report.

Section 1 says what the operator is held to, what it supports and which features were tested.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from mluops_gtest.base.frozen import Value
from mluops_gtest.base.text import strip_controls
from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import Leak
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport, backend_of
from mluops_gtest.core.result import CaseResult, TensorInfo
from mluops_gtest.results.reports.words import MARKDOWN_WORDS

# Signs that would begin a link, a tag, an entity, an emphasis or a new cell. An underscore inside a word is none.
_SIGNS = re.compile(r"[\\`*\[\]<>|~$@&]|(?<!\w)_|_(?!\w)")
# Vector units work on so many elements at a time; every other length leaves a remainder.
_ALIGNMENT = 64
# How checks end that authoring.checks makes of a tensor without elements, and of one with too many.
_EMPTY, _LARGE = "_empty", "_large"


def text(words: str) -> str:
    """The words on one line, each sign as itself."""
    return _SIGNS.sub(r"\\\g<0>", _one_line(words))


def code(words: str) -> str:
    """The words as code; also where they hold back-quotes themselves."""
    # A table's cell ends at every bar, in code as well.
    return code_span(_one_line(words)).replace("|", r"\|")


def code_span(line: str) -> str:
    """A code span that no character of the line ends."""
    fence = "`" * (longest_ticks(line) + 1)
    padded = f" {line} " if line.startswith("`") or line.endswith("`") else line
    return f"{fence}{padded}{fence}"


def longest_ticks(text: str) -> int:
    """The length of the longest run of back-quotes."""
    return max(map(len, re.findall("`+", text)), default=0)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """The lines of a table; the columns numbered in `right` hold numbers."""
    numbers = set(right)
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    return [_row(head), _row(rule), *map(_row, rows), ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _one_line(words: str) -> str:
    return " ".join(strip_controls(words).split())


Words = Callable[..., str]


def words(language: str) -> Words:
    """A function that gives the words of a key in this language, with its places filled."""
    table = MARKDOWN_WORDS[language]

    def say(key: str, **values: Any) -> str:
        return table[key].format(**values)

    return say


# With room for what is asked for several times.
class TestPoint(Value, dict=True):
    """The cases that test one point."""

    results: tuple[CaseResult, ...]

    @cached_property
    def passed(self) -> int:
        """How many passed, be it in spite of a waiver."""
        return sum(result.outcome.passes for result in self.results)

    @cached_property
    def bad(self) -> tuple[CaseResult, ...]:
        """Those that speak against the operator: a waiver that is no longer needed does not."""
        return tuple(result for result in self.results if result.outcome.blocks and not result.outcome.passes)

    @property
    def left_out(self) -> int:
        """How many neither passed nor block: skipped or waived."""
        return len(self.results) - self.passed - len(self.bad)

    @property
    def holds(self) -> bool:
        """The point was tested and nothing speaks against it."""
        return self.passed > 0 and not self.bad

    def where(self, belongs: Callable[[CaseResult], bool]) -> "TestPoint":
        """The cases that belong to a narrower point."""
        return TestPoint(tuple(filter(belongs, self.results)))

    def by(self, keys: Callable[[CaseResult], Iterable[str]]) -> "dict[str, TestPoint]":
        """The cases by their keys, sorted; one that is empty is none."""
        groups: dict[str, list[CaseResult]] = {}
        for result in self.results:
            for key in filter(None, keys(result)):
                groups.setdefault(key, []).append(result)
        return {key: TestPoint(tuple(members)) for key, members in sorted(groups.items())}


class OperatorSummary(TestPoint, dict=True):
    """The results of one operator, or of several, by test point."""

    @cached_property
    def computing(self) -> TestPoint:
        """Cases that call the operator as it is meant to be called; of one that never loaded nothing is known."""
        return self.where(lambda result: not is_rejected(result) and bool(result.info.inputs or result.info.outputs))

    @cached_property
    def rejected(self) -> TestPoint:
        """Parameter checks: calls that must be answered with an error."""
        return self.where(is_rejected)

    @cached_property
    def zero_elements(self) -> TestPoint:
        """Cases with a tensor without elements that must be taken, or refused for that very reason.

        An operator that takes none may refuse them by the checks of its parameters.
        """
        empty = self.where(lambda result: any(0 in tensor.dims for tensor in result.info.tensors))
        for_that = empty.where(lambda result: not is_rejected(result) or result.info.check.endswith(_EMPTY))
        return for_that if for_that.results else empty

    @cached_property
    def too_large(self) -> TestPoint:
        """Calls that must be refused by the check of a tensor's size, and by no other."""
        return self.where(lambda result: is_rejected(result) and result.info.check.endswith(_LARGE))

    @cached_property
    def sizes(self) -> TestPoint:
        """Cases with elements in every tensor, whatever their shape."""
        return self.computing.where(lambda result: all(0 not in tensor.dims for tensor in result.info.tensors))

    @cached_property
    def remainders(self) -> TestPoint:
        """Of these, the ones whose rows do not fill whole vectors."""
        return self.sizes.where(lambda result: bool(_row_length(result) % _ALIGNMENT))

    @cached_property
    def unstable(self) -> tuple[CaseResult, ...]:
        """Cases that crashed, hung, flaked or wrote where they must not."""
        return self.where(lambda result: result.outcome.is_unstable).results

    def tagged(self, tag: str) -> TestPoint:
        """Cases with a tag."""
        return self.where(lambda result: tag in result.tags)

    @cached_property
    def by_dtype(self) -> dict[str, TestPoint]:
        """Cases by the data type that they compute in."""
        return self.computing.by(lambda result: (dtype_of(result),))

    @cached_property
    def by_layout(self) -> dict[str, TestPoint]:
        """Cases by the layouts of the tensors that they compute in; masks and indices do not count."""
        return self.computing.by(lambda result: {tensor.layout for tensor in value_tensors(result)})

    @cached_property
    def by_rank(self) -> dict[str, TestPoint]:
        """Cases by the numbers of dimensions of the tensors that they compute in."""
        return self.computing.by(lambda result: {str(len(tensor.dims)) for tensor in value_tensors(result)})

    @cached_property
    def by_arch(self) -> dict[str, TestPoint]:
        """Cases that ask for a level of the device, by that level."""
        return self.by(lambda result: () if result.info.arch is None else (f"MLU{result.info.arch}",))

    @cached_property
    def shapes(self) -> int:
        """How many different sets of shapes were computed."""
        return len({tuple(tensor.dims for tensor in result.info.tensors) for result in self.computing.results})

    @cached_property
    def largest(self) -> TensorInfo | None:
        """The tensor with the most elements that a passed case computed with: values of its outputs were compared."""
        found = [t for r in self.results if r.outcome is Outcome.PASSED and _has_values(r) for t in r.info.tensors]
        return max(found, key=lambda tensor: math.prod(tensor.dims), default=None)

    @cached_property
    def by_expected_status(self) -> dict[str, TestPoint]:
        """Parameter checks by the status that must be answered."""
        return self.rejected.by(lambda result: (result.expected_status.name if result.expected_status else "",))


def is_rejected(result: CaseResult) -> bool:
    """The call must be answered with an error."""
    return result.expected_status not in (None, Status.SUCCESS)


def value_tensors(result: CaseResult) -> tuple[TensorInfo, ...]:
    """The tensors that a case computes in: the floating-point ones; integers only where there are no others."""
    floating = tuple(t for t in result.info.tensors if "int" not in t.dtype and t.dtype != "bool")
    return floating or result.info.tensors


def dtype_of(result: CaseResult) -> str:
    """What the case computes in: its floating-point types, else its integers; indices beside values do not count."""
    return "+".join(sorted({tensor.dtype for tensor in value_tensors(result)}))


def shape_of(result: CaseResult) -> str:
    """The shapes of all tensors in one line."""
    sides = (result.info.inputs, result.info.outputs)
    return " → ".join(" ".join(f"{t.id}[{','.join(map(str, t.dims))}]" for t in side) for side in sides)


def _has_values(result: CaseResult) -> bool:
    """Values came back: a call that returns early, or is refused, may describe tensors that nobody has room for."""
    outputs = {tensor.id for tensor in result.info.outputs}
    return any(reading.output in outputs for reading in result.readings)


def _row_length(result: CaseResult) -> int:
    """Elements in the last dimension of the first output."""
    dims = result.info.outputs[0].dims if result.info.outputs else ()
    return dims[-1] if dims else 1


class CheckedPoint(Value):
    """One line of the function test table."""

    name: str
    description: str
    tally: TestPoint
    # What stands against the point; of a special one, not every case that blocks.
    bad: tuple[CaseResult, ...]
    tested: bool

    @property
    def holds(self) -> bool:
        """Tested, and nothing stands against it."""
        return self.tested and not self.bad


def checked_points(facts: OperatorSummary, report: RunReport, say: Words) -> tuple[CheckedPoint, ...]:
    """All points in the order of the report."""
    repeat = int(report.backend.get("repeat") or 1)
    called = facts.where(lambda result: result.outcome.was_called)
    overwritten = called.where(_is_overwritten).results
    stability = say("stability_words", repeat=repeat) if repeat > 1 else say("stability_once")
    exercised = bool(facts.unstable) or (repeat > 1 and bool(called.results))
    remainders = len(facts.remainders.results)
    levels = facts.where(lambda result: result.info.arch is not None)
    return (
        _point("dtype", _counted_values(facts.by_dtype, say), facts.computing, say),
        _point("rank", ranks(facts, say), facts.computing, say),
        _point("layout", _counted_values(facts.by_layout, say), facts.computing, say),
        _point("size", say("size_words", shapes=facts.shapes, remainders=remainders), facts.sizes, say),
        _point("zero", say("zero_words"), facts.zero_elements, say),
        CheckedPoint(say("point_stability"), stability, called, facts.unstable, exercised),
        _point("arch", _counted_values(facts.by_arch, say), levels, say),
        _point("nonfinite", say("nonfinite_words"), facts.tagged("nonfinite"), say),
        _point("precision", say("precision_words"), facts.tagged("precision"), say),
        _point("network", say("network_words"), facts.tagged("network"), say),
        CheckedPoint(say("point_memory"), say("memory_words"), called, overwritten, bool(called.results)),
        _point("checks", say("checks_words"), facts.rejected, say),
    )


def _is_overwritten(result: CaseResult) -> bool:
    """Memory was written that must not be; a leak alone is none of that."""
    return result.outcome is Outcome.MEMORY and any(not isinstance(cause, Leak) for cause in result.causes)


def ranks(facts: OperatorSummary, say: Words) -> str:
    """The numbers of dimensions that cases have."""
    found = sorted(map(int, facts.by_rank))
    return say("dimensions", ranks=say("comma").join(map(str, found))) if found else say("none")


def _point(key: str, description: str, tally: TestPoint, say: Words) -> CheckedPoint:
    tested = tally.passed > 0 or bool(tally.bad)
    return CheckedPoint(say(f"point_{key}"), description, tally, tally.bad, tested)


def _counted_values(groups: Mapping[str, TestPoint], say: Words) -> str:
    return say("comma").join(f"{key} ({len(tally.results)})" for key, tally in groups.items()) or say("none")


_MAX_NAMED = 5
# The label of a run that says how its kernels are launched: a call does not show it.
_JOB_TYPE = "job_type"
# Of what a library prints when it refuses a call.
_MAX_MESSAGES, _MAX_MESSAGE = 3, 160


def describe_change(by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """The description that is written by hand, and whom it concerns."""
    yield from (f"> {say('write_here')}", "")
    yield from (f"- {say('affected')}{say('colon')}{say('comma').join(map(code, by_operator))}", "")


def accuracy_standard(by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """What each output was held to, and how much of it was used."""
    rows = [
        [code(operator), code(output), dtype, criteria, largest]
        for operator, facts in by_operator.items()
        for (output, dtype, criteria), largest in _standards(facts, say).items()
    ]
    if not rows:
        yield from (say("no_standard"), "")
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


def checklist(report: RunReport, by_operator: Mapping[str, OperatorSummary], say: Words) -> Iterator[str]:
    """What the results show to be supported; nothing is claimed that no case has shown."""
    environment = report.environment
    device = (environment.get("device") or {}).get("name")
    platform = [backend_of(report), device, environment.get("platform"), environment.get("machine")]
    levels = _levels(OperatorSummary(tuple(report.results)), say)
    job_type = report.labels.get(_JOB_TYPE)
    items: list[tuple[str, str]] = [
        ("platform", say("semicolon").join([say("comma").join(text(str(word)) for word in platform if word), *levels])),
        ("job_type", say("write_job_type", label=f"--label {_JOB_TYPE}=U1") if job_type is None else text(job_type)),
        ("layouts", _per_operator(by_operator, lambda facts: _supported_values(facts.by_layout, say))),
        ("ranks", _per_operator(by_operator, lambda facts: ranks(facts, say))),
        ("zero", _per_operator(by_operator, lambda facts: _zero(facts.zero_elements, say))),
        ("dtypes", _per_operator(by_operator, lambda facts: _supported_values(facts.by_dtype, say))),
        ("limits", _per_operator(by_operator, lambda facts: _limits(facts, say))),
    ]
    rows = [[str(number), say(key), detail] for number, (key, detail) in enumerate(items, 1)]
    yield from table([say("number"), say("item"), say("detail")], rows, right=[0])


def _levels(facts: OperatorSummary, say: Words) -> Iterator[str]:
    """The levels of the device that cases have shown to be supported, and those refused as they must be."""
    refused = [level for level, point in facts.by_arch.items() if point.holds and all(map(is_rejected, point.results))]
    known = {level: point for level, point in facts.by_arch.items() if level not in refused}
    if known:
        yield say("levels", levels=_supported_values(known, say))
    if refused:
        yield say("levels_refused", levels=say("comma").join(refused))


def _per_operator(by_operator: Mapping[str, OperatorSummary], describe: Callable[[OperatorSummary], str]) -> str:
    if len(by_operator) == 1:
        return describe(next(iter(by_operator.values())))
    return "<br>".join(f"{code(operator)} {describe(facts)}" for operator, facts in by_operator.items())


def _supported_values(groups: Mapping[str, TestPoint], say: Words) -> str:
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
        [code(operator), status, str(len(one.results)), str(one.passed), *_answers(one.results, say)]
        for operator, facts in by_operator.items()
        for status, one in facts.by_expected_status.items()
    ]
    if not rows:
        yield from (say("no_checks"), "")
        return
    keys = ("operator", "expected_status", "cases", "as_expected", "messages", "differing")
    yield from table([say(key) for key in keys], rows, right=[2, 3])


def _answers(results: tuple[CaseResult, ...], say: Words) -> tuple[str, str]:
    """The first lines that the backend printed when it refused the calls, and which calls it answered otherwise."""
    lines = (result.output.strip().partition("\n")[0] for result in results if result.outcome.passes)
    printed = [code(line[:_MAX_MESSAGE]) for line in dict.fromkeys(filter(None, lines))]
    others = [result for result in results if result.outcome is not Outcome.PASSED]
    words = [say("answered", case=code(result.case), status=_answer(result, say)) for result in others]
    return join_first(printed, _MAX_MESSAGES, "semicolon", say), join_first(words, _MAX_NAMED, "semicolon", say)


def join_first(words: Sequence[str], most: int, separator: str, say: Words) -> str:
    """The first so many, and how many more there are."""
    more = [say("and_more", count=len(words) - most)] if len(words) > most else []
    return say(separator).join([*words[:most], *more])


def _answer(result: CaseResult, say: Words) -> str:
    if result.status is None:
        return f"{say('no_status')} ({say(f'outcome_{result.outcome.value}')})"
    same = result.status is result.expected_status
    return f"{result.status.name} ({say(f'outcome_{result.outcome.value}')})" if same else result.status.name
