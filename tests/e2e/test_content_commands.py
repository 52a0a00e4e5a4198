"""`list`, `show`, `generate`, `verify`, `convert`, `ops`, `backends`."""

import json

import pytest

from mluops_gtest.cli.main import COMMANDS, GROUPS, LazyGroup
from tests.e2e.conftest import only, replace_in

SAMPLE = ("--op", "masked_im2col_forward", "--tag", "smoke")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_every_command_explains_itself_with_examples(cli, command, flag):
    cli(command, flag).expect_output(0, "Examples:", f"mluops-test {command}")


@pytest.mark.parametrize(
    ("words", "example"),
    [
        ("history show", "history show get_indice_pairs/subm_line"),
        ("cache prune", "cache prune --older-than 7"),
        ("new backend", "new operator row_sum --root my_operators"),
    ],
)
def test_a_part_of_a_group_shows_its_own_examples_or_those_of_the_group(cli, words, example):
    for _ in range(2):
        page = cli(*words.split(), "--help").expect_output(0, f"    mluops-test {example}\n").out
        assert page.index("Options:") < page.index("Examples:")
        assert page.count("Examples:") == 1


def test_the_overview_agrees_with_the_commands(cli):
    group, overview = LazyGroup(), cli("--help").out
    for name, words in COMMANDS.items():
        command = group.get_command(None, name)
        assert command.name == name
        assert words in overview
        assert all(option.help for option in command.params if option.param_type_name == "option")


def test_the_overview_groups_the_commands_by_what_people_do(cli):
    lines = iter(cli("--help").lines)
    for title, commands in GROUPS.items():
        assert f"{title}:" in lines
        shown = [next(lines).split(maxsplit=1) for _ in commands]
        assert shown == [list(one) for one in commands.items()]
    assert sum(map(len, GROUPS.values())) == len(COMMANDS)


def test_an_unknown_command_suggests_the_close_one(cli):
    cli("lst").expect_error(2, "Did you mean 'list'")


def test_list_ids_run_and_generate_agree(cli, run, tmp_path):
    arguments = ("--op", "dynamic_point_to_voxel_backward", "--tag", "smoke")
    ids = cli("list", *arguments, "--format", "ids").lines
    assert ids
    assert list(run(*arguments).results) == ids
    cli("generate", *arguments, "--out", tmp_path / "made")
    made = (tmp_path / "made").rglob("*.prototxt")
    assert sorted(p.relative_to(tmp_path / "made").with_suffix("").as_posix() for p in made) == sorted(ids)


@pytest.mark.slow
def test_list_json_describes_cases_without_running_them(cli):
    described = json.loads(cli("list", "--all", "--format", "json").out)
    assert {one["operator"] for one in described} >= {"get_indice_pairs", "voxel_pooling_forward"}
    for one in described:
        assert set(one) == {
            "id", "operator", "tags", "doc", "params", "inputs", "outputs", "criteria", "expect", "stored",
            "error",
        }  # fmt: skip
        for tensor in one["inputs"] + one["outputs"]:
            assert set(tensor) >= {"id", "dtype", "layout", "dims"}
    pool = next(one for one in described if one["operator"] == "voxel_pooling_forward" and "network" in one["tags"])
    assert [t["dims"] for t in pool["inputs"]] == [[2, 473088, 3], [2, 473088, 80]]
    assert pool["stored"] is False
    assert {"output": "pos_memo", "criterion": "diff3", "threshold": 0.0} in pool["criteria"]
    negative = next(one for one in described if one["expect"].get("check") == "arch")
    assert negative["expect"]["status"] == "ARCH_MISMATCH"


def test_list_table_has_a_row_per_case(cli):
    result = cli("list", *SAMPLE).expect_code(0)
    ids = cli("list", *SAMPLE, "--format", "ids").lines
    assert all(any(line.startswith(case_id) for line in result.lines) for case_id in ids)


def test_show_tells_all_about_a_case(cli):
    case = cli("list", *SAMPLE, "--format", "ids").lines[0]
    cli("show", case).expect_output(
        0, "feature", "data_col", "NCHW", "kernel_h =", "diff3 ≤ 0", "expects: status SUCCESS", f"run {case}"
    )
    negative = json.loads(cli("list", "--op", "masked_im2col_forward", "--tag", "negative", "--format", "json").out)
    failing = next(one for one in negative if one["expect"]["status"] == "BAD_PARAM")
    assert f"expects: status BAD_PARAM, check {failing['expect']['check']}" in cli("show", failing["id"]).out


