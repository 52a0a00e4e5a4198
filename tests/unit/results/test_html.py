"""The page's text: safe, small, complete in both languages, and its data the report's."""

import base64
import hashlib
import json
import math
import re
import zlib
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from mluops_gtest.base.errors import UsageError
from mluops_gtest.core.cause import Exited, Overrun, PassedAtTry
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import Attempt, Perf, Profile
from mluops_gtest.results.reports import html_payload as embedding
from mluops_gtest.results.reports.html import render_html
from mluops_gtest.results.reports.html_payload import (
    commits_of,
    distribution,
    latest_runs,
    number,
    profile_record,
    trend_text,
)
from mluops_gtest.results.reports.words import MARKDOWN_WORDS, MATRIX_WORDS, PAGE_WORDS
from tests.support.page_report import DEVICE, HOSTILE, failed, large_report, report, result, small_report

STATIC = files("mluops_gtest.results.reports").joinpath("static")


def static(ending):
    return "".join(file.read_text(encoding="utf-8") for file in STATIC.iterdir() if file.name.endswith(ending))


class Page(HTMLParser):
    """The elements of a page, its scripts and styles, its policy."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._open = [], {}, None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs).get("id")) if tag in ("script", "style", "title") else None

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.texts[self._open] = self.texts.get(self._open, "") + data

    def json(self, name):
        return json.loads(self.texts[("script", name)])

    def attributes(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(*arguments, **options):
    return Page(render_html(*arguments, **options))


def rows_of(page):
    """By case: what the list has of it, and what is shown when it is opened."""
    data = page.json("data")
    columns, timed = data["columns"], data["timed"]
    lines = page.texts.get(("script", "lines"), "").splitlines()
    listed = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    rows = [
        {name: value for name, value in row.items() if value is not None}
        | json.loads(line)
        | {"roof": timed.get(str(n))}
        for n, (row, line) in enumerate(zip(listed, lines, strict=True))
    ]
    return {row["id"]: row for row in rows}


def test_the_same_report_gives_the_same_text():
    assert render_html(small_report()) == render_html(small_report())


def test_nothing_comes_from_elsewhere():
    text = render_html(small_report(), transitions={}, history={})
    assert not re.search(r"https?://|//[a-z]+\.", text)
    page = Page(text)
    loading = [a.get("src") or a.get("href") for _, a in page.elements if "src" in a or "href" in a]
    assert all(address.startswith("data:") for address in loading)
    assert not [name for _, a in page.elements for name in a if name.startswith("on")]
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|@import|url\(", static("js") + static("css")
    )


def test_only_the_page_s_own_script_and_style_may_run():
    page = page_of(small_report())
    (policy,) = [a["content"] for a in page.attributes("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.texts[(kind, None)].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_what_a_case_says_stays_text():
    text = render_html(small_report())
    page = Page(text)
    assert [a.get("type") for a in page.attributes("script")] == [*["application/json"] * 3, None]
    assert HOSTILE in rows_of(page)
    assert text.count("</script>") == 4
    assert "<!--" not in text
    assert "&lt;script&gt;window.hacked=1" in text
    hostile = "</title><script>1</script>"
    page = page_of(replace(report(result("toy/a")), backend={"name": hostile}))
    assert hostile in page.texts[("title", None)]


def test_bytes_that_are_no_text_do_not_stop_the_page_from_being_written():
    text = render_html(report(failed("toy/a", output="broken \udcff byte")))
    assert r"broken \\udcff byte" in text
    text.encode("utf-8")


@pytest.mark.slow
def test_two_thousand_results_with_times_and_history_stay_under_two_megabytes():
    large = large_report()
    history = {
        r.case: [(f"2026-01-{day:02}", "passed", 0.1, "", 0.001 * day) for day in range(1, 29)] for r in large.results
    }
    text = render_html(large, history=history)
    rows = rows_of(Page(text))
    assert len(rows) == 2000
    assert sum("profile" in row for row in rows.values()) == 200
    assert len(text.encode()) <= 2_000_000


def test_much_data_is_packed_and_holds_the_same(monkeypatch):
    plain = Page(render_html(small_report()))
    monkeypatch.setattr(embedding, "PACK_FROM_BYTES", 0)
    packed = Page(render_html(small_report()))
    for name in ("data", "lines"):
        unpacked = zlib.decompress(base64.b64decode(packed.texts[("script", name)])).decode()
        assert unpacked.strip() == plain.texts[("script", name)]


def test_readings_thresholds_and_worst_arrive():
    page = page_of(small_report())
    data, row = page.json("data"), rows_of(page)["toy/same_way"]
    readings = [(data["pool"][what], value, within) for what, value, within in row["readings"]]
    assert readings == [(["out", "diff1", 1e-5], 0.02, 0), (["out", "diff3", 0], "nan", 0)]
    assert row["worst"][1:] == ["[3, 17]", "nan", "0.25", 1200, 2560, None, 960, 1201]
    assert data["pool"][row["mark"]] == "v1:1111"
    assert data["outcomes"][row["outcome"]] == ["failed", True, "✗"]
    assert data["pool"][row["repro"]] == ["mluops-test run ", " --backend mine"]


def test_long_texts_are_cut_at_their_beginning():
    page = page_of(report(failed("toy/a", output="x" * 9000 + "the end")))
    printed = rows_of(page)["toy/a"]["printed"]
    assert len(printed) < 2100
    assert printed.endswith("the end")


@pytest.mark.parametrize(
    ("make", "verdict"),
    [
        (lambda: report(result("toy/a")), "clear"),
        (lambda: report(result("toy/a"), failed("toy/b")), "blocked"),
        (lambda: report(result("toy/a", Outcome.SKIPPED, compared=False)), "empty"),
        (lambda: report(), "empty"),
        (lambda: report(result("toy/a"), interrupted=True), "interrupted"),
    ],
)
def test_the_verdict_is_the_run_s(make, verdict):
    page = page_of(make())
    assert page.json("data")["verdict"] == verdict
    headline = PAGE_WORDS["en"][f"verdict_{verdict}"].partition("{")[0]
    assert headline in page.texts[("title", None)]


def test_the_icon_is_a_picture_in_the_colour_of_the_verdict():
    icons = set()
    for made in (report(result("toy/a")), report(failed("toy/a"))):
        (icon,) = [a["href"] for a in page_of(made).attributes("link")]
        png = base64.b64decode(icon.removeprefix("data:image/png;base64,"))
        start = png.index(b"IDAT") + 4
        pixels = zlib.decompress(png[start:])
        icons.add(pixels[16 * (4 * 32 + 1) + 1 + 4 * 16 :][:4])
    assert icons == {bytes((26, 127, 78, 255)), bytes((200, 50, 43, 255))}


def test_without_javascript_the_counts_and_the_blocking_cases_are_there():
    text = render_html(small_report())
    plain = text[text.index("<noscript>") : text.index("</noscript>")]
    assert "<td>toy</td><td>5</td>" in plain
    assert "because of timed_out" in plain
    assert "other/tagged" not in plain


def test_transitions_reach_their_rows_and_missing_cases_are_listed():
    moves = {"toy/same_way": "regressed", "toy/plain": "still_passing", "toy/gone": "missing"}
    page = page_of(small_report(), transitions=moves)
    data, rows = page.json("data"), rows_of(page)
    assert data["against"] is True
    assert data["missing"] == [["toy/gone", "missing"]]
    assert data["pool"][rows["toy/same_way"]["moved"]] == "regressed"
    assert data["pool"][rows["toy/plain"]["moved"]] == "still passing"
    assert "moved" not in rows["other/tagged"]


def test_an_unknown_language_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="en, zh"):
        render_html(small_report(), lang="tlh")


@pytest.mark.parametrize("words", [PAGE_WORDS, MATRIX_WORDS, MARKDOWN_WORDS], ids=["page", "matrix", "markdown"])
def test_each_language_says_everything(words):
    assert all(all(table.values()) for table in words.values())
    for key, english in words["en"].items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", words["zh"][key])), key


def test_reasons_are_in_the_language_of_the_page():
    attempts = (Attempt(Outcome.FAILED, (Exited(3),)), Attempt(Outcome.PASSED))
    causes = (PassedAtTry(2, Outcome.FAILED), Overrun("out", "behind", 4))
    whole = report(failed("toy/a", outcome=Outcome.FLAKY, causes=causes, attempts=attempts))
    chinese = "首次运行失败，第 2 次运行通过：越界写入 out 尾部之后，最近处距其尾部 4 字节"
    text = render_html(whole, lang="zh")
    data = Page(text).json("data")
    assert Page(text).json("words") == PAGE_WORDS["zh"]
    (row,) = rows_of(Page(text)).values()
    assert data["pool"][row["why"]] == chinese
    assert data["pool"][row["attempts"][0][1]] == "进程以退出码 3 结束"
    assert f"<td>{chinese}</td>" in text  # without script
    english = page_of(whole)
    (row,) = rows_of(english).values()
    assert english.json("data")["pool"][row["why"]].startswith(
        "passed at try 2 after failed: wrote past the end of out"
    )


def test_every_word_is_used_and_every_used_word_exists():
    script = static("js")
    used = set(re.findall(r'\bt\(\s*"(\w+)"\s*[,)]', script))
    # Words chosen by a condition, and families named by their beginning.
    used |= {word for pair in re.findall(r't\([^()"]*\? "(\w+)" : "(\w+)"', script) for word in pair}
    families = set(re.findall(r't\("(\w+_)" \+', script)) | {"m_"}
    used |= {word for word in PAGE_WORDS["en"] if any(word.startswith(family) for family in families)}
    used |= {"noscript", "reason"}  # said by the part without script
    used |= set(re.findall(r'(?:failures|transitions|performance|trends|cases|environment): "(\w+)"', script))
    assert used == set(PAGE_WORDS["en"])


def test_every_outcome_has_a_word_a_colour_a_sign_and_a_rank():
    page = page_of(small_report())
    data, style = page.json("data"), page.texts[("style", None)]
    assert data["outcomes"] == [[outcome.value, outcome.blocks, outcome.sign] for outcome in Outcome]
    assert sorted(data["gravest"]) == sorted(outcome.value for outcome in Outcome)
    for outcome in Outcome:
        assert page.json("words")[f"o_{outcome.value}"] == outcome.words["en"]
        assert f".o-{outcome.value} {{ --word: var(--{outcome.tone.value});" in style
        for variable in (outcome.tone.value, f"{outcome.tone.value}-ground", f"fill-{outcome.tone.value}"):
            assert f"--{variable}: light-dark(" in style


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_can_be_read_on_their_ground(theme):
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", static("css"))
    colours = {name: luminance(pair[theme]) for name, *pair in found}
    pairs = [
        (word, ground) for word in ("ink", "soft", "accent") for ground in ("ground", "surface", "raised", "hover")
    ]
    pairs += [(word, f"{word}-ground") for word in ("good", "bad", "warn", "odd", "calm", "accent")]
    pairs += [(word, "surface") for word in ("good", "bad", "warn", "odd", "calm")]
    for word, ground in pairs:
        dark, light = sorted((colours[word], colours[ground]))
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (word, ground)


def test_a_map_has_one_character_per_cell_for_the_bin_that_its_error_falls_into():
    below = math.nextafter(2.0**-28, 0)
    cells = (0.0, math.inf, math.nan, 5e-324, 2.0**-29, below, 2.0**-28, 0.25, 1.0, 2.0, 1e300, 0.0)
    assert profile_record(Profile("out", (0,) * 32, 3, 4, cells))["cells"] == ".!!0112suvv."


@pytest.mark.parametrize(
    ("value", "short"), [(0.0, 0), (1 / 3, 0.3333), (math.inf, "inf"), (math.nan, "nan"), (2e20, 2e20)]
)
def test_numbers_are_short(value, short):
    assert number(value) == short
    json.dumps(number(value), allow_nan=False)


def test_a_distribution_counts_every_sample_and_keeps_its_tail_apart():
    samples = [*range(1000, 1100), 50_000]
    count, low, edge, high, median, *_, bins = distribution(samples)
    assert (count, low, high, median) == (101, 1000, 50_000, 1050)
    assert 1100 < edge < 1300
    assert sum(bins) == 101
    assert bins[-1] == 1

    assert distribution([7, 7, 7])[-1] == [3]


def test_efficiencies_follow_the_device():
    timed = result("toy/a", perf=Perf((20_000,) * 9))
    page = page_of(report(timed))
    roof = rows_of(page)["toy/a"]["roof"]
    assert page.json("data")["run"]["device"] == DEVICE
    # 80 000 bytes in 20 µs of 1e10 B/s; 160 000 operations of 4e10 op/s.
    assert (roof["io"], roof["compute"], roof["side"], roof["accepted"]) == (0.4, 0.2, "io", True)
    roof = rows_of(page_of(replace(report(timed), environment={})))["toy/a"]["roof"]
    assert roof == {"io_rate": 4_000_000_000, "op_rate": 8_000_000_000, "intensity": 2}


def test_a_trend_is_one_character_per_run():
    history = {
        "toy/a": [("2026-01-02", "failed", 2.0, "beef", 0.5), ("2026-01-01", "passed", 0.0, "", None)],
        "toy/b": [("2026-01-03", "passed", None, "cafe+", 1.0), ("2026-01-02", "passed", math.inf, "beef", 1.0)],
    }
    runs = latest_runs(history)
    assert runs == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert commits_of(history, runs) == ["", "beef", "cafe+"]
    assert trend_text(history["toy/a"], runs) == ["01.", "0p."]
    assert trend_text(history["toy/b"], runs) == [".00", ".!."]


def test_only_the_latest_runs_are_kept():
    points = [(f"2026-01-01T00:{n:02}", "passed", 0.5, "", None) for n in range(60)]
    runs = latest_runs({"toy/a": points})
    assert len(runs) == 40
    assert runs[-1] == "2026-01-01T00:59"
    assert trend_text(points, runs) == ["0" * 40, "n" * 40]
