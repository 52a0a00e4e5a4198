"""`submit` and `check-submission`: what is claimed, what follows from the files, and what only another run shows."""

import copy
import hashlib
import json
import shutil
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.catalog.selection import Session
from mluops_gtest.results.submission import MANIFEST, read_submission, unchecked_fields
from mluops_gtest.running.submission_check import check_submission, exit_code_of
from tests.e2e.conftest import called, replace_in
from tests.support.json_schemas import refuse_wrong

BACKEND = """
import numpy as np
import mluops_gtest as mt


class Kernels(mt.NumpyBackend):
    name = "kernels"

    def run(self, call):
        x = call.inputs["x"]
        if x is not None and x.dims == (3,):
            raise mt.Declined("no three elements")
        status = super().run(call)
        if status == mt.Status.SUCCESS and x.dims == (4,):
            call.array("y")[-1] *= 1.01
        return status


backend = Kernels(roots=[ROOT])
"""
DECLINES = """
import mluops_gtest as mt


class Declines:
    name = "declines"

    def run(self, call):
        raise mt.Declined("not today")


backend = Declines()
"""
REPORT, RUN = "report.json", "run.json"
FAILING, PASSING, SKIPPED = "scale_by/ramp_4", "scale_by/ramp_2", "scale_by/ramp_3"


@pytest.fixture(scope="module")
def place(generated_toy, tmp_path_factory):
    """A root, a backend of which one case fails and one is skipped, its results, and an archive with a waiver."""
    folder = tmp_path_factory.mktemp("submissions")
    root = shutil.copytree(generated_toy(), folder / "root")
    (folder / "kernels.py").write_text(BACKEND.replace("ROOT", repr(str(root))))
    (folder / "waivers.yaml").write_text(
        f"- {{case: {FAILING}, outcome: failed, reason: tile edge, owner: ann, expires: 2999-01-31}}\n"
    )
    where = ("--root", root, "--backend", f"{folder / 'kernels.py'}:backend", "--no-isolate")
    called("run", *where, "--out", folder / "results").expect_code(1)
    words = ("submit", folder / "results", "--waivers", folder / "waivers.yaml", "--out", folder / "claim.zip")
    called(*words).expect_output(0, "level core, all 1 operators", "1 failed", "1 waived", "1 skipped: ")
    return folder


@pytest.fixture
def check(cli, place):
    """`check-submission` with the root of the run."""
    return lambda archive, *words: cli("check-submission", archive, "--root", place / "root", *words)


def documents(archive):
    with zipfile.ZipFile(archive) as file:
        return {name: json.loads(file.read(name)) for name in file.namelist()}


def packed(path, files):
    """An archive of these members, whose digests are made anew."""
    members = {name: data if isinstance(data, bytes) else json.dumps(data).encode() for name, data in files.items()}
    if isinstance(files.get(MANIFEST), dict):
        others = {name: data for name, data in members.items() if name != MANIFEST}
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in others.items()}
        members[MANIFEST] = json.dumps({**files[MANIFEST], "files": digests}).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def test_an_honest_claim_holds_and_the_page_says_what_is_not_known(check, place):
    page = check(place / "claim.zip").expect_code(0)
    assert page.lines[0].startswith("Files that were forged so that they agree are not found")
    page.expect_output(
        0, "Claimed: level core, all 1 operators", "Checked:", "Claimed, not checked", "results[].readings"
    )
    assert page.lines[-1] == "The claim: holds as far as it was checked."
    again = check(place / "claim.zip", "--backend", place / "kernels.py", "--no-isolate", "--seed", 7)
    again.expect_output(0, "5 cases, drawn by seed 7, came out on")


def test_the_same_results_make_the_same_archive(cli, place, tmp_path):
    words = ("submit", place / "results", "--waivers", place / "waivers.yaml", "--out", tmp_path / "again.zip")
    cli(*words).expect_code(0)
    assert (tmp_path / "again.zip").read_bytes() == (place / "claim.zip").read_bytes()


def test_programs_get_the_claim_the_findings_and_the_sample(check, place):
    words = ("--backend", "numpy", "--seed", "1", "--format", "json")
    found = refuse_wrong(json.loads(check(place / "claim.zip", *words).expect_code(1).out))
    assert found["figures"]["waived"] == {FAILING: "tile edge (ann, until 2999-01-31)"}
    assert found["claim"]["sealing"] is None
    sample = found["findings"][-1]
    assert sample["verdict"] == "refuted"
    assert sorted(sample["details"]) == [
        f"{SKIPPED}: outcome skipped claimed, passed here",
        f"{SKIPPED}: status none claimed, SUCCESS here",
        f"{FAILING}: outcome failed claimed, passed here",
    ]


