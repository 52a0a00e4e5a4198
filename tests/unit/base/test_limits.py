"""What a declaration asks too much of is refused before the work is done, with file and line."""

import os

import pytest
from hypothesis import given, settings

from mluops_gtest.base import files as limits
from mluops_gtest.base.errors import ContentError, DeclarationError, UsageError
from mluops_gtest.base.yaml_lines import load_yaml
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue, select
from mluops_gtest.core.case import Query
from mluops_gtest.results.gate.waivers import load_waivers
from mluops_gtest.results.times import read_device_spec
from tests.support.examples import examples
from tests.support.mutations import flipped, result_or_message
from tests.support.toy_root import CASES, write_toy_root

BILLION = "- &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n" + "".join(
    f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGES = "- &a0 {k: v}\n" + "".join(f"- &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))


def drafts(folder, text):
    return Catalogue(Root(write_toy_root(folder, text))).drafts


def case(count="3", name="a", more=""):
    return f"- name: {name}\n  tags: [boundary]\n  doc: x\n  data: {{recipe: ramp, count: {count}}}\n{more}"


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


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("9**64**64", "a result is beyond ±9223372036854775807"),
        ("9**65", "exponents must lie in 0 … 64"),
        ("(9**64)**64", "a result is beyond ±9223372036854775807"),
        ("2**63", "a result is beyond"),
        ("9223372036854775807 * 9223372036854775807", "a result is beyond"),
        ("99999999999999999999", "a result is beyond"),
        ("dtype * 3000000000", "only integers can be used in arithmetic, not 'float'"),
        ("dtype % 3", "only integers can be used in arithmetic"),
        ("1 << 999999999", "only variables, integers and"),
        ("-" * 100_000 + "1", "is longer than 200 characters"),
        ("(" * 150 + "1" + ")" * 49, "is not integer arithmetic"),
        ("1" + "+1" * 100_000, "is longer than 200 characters"),
        ("9" * 5000, "is longer than 200 characters"),
        ("0 ** -1", "exponents must lie"),
    ],
)
def test_an_expression_that_is_too_much(tmp_path, expression, words):
    with pytest.raises(DeclarationError) as caught:
        drafts(tmp_path, case(f'"{{{expression}}}"'))
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'cases' / 'scale_by.yaml'}:4: case 'a': ")
    assert words in message
    assert len(message) < 1000


def test_an_expression_of_the_allowed_depth_and_size(tmp_path):
    (draft,) = drafts(tmp_path, case('"{' + "-" * 98 + "(((2**31))) % 5" + '}"')).values()
    assert draft.args["count"] == 2**31 % 5


def test_a_long_word_that_many_holes_repeat(tmp_path):
    each = f"  each: {{w: [{'x' * 300}]}}\n  note: '{'{w}' * 1000}'\n"
    with pytest.raises(DeclarationError, match=r"scale_by.yaml:6: .*inserts more than 200 characters into a text"):
        drafts(tmp_path, case(more=each))


def test_cases_are_counted_before_any_is_made(tmp_path):
    many = "  each: {n: {from: 1, to: 60000}}\n"
    with pytest.raises(
        DeclarationError, match=r"scale_by.yaml:10: case 'b_{n}': with the 60000 cases .* more than 100000"
    ):
        drafts(tmp_path, case(name='"a_{n}"', more=many) + case(name='"b_{n}"', more=many))
    with pytest.raises(DeclarationError, match=r"scale_by.yaml:5: .*90000 cases of \d+ characters are more than"):
        drafts(tmp_path, case(name='"a_{n}"', more=f"  each: {{n: {{from: 1, to: 90000}}}}\n  note: {'x' * 4000}\n"))


def test_an_argument_that_no_axis_has(tmp_path):
    with pytest.raises(DeclarationError, match=r"scale_by.yaml:4: case 'a': argument 'count' .* beyond ±4294967296"):
        drafts(tmp_path, case(str(2**32 + 1)))


@pytest.mark.parametrize("count", [2**32, 2**28 + 1])
def test_a_tensor_that_is_too_large_is_refused_before_it_is_drawn(tmp_path, count):
    catalogue = Catalogue(Root(write_toy_root(tmp_path, case(str(count)).replace("ramp", "noise"))))
    (draft,) = catalogue.drafts.values()
    with pytest.raises(DeclarationError, match=rf"scale_by.yaml:1: case scale_by/a: .*{count} random numbers"):
        make_case(draft, catalogue.operators["scale_by"])


@pytest.mark.parametrize("keyword", ["(" * 100_000, "not " * 100_000 + "a", "(" * 100_000 + "a" + ")" * 100_000])
def test_a_keyword_that_is_nested_too_deeply(tmp_path, keyword):
    catalogue = Catalogue(Root(write_toy_root(tmp_path, case())))
    with pytest.raises(UsageError, match="nested too deeply") as caught:
        select(catalogue, Query(keyword=keyword), lambda _: "")
    assert len(str(caught.value)) < 1000


@pytest.mark.slow
@settings(max_examples=examples(150), derandomize=True)
@given(flipped(CASES.encode()))
def test_a_mutated_declaration_is_read_or_refused(tmp_path, data):
    root = write_toy_root(tmp_path, "")
    (root / "cases" / "scale_by.yaml").write_bytes(data)
    _, message = result_or_message(lambda: Catalogue(Root(root)).drafts, DeclarationError)
    assert not message or "scale_by.yaml" in message


def test_the_limits_are_documented(request):
    text = (request.config.rootpath / "docs" / "reference" / "declarations.md").read_text()
    for name in vars(limits):
        if name.startswith(("MAX_", "LARGEST_", "LONGEST_")):
            assert f"`{name}`" in text, name
