"""Files whose names come from data land below their destination or nowhere."""

import re
import shutil

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import wrong

CASE = ROOT / "prototxt" / "voxel_pooling_forward" / "order_of_axes.prototxt"


def case_with_blob(folder, path):
    """A case whose first input stands in a file of that name."""
    text = CASE.read_text()
    first = re.search(r"input \{.*?\n\}", text, re.DOTALL)[0]
    tensor = re.sub(r"  value_[a-z]+: .*\n", "", first)
    (folder / "case.prototxt").write_text(text.replace(first, f'{tensor[:-1]}  path: "{path}"\n}}'))
    return folder / "case.prototxt"


def everything(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_path_that_a_link_keeps_inside_lands_nowhere_else(cli, tmp_path):
    """By `deep`, a link down, the name leads back to the case's folder; without that link it leads four levels up."""
    source = tmp_path / "source"
    (source / "a/b/c/d/e").mkdir(parents=True)
    (source / "deep").symlink_to(source / "a/b/c/d/e")
    (source / ".profile").write_bytes(bytes(2 * 10 * 3 * 4))
    case = case_with_blob(source, "deep/../../../../../.profile")
    target = tmp_path / "x/y/z/target"
    target.mkdir(parents=True)
    before = everything(tmp_path)
    cli("convert", case, target / "case.pb").expect_error(3, "leads out of")
    assert everything(tmp_path) == before


@pytest.mark.parametrize("name", ["sub", "sub/case.pb"])
def test_links_in_the_destination_are_not_followed_out_of_it(cli, tmp_path, name):
    (tmp_path / "source/sub").mkdir(parents=True)
    shutil.copy(CASE, tmp_path / "source/sub/case.prototxt")
    outside = tmp_path / "outside"
    outside.mkdir()
    link = tmp_path / "target" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside if name == "sub" else outside / "victim")
    cli("convert", tmp_path / "source", tmp_path / "target").expect_error(3, "leads out of")
    assert everything(outside) == []


def test_a_destination_that_is_a_link_itself_is_the_user_s(cli, tmp_path):
    (tmp_path / "source").mkdir()
    shutil.copy(CASE, tmp_path / "source/case.prototxt")
    (tmp_path / "real").mkdir()
    (tmp_path / "target").symlink_to(tmp_path / "real")
    assert cli("convert", tmp_path / "source", tmp_path / "target").code == 0
    assert everything(tmp_path / "real") == ["case.pb"]


def test_saved_outputs_follow_no_link_out_of_the_results(cli, tmp_path):
    outside, results = tmp_path / "outside", tmp_path / "results"
    outside.mkdir()
    results.mkdir()
    (results / "outputs").symlink_to(outside)
    cli("run", "voxel_pooling_forward/order_of_axes", "--save-outputs", "all", "--out", results).expect_error(
        74, "leads out of"
    )
    assert everything(outside) == []


def test_a_minimised_case_does_not_follow_a_link(cli, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "cwd" / "order_of_axes_minimised.prototxt").symlink_to(victim)
    cli("minimise", "voxel_pooling_forward/order_of_axes", "--backend", wrong("AllZero")).expect_error(
        3, "leads out of"
    )
    assert victim.read_text() == "precious"
