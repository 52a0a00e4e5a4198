"""Files that a team owns: what each kind ends as, and that stored cases pass after any conversion."""

import json

import pytest

from mluops_gtest.catalog.root import builtin_root
from tests.support.c_example import c_example
from tests.support.native import needs_gcc
from tests.support.torch_needed import needs_torch

TENSOR = "shape {{ {dims} }} layout: LAYOUT_ARRAY dtype: DTYPE_{dtype} {more}"


def tensor(role, dims, dtype="FLOAT", more=""):
    words = " ".join(f"dims: {size}" for size in dims)
    return f'{role} {{ id: "{role}" ' + TENSOR.format(dims=words, dtype=dtype, more=more) + " }\n"


def random_data(seed, low, high):
    return f"random_data {{ seed: {seed} lower_bound: {low} upper_bound: {high} distribution: UNIFORM }}"


def recomputed(*criteria):
    """The older way to name criteria; CPU stores no outputs."""
    words = "".join(f"error_func: {kind} error_threshold: {threshold} " for kind, threshold in criteria)
    return f"test_param {{ {words} baseline_device: CPU }}\n"


def neighbours(tail):
    """Distances between drawn points: every one is rounded."""
    return (
        'op_name: "three_nn_forward"\n'
        + tensor("input", (1, 64, 3), more=random_data(23, -10, 10))
        + tensor("input", (1, 32, 3), more=random_data(25, -10, 10))
        + tensor("output", (1, 64, 3))
        + tensor("output", (1, 64, 3), "INT32")
        + tail
    )


def in_a_sphere():
    """A centre whose point lies on the sphere, as near as half can tell."""
    centre = "value_h: " + ", ".join(f'"{bits}"' for bits in ("0000", "0000", "0000"))
    point = "value_f: 0.4 value_f: 0 value_f: 0 value_f: 0.1 value_f: 0 value_f: 0"
    return (
        'op_name: "ball_query"\n'
        + tensor("input", (1, 1, 3), "HALF", centre.replace(", ", " value_h: "))
        + tensor("input", (1, 2, 3), "HALF", point)
        + tensor("output", (1, 1, 2), "INT32")
        + "ball_query_param { min_radius: 0 max_radius: 0.4 nsample: 2 }\n"
        + recomputed(("DIFF3", 0))
    )


def in_voxels(rows):
    """Four points in voxels of their own, each counted once, and one in none: voxel_points_count is constant."""
    points = 5
    coordinates = " ".join(f"value_i: {index} value_i: 0 value_i: {2 * index}" for index in (3, 0, 2, -1, 1))
    return (
        'op_name: "dynamic_point_to_voxel_forward"\n'
        + tensor("input", (points, 2), more=random_data(23, -10, 10))
        + tensor("input", (points, 3), "INT32", coordinates)
        + tensor("output", (rows, 2))
        + tensor("output", (rows, 3), "INT32")
        + tensor("output", (points,), "INT32")
        + tensor("output", (rows,), "INT32")
        + tensor("output", (1,), "INT32")
        + "dynamic_point_to_voxel_forward_param { reduce_type: REDUCE_MODE_MAX }\n"
        + recomputed(("DIFF1", 0.003), ("DIFF2", 0.003))
    )


def foreign(operator="lgamma"):
    return f'op_name: "{operator}"\n' + tensor("input", (4,), more=random_data(23, -1, 1)) + tensor("output", (4,))


# Four voxels and the point in none take five rows.
KINDS = {
    "rounded": neighbours(recomputed(("DIFF3", 0))),
    "on_the_sphere": in_a_sphere(),
    "lone_points": in_voxels(5),
    "too_few_rows": in_voxels(4),
    "foreign": foreign(),
}


# Of files that nobody knows, in the order of their files.
NAMES = [*(f"op_{name}" for name in "bcdef"), "lgamma", *(f"op_{name}" for name in "ghij")]


@pytest.fixture
def team(tmp_path):
    """A folder with a file of each kind."""
    folder = tmp_path / "team"
    folder.mkdir()
    for name, text in KINDS.items():
        (folder / f"{name}.prototxt").write_text(text)
    return folder


