"""A wrong declaration names its file, its line and the allowed words."""

import pytest
from hypothesis import given, settings

from mluops_gtest.base.errors import ContentError, DeclarationError
from mluops_gtest.catalog.make import make_case
from mluops_gtest.catalog.root import Root
from mluops_gtest.catalog.selection import Catalogue
from mluops_gtest.core.call import Status
from tests.support.examples import examples
from tests.support.mutations import flipped, result_or_message
from tests.support.toy_root import CASES, GENERATOR, write_toy_root


def drafts(folder, text):
    return Catalogue(Root(write_toy_root(folder, text))).drafts


def case(**keys):
    base = {"name": "a", "tags": "[boundary]", "doc": "§1", "data": "{recipe: ramp, count: 3}"}
    lines = [f"{key}: {value}" for key, value in {**base, **keys}.items() if value is not None]
    return "- " + "\n  ".join(lines) + "\n"


def test_ranges_lists_and_expressions_expand_to_a_product(tmp_path):
    text = case(
        name="r_{n}_{w}", each="{n: {from: 1, to: 5, step: 2}, w: [x, y]}", data='{recipe: ramp, count: "{n * 2 + 1}"}'
    )
    found = drafts(tmp_path, text)
    assert list(found) == [f"scale_by/r_{n}_{w}" for n in (1, 3, 5) for w in "xy"]
    assert [d.args["count"] for d in found.values()] == [3, 3, 7, 7, 11, 11]
    assert found["scale_by/r_1_x"].seed != found["scale_by/r_1_y"].seed


def test_everything_a_special_caller_needs_is_read(tmp_path):
    text = case(
        tags="[negative]",
        change="{x: {dims: [2, 2], strides: [4, 1], layout: NHWC}, params: {factor: 3}}",
        null="{handle: true, descriptors: [y], pointers: [x, workspace]}",
        handle="{arch: 270, nram_bytes: 9}",
        workspace_size="16",
        expect="{status: BAD_PARAM, check: handle_null}",
    )
    draft = drafts(tmp_path, text)["scale_by/a"]
    assert draft.expect.status is Status.BAD_PARAM
    assert (draft.expect.arch, draft.expect.nram_bytes, draft.expect.workspace_size) == (270, 9, 16)
    assert (draft.expect.null_handle, draft.expect.null_descriptor) == (True, ("y",))
    assert draft.changes["x"].strides == (4, 1)
    assert draft.changed_params == {"factor": 3}


def test_the_digest_follows_what_shapes_the_case_alone(tmp_path):
    first = drafts(tmp_path / "1", case())["scale_by/a"]
    other_words = drafts(tmp_path / "2", case(doc="§2", tags="[smoke]", note="hm"))["scale_by/a"]
    other_data = drafts(tmp_path / "3", case(data="{recipe: ramp, count: 4}"))["scale_by/a"]
    assert first.digest == other_words.digest
    assert first.digest != other_data.digest


def counted(expression):
    return case(data=f"{{recipe: ramp, count: {expression}}}")


def ranged(name, to):
    return case(name=f"'{name}_{{n}}'", each=f"{{n: {{from: 1, to: {to}}}}}")


