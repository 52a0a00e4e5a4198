"""The page as a reader meets it, in a real browser: open, search, filter, expand, by mouse and by keys."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.core.cause import Leak
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import (
    Arbitration,
    DisputedElement,
    ElementReading,
    Perf,
    Profile,
    Reading,
    StressReading,
    ThreadsReading,
)
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.value_laws import WrongOutput
from mluops_gtest.results.reports import html_payload as embedding
from mluops_gtest.results.reports.html import render_html
from mluops_gtest.results.reports.html_matrix import render_matrix
from tests.support.chromium import Chromium, needs_chromium
from tests.support.page_report import HOSTILE, failed, large_report, report, result, small_report

pytestmark = [*needs_chromium, pytest.mark.slow]
MOVES = {"toy/same_way": "regressed", "toy/plain": "still passing", "toy/gone": "missing", "other/tagged": "a new word"}
HISTORY = {
    "toy/same_way": [
        ("2026-01-01T00:00:00", "passed", 0.01, "", 0.001),
        ("2026-01-02T00:00:00", "failed", 2000.0, "beef+", 0.003),
    ],
    "toy/plain": [
        ("2026-01-01T00:00:00", "passed", 0.0, "", 0.001),
        ("2026-01-02T00:00:00", "skipped", None, "beef+", None),
    ],
}
EVERYTHING = {"transitions": MOVES, "history": HISTORY}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chromium = Chromium(tmp_path_factory.mktemp("chromium"))
    yield chromium
    chromium.close()


@pytest.fixture
def show(browser, tmp_path):
    """Open the page of a report; at the end nothing was complained about and nothing was asked for but the page."""
    addresses = []

    def call(made, fragment="", unfold=False, **options):
        path = tmp_path / f"report-{len(addresses)}.html"
        path.write_text(render_html(made, **options), encoding="utf-8")
        addresses.append(path.as_uri())
        browser.open(path.as_uri() + fragment)
        if unfold:
            browser.click(".list .row")
        return browser

    browser.javascript(True)
    browser.window(1400, 900)
    browser.media("light")
    yield call
    assert browser.complaints == []
    assert set(browser.requests) <= set(addresses)


def texts(browser, selector):
    return browser.value(f"[...document.querySelectorAll({json.dumps(selector)})].map((node) => node.innerText)")


def ids(browser):
    return texts(browser, ".list .id")


def choose(browser, label, value):
    field = f"document.querySelector('select[aria-label={label}]')"
    browser.value(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('change'))")


def focused(browser):
    return browser.value("document.activeElement.querySelector('.id')?.innerText ?? document.activeElement.id")


def until(condition):
    return f"new Promise((done) => {{ const look = () => ({condition} ? done() : setTimeout(look, 5)); look(); }})"


def expand_all(browser):
    browser.value("document.querySelectorAll('.list .row[aria-expanded=false]').forEach((row) => row.click())")


def test_the_page_opens_with_the_verdict_and_what_blocks_first(show):
    page = show(small_report())
    assert texts(page, ".headline p") == ["12 of 17 cases block"]
    assert len(ids(page)) == 17
    outcomes = texts(page, ".list .pill")
    assert outcomes[0].endswith("crashed")
    assert outcomes[-1].endswith("passed")
    assert page.value("document.title").startswith("12 of 17 cases block")


def test_a_name_that_looks_like_markup_is_shown_and_never_run(show):
    page = show(small_report())
    assert HOSTILE in ids(page)
    expand_all(page)
    assert page.value("window.hacked") is None
    assert "</script><script>window.hacked=2</script>" in texts(page, ".printed pre")[1]


def test_search_by_name_tag_outcome_and_field(show):
    page = show(small_report())
    for words, found in {
        "same_way": ["toy/same_way"],
        "boundary": ["other/its_own_way", "other/tagged"],
        "timed_out": ["other/timed_out"],
        "tag:boundary outcome:passed": ["other/tagged"],
        "OP:toy tag:network": ["toy/timed"],
        "mark:v1:2222": ["other/its_own_way"],
        "no such case": [],
    }.items():
        page.press("/")
        assert focused(page) == "search"
        page.type(words)
        assert ids(page) == found, words
        assert texts(page, ".count") == [f"{len(found)} of 17"]
        page.press("Escape")
        assert len(ids(page)) == 17
        page.value("document.activeElement.blur()")


def test_filters_by_outcome_operator_and_tag_work_together_and_stay_in_the_address(show):
    page = show(small_report())
    page.click("[data-outcome=failed]")
    assert len(ids(page)) == 3
    assert page.value("document.querySelector('[data-outcome=failed]').ariaPressed") == "true"
    choose(page, "Operator", "other")
    assert ids(page) == ["other/its_own_way"]
    assert page.value("location.hash") == "#outcome=failed&operator=other"
    page.click(".reset")
    assert len(ids(page)) == 17
    assert page.value("location.hash") == ""


def test_an_address_brings_its_filter_or_its_case(show):
    page = show(small_report(), "#tag=boundary&order=id")
    assert ids(page) == ["other/its_own_way", "other/tagged"]
    page = show(small_report(), "#case=toy/plain")
    assert texts(page, ".detail .repro code") == ["mluops-test run toy/plain --backend mine"]


def test_the_tables_count_and_lead_to_their_cases(show):
    page = show(small_report())
    rows = dict(zip(texts(page, ".summary tbody th"), texts(page, ".summary tbody td:nth-child(3)"), strict=True))
    assert rows == {"other": "12", "toy": "5", "boundary": "2", "negative": "1", "network": "1", "smoke": "14"}
    page.click(".summary tbody tr:nth-child(2) th button")
    assert len(ids(page)) == 5


def test_a_failed_case_shows_why_where_and_how_much(show):
    page = show(small_report(), "#search=same_way", unfold=True)
    (detail,) = texts(page, ".detail")
    for words in ("diff1 = 0.02 > 1e-05", "out[3, 17]", "0.25", "960 / 2,560", "1,201 / 2,560", "2 × 16 × 16 × 4"):
        assert words in detail
    for words in ("NHWC", "kernel_size", "[3, 3, 3]", "§3.2: windows across the edge", "v1:1111", "--backend mine"):
        assert words in detail
    assert page.value("document.querySelectorAll('.histogram rect.heat').length") == 32
    assert page.value("document.querySelectorAll('.map .cell').length") == 1024
    assert page.value("document.querySelectorAll('.map .cell.equal').length") == 1
    assert page.value("document.querySelectorAll('.map .cell.lost').length") == 1
    # The map is hotter where errors are larger.
    fills = page.value("[40, 500, 980].map((n) => getComputedStyle(document.querySelectorAll('.map .cell')[n]).fill)")
    assert len(set(fills)) == 3


def test_readings_stand_on_one_logarithmic_axis(show):
    page = show(small_report(), "#search=same_way", unfold=True)
    places = page.value(
        "[...document.querySelectorAll('.readings .dot')].map((dot) => parseFloat(dot.getAttribute('cx')))"
    )
    limits = page.value(
        "[...document.querySelectorAll('.readings .limit')].map((one) => parseFloat(one.getAttribute('x1')))"
    )
    # 0.02 lies 3.3 decades right of 1e-5; NaN has its place at the right end, a threshold of 0 at the left.
    assert places[0] > limits[0] + 20
    assert places[1] == 97
    assert limits[1] == 3
    assert texts(page, ".readings td.bad") == ["0.02", "NaN"]


def test_elements_beyond_what_arithmetic_allows_have_a_sign_of_their_own(show):
    seen = ElementReading("out", "tf32", 3, 2560, math.inf, (3, 17), "2.5", "0.25", 0.0)
    page = show(report(result("toy/odd", elements=(seen,)), result("toy/plain")), "#search=outliers")
    assert ids(page) == ["toy/odd"]
    assert texts(page, ".list .pill")[0].endswith("passed")
    assert texts(page, ".chip.outliers") == ["△ outliers: 3"]
    page.click(".list .row")
    assert texts(page, ".elements tbody td") == ["out", "3 / 2,560", "∞ ×", "[3, 17] = 2.5", "0.25 ± 0", "tf32"]


def test_a_leak_stands_beside_a_case_that_passes(show):
    page = show(report(result("toy/greedy", leak=Leak(24_000_000, 8)), result("toy/plain")), "#search=leaks")
    assert texts(page, ".brief") == ["leaks 24.0 MB per call (8 calls in a fresh worker)"]


def test_who_is_right_stands_beside_the_criteria(show):
    example = DisputedElement((3, 1), "baseline", "0.25", "0.5", "0.25", 0.25, 4.2e6, 0.0, 0.0)
    settled = Arbitration("out", 1, 1, 0, 0, 0, True, (example,), 0.25, 4.2e6, 0.0, 0.0)
    page = show(report(failed("toy/disputed", arbitrated=(settled,))), "#search=disputed", unfold=True)
    (words,) = texts(page, ".exact li")
    assert words.startswith("out, 1 disputed element: the baseline is right at it; ")
    assert words.endswith("[3, 1] is exactly 0.25, backend 0.5, baseline 0.25")


def test_repetitions_with_changing_numbers_of_threads_have_a_row_each(show):
    stress = StressReading((ThreadsReading(1, 15, 0, 0), ThreadsReading(2, 14, 3, 5)), 2)
    page = show(report(failed("toy/racing", outcome=Outcome.FLAKY, stress=stress)), "#search=racing", unfold=True)
    assert texts(page, ".stress tbody td") == ["1", "15", "0", "0", "2", "14", "3", "5"]
    assert texts(page, ".stress td.bad") == ["3"]


def test_a_folded_map_says_so(show):
    """10 lines of 256 elements; a cell is told by the flat index of its first and last element."""
    folded = failed("toy/long", profile=Profile("out", (0,) * 32, 2, 2, (0.5, 0.0, 0.0, 1.0), width=256))
    page = show(report(folded), "#search=long", unfold=True)
    assert "folded into lines of 256 elements" in texts(page, ".map-block .hint")[0]
    cell = "document.querySelectorAll('.map .cell')[3]"
    page.value(f"{cell}.dispatchEvent(new PointerEvent('pointermove', {{bubbles: true}}))")
    assert texts(page, ".tip")[0].startswith("flat index 1408–2559: ")


def test_the_repro_line_is_copied(show):
    page = show(small_report(), "#search=same_way", unfold=True)
    page.click(".copy")
    said = page.value(
        "new Promise((done) => { const look = () => { const said = document.querySelector('.copy').innerText;"
        "said === 'Copy' ? setTimeout(look, 10) : done(said); }; look(); })"
    )
    assert said == "Copied"


def test_keys_move_open_and_close(show):
    page = show(small_report(), "#operator=toy")
    names = ids(page)
    page.press("/", "ArrowDown")
    assert focused(page) == names[0]
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.press("ArrowDown", "ArrowDown", "Enter")
    assert focused(page) == names[2]
    assert page.value("document.querySelector('.detail').ariaLabel") == names[2]
    page.press(" ")
    assert texts(page, ".detail") == []
    page.press("ArrowRight")
    assert len(texts(page, ".detail")) == 1
    page.press("ArrowLeft")
    assert texts(page, ".detail") == []
    page.press("End")
    assert focused(page) == names[-1]
    page.press("Home", "ArrowUp")
    assert focused(page) == "search"


def test_failures_that_are_alike_stand_together(show):
    page = show(small_report())
    heads = texts(page, ".group summary")
    (alike,) = [head for head in heads if "v1:1111" in head]
    assert "2" in alike.split()
    assert len(heads) == len(texts(page, ".group-count")) == 11
    page.click(".group:has(.o-failed) summary")
    page.click(".group[open] .group-cases a")
    assert focused(page) == HOSTILE  # of two equally small cases, the first by name
    assert len(texts(page, ".detail")) == 1


def last_rows_cleared(case, rows, fingerprint):
    baseline = np.random.default_rng(rows).normal(size=(rows, 12))
    evaluated = baseline.copy()
    evaluated[-2:] = 0
    out = WrongOutput(evaluated, baseline, evaluated != baseline, "tolerance", epsilon=2.0**-52)
    one = explained(out, "out", lambda index: (str(evaluated[index]), str(baseline[index])))
    return failed(case, fingerprint, explained=(one,))


# On a narrow page the headline of a group has lines of its own, and the outcome covers none of it.
IS_BELOW = """(() => {
  const [pill, why] = [".group .pill", ".group-why"].map((name) => document.querySelector(name));
  return pill.getBoundingClientRect().bottom <= why.getBoundingClientRect().top;
})()"""


# The row that has the focus lies in the window, below the toolbar that stays at the top.
IS_IN_SIGHT = """(() => {
  const [row, bar] = [document.activeElement, document.querySelector(".toolbar")].map((n) => n.getBoundingClientRect());
  return row.top >= bar.bottom && row.bottom <= window.innerHeight;
})()"""


@pytest.mark.parametrize("width", [1400, 400])
def test_failures_of_one_cause_stand_under_a_headline_with_a_map(show, browser, width):
    browser.window(width, 900)
    names = {"toy/a": 5, "toy/b": 9, "toy/c": 40}
    page = show(report(*(last_rows_cleared(name, rows, f"v1:{rows}") for name, rows in names.items())))
    assert texts(page, ".group-why") == ["toy: out[-2:] is zero"]
    assert texts(page, ".group-count") == ["3"]
    assert page.value(IS_BELOW) is (width == 400)
    page.click(".group summary")
    assert "In toy/b: out[7:] is zero" in texts(page, ".group-words")[0]
    (_, *samples) = texts(page, ".group .samples tr")
    assert [row.split("\t")[:2] for row in samples] == [[f"out[7, {n}]", "0.0"] for n in range(3)]
    assert texts(page, ".group .repro code") == ["mluops-test run toy/b --backend mine"]
    classes = page.value("[...document.querySelectorAll('.group-cause .cell')].map((cell) => cell.classList[1])")
    assert classes == ["equal"] * 84 + ["wrong"] * 24
    assert page.value("document.documentElement.scrollWidth <= window.innerWidth")
    page.click(".group > button")
    assert sorted(ids(page)) == sorted(names)


def test_a_case_says_the_headline_of_its_cause_and_some_wrong_elements(show):
    names = {"toy/a": 5, "toy/b": 9, "toy/c": 40}
    results = [last_rows_cleared(name, rows, f"v1:{rows}") for name, rows in names.items()]
    page = show(report(*results), "#toy/c")
    assert texts(page, ".cause-head") == ["toy: out[-2:] is zero"]
    (cause,) = texts(page, ".detail .cause")
    assert "out[38:] is zero" in cause
    assert [row.split("\t")[0] for row in texts(page, ".cause .samples tr")[1:]] == [f"out[38, {n}]" for n in range(3)]
    page.click(".cause button")
    assert sorted(ids(page)) == sorted(names)
    alone = show(report(last_rows_cleared("toy/alone", 9, "v1:9")), "#toy/alone")
    assert texts(alone, ".detail .cause p") == ["toy: out[7:] is zero"], "the head says all of it"


@pytest.mark.parametrize(
    ("fragment", "shown"),
    [
        ("#toy/same_way", 17),
        ("#toy%2Fsame_way", 17),
        ("#case=toy/same_way", 17),
        ("#outcome=failed&case=toy/same_way", 3),
        # The filter would hide it.
        ("#outcome=passed&case=toy/same_way", 17),
    ],
)
def test_an_address_opens_its_case_and_stays(show, fragment, shown):
    page = show(small_report(), fragment)
    assert focused(page) == "toy/same_way"
    assert len(texts(page, ".detail")) == 1
    assert len(ids(page)) == shown
    assert page.value("location.hash") == fragment
    assert page.value(IS_IN_SIGHT)


def test_the_link_of_a_case_opens_it_elsewhere(show):
    page = show(small_report(), "#outcome=failed")
    opened = "[...document.querySelectorAll('.list .row')].find((row) => row.innerText.includes('window.hacked'))"
    page.value(f"{opened}.click()")
    address = page.value("document.querySelector('.detail .foot a').href")
    page.click(".detail .foot a")
    assert page.value("location.href") == address
    page.open("about:blank")
    page.open(address)
    assert focused(page) == HOSTILE
    assert len(ids(page)) == 17


def test_transitions_are_counted_and_missing_cases_are_found(show):
    page = show(small_report(), **EVERYTHING)
    tiles = [tuple(words.split("\n")) for words in texts(page, ".tile")]
    assert sorted(tiles) == [("1", "a new word"), ("1", "missing"), ("1", "regressed"), ("1", "still passing")]
    page.click(".tile.m-missing")
    assert ids(page) == ["toy/gone"]
    assert texts(page, ".list .pill") == ["∅\nmissing"]


def test_earlier_runs_are_drawn_for_all_and_for_one_case(show):
    page = show(small_report(), **EVERYTHING)
    assert page.value("[...document.querySelectorAll('.run')].map((run) => run.ariaLabel)") == [
        "2026-01-01T00:00:00: passed 2",
        "2026-01-02T00:00:00 · beef+: failed 1, skipped 1",
    ]
    assert texts(page, ".run-count") == ["", "1"]
    page.press("/")
    page.type("same_way")
    page.click(".list .row")
    marks = page.value("[...document.querySelectorAll('.trend-block .mark')].map((mark) => mark.classList[1])")
    assert marks == ["o-passed", "o-failed"]
    assert page.value("document.querySelectorAll('.trend-block .picture')[1].ariaLabel") == "Time: 1 ms, 3 ms"


def test_times_and_roofs_of_a_timed_case(show):
    page = show(small_report(), "#search=toy/timed", unfold=True, **EVERYTHING)
    (detail,) = texts(page, ".detail")
    for words in ("Device time", "Interface time", "Roofline", "Workspace", "4 KiB"):
        assert words in detail
    assert "Below the accepted 60 % on the IO side" in detail
    assert page.value("document.querySelectorAll('.times').length") == 48
    assert page.value("document.querySelectorAll('#performance .roof').length") == 4
    assert texts(page, "#performance .strip .figure")[0] == "0 / 1"


def test_a_call_that_is_too_short_is_not_blamed(show):
    one = result("toy/timed", perf=Perf((10_000,) * 6, overhead_ns=5_000))
    timed = replace(one, info=replace(one.info, theory_io_bytes=1.0, theory_ops=1.0))
    page = show(report(timed), "#search=toy/timed", unfold=True)
    (detail,) = texts(page, ".detail")
    assert "too short to judge the share of the device" in detail
    assert "Below the accepted" not in detail


def test_sections_without_data_are_not_there(show):
    page = show(replace(report(result("toy/a")), labels={"git.commit": "beef", "device": "<b>x"}))
    sections = page.value("[...document.querySelectorAll('main section[id]')].map((section) => section.id)")
    assert sections == ["overview", "cases", "environment"]
    for words in ("x86_64", "Labels", "<b>x"):
        assert words in texts(page, "#environment")[0]
    assert texts(page, ".summary tbody th") == ["toy", "smoke"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_case_opens_and_nothing_is_left_unsaid(show, lang):
    page = show(small_report(), lang=lang, **EVERYTHING)
    expand_all(page)
    assert len(texts(page, ".detail")) == 18
    said = page.value("document.body.innerText") + " ".join(
        page.value("[...document.querySelectorAll('[aria-label]')].map((n) => n.ariaLabel)")
    )
    for word in ("undefined", "NaN undefined", "[object", "null"):
        assert word not in said
    assert page.value("document.documentElement.lang").startswith(lang)
    assert ("17 个用例中有 12 个阻塞" in said) == (lang == "zh")


def test_no_window_is_too_narrow(show):
    page = show(small_report(), **EVERYTHING)
    expand_all(page)
    for width in (320, 400, 768, 1400):
        page.window(width, 900)
        assert page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, width
        # Three columns of figures and a name are too much for 320.
        if width > 320:
            assert page.value(TOO_WIDE.replace("'.scroll'", "'.scroll:has(.summary)'")) == [], width


@pytest.fixture
def show_runs(browser, tmp_path):
    """Open the page of several runs."""

    def call(runs, fragment=""):
        path = tmp_path / "runs.html"
        path.write_text(render_matrix(runs), encoding="utf-8")
        browser.open("about:blank")
        browser.open(path.as_uri() + fragment)
        return browser

    browser.javascript(True)
    browser.window(1400, 900)
    yield call
    assert browser.complaints == []


RUNS = {"one": report(failed("toy/of_a_name_that_takes_a_whole_line_of_its_own")), "other": small_report()}


def test_no_window_is_too_narrow_for_several_runs(show_runs):
    page = show_runs({**RUNS, "third": report(result("toy/of_a_name_that_takes_a_whole_line_of_its_own"))})
    page.click("#differ summary")
    for width in (320, 400, 768, 1400):
        page.window(width, 900)
        assert page.value("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0, width
        assert page.value(TOO_WIDE) == [], width


# The cells of tables that need a scroll bar, by what they say.
TOO_WIDE = (
    "[...document.querySelectorAll('.scroll')].filter((n) => n.scrollWidth > n.clientWidth).map((n) => n.innerText)"
)


def test_several_runs_have_a_search_and_addresses(show_runs):
    changed = report(*(last_rows_cleared(name, 9, "v1:1") for name in ("toy/plain", "toy/timed")))
    page = show_runs({"one": small_report(), "other": changed})
    visible = "[...document.querySelectorAll('#differ details:not([hidden]) .id')].map((node) => node.innerText)"
    assert page.value(visible) == ["toy/plain", "toy/timed"]
    assert texts(page, "#count") == ["2 of 2"]
    assert texts(page, "#differ .heads span")[0] == "case"
    page.click("#find")
    page.type("plain passed")
    assert page.value(visible) == ["toy/plain"]
    assert texts(page, "#count") == ["1 of 2"]
    page.click("#causes a[href^='#v3:']")
    page.value(until("document.getElementById('find').value.startsWith('v3:')"))
    assert page.value(visible) == ["toy/plain", "toy/timed"]
    show_runs({"one": small_report(), "other": changed}, "#toy/timed")
    assert page.value("document.querySelector('#differ details[open]').id") == "toy/timed"


def test_an_exceeded_threshold_of_0_is_no_ratio_of_0(show):
    exact = failed("toy/exact", readings=(Reading("out", "diff3", 2.0, 0.0, within=False),))
    assert texts(show(report(exact)), ".summary tbody td:nth-child(6)") == ["∞", "∞"]
    near = result("toy/a_near", readings=(Reading("out", "diff1", 9e-6, 1e-5, within=True),))
    unread = result("toy/unread", Outcome.SKIPPED, readings=(), compared=False)
    page = show(report(near, result("toy/far"), unread, exact, failed("toy/nan")), "#order=ratio")
    assert ids(page) == ["toy/exact", "toy/nan", "toy/a_near", "toy/far", "toy/unread"]
    titles = page.value("[...document.querySelectorAll('.list .meter')].map((node) => node.title)")
    assert titles[:3] == [*["Worst reading ÷ threshold: ∞"] * 2, "Worst reading ÷ threshold: 0.9"]


def test_light_dark_and_the_reader_s_own_choice(show):
    ground = "getComputedStyle(document.body).backgroundColor"
    page = show(small_report())
    light = page.value(ground)
    page.media("dark")
    dark = page.value(ground)
    assert light != dark
    page.click(".theme")
    assert page.value(ground) == light
    page.click(".theme")
    page.media("light")
    assert page.value(ground) == dark
    page.click(".theme")
    assert page.value(ground) == light


def test_paper_is_light_and_shows_what_blocks(show):
    page = show(large_report(250, 150))
    page.media("dark")
    assert page.printed().startswith(b"%PDF")
    assert page.value("getComputedStyle(document.documentElement).colorScheme") == "light"
    assert page.value("getComputedStyle(document.querySelector('.toolbar select').parentElement).display") == "none"
    visible = (
        "[...document.querySelectorAll('.item')].filter((item) => getComputedStyle(item).display !== 'none').length"
    )
    assert page.value(visible) == 150
    page.value("document.querySelector('[data-outcome=passed]').click()")
    page.printed()
    assert page.value(visible) == 100


def test_two_thousand_cases_are_listed_as_the_reader_goes(show):
    page = show(large_report())
    count = "document.querySelectorAll('.item').length"
    before = page.value(count)
    assert before < 500
    page.press("/", "ArrowDown", "End", "ArrowDown")
    assert page.value(count) > before
    assert page.value("document.activeElement === document.querySelectorAll('.row')[" + str(before) + "]")
    page.value(
        "while (!document.querySelector('.cases > .more').hidden) document.querySelector('.cases > .more').click()"
    )
    assert page.value(count) == 2000


def test_a_large_page_unpacks_itself(show, monkeypatch):
    monkeypatch.setattr(embedding, "PACK_FROM_BYTES", 0)
    page = show(small_report(), lang="zh", **EVERYTHING)
    seen = "document.querySelectorAll('{}').length"
    page.value(until(seen.format(".item")))
    assert len(ids(page)) == 18
    expand_all(page)
    page.value(until(f"{seen.format('.detail')} === 18"))
    assert texts(page, ".headline p") == ["17 个用例中有 12 个阻塞"]


def test_of_a_long_list_only_what_is_near_is_there(show):
    page = show(report(*(result(f"toy/case_{n:04}") for n in range(6000))), "#case=toy/case_5990")
    count = "document.querySelectorAll('.item').length"
    assert focused(page) == "toy/case_5990"
    assert page.value(count) < 500
    page.press("ArrowLeft", "End")
    assert focused(page) == "toy/case_5999"
    page.press("Home", "ArrowDown")
    assert focused(page) == "toy/case_0001"
    # To the end step by step: what lies far behind is given up again.
    for _ in range(50):
        page.press("End", "ArrowDown")
    assert focused(page) >= "toy/case_5000"
    assert page.value(count) <= 4000
    page.press("Home")
    assert focused(page) == "toy/case_0000"
    page.press("/")
    page.type("case_31")
    assert ids(page) == [f"toy/case_31{n:02}" for n in range(100)]
    page.printed()
    assert page.value(count) == 100


def test_a_case_far_down_the_list_is_reached_from_its_group(show):
    passed = [result(f"toy/passed_{n}") for n in range(900)]
    page = show(report(*passed, failed("toy/the_last")), "#order=id")
    assert "toy/the_last" not in ids(page)
    page.click(".group summary")
    page.click(".group .group-cases a")
    assert focused(page) == "toy/the_last"
    assert len(texts(page, ".detail")) == 1


def test_an_empty_and_an_interrupted_run(show):
    assert texts(show(report()), ".headline p") == ["Nothing was compared: 0 cases"]
    page = show(report(result("toy/a"), result("toy/b", Outcome.NOT_RUN), interrupted=True))
    assert texts(page, ".headline p") == ["Interrupted: 1 of 2 cases block"]
