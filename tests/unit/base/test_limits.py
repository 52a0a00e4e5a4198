"""A YAML file that asks too much is refused before the work is done, with line and column."""

import os

import pytest

from mluops_gtest.base import files as limits
from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.yaml_lines import load_yaml
from mluops_gtest.results.gate_reference import load_waivers
from mluops_gtest.results.times import read_device_spec

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