@pytest.mark.parametrize(
    "backend",
    ["numpy", pytest.param("torch", marks=needs_torch), pytest.param("c", marks=[*needs_gcc, pytest.mark.slow])],
)
def test_the_folder_goes_green_and_each_file_says_what_became_of_it(run, team, backend, tmp_path_factory):
    library = f"c:{c_example(tmp_path_factory) / 'libmluops_host.so'}" if backend == "c" else backend
    result = run(team, "--backend", library).expect_code(0)
    told = {case.removeprefix(f"{team}/").removesuffix(".prototxt"): one for case, one in result.results.items()}
    outcomes = {name: (one["outcome"], one["causes"][0]["kind"] if one["causes"] else "") for name, one in told.items()}
    assert outcomes == {
        "rounded": ("passed", ""),
        "lone_points": ("passed", ""),
        "on_the_sphere": ("skipped", "undefined_call"),
        "too_few_rows": ("skipped", "undefined_call"),
        "foreign": ("skipped", "unknown_operator"),
    }
    assert "rounding decides on which side of the sphere a point is" in told["on_the_sphere"]["reason"]
    assert told["too_few_rows"]["reason"].endswith("need 5 rows (§1.2), there are 4")
    (note,) = [note for note in told["lone_points"]["notes"] if "constant" in note]
    assert note.startswith("the baseline of voxel_points_count is constant")
    assert (
        "dist2: the file asks for diff3 = 0 and stores no values, but three_nn_forward rounds; the document's criteria "
        "decide: diff1 ≤ 1e-05, diff2 ≤ 1e-05"
    ) in told["rounded"]["notes"]
    # Else the criteria of the file would have held as well, and this file would show nothing.
    assert told["rounded"]["worst"]["unequal"] > 0


def test_what_a_known_operator_does_not_define_is_told_first_and_nothing_is_passed_over(run, team):
    for name in "bcdefghij":
        (team / f"{name}.prototxt").write_text(foreign(f"op_{name}"))
    told = [line for line in run(team).lines if line.startswith("skipped ")]
    assert [line.split()[2] for line in told[:2]] == ["ball_query", "dynamic_point_to_voxel_forward"]
    assert told[2:8] == [f"skipped 1: operator {name!r} is not supported" for name in NAMES[:6]]
    assert told[8:] == ["skipped 4: for other reasons, -v shows all"]


def test_criteria_of_a_file_stand_where_it_names_others_or_stores_the_values(cli, run, tmp_path):
    path = tmp_path / "near.prototxt"
    path.write_text(neighbours(recomputed(("DIFF1", 0), ("DIFF2", 1e-12))))
    (one,) = run(path).results.values()
    assert one["outcome"] == "failed"
    assert {reading["threshold"] for reading in one["readings"] if reading["output"] == "dist2"} == {0, 1e-12}
    # Stored values, of which one is an ulp off.
    path.write_text(
        'op_name: "three_nn_forward" device: GPU\n'
        + tensor("input", (1, 1, 3), more="value_f: 0 value_f: 0 value_f: 0")
        + tensor("input", (1, 3, 3), more=" ".join(f"value_f: {n}" for n in (1, 0, 0, 0, 2, 0, 0, 0, 3)))
        + tensor("output", (1, 1, 3), more='value_h: "3f800001" value_h: "40800000" value_h: "41100000"')
        + tensor("output", (1, 1, 3), "INT32", "value_i: 0 value_i: 1 value_i: 2")
        + "evaluation_criterion: DIFF3 evaluation_threshold: 0\n"
    )
    (one,) = run(path).results.values()
    assert (one["outcome"], one["reason"].partition(" =")[0]) == ("failed", "dist2: diff3")


@pytest.mark.slow
def test_every_stored_case_passes_after_text_binary_text(cli, run, tmp_path):
    """That is what the stored files themselves come to."""
    stored = builtin_root().stored
    locks = (json.loads(line) for lock in stored.glob("*/baselines.lock") for line in lock.read_text().splitlines())
    reasons = {entry["id"]: entry["degenerate"] for entry in locks if "degenerate" in entry}
    assert cli("convert", stored, tmp_path / "binary", "--to", "pb").code == 0
    assert cli("convert", tmp_path / "binary", tmp_path / "text", "--to", "prototxt").code == 0
    changed = 0
    for path in stored.rglob("*.prototxt"):
        converted = tmp_path / "text" / path.relative_to(stored)
        before, after = path.read_bytes(), converted.read_bytes()
        if after == before and path.parent.name != "ball_query":
            # It passes as the stored file does.
            converted.unlink()
        else:
            changed += 1
        if path.relative_to(stored).with_suffix("").as_posix() in reasons and b"[mluops_gtest.expect]" not in before:
            remark, after = after.split(b"\n", 1)
            assert remark.startswith(b'# [mluops_gtest.expect] degenerate: "')
        assert after == before or b"degenerate" in after
    result = run(tmp_path / "text", "--no-elementwise").expect_code(0)
    assert {one["outcome"] for one in result.results.values()} == {"passed"}
    assert len(result.results) == changed
