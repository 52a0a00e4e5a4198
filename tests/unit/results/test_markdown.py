"""The Markdown test report: both languages, what is claimed and what is not, text that stays text."""

import re
from dataclasses import replace

import pytest

from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import Leak
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseInfo, Perf, Reading, TensorInfo
from mluops_gtest.results.history import CaseTrend, Measured, Point, Run
from mluops_gtest.results.reports.files import render
from mluops_gtest.results.reports.markdown_summary import code, text
from mluops_gtest.results.reports.words import MARKDOWN_WORDS
from tests.support.reports import report, result

ENGLISH = MARKDOWN_WORDS["en"]
DEVICE = {"device": {"name": "sample-100", "bandwidth": 1e11, "peak": {"float": 2e12}}}


def lines_of(*results, environment=None, **options):
    return "".join(render(report(*results, environment=environment or {}), "markdown", **options)).splitlines()


def row(lines, first):
    """The cells of the only table row that begins so."""
    (line,) = [line for line in lines if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def item(lines, name):
    """The details of one item of the checklist."""
    (line,) = [line for line in lines if re.match(rf"\| \d \| {name} \|", line)]
    return line.split("|")[3].strip()


def test_criteria_of_cases_are_not_the_standard():
    own = result("own", readings=(Reading("y", "diff3", 0.0, 0.0, True),))
    own = replace(own, info=replace(own.info, own_criteria=("y",)))
    lines = lines_of(result("a"), own)
    assert [line for line in lines if line.startswith("| `op` | `y`")] == [
        "| `op` | `y` | float | diff1 ≤ 0.003 | diff1 1e-06 |"
    ]
    assert "Cases held to criteria of their own, which are not listed: 1." in lines


def test_a_leak_is_told_and_is_no_overrun():
    leak = Leak(24_000_000, 8)
    lines = lines_of(result("a", leak=leak), result("b", Outcome.MEMORY, leak=leak, causes=(leak,)))
    assert "- `op/a`: leaks 24.0 MB per call (8 calls in a fresh worker)" in lines
    assert "- [x] memory: 2/2" in lines
    assert "1. `op`, memory (1): leaks 24.0 MB per call (8 calls in a fresh worker)<br>" in lines


class TestClaims:
    def test_what_no_case_shows_is_not_tested(self):
        lines = lines_of(result())
        assert item(lines, "zero elements") == "not tested"
        assert "- [ ] nan / inf: not tested" in lines
        assert "- [ ] stability: not tested" in lines
        assert any(line.startswith("- Not tested: zero elements, stability, nan / inf") for line in lines)

    def test_a_crash_speaks_against_stability_even_without_repetition(self):
        assert "- [ ] stability: 1/2" in lines_of(result("a"), result("b", Outcome.CRASHED))

    def test_zero_elements_are_taken_or_refused(self):
        info = CaseInfo((TensorInfo("x", "float", "ARRAY", (0, 4)),), (TensorInfo("y", "float", "ARRAY", (0, 4)),))
        taken = result("taken", info=info)
        refused = result("refused", info=info, status=Status.BAD_PARAM, expected_status=Status.BAD_PARAM)
        assert item(lines_of(taken), "zero elements") == "supported"
        assert item(lines_of(refused), "zero elements") == "refused, as the document asks"
        assert item(lines_of(replace(refused, outcome=Outcome.WRONG_STATUS)), "zero elements") == "fails"

    def test_zero_elements_that_are_refused_are_not_called_supported(self):
        empty = (TensorInfo("x", "float", "ARRAY", (0, 4)),)
        bad = {"status": Status.BAD_PARAM, "expected_status": Status.BAD_PARAM}
        taken = result("taken", info=CaseInfo(empty, check="index_empty"))
        refused = result("refused", info=CaseInfo(empty, check="x_empty"), **bad)
        # Whatever else is wrong with a call, that it is refused says nothing of tensors without elements.
        other = result("other", info=CaseInfo(empty, check="y_rank"), **bad)
        assert item(lines_of(taken, other), "zero elements") == "supported"
        lines = lines_of(taken, refused, other)
        assert item(lines, "zero elements") == "supported, except for what is refused as the document asks (`x_empty`)"
        assert "- [x] zero elements: 2/2" in lines

    def test_nothing_compared_proves_nothing(self):
        skipped = result(outcome=Outcome.SKIPPED, readings=(), compared=False, reason="declined")
        document = "\n".join(lines_of(skipped))
        assert "Nothing was compared on numpy" in document
        assert "- Skipped (1): declined" in document

    def test_a_tensor_that_is_never_computed_is_no_limit(self):
        """A call that returns early may describe a tensor that nobody has room for; its scalars are still read."""
        huge = (TensorInfo("x", "float", "ARRAY", (2**31 - 1,)), TensorInfo("empty", "float", "ARRAY", (0,)))
        early = result("early", info=CaseInfo(huge, ()), readings=(Reading("count", "exact", 0.0, 0.0, True),))
        assert item(lines_of(early, result()), "size limits") == "largest tensor computed: `x[4,65]`"
        assert item(lines_of(early), "size limits") == "not tested"

    def test_layouts_and_dimensions_are_those_of_values_not_of_masks(self):
        image, mask = TensorInfo("x", "float", "NCHW", (1, 2, 3, 4)), TensorInfo("mask", "int32", "ARRAY", (7,))
        lines = lines_of(result(info=CaseInfo((image, mask), (TensorInfo("y", "float", "NHWC", (1, 2, 3, 4)),))))
        assert item(lines, "layouts") == "NCHW, NHWC"
        assert item(lines, "multi-dimensional tensors") == "4 dimensions"

    def test_an_operator_of_integers_has_their_layouts(self):
        sites = TensorInfo("sites", "int32", "NTC", (7, 4, 1))
        assert item(lines_of(result(info=CaseInfo((sites,), (sites,)))), "layouts") == "NTC"

    def test_limits_are_the_largest_tensor_and_what_is_refused(self):
        info = CaseInfo((TensorInfo("x", "float", "ARRAY", (2, 1 << 30)),), check="x_large")
        refusal = {"status": Status.NOT_SUPPORTED, "expected_status": Status.NOT_SUPPORTED}
        large = result("large", info=info, **refusal)
        # As large, and refused for its strides.
        strided = result("strided", info=replace(info, check="x_strided"), **refusal)
        computed = "largest tensor computed: `x[4,65]`"
        limits = item(lines_of(result(), large, strided), "size limits")
        assert limits == f"{computed}; larger tensors than allowed are refused (1 tested)"
        taken = replace(large, case="op/taken", outcome=Outcome.WRONG_STATUS, status=Status.SUCCESS)
        limits = item(lines_of(result(), large, taken), "size limits")
        assert limits == f"{computed}; larger tensors than allowed are not all refused (1 taken)"


class TestPerformance:
    TIMED = Perf((200_000, 100_000, 300_000), (100_000, 90_000, 110_000), 4096)

    def timed(self, *tags, io=4e6, ops=4e7, **changes):
        info = replace(result().info, theory_io_bytes=io, theory_ops=ops)
        return result(tags=tags, info=info, perf=self.TIMED, **changes)

    @pytest.mark.parametrize(("tags", "accepted"), [(("network",), "no"), (("boundary",), "yes")])
    def test_networks_must_reach_more(self, tags, accepted):
        lines = lines_of(self.timed(*tags), environment=DEVICE)
        assert row(lines, "`op` | 100.0")[8] == accepted
        problem = "1. `op`, `op/a`: IO efficiency 40.0 %, 60 % is required"
        assert (problem in lines) is (accepted == "no")

    def test_an_operator_that_only_moves_data_has_no_compute_efficiency(self):
        assert row(lines_of(self.timed(ops=0.0), environment=DEVICE), "`op` | 100.0")[3:5] == ["40.0 %", "–"]

    def test_without_a_device_there_is_no_efficiency_and_no_verdict(self):
        lines = lines_of(self.timed("network"))
        assert row(lines, "`op` | 100.0")[3:5] == ["–", "–"]
        assert ENGLISH["no_device"] in lines
        assert "Functions have no open problem. Performance was not judged: the device is not described." in lines
        assert ENGLISH["no_problems"] not in lines

    def test_with_a_device_nothing_open_is_said(self):
        assert ENGLISH["no_problems"] in lines_of(self.timed("boundary"), environment=DEVICE)

    def test_nothing_measured_says_how_to_measure(self):
        lines = lines_of(result())
        assert ENGLISH["no_performance"] in lines
        assert "Functions have no open problem. Performance was not measured." in lines


def test_transitions_name_the_cases_that_are_no_good_news():
    moved = {"op/a": "regressed", "op/gone": "missing", "op/c": "still passing"}
    lines = lines_of(result("a"), result("c"), transitions=moved)
    assert row(lines, "regressed") == ["regressed", "1", "`op/a`"]
    assert row(lines, "missing") == ["missing", "1", "`op/gone`"]
    assert row(lines, "still passing") == ["still passing", "1", ""]


def trend(values, outcomes):
    points = [
        Point(
            Run(n, f"2026-01-0{n + 1}", "numpy", "m", "1", 1.0, {}),
            outcome,
            0.1,
            (Measured("y", "diff1", "float", v, 1),),
        )
        for n, (v, outcome) in enumerate(zip(values, outcomes, strict=True))
    ]
    return CaseTrend("op/a", "op", tuple(points))


def test_history_names_what_flakes_flips_or_drifts():
    good = [Outcome.PASSED] * 4
    grown = lines_of(result("a"), past=[trend([1e-6, 1e-6, 1e-6, 1e-5], good)])
    assert row(grown, "`op/a`") == ["`op/a`", "4", "0 %", "0", "y diff1 ×10"]
    flaky = lines_of(result("a"), past=[trend([1e-6] * 4, [*good[:3], Outcome.FLAKY])])
    assert row(flaky, "`op/a`")[2:4] == ["25 %", "1"]
    assert "No case flakes, flips or drifts (runs: 4)." in lines_of(result("a"), past=[trend([1e-6] * 4, good)])


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("a < b > c | d", r"a \< b \> c \| d"),
        ("indice_pairs _x_ *y* `z`", r"indice_pairs \_x\_ \*y\* \`z\`"),
        ("one\ntwo\x00", r"one two\\x00"),
        ("&#8238;", r"\&#8238;"),
        ("<script>", r"\<script\>"),
    ],
)
def test_text_stays_text(words, written):
    assert text(words) == written


@pytest.mark.parametrize(
    ("words", "written"), [("a|b", r"`a\|b`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("<b>", "`<b>`")]
)
def test_code_holds_anything(words, written):
    assert code(words) == written
