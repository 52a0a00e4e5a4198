"""Operators of a root share code in generators/_shared: relative imports reach it everywhere, and roots keep apart."""

import pkgutil

import pytest

from mluops_gtest import authoring
from mluops_gtest.catalog.operators import _MOVED, load_operators
from mluops_gtest.catalog.source import code_digest
from tests.support.toy_root import CASES, GENERATOR, write_other_root, write_toy_root

IDS = ("list", "--all", "--format", "ids")
# The recipe's first value comes from a module that the operators share.
SHARED = "def first():\n    return {}\n"
USE = "(np.arange(count) + start)", "(np.arange(count) + first())"


def share(root, value, operator="scale_by", up="."):
    """Let the recipe `ramp` of the operator begin with the value that `_shared` of that root gives."""
    folder = root / "generators" / "_shared"
    folder.mkdir(exist_ok=True)
    (folder / "ramps.py").write_text(SHARED.format(value))
    path = root / "generators" / operator / "__init__.py" if up == ".." else root / "generators" / f"{operator}.py"
    text = path.read_text().replace(
        "import numpy as np\n", f"import numpy as np\n\nfrom {up}_shared.ramps import first\n"
    )
    assert USE[0] in text
    path.write_text(text.replace(*USE))
    return path


@pytest.fixture(params=[".", ".."], ids=["file", "folder"])
def root(request, tmp_path, cli):
    """A generated root whose operator is a file or a folder, with ramps that begin with 3."""
    root = write_toy_root(tmp_path / "root", parts={"mutants": "MUTANTS = ()"} if request.param == ".." else None)
    share(root, 3, up=request.param)
    assert cli("generate", "--all", "--root", root).code == 0
    return root


@pytest.mark.parametrize(
    "how",
    [["--no-isolate"], ["--isolate", "-j", "2"], ["--isolate", "--fresh-workers"]],
    ids=["here", "workers", "fresh"],
)
def test_a_run_reaches_what_is_shared(run, root, how):
    result = run("--root", root, "--backend", "reference", *how).expect_code(0)
    assert {one["outcome"] for one in result.results.values()} == {"passed"}


def test_what_is_shared_is_no_operator(cli, root):
    (root / "generators" / "_notes.py").write_text("raise RuntimeError")
    (root / "generators" / "_shared" / "__init__.py").write_text('"""What is shared."""')
    assert list(load_operators(root)) == ["scale_by"]
    assert cli("generate", "--all", "--check", "--root", root).code == 0


def test_two_roots_keep_apart(cli, run, root, tmp_path):
    other = write_other_root(tmp_path / "other")
    share(other, 7, "shift_by")
    assert cli("generate", "--all", "--root", other).code == 0
    roots = ("--root", root, "--root", other)
    assert cli("generate", "--all", "--check", *roots).lines[-1].endswith("0 differences")
    loaded = load_operators(root, other)
    found = {
        name: operator.recipes["ramp"](None, {}, None, count=1).inputs["x"][0] for name, operator in loaded.items()
    }
    assert found == {"scale_by": 3, "shift_by": 7}
    assert run(*roots, "--isolate", "-j", "2").code == 0


def test_a_change_of_what_is_shared_counts_at_once(cli, root):
    def differs():
        return cli("generate", "--all", "--check", "--root", root).code != 0

    file = root / "generators" / "_shared" / "ramps.py"
    assert not differs()
    file.write_text(SHARED.format(4))
    assert differs()
    file.write_text(SHARED.format(3))
    assert not differs()


def test_it_is_part_of_the_digest_of_an_operator(root):
    def digest():
        code_digest.cache_clear()
        return code_digest(root / "generators", "scale_by")

    before = digest()
    (root / "generators" / "_shared" / "ramps.py").write_text(SHARED.format(4))
    assert digest() != before
    (root / "generators" / "_shared" / "ramps.py").write_text(SHARED.format(3))
    assert digest() == before


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("def first():\n    return 3 +\n", 2, "SyntaxError"),
        ("\n\nfirst = unknown\n", 3, "NameError: name 'unknown' is not defined"),
    ],
)
def test_a_mistake_in_what_is_shared_names_its_file_and_line(cli, root, text, line, words):
    file = root / "generators" / "_shared" / "ramps.py"
    file.write_text(text)
    cli("ops", "scale_by", "--root", root).expect_error(3, f"{file}:{line}: the file does not load: {words}")
    (root / "generators" / "_shared" / "__init__.py").write_text(text)
    assert f"{file.with_name('__init__.py')}:{line}: " in cli("ops", "scale_by", "--root", root).err


def test_what_it_raises_in_a_recipe_names_its_file_and_line(cli, root):
    file = root / "generators" / "_shared" / "ramps.py"
    file.write_text("def first():\n    return {}['missing']\n")
    cli("generate", "--all", "--root", root).expect_error(3, f"KeyError: 'missing' ({file}:2)")


def test_operators_do_not_import_each_other(cli, root, tmp_path):
    (root / "generators" / "other.py").write_text(GENERATOR.replace("scale_by", "other"))
    path = root / "generators" / "third" / "__init__.py"
    path.parent.mkdir()
    path.write_text("from ..other import OPERATOR\n")
    cli("ops", "third", "--root", root).expect_error(
        3, f"{path}:1: the file does not load: ModuleNotFoundError: No module named 'generators.other'"
    )


@pytest.mark.parametrize("module", ["mluops_gtest.authoring.lidar", "mluops_gtest.authoring.wrong_weights"])
def test_a_module_that_moved_says_where_it_went(cli, root, module):
    path = root / "generators" / "_shared" / "ramps.py"
    path.write_text(f"import math\n\nfrom {module} import anything\n")
    result = cli("ops", "scale_by", "--root", root).expect_code(3)
    file = {"lidar": "clouds", "wrong_weights": "wrong_products"}[module.rpartition(".")[2]]
    assert f"{path}:3: {module} moved to generators/_shared/{file}.py of the built-in content: copy it" in result.err


def test_what_moved_is_where_the_table_says(request):
    shared = request.config.rootpath / "generators" / "_shared"
    assert set(_MOVED.values()) <= {path.stem for path in shared.glob("*.py")}
    left = {f"{authoring.__name__}.{module.name}" for module in pkgutil.iter_modules(authoring.__path__)}
    assert not left & set(_MOVED)


CORE = (
    "c_api calls checks exact_numbers left_open mistakes narrowing random reductions roundings rows space sums suspects"
)
NEWER = "copy_of single_checks sum_of_terms wrong_sums"


def test_a_root_of_core_authoring_alone_runs_as_before(cli, run, tmp_path):
    """Every module by the path that it has always had."""
    root = write_toy_root(tmp_path / "root", CASES)
    path = root / "generators" / "scale_by.py"
    imports = "".join(f"import mluops_gtest.authoring.{name} as _{name}\n" for name in CORE.split())
    path.write_text(imports + path.read_text().replace("checks.rank(", "_checks.rank("))
    assert cli("generate", "--all", "--root", root).code == 0
    assert run("--root", root).code == 0
    assert {module.name for module in pkgutil.iter_modules(authoring.__path__)} == {*CORE.split(), *NEWER.split()}


@pytest.mark.needs_dask
@pytest.mark.slow
def test_workers_of_a_cluster_reach_what_is_shared(run, root):
    from distributed import LocalCluster

    quiet = {"dashboard_address": ":0", "silence_logs": 50}
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **quiet) as cluster:
        result = run("--root", root, "--cluster", cluster.scheduler_address).expect_code(0)
    assert {one["outcome"] for one in result.results.values()} == {"passed"}
