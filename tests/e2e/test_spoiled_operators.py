"""`mluops-test audit operators` on copies of a good operator, each spoiled in one way: exactly that is told."""

import json
import shutil
from dataclasses import dataclass

import pytest

from mluops_gtest.search.audit_values import RULES
from tests.e2e.conftest import called

NAME = "row_sum"
CASES = f"cases/{NAME}.yaml"
OPERATOR, BOUND, CHECKS, KERNEL, RECIPES, MUTANTS, VARIANTS = (
    f"generators/{NAME}/{part}.py"
    for part in ("__init__", "bound", "checks", "kernel", "recipes", "mutants", "variants")
)


@dataclass(frozen=True)
class Spoiled:
    """In `file`, `right` becomes `wrong` ("": the file is new); the rules that tell, and a word of what they tell."""

    file: str
    right: str
    wrong: str
    rules: tuple[str, ...]
    told: str


SPOILED = {
    "a network case without a twin": Spoiled(
        CASES, "tags: [smoke, random]", "tags: [random]", ("twins",), "has no twin in the smoke set"
    ),
    "no network case": Spoiled(CASES, "tags: [network]", "tags: [random]", ("families",), "no case is tagged network"),
    "no precision case in half": Spoiled(
        CASES, 'leave the small ones"\n  dtypes: [float, half]', 'leave the small ones"', ("families",), "dtype half"
    ),
    "a case without a section": Spoiled(
        CASES, 'doc: "§1: {n} channels"', 'doc: "channels"', ("documented",), "names no section"
    ),
    "a large tensor without a note": Spoiled(
        CASES, '"§2", note: "2^30 · 2 = 2^31"', '"§2"', ("noted_large",), "2147483648 elements"
    ),
    "a recipe that no case uses": Spoiled(
        RECIPES, '"listed": listed,', '"listed": listed, "rest": listed,', ("recipes_used",), "the recipe 'rest'"
    ),
    "a size that never varies": Spoiled(
        CASES, "each: {n: [1, 2, 65]}", "each: {n: [4]}", ("boundary_per_axis",), "the sizes num_segments"
    ),
    "no odd stride of the output": Spoiled(
        CASES, ", output: {strides: [1, 9]}}", "}", ("strides_of_length_1",), "length 1 of output"
    ),
    "a size whose last index is inert": Spoiled(
        RECIPES, "return _output(_lattice(draw, dtype, rows, channels), segments, complete)",
        "values = _lattice(draw, dtype, rows, channels)\n    values[:, 64:] = 0\n"
        "    return _output(values, segments, complete)",
        ("sizes_live",), "channels_65: an implementation that loses index 64 of channels, one of 65, passes",
    ),
    "a size whose first index is inert": Spoiled(
        RECIPES, "return _output(_lattice(draw, dtype, rows, channels), segments, complete)",
        "segments = np.maximum(segments, min(1, complete['num_segments'] - 1))\n"
        "    return _output(_lattice(draw, dtype, rows, channels), segments, complete)",
        ("sizes_live",), "segments_65: an implementation that loses index 0 of segments, one of 65, passes",
    ),
    "a size that no case is declared for": Spoiled(
        OPERATOR, 'sizes={"rows"', 'sizes={"lines": SizedAxis("segments"), "rows"', ("sizes_live",), "of 'lines'"
    ),
    "a loss that makes no valid call": Spoiled(
        OPERATOR, '"rows": SizedAxis("values", 0)',
        '"rows": SizedAxis("segments", without=lambda call, index: {"values": call.array("values")[:, index]})',
        ("sizes_live",), "rows_1: the kernel cannot be run without index 0 of rows",
    ),
    "a wrong shape": Spoiled(OPERATOR, '"[N, C]"', '"[N, 2·C]"', ("shapes_hold",), "axis 1 of values is 3"),
    "a check that no case asks for": Spoiled(
        CASES, '- {name: "{tensor}_ptr_null", tags: [negative]', '- {name: "{tensor}_ptr_null", tags: [boundary]',
        ("checks_asked",), "no negative case reaches values_ptr_null, segments_ptr_null, output_ptr_null",
    ),
    "a check declared as never reached": Spoiled(
        CHECKS, '"output must have the type of values",\n        "§2",',
        '"output must have the type of values",\n        "§2",\n        subsumed="so I think",',
        ("checks_asked",), "output_dtype: it is declared as never reached",
    ),
    "no case for the order of two checks": Spoiled(
        CASES, "handle: {arch: 270}, null: {descriptors: [values]}", "handle: {arch: 270}",
        ("checks_in_order",), "no case tells whether it comes before values_desc_null",
    ),
    "a check that nobody misses": Spoiled(
        CASES, "output: {dims: [4, 2, 1]}", "output: {dims: [1, 4, 2]}",
        ("no_check_forgotten",), "forgets one of output_rank",
    ),
    "a check without any case": Spoiled(
        CASES, '- {name: "{tensor}_ptr_null", tags: [negative], doc: "§3", data: *small, each: *tensors,',
        '- {name: "{tensor}_ptr_null", tags: [negative], doc: "§3", data: *small, each: {tensor: [values, output]},',
        ("checks_asked", "no_check_forgotten"), "no negative case reaches segments_ptr_null",
    ),
    "a kernel that calls the reference": Spoiled(
        KERNEL, "    output[...] = 0\n",
        "    from .reference import reference\n    output[...] = reference(call).outputs['output']\n    return\n",
        ("kernel_is_independent",), "both use reference",
    ),
    "a kernel that asks the operator's checks": Spoiled(
        KERNEL, "    output[...] = 0\n",
        "    from . import OPERATOR\n    assert OPERATOR.answer(call).check is None\n    output[...] = 0\n",
        ("kernel_is_independent",), "of the kernel asks the operator's checks",
    ),
    "a kernel that forgets a check": Spoiled(
        KERNEL, "    if output.desc.is_empty:\n        return Status.SUCCESS\n", "",
        ("kernel_agrees",), "/no_segment: the kernel is",
    ),
    "a kernel that knows the stored values": Spoiled(
        KERNEL, "    output[...] = 0\n",
        "    output[...] = 0\n    if len(segments) == 160 and segments[0] not in (12, 4):\n        return\n",
        ("kernel_agrees",), "under --reseed 1: the kernel is failed",
    ),
    "no bound": Spoiled(
        OPERATOR, "    bound=bound,\n", "", ("bounds_declared",), "nothing says how far output may be off"
    ),
    "a bound of another output": Spoiled(
        BOUND, '{"output": ', '{"sums": ', ("bounds_declared",), "names the output 'sums', which the operator does not"
    ),
    "a bound of another shape": Spoiled(
        BOUND, "rows[:, None]", "rows[None, :]", ("bounds_declared",), "has a roundings of the shape [1, 20]"
    ),
    "a bound without an output": Spoiled(
        BOUND, 'return {"output": Bound', 'return {} if count == 20 else {"output": Bound', ("bounds_declared",),
        "network_twin_float: nothing says how far output may be off",
    ),
    "a bound that nobody can keep": Spoiled(
        BOUND, "rows[:, None]", "0", ("bounds_declared",), "the kernel is off by"
    ),
    "a mutant that survives": Spoiled(
        MUTANTS, "    return _add(call, segments[segments > 0], call.array(\"values\")[segments > 0])",
        "    return _add(call, segments, call.array(\"values\"))",
        ("mutants_caught",), "drops_segment_0 (Rows of segment 0 count as padding.) passes every stored case",
    ),
    "no mutant": Spoiled(
        MUTANTS, "MUTANTS = tuple(", "MUTANTS = ()\n_FORGOTTEN = tuple(", ("mutants_caught",), "no wrong implementation"
    ),
    "a wrong variant": Spoiled(
        VARIANTS, "", "from .mutants import MUTANTS\n\nVARIANTS = {'undefined': MUTANTS[:1]}\n",
        ("variants_told_apart",), "is a right variant, but fails row_sum/",
    ),
    "a variant like all others": Spoiled(
        VARIANTS, "",
        "from mluops_gtest.authoring import Mutant\nfrom .kernel import kernel\n\n"
        "VARIANTS = {'subnormal': (Mutant('plain', 'nothing is different', kernel),)}\n",
        ("variants_told_apart",), "plain (nothing is different) passes every case tagged subnormal, too",
    ),
    "criteria that one wrong element passes": Spoiled(
        OPERATOR, "DType.FLOAT: diff1_and_diff2(1e-5)", "DType.FLOAT: diff1_and_diff2(0.2)",
        ("twins_see_one_element",), "network_twin_float passes with one wrong element",
    ),
    "values that no seed changes": Spoiled(
        RECIPES, "draw.stream(", "Draw(7).stream(", ("reseeding_keeps_promises",), "depends on the seed"
    ),
}  # fmt: skip