EXPRESSIONS = [
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
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((counted(f'"{{{expression}}}"'), [":4: case 'a': ", words]) for expression, words in EXPRESSIONS),
        (counted(str(2**32 + 1)), [":4: case 'a': argument 'count' ", " beyond ±4294967296"]),
        (
            case(each=f"{{w: [{'x' * 300}]}}", note=f"'{'{w}' * 1000}'"),
            [":6: ", "inserts more than 200 characters into a text"],
        ),
        (ranged("a", 60000) + ranged("b", 60000), [":10: case 'b_{n}': with the 60000 cases ", " more than 100000"]),
        (ranged("a", 90000) + f"  note: {'x' * 4000}\n", [":5: ", "90000 cases of ", " characters are more than"]),
        (case(tgas="[x]"), ["'tgas'", "Did you mean 'tags'", "workspace_size"]),
        (case(tags="[edge]"), ["unknown tag 'edge'", "boundary"]),
        (case(tags=None), ["'tags' is missing"]),
        (case(data="{recipe: rmap, count: 3}"), ["unknown recipe 'rmap'", "Did you mean 'ramp'", "noise"]),
        (case(data="{recipe: [ramp], count: 3}"), ["unknown recipe ['ramp']", "noise"]),
        (case(data="{count: 3}"), ["`recipe`", "noise, ramp"]),
        (case(data="{recipe: ramp}"), ["needs the argument 'count'"]),
        (case(data="{recipe: ramp, count: 3, cuont: 4}"), ["no argument 'cuont'", "count"]),
        (case(data="{recipe: ramp, count: many}"), ["must be an integer", "'many'"]),
        (case(data="{recipe: ramp, count: true}"), ["must be an integer"]),
        (case(params="{factr: 1}"), ["unknown parameter 'factr'", "'factor'"]),
        (case(params="{factor: x}"), ["factor must be an integer"]),
        (case(params="{factor: 4294967296}"), ["factor must be an integer in -2147483648"]),
        (case(dtypes="[flaot]"), ["unknown dtype 'flaot'", "float"]),
        (case(dtypes="[[float]]"), ["unknown dtype ['float']"]),
        (case(seed="-1"), ["seed must be an integer ≥ 0"]),
        (case(name="Bad Name"), ["lower-case letters"]),
        (case(name="a_{m}"), ["{m} is not a variable"]),
        (case(name="a_{n}", each="{n: []}"), ["'n' must be a list"]),
        (case(name="a_{n}", each="{n: {from: 3, to: 1}}"), ["from ≤ to"]),
        (case(name="a_{n}", each="{n: {from: 1, to: 100000000000000000000}}"), ["5:27", "beyond ±"]),
        (case(name="a_{n}", each="{n: {from: 1, to: 1000000000}}"), [":5: ", "at most 100000"]),
        (
            case(name="a_{n}_{m}", each="{n: {from: 1, to: 2000}, m: {from: 1, to: 501}}"),
            [":5: ", "1002000 cases", "more than 100000"],
        ),
        (case(name="a_{n ** 99}", each="{n: [2]}"), ["exponents must lie in"]),
        (case(name="a_{__import__}"), ["is not a variable"]),
        (case(name='"a_{n.real}"', each="{n: [2]}"), ["only variables, integers"]),
        (case(change="{z: {dims: [1]}}"), ["unknown tensor 'z'", "params"]),
        (case(change="{x: {dmis: [1]}}"), ["unknown key 'dmis'"]),
        (case(change="{x: {dims: [-1]}}"), ["integers ≥ 0"]),
        (case(change="{x: {dtype: flaot}}"), ["unknown dtype 'flaot'"]),
        (case(expect="{status: BAD}"), ["unknown status 'BAD'", "BAD_PARAM"]),
        (case(expect="{status: [BAD_PARAM]}"), ["unknown status ['BAD_PARAM']"]),
        (case(expect="{status: BAD_PARAM, check: x_rnak}"), ["unknown check 'x_rnak'", "x_rank"]),
        (case(null="{descriptors: [q]}"), ["unknown name 'q'"]),
        (case(handle="{arch: old}"), ["arch must be an integer"]),
        (case(tags="[negative]"), ["must state its expected status"]),
        (case(degenerate="true"), ["gives the reason"]),
        (case() + case(), ["declared already"]),
        ("a: 1\n", ["must be a list of cases"]),
        ("- 5\n", ["must be a mapping"]),
        ("- name: [\n", ["not valid YAML"]),
        ("- name: a\n  name: b\n", ["occurs twice"]),
        ("- !!python/object/apply:os.system [ls]\n", ["not valid YAML"]),
    ],
)
def test_a_wrong_declaration_says_where_and_what_is_allowed(tmp_path, text, words):
    with pytest.raises(DeclarationError) as caught:
        drafts(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'cases' / 'scale_by.yaml'}:")
    assert len(message) < 1000
    for word in words:
        assert word in message


def test_an_expression_of_the_allowed_depth_and_size(tmp_path):
    (draft,) = drafts(tmp_path, counted('"{' + "-" * 98 + "(((2**31))) % 5" + '}"')).values()
    assert draft.args["count"] == 2**31 % 5


