"""A toy operator with the contracts of calls that few operators have, and backends that break one of them each."""

import re
import shlex
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.e2e.conftest import replace_in
from tests.support.every_contract import LIBRARY, PROGRAM, write_every_contract
from tests.support.native import compile_library, needs_gcc

EXAMPLE = ROOT / "examples" / "c_backend"
# Those without strides: the library below knows none.
LIBRARY_CASES = tuple(
    f"every_contract/{name}"
    for name in ("placed", "weighted", "weights_ptr_null", "weights_dim0_more", "weights_rank_more", "columns_1")
)


@pytest.fixture
def root(cli, tmp_path):
    folder = write_every_contract(tmp_path / "root")
    cli("generate", "--all", "--root", folder).expect_code(0)
    return folder


@pytest.fixture
def outcomes(run, root):
    def call(name, *options):
        result = run("--root", root, "--backend", f"{root / 'backends.py'}:{name}", *options)
        return {case.partition("/")[2]: (one["outcome"], one["reason"]) for case, one in result.results.items()}

    return call


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_it_runs_and_is_verified(cli, run, root, backend):
    assert run("--root", root, "--backend", backend).code == 0
    assert cli("verify", "--all", "--root", root).code == 0
    assert cli("generate", "--all", "--check", "--root", root).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Backend", "ClearsNorms"])
@pytest.mark.parametrize("options", [[], ["--repeat", "2"], ["--guard-pages"]], ids=["once", "twice", "guard-pages"])
def test_what_the_operator_allows_passes(outcomes, name, options):
    assert {one[0] for one in outcomes(name, *options).values()} == {"passed"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "case", "reason"),
    [
        ("RefusesWide", "without_norms", "answered NOT_SUPPORTED, expected SUCCESS"),
        ("ClearsHalf", "no_place", r"norms was written \(1 element, first at 0\) although"),
        ("ClearsTable", "no_place", r"table was written \(28 elements"),
        ("ClearsTooEarly", "no_x", "norms was written"),
        ("WritesSomeNorms", "placed", "norms: diff1"),
        ("WritesSomeNorms", "without_norms", "norms: 2 of 3 elements were never written"),
        ("WritesOtherNorms", "without_norms", "norms: diff1"),
        ("ClearsOtherRows", "placed", "table: 16 elements of 28 must stay as before the call"),
        ("QuietsNans", "placed", r"table: 1 element of 28 must stay as before the call and did not, first at 0$"),
        ("LosesSigns", "placed", r"table: 1 element of 28 must stay as before the call and did not, first at 1$"),
        ("IgnoresWeights", "weighted", "norms: diff1"),
        ("AsksForWeights", "placed", "answered BAD_PARAM, expected SUCCESS"),
        ("ForgetsNullWeights", "weights_ptr_null", "answered SUCCESS, expected BAD_PARAM"),
        ("LeavesARow", "placed", "table: 4 of 28 elements were never written"),
        ("AddsToRows", "placed", "table: "),
        ("WritesWhenRefusing", "columns", "table was written"),
        ("ClearsGaps", "strided", "wrote to 6 places between the strided elements of table, first at 4 of its buffer"),
        ("WritesOneGap", "strided", "wrote to 1 place between the strided elements of norms, first at 1 of its"),
        ("WritesContiguously", "strided", "wrote to 1 place between the strided elements of norms, first at 1 of its"),
        ("StridesOfTable", "strided", "table: "),
        ("StridesInBytes", "strided", "table: "),
        ("ReadsContiguously", "strided", "table: "),
        ("ReadsContiguously", "overlapping_x", "table: "),
    ],
)
def test_a_broken_contract_fails_its_case(outcomes, name, case, reason):
    outcome, words = outcomes(name)[case]
    assert outcome == ("memory" if words.startswith("wrote") else "wrong_status" if "answered" in words else "failed")
    assert re.match(reason, words)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('becomes="table"', 'becomes="tables"', "becomes the unknown output 'tables'. Did you mean 'table'?"),
        ('becomes="table"', 'becomes="norms"', "the output 'table' keeps what nobody presets"),
        ('"[M, C]", FLOAT, bec', '"[N, C]", FLOAT, bec', "the output 'table' holds 'table_before': one input with the"),
        (", kept=keeps", ", kept=keeps, preset=0", "the output 'table' is preset, and holds 'table_before'"),
        ('may_clear=("norms",)', 'may_clear=("norm",)', "may clear the unknown output 'norm'"),
        ('TensorSpec("place", "[N]",', 'TensorSpec("place", "[N]", optional=True, dtypes=', "'place' is optional, but"),
        ('becomes="table"', 'becomes="table", optional=True', "'table_before' is optional, but no argument of its own"),
        ('axis("C", of="x")', 'axis("C", of="weights")', "C is as long as in 'weights', which a call may lack"),
    ],
)
def test_slips_of_authors(cli, root, old, new, message):
    replace_in(root / "generators" / "every_contract.py", old, new)
    cli("list", "--root", root).expect_error(3, "every_contract.py:", message)


