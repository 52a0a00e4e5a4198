"""What backends print and files are called reaches terminals, Markdown and CI systems as text and as nothing else."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from xml.etree import ElementTree

import pytest
from rich.console import Console

from mluops_gtest.results.reports.terminal import escape
from tests.conftest import ROOT
from tests.support.disks import command

NASTY = (
    "\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\\x1b[2J\x9b31m\u202eevil\u2066\u200f\u2028\x00\x08\r"
    "[bold]not bold[/] [/] [link=http://evil]x[/link] :bomb: | `tick` <script>alert(1)</script> &#8238; \ud800 \\"
    "\n::error file=x::owned\n\\"
)
BACKEND = f"""
from mluops_gtest import Declined, Status

NASTY = {NASTY!r}


class Hostile:
    name = "hostile" + NASTY

    def run(self, call):
        print(NASTY)
        call.notes.append(NASTY)
        if len(call.inputs["x"].dims) != 1:
            raise Declined(NASTY)
        if call.inputs["x"].dims[0] == 2:
            raise RuntimeError(NASTY)
        return Status.SUCCESS
"""
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
OVERRIDES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def harmless(text):
    """No control character, no override, no line of GitHub's; what was said can still be read."""
    assert STEERING.findall(text) == []
    assert OVERRIDES.isdisjoint(map(unicodedata.bidirectional, text))
    assert [line for line in text.split("\n") if re.match(r"\s*::error file=x", line)] == []
    assert "\u2028" not in text
    return text


@pytest.fixture(scope="module")
def toy(generated_toy):
    """A root that no test here changes."""
    return generated_toy()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "hostile.py"
    path.write_text(BACKEND)
    return f"{path}:Hostile"


@pytest.fixture(scope="module")
def results(toy, hostile, run_once):
    return run_once("--root", toy, "-b", hostile, code=1)


@pytest.fixture(scope="module")
def before(toy, run_once):
    return run_once("--root", toy)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-v",), ("-q",), ("--reruns", "1")])
def test_a_terminal_and_a_pipe(toy, hostile, tmp_path, options):
    done = command("run", "--root", toy, "-b", hostile, "--out", tmp_path / "out", *options)
    assert done.returncode == 1, done.stderr
    harmless(done.stderr)
    out = harmless(done.stdout)
    if "-q" not in options:
        assert r"\x1b]0;owned\x07" in out
        assert r"\u202eevil" in out
        assert "[bold]not bold[/] [/]" in out
        assert ":bomb:" in out


@pytest.mark.slow
def test_a_coloured_terminal_has_our_colours_alone(toy, hostile, tmp_path):
    ours, theirs = pty.openpty()
    words = ["run", "--root", str(toy), "-b", hostile, "--out", str(tmp_path / "out"), "-v"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-m", "mluops_gtest", *words], stdout=theirs, stderr=subprocess.PIPE, env=environment
    )
    os.close(theirs)
    seen = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            while piece := terminal.read(65536):
                seen += piece
        except OSError:
            pass  # the terminal is gone with its last user
    process.communicate()
    assert process.returncode == 1
    text = seen.decode().replace("\r\n", "\n")
    assert "\x1b[" in text, "no colours at all"
    harmless(re.sub(r"\x1b\[[0-9;]*m", "", text))