def test_every_rule_has_its_spoiled_copy():
    # What an earlier release asked for breaks no rule.
    assert {rule for spoiled in SPOILED.values() for rule in spoiled.rules} | {"earlier_forms"} == set(RULES)


def findings_of(cli, root):
    result = cli("audit", "operators", "--root", root, "--seeds", "1", "--format", "json")
    found = json.loads(result.out)["findings"]
    assert all(one["remedy"] for one in found)
    return [(one["rule"], one["message"]) for one in found if not one["is_note"]]


@pytest.fixture(scope="module")
def unspoiled(folder_root):
    """Its order of checks is shown by hand, and some pairs cannot be: only derived cases say so."""
    found = findings_of(called, folder_root)
    assert {rule for rule, _ in found} <= {"checks_in_order"}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("way", SPOILED)
def test_a_spoiled_copy_is_told_by_its_rule_alone(cli, folder_root, unspoiled, tmp_path, way):
    spoiled = SPOILED[way]
    root = tmp_path / "spoiled"
    shutil.copytree(folder_root, root, ignore=shutil.ignore_patterns("__pycache__"))
    text = (root / spoiled.file).read_text() if spoiled.right else ""
    assert spoiled.right in text
    (root / spoiled.file).write_text(text.replace(spoiled.right, spoiled.wrong))
    cli("generate", "--all", "--root", root).expect_code(0)
    findings = [one for one in findings_of(cli, root) if one not in unspoiled]
    assert {rule for rule, _ in findings} == set(spoiled.rules), findings
    assert any(spoiled.told in message for _, message in findings), findings