def test_strided_tensors_are_stored_as_files_have_them(root):
    """A strided input stores its whole buffer, a strided output its elements alone."""
    text = (root / "prototxt" / "every_contract" / "strided.prototxt").read_text()
    x, _, before, table, norms = (part.count("value_h:") for part in re.split(r"\n(?:in|out)put ", text)[1:])
    assert (x, before, table, norms) == (12, 34, 28, 3)


def test_outputs_whose_elements_share_a_place_are_refused(cli, root):
    replace_in(root / "cases" / "every_contract.yaml", "norms: {strides: [2]}", "norms: {strides: [0]}")
    cli("generate", "--all", "--root", root).expect_error(
        3, "every_contract.yaml:", "with strides [0] elements of norms share a place; the document does not define that"
    )


class TestAnInputThatACallMayLack:
    """Its file has fewer inputs, and in C its descriptor and its data are null."""

    def test_files_have_it_or_not(self, cli, run, root):
        files = root / "prototxt" / "every_contract"
        for case, inputs in (("placed", 3), ("weighted", 4)):
            assert (files / f"{case}.prototxt").read_text().count("\ninput {") == inputs
        assert "weights" not in cli("show", "every_contract/placed", "--root", root).out
        converted = files / "weighted.pb"
        cli("convert", files / "weighted.prototxt", converted, "--root", root).expect_code(0)
        assert run(converted, "--root", root, "--backend", "numpy").code == 0

    def test_other_inputs_cannot_be_left_out(self, cli, root):
        text = (root / "prototxt" / "every_contract" / "placed.prototxt").read_text()
        first, *_, last = text.split("\ninput {")
        short = root / "short.prototxt"
        short.write_text(f"{first}\ninput {{{last}")
        reason = "the file has 1 input tensors; every_contract takes 3 to 4: x, place, table_before, weights"
        result = cli("run", short, "--root", root, "--backend", "numpy")
        assert result.code == 3
        assert reason in " ".join((result.out + result.err).split())

    def test_checks_are_derived_with_and_without_it(self, root):
        names = {path.stem for path in (root / "prototxt" / "every_contract").glob("*.prototxt")}
        assert {"weights_rank_more", "weights_dim0_more", "weights_dtype_int32", "weights_ptr_null"} <= names
        assert "weights_desc_null" not in names

    def test_the_pages_say_so(self, cli, root):
        assert "in, or absent" in cli("ops", "every_contract", "--root", root).out
        page = cli("ops", "every_contract", "--page", "--root", root).out
        assert "| `weights` | in | `[C]` | float | ARRAY |  | a call may lack it |" in page

    @pytest.mark.parametrize(
        "change", ["change: {weights: {dims: [9]}}", "null: {pointers: [weights]}", "null: {descriptors: [weights]}"]
    )
    def test_what_the_recipe_does_not_make_cannot_be_changed(self, cli, root, change):
        with (root / "cases" / "every_contract.yaml").open("a") as file:
            data = "data: {recipe: placed, rows: 3, columns: 4, places: 7}"
            file.write(f"- {{name: odd, tags: [boundary], doc: §5, {data}, {change}}}\n")
        cli("generate", "--all", "--root", root).expect_error(3, "case every_contract/odd changes weights, which its")

    def test_a_recipe_makes_all_inputs_in_front_of_a_given_one(self, cli, root):
        replace_in(root / "generators" / "every_contract.py", "{**made.inputs, ", '{"x": made.inputs["x"], ')
        cli("generate", "--all", "--root", root).expect_error(3, "does not make the input 'place'")

    @pytest.mark.parametrize("backend", ["numpy", "Backend"])
    def test_fuzzing_draws_calls_with_and_without_it(self, cli, root, tmp_path, backend):
        word = backend if backend == "numpy" else f"{root / 'backends.py'}:{backend}"
        options = ("--root", root, "--cases", "60", "--corpus", tmp_path / "corpus")
        cli("fuzz", "--op", "every_contract", "--backend", word, *options).expect_code(0)

    @pytest.mark.parametrize(("wrong", "inputs"), [("AsksForWeights", 3), ("IgnoresWeights", 4), ("LeavesARow", 3)])
    def test_a_minimised_case_keeps_it_only_where_it_matters(self, cli, root, tmp_path, wrong, inputs):
        small = tmp_path / "small.prototxt"
        case = "placed" if wrong == "AsksForWeights" else "weighted"
        options = ("--root", root, "--backend", f"{root / 'backends.py'}:{wrong}", "--out", small)
        cli("minimise", f"every_contract/{case}", *options, "--standalone", "py").expect_code(0)
        assert small.read_text().count("input {") == inputs
        shown = subprocess.run([sys.executable, small.with_suffix(".py")], capture_output=True, text=True, check=False)
        assert shown.returncode == 1, shown.stdout + shown.stderr

    @pytest.mark.slow
    def test_a_program_is_told_that_it_is_absent(self, run, root):
        (root / "program.py").write_text(PROGRAM)
        backend = f"exec:{shlex.quote(sys.executable)} {root / 'program.py'}"
        cases = [f"every_contract/{name}" for name in ("placed", "weighted", "x_rank_more", "no_x")]
        assert run(*cases, "--root", root, "--backend", backend).code == 0