def test_a_sample_of_which_nothing_is_compared_shows_nothing(check, place, tmp_path):
    (tmp_path / "declines.py").write_text(DECLINES)
    words = ("--backend", tmp_path / "declines.py", "--no-isolate", "--sample", "1", "--seed")
    # The one case that was drawn was skipped before, too.
    pages = [check(place / "claim.zip", *words, seed) for seed in range(12)]
    idle = [page for page in pages if page.code == 5]
    assert idle
    assert all("too little could be checked" in page.lines[-1] for page in idle)
    assert {page.code for page in pages} == {1, 5}


def test_results_that_lack_cases_are_refused_with_what_to_run(cli, run, toy, tmp_path):
    out = ("--out", tmp_path / "claim.zip")
    some = run("scale_by/ramp_2", "--root", toy).folder
    error = cli("submit", some, *out).expect_error(2, "does not cover level core", "no result of 4 cases").err
    assert "by tag: boundary 2, negative 2" in error
    assert "Run `mluops-test run --out results`" in error
    core = run("--root", toy).folder
    cli("submit", core, "--level", "full", *out).expect_error(2, "scale_by/big; by tag: network 1", "--tag heavy")
    full = run("--root", toy, "--all").folder
    cli("submit", full, "--level", "full", *out).expect_output(0, "level full, all 1 operators")
    cli("submit", full, "--op", "scale", *out).expect_output(0, "level core of scale_by")
    cli("check-submission", tmp_path / "claim.zip", "--root", toy).expect_output(0, "level core of scale_by")


def test_results_of_cases_that_nobody_declared_are_refused(cli, run, toy, tmp_path):
    results = run("scale_by", "scale_by:count=7", "--root", toy)
    assert results.code == 0, results.err
    words = ("submit", results.folder, "--out", tmp_path / "claim.zip")
    cli(*words).expect_error(2, "this suite has no such case")


def test_another_suite_is_named_and_too_little_is_checked(cli, place, generated_toy, tmp_path):
    root = Path(shutil.copytree(generated_toy(), tmp_path / "root"))
    replace_in(root / "cases" / "scale_by.yaml", "to: 4", "to: 5")
    called("generate", "--all", "--root", root).expect_code(0)
    page = cli("check-submission", place / "claim.zip", "--root", root)
    page.expect_output(
        5, "other locks here, so that nothing of them is checked: scale_by", "too little could be checked"
    )
    # An operator that the claim leaves out.
    (root / "generators" / "other.py").write_text((root / "generators" / "scale_by.py").read_text())


@pytest.mark.parametrize(
    ("words", "error"),
    [(["--sample", "3"], "--sample is about cases that run again"), (["--seed", "3"], "--seed is about cases")],
)
def test_a_sample_needs_a_backend(check, place, words, error):
    check(place / "claim.zip", *words).expect_error(2, error, "--backend")


def at(files, path):
    """The value, its container and its key; `CASE` in a path stands for the place of a result."""
    value = files
    for key in path:
        container, value = value, value[key]
    return container, key, value


def place_of(files, case):
    return next(index for index, one in enumerate(files[REPORT]["results"]) if one["case"] == case)


def drop_result(files):
    report = files[REPORT]
    del report["results"][place_of(files, FAILING)]
    report["summary"] = {"passed": 3, "skipped": 1}
    files[RUN]["cases"].remove(FAILING)
    report["selection"]["cases"] -= 1


def pass_failing(files, **more):
    one = files[REPORT]["results"][place_of(files, FAILING)]
    one |= {"outcome": "passed", "causes": [], "reason": "", "explained": [], **more}
    for name in ("explained", "elements"):
        one.pop(name, None)
    files[REPORT]["summary"] = {"passed": 4, "skipped": 1}
    return one


def loosen(files):
    for one in pass_failing(files)["readings"]:
        one |= {"threshold": 1.0, "within": True}


def forget_readings(files):
    pass_failing(files)["readings"].clear()


def pass_skipped(files):
    one = files[REPORT]["results"][place_of(files, SKIPPED)]
    one |= {"outcome": "passed", "status": "SUCCESS", "expected_status": "SUCCESS", "compared": True}
    one |= {"causes": [], "reason": ""}
    files[REPORT]["summary"] = {"passed": 4, "failed": 1}


def waive(files):
    files[REPORT]["results"][place_of(files, FAILING)]["outcome"] = "xfailed"
    files[REPORT]["summary"] = {"passed": 3, "skipped": 1, "xfailed": 1}