@pytest.mark.slow
def test_the_files_keep_what_was_said_and_stay_readable(results):
    reports = [json.loads(line) for line in (results / "results.jsonl").read_bytes().splitlines()]
    reasons = " ".join(r["reason"] for r in reports)
    assert "\x1b]0;owned\x07" in reasons
    assert "\u202eevil" in reasons
    json.loads((results / "report.json").read_text()), json.loads((results / "run.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("form", ["markdown", "junit", "ctrf", "html"])
def test_every_report(cli, results, form, tmp_path):
    assert cli("report", results, "--format", form, "-o", tmp_path / "report").code == 0
    text = (tmp_path / "report").read_text(encoding="utf-8")
    if form == "html":
        data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
        for value in strings(data):
            assert STEERING.findall(value) == []
            assert OVERRIDES.isdisjoint(map(unicodedata.bidirectional, value))
        text = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
        assert "<script>alert" not in text
        assert OVERRIDES.isdisjoint(map(unicodedata.bidirectional, text))
    elif form == "ctrf":
        for value in strings(json.loads(text)):
            assert OVERRIDES.isdisjoint(map(unicodedata.bidirectional, value))
    else:
        assert STEERING.findall(text) == []
        assert OVERRIDES.isdisjoint(map(unicodedata.bidirectional, text))
    if form == "junit":
        assert r"\x1b]0;owned\x07" in ElementTree.fromstring(text).find(".//*[@message]").get("message")
    if form == "markdown":
        outside_code = re.sub(r"(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
        assert "<script>" not in outside_code
        assert "&#8238;" not in outside_code.replace("\\&", "")
        assert "\\<script\\>" in text


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (*strings(key), *strings(item))
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "json", "markdown", "github", "gitlab"])
def test_every_form_of_the_gate(cli, before, results, form):
    result = cli("gate", results, "--against", before, "--cross-backend", "--format", form).expect_code(1)
    out = harmless(result.out)
    if form == "github":
        errors = [line for line in out.splitlines() if line.startswith("::error")]
        assert errors
        assert all("%0A::error file=x" not in line.split("::", 2)[1] for line in errors)
    if form in ("json", "gitlab"):
        json.loads(out)


def test_names_of_files(cli, toy, tmp_path):
    folder = tmp_path / "cases"
    folder.mkdir()
    name = "\x1b]0;owned\x07\u202e[bold]\n::error file=x::owned.prototxt"
    (folder / name).write_text((toy / "prototxt" / "scale_by" / "ramp_3.prototxt").read_text())
    for words in (
        ["list", folder],
        ["list", folder, "--format", "ids"],
        ["list", folder, "--format", "json"],
        ["show", folder / name],
        ["verify", folder],
        ["run", folder, "-v", "--out", tmp_path / "out"],
        ["convert", folder, tmp_path / "binary"],
    ):
        result = cli(*words, "--root", toy).expect_code(0)
        harmless(result.out)
        harmless(result.err)
    (folder / name).write_text("nonsense {")
    for words in (["list", folder], ["show", folder / name], ["convert", folder, tmp_path / "again"]):
        result = cli(*words, "--root", toy).expect_code(3)
        assert STEERING.findall(result.err) == []
    wrong = cli("run", "--root", toy, "\x1b]0;owned\x07\u202e").expect_code(5)
    harmless(wrong.err)
    usage = cli("run", "--shard", "\x1b]0;owned\x07").expect_code(2)
    harmless(usage.err)


@pytest.mark.parametrize(
    "text", ["a\\", "a\\\\", "a\\\\\\", "[/]", "[bold", "\\[bold]", "\\\\[/]", "[Bold]", "[]", ":x:"]
)
def test_markup_is_text(text):
    console = Console(file=io.StringIO(), width=200, emoji=False)
    console.print(f"[bold]{escape(text)}[/]|{escape(text)}[bold]x[/]")
    shown = text[:-1] + "\\x5c" if text.endswith("\\") else text
    assert console.file.getvalue() == f"{shown}|{shown}x\n"


@pytest.mark.slow
def test_stdout_in_a_narrow_encoding(toy):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-m", "mluops_gtest", "show", "scale_by/ramp_3", "--root", str(toy)]
    done = subprocess.run(words, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert rb"\u2264" in done.stdout


@pytest.mark.slow
def test_pytest_shows_what_a_backend_says_as_text(toy, hostile, tmp_path):
    words = (sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "mluops_gtest.pytest_plugin")
    chosen = ("--mluops-root", str(toy), "--mluops-backend", hostile)
    done = subprocess.run([*words, *chosen], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout
    assert "backend output" in done.stdout
    assert r"\x1b]0;owned\x07" in harmless(done.stdout)