@pytest.mark.parametrize(("case", "code"), [("nope", 5), ("masked_im2col_forward/*", 2)])
def test_show_wants_one_case(cli, case, code):
    assert cli("show", case).code == code


def test_generated_folders_run_verify_and_check(cli, run, tmp_path):
    made = tmp_path / "made"
    for form in ("prototxt", "pb"):
        assert cli("generate", *SAMPLE, "--out", made / form, "--format", form).code == 0
        result = run(made / form).expect_code(0)
        assert len(result.results) == len(cli("list", *SAMPLE, "--format", "ids").lines)
        assert cli("verify", made / form).code == 0
        assert cli("generate", *SAMPLE, "--out", made / form, "--format", form, "--check").code == 0


@pytest.mark.slow
def test_generate_in_two_processes_gives_the_same_bytes(cli, tmp_path):
    for jobs, name in ((1, "one"), (2, "two")):
        assert cli("generate", *SAMPLE, "--out", tmp_path / name, "-j", jobs).code == 0
    one = {p.relative_to(tmp_path / "one"): p.read_bytes() for p in (tmp_path / "one").rglob("*") if p.is_file()}
    two = {p.relative_to(tmp_path / "two"): p.read_bytes() for p in (tmp_path / "two").rglob("*") if p.is_file()}
    assert one == two


def test_check_finds_every_kind_of_difference(cli, toy):
    check = ("generate", "--all", "--check", "--root", toy)
    assert cli(*check).code == 0
    stored = toy / "prototxt" / "scale_by"
    good = (stored / "ramp_2.prototxt").read_bytes()

    def differs(words):
        cli(*check).expect_output(3, words)

    (stored / "ramp_2.prototxt").write_bytes(good + b"# edited\n")
    differs("differs from what is generated")
    (stored / "ramp_2.prototxt").unlink()
    differs("is missing")
    (stored / "ramp_2.prototxt").write_bytes(good)
    (stored / "old.prototxt").write_bytes(good)
    differs("not declared")
    (stored / "old.prototxt").unlink()
    cases = toy / "cases" / "scale_by.yaml"
    cases.write_text(cases.read_text() + '- {name: fresh, tags: [random], doc: "§1", data: {recipe: ramp, count: 3}}\n')
    differs("scale_by/fresh: not in the lock file")
    cases.write_text(cases.read_text().replace('count: "{n}"', 'count: "{n + 1}"'))
    differs("differs from the lock in: declared, stored, inputs, baseline, tensors")


def edit_lock(root, case, **fields):
    path = root / "prototxt" / case.partition("/")[0] / "baselines.lock"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines = [{**line, **(fields if line["id"] == case else {})} for line in lines]
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def remove(root):
    (root / "prototxt" / "scale_by" / "ramp_2.prototxt").unlink()


def edit_file(root):
    path = root / "prototxt" / "scale_by" / "ramp_2.prototxt"
    path.write_bytes(path.read_bytes() + b"# edited\n")


def edit_line(**fields):
    return lambda root: edit_lock(root, "scale_by/ramp_2", **fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (remove, "the file of scale_by/ramp_2 is missing"),
        (edit_file, "the file of scale_by/ramp_2 differs from the lock"),
        (edit_line(baseline="0" * 32), "the line of scale_by/ramp_2 differs from its file in baseline"),
        (edit_line(inputs="0" * 32), "the line of scale_by/ramp_2 differs from its file in inputs"),
        (edit_line(params={"factor": 3}), "differs from its file in params"),
        (edit_line(degenerate="so it is"), "differs from its file in degenerate"),
    ],
)
def test_run_verify_and_check_notice_what_was_tampered_with(cli, run, toy, spoil, words):
    spoil(toy)
    result = run("--root", toy).expect_code(3)
    outcomes = {case: one["outcome"] for case, one in result.results.items()}
    assert outcomes.pop("scale_by/ramp_2") == "error"
    assert set(outcomes.values()) == {"passed"}
    assert words in result.results["scale_by/ramp_2"]["reason"]
    assert "mluops-test generate scale_by/ramp_2" in result.results["scale_by/ramp_2"]["reason"]
    verified = cli("verify", "--root", toy).expect_output(3, words)
    assert verified.lines[-1] == f"{len(result.results) - 1} verified, 1 differs, 0 skipped"
    assert cli("generate", "--all", "--check", "--root", toy).code == 3


