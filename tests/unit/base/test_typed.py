"""Values: frozen, and read from files held to their types and limits; what does not fit is told with file and place."""

import dataclasses
import os
import pickle
from dataclasses import dataclass

import pytest
from msgspec import field

from mluops_gtest.base import files as limits
from mluops_gtest.base import typed_files as typed
from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.frozen import Value
from mluops_gtest.base.typed_files import Source, convert, decode_json, file_bytes, json_bytes, refuse_doubled_keys
from mluops_gtest.base.yaml_lines import load_yaml
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.result import CaseResult
from mluops_gtest.results.gate_reference import load_waivers
from mluops_gtest.results.times import read_device_spec

SOURCE = Source("x.json", "Write it anew.")


def refusal(function, *arguments):
    with pytest.raises(ContentError) as caught:
        function(*arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file ends too early (line 1, column 1)"),
        (b'{"a": [1,\n2', "the file ends too early (line 2, column 2)"),
        (b'{"a": 1,}', "trailing comma in object (line 1, column 9)"),
        (b'{\n "a": NaN}', "invalid character (line 2, column 7)"),
        (b'{"a": 1} x', "trailing characters (line 1, column 11)"),
        (b'["a", "\xff"]', "not valid UTF-8 (line 1, column 8)"),
        (b'["\\ud800 and more"]', "surrogate"),
        (b"[1e999]", "number out of range"),
        (b"[" + b"1" * 5000 + b"]", "integer value out of range"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(data, words):
    message = refusal(decode_json, data, SOURCE)
    assert message.startswith("x.json: ")
    assert words in message
    assert message.endswith(". Write it anew.")


@dataclass(frozen=True, slots=True)
class Inner:
    outcome: Outcome
    status: Status | None = None
    ways: tuple[Outcome, ...] = ()
    pair: tuple[int, Status] = (0, Status.SUCCESS)
    by_name: dict[str, Outcome] | None = None

    def __post_init__(self):
        if len(self.ways) > 3:
            raise ValueError("at most three ways")


@dataclass(frozen=True, slots=True)
class Outer:
    items: tuple[Inner, ...]
    seconds: float = 0.0


OUTCOMES = "expected one of passed, failed, wrong_status"
STATUSES = "expected one of SUCCESS, NOT_INITIALIZED"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "x.json: expected an object, got 3."),
        ({}, "x.json: the key 'items' is missing."),
        ({"items": 3}, "$.items: expected a list, got 3."),
        ({"items": [{"outcome": "passed"}, {"outcome": "pased"}]}, f"$.items[1].outcome: {OUTCOMES}"),
        ({"items": [{"outcome": "passed"}, {"outcome": "pased"}]}, "got 'pased'."),
        ({"items": [{"outcome": "passed", "status": "OK"}]}, f"$.items[0].status: {STATUSES}"),
        ({"items": [{"outcome": "passed", "ways": ["failed", None]}]}, f"$.items[0].ways[1]: {OUTCOMES}"),
        ({"items": [{"outcome": "passed", "pair": [1, "a"]}]}, f"$.items[0].pair[1]: {STATUSES}"),
        ({"items": [{"outcome": "passed", "by_name": {"a": "b"}}]}, f"$.items[0].by_name[...]: {OUTCOMES}"),
        ({"items": [{}]}, "$.items[0]: the key 'outcome' is missing."),
        ({"items": [{"outcome": "passed", "ways": ["failed"] * 4}]}, "$.items[0]: at most three ways."),
        ({"items": [], "seconds": "fast"}, "$.seconds: expected a number, got 'fast'."),
        ({"items": [], "seconds": True}, "$.seconds: expected a number, got True."),
        ({"items": [], "seconds": 10**400}, "$.seconds: number out of range."),
        ({"items": [], "seconds": "x" * 10_000}, f"got '{'x' * 119}…."),
    ],
)
def test_what_does_not_fit_is_told_with_place_and_expectation(value, words):
    message = refusal(convert, value, Outer, SOURCE)
    assert words in message
    assert message.endswith("Write it anew.")


def test_the_place_is_told_within_the_whole_file():
    message = refusal(convert, {"case": 1}, CaseResult, Source("r.json", "Do.", "$.results[7]"))
    assert message == "r.json: $.results[7].case: expected a text, got 1. Do."


def test_only_plain_files_that_end_are_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        assert "not a plain file" in refusal(file_bytes, path)
    with pytest.raises(OSError, match="Is a directory"):
        file_bytes(tmp_path).decode()
    monkeypatch.setattr(typed, "MAX_BYTES", 10)
    (tmp_path / "long").write_bytes(b"x" * 11)
    assert "larger than" in refusal(file_bytes, tmp_path / "long")
    (tmp_path / "short").write_bytes(b"x" * 10)
    assert file_bytes(tmp_path / "short") == b"x" * 10