@pytest.mark.parametrize("count", [2**32, 2**28 + 1])
def test_a_tensor_that_is_too_large_is_refused_before_it_is_drawn(tmp_path, count):
    catalogue = Catalogue(Root(write_toy_root(tmp_path, counted(count).replace("ramp", "noise"))))
    (draft,) = catalogue.drafts.values()
    with pytest.raises(DeclarationError, match=rf"scale_by.yaml:1: case scale_by/a: .*{count} random numbers"):
        make_case(draft, catalogue.operators["scale_by"])


@pytest.mark.slow
@settings(max_examples=examples(150), derandomize=True)
@given(flipped(CASES.encode()))
def test_a_mutated_declaration_is_read_or_refused(tmp_path, data):
    root = write_toy_root(tmp_path, "")
    (root / "cases" / "scale_by.yaml").write_bytes(data)
    _, message = result_or_message(lambda: Catalogue(Root(root)).drafts, DeclarationError)
    assert not message or "scale_by.yaml" in message


def test_the_line_is_the_key_s_own(tmp_path):
    text = case() + case(name="b", seed="x")
    with pytest.raises(DeclarationError, match=r"scale_by\.yaml:9: case 'b': seed"):
        drafts(tmp_path, text)


def test_a_yaml_without_operator_is_named(tmp_path):
    root = write_toy_root(tmp_path)
    (root / "cases" / "scale_buy.yaml").write_text("[]")
    with pytest.raises(DeclarationError, match="Did you mean 'scale_by'"):
        _ = Catalogue(Root(root)).drafts


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise SystemExit(0)", "does not load: SystemExit"),
        ("import no_such_module", "does not load: ModuleNotFoundError"),
        ("OPERATOR = 5", "must define OPERATOR"),
        (GENERATOR, "OPERATOR.name is 'scale_by'"),
        (GENERATOR.replace('"scale_by"', '"other"'), "Two operators are called 'scale': .*/other.py and .*by.py"),
    ],
)
def test_a_generator_that_is_none_is_content_broken(tmp_path, source, message):
    root = write_toy_root(tmp_path)
    (root / "generators" / "other.py").write_text(source)
    with pytest.raises(ContentError, match=message):
        Catalogue(Root(root)).operators.values()


SIZED = GENERATOR.replace("theory=lambda", 'sizes={"count": SizedAxis("x")}, theory=lambda').replace(
    "RecipeOutput, Status,", "RecipeOutput, SizedAxis, Status,"
)


def sized_drafts(folder, text, generator=SIZED):
    root = write_toy_root(folder, text)
    (root / "generators" / "scale_by.py").write_text(generator)
    return Catalogue(Root(root)).drafts


def test_sizes_expand_and_are_no_part_of_the_digest(tmp_path):
    text = case(name="r_{n}", each="{n: [3, 5]}", sizes='{count: "{n}"}', data='{recipe: ramp, count: "{n}"}')
    found = sized_drafts(tmp_path / "with", text)
    assert [draft.sizes for draft in found.values()] == [{"count": 3}, {"count": 5}]
    without = sized_drafts(tmp_path / "without", text.replace('  sizes: {count: "{n}"}\n', ""))
    assert [draft.sizes for draft in without.values()] == [{}, {}]
    assert [draft.digest for draft in without.values()] == [draft.digest for draft in found.values()]


@pytest.mark.parametrize(
    ("sizes", "generator", "told"),
    [
        ("{counts: 3}", SIZED, r"cases/scale_by\.yaml:5: case 'a': unknown size 'counts'\. Did you mean 'count'"),
        ("{count: 3}", GENERATOR, r"scale_by\.yaml:5: case 'a': unknown size 'count'\. scale_by declares none"),
        ("{count: 0}", SIZED, "scale_by.yaml:5: case 'a': count must be an integer ≥ 1, not 0"),
        ("{count: three}", SIZED, "count must be an integer ≥ 1, not 'three'"),
        ("[3]", SIZED, "sizes must be a mapping such as"),
    ],
)
def test_a_wrong_size_is_told_with_file_and_line(tmp_path, sizes, generator, told):
    with pytest.raises(DeclarationError, match=told):
        sized_drafts(tmp_path, case(sizes=sizes), generator)