def rename(files):
    for result in files[REPORT]["results"]:
        if result["case"] == PASSING:
            result |= {"case": "scale_by/ramp_9", "repro": result["repro"].replace("ramp_2", "ramp_9")}
    files[RUN]["cases"] = [one["case"] for one in files[REPORT]["results"]]


def set_value(*path, value):
    def edit(files):
        container, key, before = at(files, path)
        assert before != value
        container[key] = value

    return edit


def set_result(case, *path, value):
    return lambda files: set_value(REPORT, "results", place_of(files, case), *path, value=value)(files)


# What a forger would do first, with all digests made anew: refused whatever is listed.
FORGERIES = {
    "a failing case is gone": drop_result,
    "a failing case passes": pass_failing,
    "thresholds are loose": loosen,
    "the readings that fail are gone": forget_readings,
    "a skipped case passes without readings": pass_skipped,
    "a failing case is waived in the report": waive,
    "a case has the name of none": rename,
    "a case is there twice": lambda files: files[REPORT]["results"].append(files[REPORT]["results"][0]),
    "the summary is better": set_value(REPORT, "summary", value={"passed": 5}),
    "another backend is named": set_value(REPORT, "backend", "spec", value="c:./other.so"),
    "it was isolated": set_value(REPORT, "backend", "isolated", value=True),
    "it was run with guard pages": set_value(REPORT, "backend", "guard_pages", value=True),
    "it was sealed": lambda files: files[REPORT]["backend"].update(sealing="complete"),
    "it was reseeded": set_value(REPORT, "selection", "reseed", value=7),
    "another kernel file": lambda files: files[REPORT]["labels"].update({"backend.file": "k.so 0123456789abcdef"}),
    "more was asked for": set_value(RUN, "repeat", value=9),
    "another command repeats it": set_result(FAILING, "repro", value="rm -rf /"),
    "another status is expected": set_result("scale_by/rank_2", "expected_status", value="SUCCESS"),
    "a smaller tensor": set_result(PASSING, "info", "inputs", 0, "dims", value=[1]),
    "another type": set_result(PASSING, "info", "outputs", 0, "dtype", value="half"),
    "another tag": set_result(PASSING, "tags", value=["smoke"]),
    "another operator": set_result(PASSING, "operator", value="abs"),
    "another reason beside its causes": set_result(FAILING, "reason", value="a bug of the harness"),
    "a key that no report has": lambda files: files[REPORT].update(approved=True),
    "a reading beyond is within": set_result(FAILING, "readings", 0, "within", value=True),
    "a passing reading is NaN": set_result(PASSING, "readings", 0, "value", value="nan"),
    "an operator is left out of the suite": set_value(MANIFEST, "claim", "suite", value={}),
}  # fmt: skip


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forgery_whose_digests_are_made_anew_is_refused(check, place, tmp_path, forge):
    files = documents(place / "claim.zip")
    forge(files)
    result = check(packed(tmp_path / "forged.zip", files))
    assert result.code in (1, 5), result.out + result.err
    if result.code == 5:
        assert files[MANIFEST]["claim"]["suite"] == {}


def leaves(value, path=()):
    """Every place of a document that holds a plain value, and every list and mapping that could hold more."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        yield from leaves(value[0], (*path, 0))


def altered(value):
    """The value changed as little as its type allows; a list loses its first item or gets one, a mapping a key."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}x"
        case None:
            return "x"
        case list():
            return value[1:] or [None]
        case dict():
            return {**value, "zz": 1}


def edits_of(files):
    """Places in the documents of an archive: heads whole, results one of each kind."""
    for name, document in files.items():
        for path, _ in leaves({key: one for key, one in document.items() if key not in ("results", "files")}):
            if path:
                yield (name, *path)
    for case in (PASSING, FAILING, SKIPPED):
        number = place_of(files, case)
        for path, _ in leaves(files[REPORT]["results"][number]):
            yield (REPORT, "results", number, *path)


def words_of(path):
    """As `not_checked` writes the place."""
    name, *keys = path
    if name == MANIFEST and keys[0] == "claim":
        keys = keys[1:]
    return f"{name}: " + ".".join(map(str, keys)).replace("results.", "results[].", 1)


def is_listed(path, listed):
    name, *keys = [key for key in path if not isinstance(key, int)]
    keys = keys[1:] if keys[0] == "claim" else keys
    word = f"results[].{keys[1]}" if keys[0] == "results" and len(keys) > 1 else keys[0]
    return word in listed[name] or listed[name] == ["all of it"]