def test_why_a_baseline_is_constant_belongs_to_the_declaration(cli, run, toy, tmp_path):
    cases = toy / "cases" / "scale_by.yaml"
    cases.write_text(
        cases.read_text()
        + '- {name: one, tags: [boundary], doc: "§1", data: {recipe: ramp, count: 1}, degenerate: "one element"}\n'
    )
    assert cli("generate", "--all", "--root", toy).code == 0
    stored = toy / "prototxt" / "scale_by" / "one.prototxt"
    assert "mluops_gtest" not in stored.read_text()
    assert '"degenerate":"one element"' in (toy / "prototxt" / "scale_by" / "baselines.lock").read_text()
    for select in ("scale_by/one", stored):
        assert run(select, "--root", toy).code == 0
        assert cli("verify", select, "--root", toy).code == 0
    (listed,) = json.loads(cli("list", "scale_by/one", "--root", toy, "--format", "json").out)
    assert listed["expect"]["degenerate"]
    copy = tmp_path / "copy.prototxt"
    copy.write_bytes(stored.read_bytes())
    result = run(copy, "--root", toy)
    (one,) = result.results.values()
    assert (result.code, one["outcome"]) == (1, "suspect")
    assert one["reason"] == "the baseline of y is constant, so agreement proves nothing"
    # Whatever is written from the case takes the reason along.
    binary, text = tmp_path / "one.pb", tmp_path / "one.prototxt"
    assert cli("convert", stored, binary, "--root", toy).code == 0
    assert cli("convert", binary, text, "--root", toy).code == 0
    assert text.read_bytes() == b'# [mluops_gtest.expect] degenerate: "one element"\n' + stored.read_bytes()
    made = tmp_path / "made"
    assert cli("generate", "scale_by/one", "--root", toy, "--out", made).code == 0
    for path in (binary, text, made):
        assert run(path, "--root", toy).code == 0, path
    for form in ("prototxt", "pb"):
        assert cli("export", "scale_by/one", "--root", toy, "--out", tmp_path / form, "--format", form).code == 0
        assert run(tmp_path / form, "--root", toy).code == 0
    assert cli("generate", "--all", "--check", "--root", toy).code == 0


