"""`mluops-test export`: what the released runner reads."""

import json
import re
from pathlib import Path

import pytest

from tests.support.protoc import needs_protoc, protoc

OFFICIAL = Path(__file__).parents[1] / "official"


def index_of(folder):
    return json.loads((folder / "index.json").read_text())


@pytest.fixture
def exported(cli, tmp_path):
    def call(*arguments, code=0):
        out = tmp_path / "released"
        return cli("export", *arguments, "--out", out).expect_code(code), out

    return call


@pytest.mark.parametrize("form", ["prototxt", "pb"])
def test_what_computes_is_written_and_passes_again(cli, run, exported, form):
    result, out = exported("--op", "dynamic_point_to_voxel_backward", "--tag", "smoke", "--format", form)
    index = index_of(out)
    assert result.lines[-1] == f"1 case written to {out}, {len(index['left_out'])} left out"
    assert len(index["cases"]) == 1
    for entry in index["cases"]:
        assert entry["op_name"] == "dynamic_point_to_voxel_backward"
        name = entry["id"].partition("/")[2]
        assert entry["file"] == f"dynamic_point_to_voxel_backward/test_case/{name}.{form}"
    again = run(out, "--strict").expect_code(0)
    assert {out / entry["file"] for entry in index["cases"]} == {out / case for case in again.results}


def test_text_has_the_released_ids_the_order_of_its_fields_and_no_extension(exported):
    _, out = exported("--op", "voxel_pooling_forward", "--tag", "smoke")
    paths = [out / entry["file"] for entry in index_of(out)["cases"]]
    assert paths
    for path in paths:
        text = path.read_text()
        assert re.findall(r'id: "(.*)"', text) == ["input1", "input2", "output1", "output2"]
        fields = re.findall(r"^([a-z]\w*)(?=[: ])", text, re.MULTILINE)
        order = [name for n, name in enumerate(fields) if not name.startswith("value_") and fields[:n].count(name) == 0]
        assert order == [
            "device", "op_name", "input", "output", "op_type", "evaluation_criterion", "theory_io_size",
            "theory_compute_ops", "voxel_pooling_forward_param",
        ]  # fmt: skip
        assert "[" not in text


def test_what_the_runner_cannot_run_is_listed_with_the_reason(cli, exported, toy):
    result, out = exported("--all", "--root", toy)
    assert "left out scale_by/rank_2: it expects the status BAD_PARAM (check x_rank)" in result.lines
    assert "left out scale_by/empty: nothing is computed (check x_empty)" in result.lines
    index = index_of(out)
    assert [entry["id"] for entry in index["left_out"]] == ["scale_by/rank_2", "scale_by/empty"]
    # Large values stand beside the case.
    assert (out / "scale" / "test_case" / "big.input1.bin").stat().st_size == 400_000
    assert cli("verify", out, "--root", toy).code == 0


FORWARD = "dynamic_point_to_voxel_forward"


@pytest.mark.parametrize("form", ["prototxt", "pb"])
def test_rows_that_belong_to_nobody_are_left_out_because_the_runner_compares_them(run, exported, form):
    """An output counts the rows that count; get_indice_pairs' count is a parameter, which that runner knows."""
    free, full, pairs = f"{FORWARD}/rows_to_spare_1", f"{FORWARD}/rows_to_spare_0", "get_indice_pairs/valid_default"
    result, out = exported(free, full, pairs, "--format", form)
    reason = "the released runner compares all rows of voxel_feats, also those behind voxel_num, which are free"
    assert f"left out {free}: {reason}" in result.lines
    assert index_of(out)["left_out"] == [{"id": free, "reason": reason}]
    assert [entry["id"] for entry in index_of(out)["cases"]] == [full, pairs]
    assert run(out).code == 0


def test_a_count_that_only_the_reference_knows_leaves_a_file_out(exported):
    path = OFFICIAL / "undefined_more_voxels_than_rows.prototxt"
    _, out = exported(path, code=5)
    assert "behind voxel_num" in index_of(out)["left_out"][0]["reason"]


def test_files_of_your_own_get_criteria_and_names_apart(cli, exported, toy, tmp_path):
    text = 'op_name: "scale" device: GPU input { id: "a" shape { dims: 2 } value_f: [1, 2] }'
    text += ' output { id: "b" shape { dims: 2 } value_f: [3, 6] } scale_param { factor: 3 }'
    mine = tmp_path / "mine"
    for name in ("one/case.prototxt", "two/case.prototxt", "two/unknown.prototxt", "two/broken.prototxt"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text)
    (mine / "two" / "unknown.prototxt").write_text(text.replace('"scale"', '"abs"'))
    (mine / "two" / "broken.prototxt").write_text(text.replace("[3, 6]", "[3]"))
    result, out = exported(mine, "--root", toy, code=3)
    assert "holds 1 elements" in result.err
    assert result.lines[-1] == f"2 cases written to {out}, 1 left out, 1 broken"
    files = [entry["file"] for entry in index_of(out)["cases"]]
    assert files == ["scale/test_case/case.prototxt", "scale/test_case/case_2.prototxt"]
    assert "evaluation_criterion: DIFF1" in (out / files[0]).read_text()
    assert cli("verify", out, "--root", toy).code == 0
    (only,) = [entry["reason"] for entry in index_of(out)["left_out"] if "unknown" in entry["id"]]
    assert only == "operator 'abs' is not known here"


def test_nothing_is_overwritten_and_nothing_exported_is_told(cli, exported, toy, tmp_path):
    out = tmp_path / "released"
    out.mkdir()
    exported("scale_by/ramp_2", "--root", toy)
    before = (out / "index.json").read_bytes()
    result, _ = exported("scale_by/ramp_3", "--root", toy, code=2)
    assert "is not empty" in result.err
    assert (out / "index.json").read_bytes() == before
    assert cli("export", "scale_by/rank_2", "--root", toy, "--out", tmp_path / "none").code == 5


@pytest.mark.slow
@needs_protoc
def test_a_parser_without_our_extension_reads_all_of_it(cli, exported, tmp_path):
    _, out = exported("-k", "not negative and (half or float) and (masked or not network)")
    proto = tmp_path / "proto"
    assert cli("schema", "--out", proto).code == 0
    (proto / "mluops_gtest_expect.proto").unlink()
    (proto / "all.proto").write_text(
        'syntax = "proto2"; import "mluoptest.proto"; message All { repeated mluoptest.Node node = 1; }'
    )
    texts = [(out / entry["file"]).read_bytes() for entry in index_of(out)["cases"]]
    assert len(texts) > 100
    protoc(proto, "--encode=All", "all.proto", stdin=b"".join(b"node {\n" + text + b"}\n" for text in texts))