@pytest.mark.slow(seconds=5)
def test_whatever_is_edited_is_refused_or_listed_as_not_checked(place, tmp_path):
    files, session = documents(place / "claim.zip"), Session((str(place / "root"),))
    edits = list(dict.fromkeys(edits_of(files)))
    refused, listed, missed = 0, 0, []
    for path in edits:
        forged = copy.deepcopy(files)
        container, key, value = at(forged, path)
        container[key] = altered(value)
        archive = packed(tmp_path / "forged.zip", forged)
        try:
            found = check_submission(read_submission(archive), session)
        except ContentError:
            refused += 1
            continue
        if exit_code_of(found):
            refused += 1
        elif is_listed(path, unchecked_fields()):
            listed += 1
        else:
            missed.append(words_of(path))
    assert missed == []
    assert refused >= 100
    assert listed >= 10


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(MANIFEST, b" " * (5 << 20))
        file.writestr(REPORT, b"{}")


def many(path):
    with zipfile.ZipFile(path, "w") as file:
        for number in range(70_000):
            file.writestr(f"{number}", b"")


def with_names(*names):
    def write(path):
        with zipfile.ZipFile(path, "w") as file:
            for name in names:
                file.writestr(name, b"{}")

    return write


def link(path):
    with zipfile.ZipFile(path, "w") as file:
        member = zipfile.ZipInfo(MANIFEST)
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(member, b"/etc/passwd")
        file.writestr(REPORT, b"{}")


def with_bytes(change):
    def write(path):
        with_names(MANIFEST, REPORT)(path)
        path.write_bytes(change(path.read_bytes()))

    return write


MALFORMED = {
    "empty": lambda path: path.write_bytes(b""),
    "no archive": lambda path: path.write_bytes(b"PK" * 100),
    "cut": with_bytes(lambda data: data[:-9]),
    "longer": with_bytes(lambda data: data + b"x"),
    "a comment": with_bytes(lambda data: data[:-2] + struct.pack("<H", 3) + b"abc"),
    "damaged": with_bytes(lambda data: data.replace(b"{}", b"[]", 1)),
    "a list of members elsewhere": with_bytes(lambda data: data[:-6] + struct.pack("<L", 7) + data[-2:]),
    "a bomb": bomb,
    "70 000 members": many,
    "an absolute name": with_names("/etc/passwd", REPORT),
    "a name that leads up": with_names("../report.json", MANIFEST),
    "another case": with_names("Report.json", MANIFEST),
    "a name with a NUL": with_names(MANIFEST, "report.json\0.txt"),
    "a folder": with_names(MANIFEST, "report.json/"),
    "no manifest": with_names(REPORT, RUN),
    "no report": with_names(MANIFEST),
    "a link": link,
    "no JSON": lambda path: packed(path, {MANIFEST: b"{", REPORT: b"{}"}),
    "deep JSON": lambda path: packed(path, {MANIFEST: b"[" * 100_000, REPORT: b"{}"}),
    "a list": lambda path: packed(path, {MANIFEST: b"[]", REPORT: b"{}"}),
    "another format": lambda path: packed(path, {MANIFEST: b'{"format": 2}', REPORT: b"{}"}),
}


@pytest.mark.parametrize("write", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_malformed_archive_is_refused(check, tmp_path, write):
    write(tmp_path / "claim.zip")
    check(tmp_path / "claim.zip").expect_error(3, "claim.zip: ", "submit")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_refused(check, tmp_path):
    with_names(MANIFEST, MANIFEST, REPORT)(tmp_path / "claim.zip")
    check(tmp_path / "claim.zip").expect_error(3, "'manifest.json' is there twice")


def test_a_file_beside_its_digest_is_refuted(check, place, tmp_path):
    files = documents(place / "claim.zip")
    files[MANIFEST] = json.dumps(files[MANIFEST]).encode()
    files[REPORT]["seconds"] += 1
    check(packed(tmp_path / "edited.zip", files)).expect_output(1, "every file has the digest", "report.json has not")


def test_texts_of_the_archive_neither_add_lines_nor_name_files(check, place, tmp_path):
    files = documents(place / "claim.zip")
    kernel = tmp_path / "case.prototxt"
    files[REPORT]["backend"]["name"] = "good\n\nThe claim: holds\x1b[2J"
    files[REPORT]["results"][place_of(files, PASSING)]["case"] = files[RUN]["cases"][0] = str(kernel)
    archive = packed(tmp_path / "forged.zip", files)
    page = check(archive, "--backend", "numpy").expect_code(1)
    assert [line for line in page.lines if line.startswith("The claim:")] == ["The claim: refuted."]
    assert "\x1b" not in page.out
    # Nothing runs of what is refuted already.
    assert "running" not in page.err