def test_generate_drops_what_is_no_longer_declared(cli, toy):
    replace_in(toy / "cases" / "scale_by.yaml", "to: 4", "to: 3")
    result = cli("generate", "--all", "--root", toy)
    assert "removed scale_by/ramp_4" in result.out
    assert not (toy / "prototxt" / "scale_by" / "ramp_4.prototxt").exists()
    assert cli("generate", "--all", "--check", "--root", toy).code == 0


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ('change: {x: {dims: [2, 2]}}, expect: {status: BAD_PARAM, check: same_dims}', "check x_rank"),
        ("expect: {status: BAD_PARAM, check: x_rank}", "it computes"),
        ("change: {x: {dims: [2, 2]}}", "Write `expect:`"),
        ("params: {factor: 0}", "constant"),
        ('degenerate: "so it is said"', "every output varies"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_not_generated(cli, toy, case, words):
    cases = toy / "cases" / "scale_by.yaml"
    line = f'- {{name: fresh, tags: [random], doc: "§1", data: {{recipe: ramp, count: 4}}, {case}}}\n'
    cases.write_text(cases.read_text() + line)
    cli("generate", "scale_by/fresh", "--root", toy).expect_error(3, words, "scale_by.yaml:")


def test_verify_finds_a_wrong_baseline(cli, tmp_path):
    cli("generate", *SAMPLE, "--out", tmp_path / "made")
    path = next((tmp_path / "made").rglob("*.prototxt"))
    head, _, tail = path.read_text().rpartition('value_h: "')
    path.write_text(f'{head}value_h: "{"0" if tail[0] != "0" else "1"}{tail[1:]}')
    cli("verify", tmp_path / "made").expect_output(3, f"differs {path.as_posix()}: data_col: 1 of")


def test_convert_overwrites_nothing_of_its_own(cli, tmp_path):
    cli("generate", *SAMPLE, "--out", tmp_path / "cases")
    path = next((tmp_path / "cases").rglob("*.prototxt"))
    assert cli("convert", path, path.with_suffix(".pb")).code == 0
    cli("convert", tmp_path / "cases", tmp_path / "binary", "--to", "pb").expect_error(2, "would both become")
    assert not (tmp_path / "binary").exists()


def test_convert_tells_what_it_drops(cli, tmp_path):
    source = tmp_path / "foreign.prototxt"
    source.write_text('op_name: "lgamma" lgamma_param { x: 1 }')
    assert cli("convert", source, tmp_path / "a.pb").code == 3
    cli("convert", source, tmp_path / "a.pb", "--drop-unknown").expect_error(
        0, f"dropped from {source}: field lgamma_param (1:19)"
    )


def test_convert_there_and_back_is_the_same_file(cli, tmp_path):
    cli("generate", *SAMPLE, "--out", tmp_path / "text")
    assert cli("convert", tmp_path / "text", tmp_path / "binary").code == 0
    assert cli("convert", tmp_path / "binary", tmp_path / "again").code == 0
    for path in (tmp_path / "text").rglob("*.prototxt"):
        assert (tmp_path / "again" / path.relative_to(tmp_path / "text")).read_text() == path.read_text()
    assert cli("convert", path, tmp_path / "x.foo").code == 2
    assert cli("convert", tmp_path / "cwd", tmp_path / "nothing").code == 5


def test_ops_and_backends_are_listed(cli):
    ops = cli("ops").out
    for name in ("get_indice_pairs", "dynamic_point_to_voxel_backward", "masked_im2col_forward"):
        assert name in ops
    page = cli("ops", "dynamic_scatter_backward").out
    for words in ("grad_voxel_feats", "diff3 ≤ 0", "reduce_type", "handle_null", "ARCH_MISMATCH"):
        assert words in page
    assert cli("ops", "lgamma").code == 2
    backends = cli("backends").out
    assert "numpy" in backends
    assert "reference" in backends


FOREIGN = """\
op_name: "lgamma"
op_type: LGAMMA
input { id: "input1" shape { dims: 2 } layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT value_f: 1 value_f: 2 }
output { id: "output1" shape { dims: 2 } layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT value_f: 1 value_f: 2 }
lgamma_param { prefer: 1 nested { deep: "x" } }
evaluation_criterion: DIFF1
evaluation_threshold: 0.003
device: GPU
"""


def test_a_foreign_operator_is_read_shown_and_skipped_never_passed(cli, run, tmp_path):
    path = tmp_path / "lgamma.prototxt"
    path.write_text(FOREIGN)
    assert cli("show", path).code == 0
    result = run(path)
    assert result.results[path.as_posix()]["outcome"] == "skipped"
    assert "not supported" in result.results[path.as_posix()]["reason"]
    assert result.code == 5
    assert cli("convert", path, tmp_path / "lgamma.pb").code == 3
    assert cli("convert", path, tmp_path / "lgamma.pb", "--drop-unknown").code == 0


def test_a_recomputed_baseline_is_said_and_the_reference_is_suspect(cli, run, tmp_path):
    cli("generate", *SAMPLE, "--out", tmp_path / "made")
    path = replace_in(next((tmp_path / "made").rglob("*.prototxt")), "device: GENERATOR_CPU", "device: CPU")
    one = only(run(path).expect_code(0))
    assert any("recomputed" in note for note in one["notes"])
    suspect = run(path, "--backend", "reference").expect_code(1)
    assert "compared with itself" in next(iter(suspect.results.values()))["reason"]


def test_hostile_files_are_broken_content_not_crashes(run, tmp_path):
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "noise.pb").write_bytes(bytes(range(256)) * 3)
    (folder / "deep.prototxt").write_text("a { " * 5000)
    (folder / "huge.prototxt").write_text(
        'op_name: "masked_im2col_forward" input { id: "x" shape { dims: 1099511627776 } random_data { seed: 1 } '
        "layout: LAYOUT_ARRAY dtype: DTYPE_FLOAT }"
    )
    result = run(folder).expect_code(3)
    assert {r["outcome"] for r in result.results.values()} == {"error"}


@pytest.mark.parametrize("device", ["CPU", "GENERATOR_CPU"])
def test_data_outside_of_what_the_operator_defines_are_the_case_s_fault(cli, run, tmp_path, device):
    """One count too few: neither the checks nor the reference can say anything of it."""
    case = "indice_convolution_backward_data/centerpoint_0_twin_float"
    cli("generate", case, "--out", tmp_path)
    path = tmp_path / f"{case}.prototxt"
    head, count, tail = path.read_text().rpartition("  indice_num:")
    assert count
    text = head + tail.partition("\n")[2]
    path.write_text(text.replace("device: GENERATOR_CPU", f"device: {device}"))
    one = only(run(path).expect_code(5))
    assert one["outcome"] == "skipped"
    assert "does not define this call: indice_num has 2 entries for 3 kernel offsets" in one["reason"]