class TestLibrary:
    pytestmark = needs_gcc

    @pytest.fixture
    def library(self, cli, root, tmp_path):
        (tmp_path / "api.h").write_text(cli("ops", "--c", "--root", root).out)
        (tmp_path / "every_contract.c").write_text(LIBRARY)
        sources = (tmp_path / "every_contract.c", *(EXAMPLE / f"{part}.c" for part in ("handle", "descriptors")))

        def build(*flags):
            folders = (f"-I{tmp_path}", f"-I{EXAMPLE}")
            return compile_library(tmp_path / "libevery.so", *sources, flags=("-std=c11", *folders, *flags, "-lm"))

        return build

    def test_descriptor_and_data_are_null_where_it_is_absent(self, run, root, library):
        assert run(*LIBRARY_CASES, "--root", root, "--backend", f"c:{library()}").code == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("form", ["py", "c"])
    def test_a_file_without_the_harness_leaves_it_out(self, cli, root, library, tmp_path, form):
        small, wrong = tmp_path / "small.prototxt", f"c:{library('-DLEAVES_NORMS')}"
        options = ("--root", root, "--backend", wrong, "--out", small, "--standalone", form)
        cli("minimise", "every_contract/placed", *options).expect_code(0)
        command = [sys.executable, small.with_suffix(".py")]
        if form == "c":
            command = [tmp_path / "small"]
            include = (small.with_suffix(".c"), tmp_path / "libevery.so", f"-Wl,-rpath,{tmp_path}", "-lm")
            subprocess.run(["gcc", *include, "-o", *command], check=True)
        assert subprocess.run(command, capture_output=True, check=False).returncode == 1
        library()
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