def test_a_key_that_stands_twice():
    refuse_doubled_keys(b'{"a": {"b": 1}, "b": 2}', SOURCE)
    assert "'b' occurs twice" in refusal(refuse_doubled_keys, b'{"a": {"b": 1, "b": 2}}', SOURCE)


def test_half_a_surrogate_pair_is_never_written():
    data = json_bytes({"a\ud800": ["x\udcffy", "😀", 1]})
    assert decode_json(data, SOURCE) == {"a\ufffd": ["x\ufffdy", "😀", 1]}
    assert json_bytes({"a": [1]}, indent=1) == b'{\n "a": [\n  1\n ]\n}'


BILLION = "- &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGES = "- &a0 {k: v}\n" + "".join(f"- &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("[" * 100_000, "1:51", "nested more than 50 levels"),
        ("[" * 100_000 + "]" * 100_000, "1:51", "nested more than 50 levels"),
        ("{a: " * 100_000, "1:201", "nested more than 50 levels"),
        ("- " * 100_000 + "x", "1:101", "nested more than 50 levels"),
        ("? " * 100_000 + "x", "1:101", "nested more than 50 levels"),
        ("".join(f"{' ' * n}a:\n" for n in range(2000)), "51:51", "nested more than 50 levels"),
        (BILLION, "7:", "with its aliases written out"),
        (MERGES, "8:", "with its aliases written out"),
        ("- &a [1, *a]\n", "1:10", "*a is used inside &a"),
        ("- &a {b: {c: *a}}\n", "1:14", "*a is used inside &a"),
        ("- " + "9" * 5000, "1:3", "is not a valid integer"),
        ("- 0x" + "f" * 5000, "1:3", "is beyond ±9223372036854775807"),
        ("- " + "59:" * 3000 + "59", "1:3", "is beyond ±"),
        ("- !!int abc", "1:3", "'abc' is not a valid integer"),
        ("- !!int ''", "1:3", "'' is not a valid integer"),
        ("- !!float x", "1:3", "'x' is not a valid number"),
        ("- !!bool maybe", "1:3", "'maybe' is not a valid truth value"),
        ("- !!timestamp now", "1:3", "'now' is not a valid date"),
        ("- !!int [1]", "1:3", "expected a scalar node"),
        ("- " + "x" * 5_000_000, "", "larger than 4 MiB"),
    ],
)
def test_a_file_that_is_too_much(tmp_path, text, place, words):
    path = tmp_path / "x.yaml"
    path.write_text(text)
    for load in (load_yaml, load_waivers, read_device_spec):
        with pytest.raises(ContentError) as caught:
            load(path)
        message = str(caught.value)
        assert message.startswith(f"{path}:{place}")
        assert words in message
        assert len(message) < 1000


def test_aliases_that_stay_small_are_read(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("- &a {b: 1}\n- *a\n- {<<: *a, c: 2}\n- &d [x]\n- [*d, *d]\n")
    assert load_yaml(path) == [{"b": 1}, {"b": 1}, {"b": 1, "c": 2}, ["x"], [["x"], ["x"]]]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_plain_file(tmp_path, kind):
    path = tmp_path / "x.yaml"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(ContentError, match=r"cannot be read|not a plain file"):
        load_yaml(path)


def test_the_limits_are_documented(request):
    text = (request.config.rootpath / "docs" / "reference" / "cases.md").read_text()
    for name in vars(limits):
        if name.startswith(("MAX_", "LARGEST_", "LONGEST_")):
            assert f"`{name}`" in text, name


class Plain(Value):
    """Required fields, a default, and one that is made."""

    name: str
    # The type is known to type checkers alone.
    unknown: "Nowhere"  # type: ignore[name-defined]  # noqa: F821
    size: int = 3
    notes: dict[str, str] = field(default_factory=dict)


class Further(Plain, kw_only=True):
    """One more, by name alone."""

    more: bool


def test_a_value_does_not_change_and_equals_those_of_its_class_with_equal_fields():
    value = Plain("a", 1)
    with pytest.raises(AttributeError):
        value.size = 4  # type: ignore[misc]
    assert value == Plain("a", 1)
    assert value.notes is not Plain("a", 1).notes
    assert value != Plain("a", 1, size=4)
    assert value != Further("a", 1, more=True)


def test_dataclasses_knows_fields_with_their_defaults():
    name, unknown, size, notes = dataclasses.fields(Plain)
    assert (name.name, name.type, name.default) == ("name", str, dataclasses.MISSING)
    assert unknown.type == "Nowhere"
    assert size.default == 3
    assert notes.default_factory is dict
    assert dataclasses.asdict(Plain("a", 1)) == {"name": "a", "unknown": 1, "size": 3, "notes": {}}


def test_a_value_survives_pickle_and_dataclasses_replace():
    value = Further("a", 1, 2, {"b": "c"}, more=True)
    assert pickle.loads(pickle.dumps(value)) == value
    assert dataclasses.replace(value, size=5) == Further("a", 1, 5, {"b": "c"}, more=True)
    assert value.size == 2
