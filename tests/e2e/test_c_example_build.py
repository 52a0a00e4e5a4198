"""examples/c_backend builds wherever it is copied to, exports what its header declares, and its parts hold."""

import ctypes
import re
import shutil
import subprocess
import sys
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_void_p

import numpy as np
import pytest

from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.operator_parts import C_API
from tests.conftest import ROOT
from tests.support.c_example import OPERATORS_IN_C, c_example
from tests.support.native import compile_library, needs_gcc

pytestmark = [*needs_gcc, pytest.mark.slow]

EXAMPLE = ROOT / "examples" / "c_backend"
LIBRARY = "libmluops_host.so"
BUGS = {
    "past_end", "writes_input", "double_free", "segfault", "endless_loop", "wrong_status", "uninitialised",
    "workspace_overrun", "tile_edge", "race", "reads_past_end", "reads_before_start",
    "query_success", "query_descriptor", "query_order", "query_size", "query_empty",
}  # fmt: skip
BAD_PARAM, ARCH_MISMATCH = 3, 5
FLOAT, INT32 = 2, 6
ARRAY = 4
REDUCE_MAX = 2


def make(folder, *words):
    done = subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example, copied away from the checkout and built there."""
    copy = tmp_path_factory.mktemp("c_backend") / "copied anywhere"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("*.so", "build"))
    make(copy)
    return copy


@pytest.fixture(scope="module")
def library(folder):
    return ctypes.CDLL(str(folder / LIBRARY))


def declared(folder):
    header = (folder / "mluops_host.h").read_text()
    return set(re.findall(r"^MLUOP_API [^(]*?(\w+)\(", header, re.MULTILINE))


def shared_objects(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.so"))


def test_plain_make_builds_exactly_one_shared_object(folder):
    sources = {path.name for path in EXAMPLE.iterdir() if path.is_file() and path.suffix != ".so"}
    assert shared_objects(folder) == [LIBRARY]
    assert {path.name for path in folder.iterdir()} == sources | {LIBRARY}


def test_the_library_exports_what_the_header_declares_and_nothing_else(folder):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", folder / LIBRARY], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1] for line in listing.splitlines()}
    assert exported == declared(folder)
    assert {"mluOpCreate", "mluOpTestSetArch", "mluOpTestSetNramBytes", "cnrtNotifierDuration"} <= exported
    operators = load_operators(ROOT)
    for operator in OPERATORS_IN_C:
        signatures = operators.part(operator, C_API)
        assert any(set(signature.symbols) <= exported for signature in signatures), operator


def test_the_header_compiles_alone(folder, tmp_path):
    source = tmp_path / "alone.c"
    source.write_text('#include "mluops_host.h"\nint main(void) { return MLUOP_STATUS_SUCCESS; }\n')
    flags = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", f"-I{folder}")
    subprocess.run(["gcc", *flags, source], check=True)


def test_every_bug_of_the_sources_is_a_variant(folder):
    texts = [path.read_text() for path in folder.glob("*.[ch]")]
    in_sources = {name.lower() for text in texts for name in re.findall(r"defined\(BUG_([A-Z_]+)\)", text)}
    dry = make(folder, "-n", "variants", "sanitize")
    built = re.findall(r"-DBUG_([A-Z_]+) -shared -o build/libmluops_host_(\w+)\.so", dry)
    assert in_sources == {target for _, target in built} == {flag.lower() for flag, _ in built} == BUGS
    sanitized = next(line for line in dry.splitlines() if "libmluops_host_sanitized.so" in line)
    assert "-fsanitize=address,undefined" in sanitized
    assert "-fno-sanitize-recover=all" in sanitized


def test_variants_are_built_apart_and_cleaned_away(tmp_path_factory, tmp_path):
    copy = tmp_path / "variants"
    shutil.copytree(c_example(tmp_path_factory), copy)
    apart = {f"build/libmluops_host_{name}.so" for name in (*BUGS, "bare", "sanitized")}
    assert set(shared_objects(copy)) == {LIBRARY, *apart}
    make(copy, "clean")
    assert shared_objects(copy) == []


class Caller:
    """Makes handles and descriptors of the library; enough to call one operator by hand."""

    def __init__(self, library):
        self.library = library
        self.handle = self.create("mluOpCreate")

    def create(self, function):
        created = c_void_p()
        assert getattr(self.library, function)(byref(created)) == 0
        return created

    def descriptor(self, dtype, dims):
        desc = self.create("mluOpCreateTensorDescriptor")
        lengths = (c_int64 * len(dims))(*dims)
        assert self.library.mluOpSetTensorDescriptor_v2(desc, ARRAY, dtype, len(dims), lengths) == 0
        return desc

    def tensor(self, array):
        dtype = {"f": FLOAT, "i": INT32}[array.dtype.kind]
        return self.descriptor(dtype, array.shape), c_void_p(array.ctypes.data)


def scatter_inputs():
    feats = np.array([[1, 5], [3, 5], [3, 2]], "<f4")
    return (
        np.array([[10, 20]], "<f4"),
        feats,
        feats.max(axis=0, keepdims=True),
        np.zeros(3, "<i4"),
        np.array([3], "<i4"),
        np.array([1], "<i4"),
    )


def scatter(caller, name, query_takes_all):
    inputs, output = scatter_inputs(), np.full((3, 2), np.nan, "<f4")
    tensors = [caller.tensor(array) for array in inputs]
    size = c_size_t()
    described = [desc for desc, _ in tensors] if query_takes_all else [tensors[1][0]]
    query = getattr(caller.library, f"mluOpGet{name}WorkspaceSize")
    assert query(caller.handle, REDUCE_MAX, *described, byref(size)) == 0
    workspace = np.full(size.value, 0xA5, "u1")
    arguments = [part for tensor in tensors for part in tensor]
    operator = getattr(caller.library, f"mluOp{name}")
    status = operator(
        caller.handle,
        REDUCE_MAX,
        *arguments,
        c_void_p(workspace.ctypes.data),
        c_size_t(workspace.nbytes),
        *caller.tensor(output),
    )
    assert status == 0
    assert 0xA5 not in workspace[: inputs[2].size]
    return output


def test_the_released_and_the_documents_pair_are_one_operator(library):
    caller = Caller(library)
    released = scatter(caller, "DynamicPointToVoxelBackward", query_takes_all=True)
    assert released.tolist() == [[0, 20], [10, 0], [0, 0]]
    assert scatter(caller, "DynamicScatterBackward", query_takes_all=False).tolist() == released.tolist()


def test_hooks_move_a_handle_to_another_device(library):
    caller = Caller(library)
    size = c_size_t()
    points = caller.descriptor(FLOAT, (20, 1))

    def query():
        return library.mluOpGetDynamicScatterBackwardWorkspaceSize(caller.handle, REDUCE_MAX, points, byref(size))

    assert query() == 0
    assert library.mluOpTestSetNramBytes(caller.handle, c_int64(5 * 20 + 20 * 1 + 4)) == 0
    assert query() == 0
    assert library.mluOpTestSetNramBytes(caller.handle, c_int64(5 * 20 + 20 * 1 + 3)) == 0
    assert query() == BAD_PARAM

    def operate():
        # The handle is looked at first, then the device, then the descriptors.
        nothing = [None] * 12
        return library.mluOpDynamicScatterBackward(caller.handle, REDUCE_MAX, *nothing, None, c_size_t(0), None, None)

    assert operate() == BAD_PARAM
    assert library.mluOpTestSetArch(caller.handle, 200) == 0
    assert operate() == ARCH_MISMATCH
    assert library.mluOpTestSetArch(caller.handle, 370) == 0
    assert operate() == BAD_PARAM
    assert library.mluOpTestSetArch(None, 370) == BAD_PARAM


@pytest.mark.parametrize(("rank", "dims"), [(17, (1,) * 17), (-1, ()), (2, (1, -1))], ids=str)
def test_the_tensor_setters_refuse_what_no_tensor_has(library, rank, dims):
    desc = Caller(library).create("mluOpCreateTensorDescriptor")
    assert library.mluOpSetTensorDescriptor(desc, ARRAY, FLOAT, rank, (c_int * len(dims))(*dims)) == BAD_PARAM
    assert library.mluOpSetTensorDescriptor_v2(desc, ARRAY, FLOAT, rank, (c_int64 * len(dims))(*dims)) == BAD_PARAM
    assert library.mluOpSetTensorDescriptor_v2(desc, ARRAY, FLOAT, 1, None) == BAD_PARAM


def test_notifiers_measure_forwards(library):
    caller = Caller(library)
    start, end, queue = (caller.create(f"cnrt{what}Create") for what in ("Notifier", "Notifier", "Queue"))
    microseconds = c_float(-1)
    assert library.cnrtPlaceNotifier(start, queue) == 0
    assert library.cnrtPlaceNotifier(end, queue) == 0
    assert library.cnrtQueueSync(queue) == 0
    assert library.cnrtNotifierDuration(start, end, byref(microseconds)) == 0
    assert microseconds.value >= 0


def test_halves_convert_as_numpy_converts_them(folder, tmp_path):
    source = tmp_path / "halves.c"
    source.write_text(
        '#include "half.h"\n'
        "void widen(const half *from, float *to, int count) {\n"
        "    for (int i = 0; i < count; i++) to[i] = half_to_float(from[i]);\n"
        "}\n"
        "void narrow(const float *from, half *to, int count) {\n"
        "    for (int i = 0; i < count; i++) to[i] = float_to_half(from[i]);\n"
        "}\n"
    )
    halves_library = ctypes.CDLL(str(compile_library(tmp_path / "halves.so", source, flags=("-O2", f"-I{folder}"))))
    halves = np.arange(1 << 16, dtype="<u2").view("<f2")
    floats = np.empty(halves.size, "<f4")
    halves_library.widen(c_void_p(halves.ctypes.data), c_void_p(floats.ctypes.data), halves.size)
    np.testing.assert_array_equal(floats, halves.astype("<f4"))
    np.testing.assert_array_equal(np.signbit(floats), np.signbit(halves))

    finite = np.sort(halves[np.isfinite(halves)].astype("<f4"))
    middles = (finite[:-1] + finite[1:]) / 2
    random = np.random.default_rng(1).integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view("<f4")
    limits = np.array([65519.996, 65520, -65520, np.inf, 1e-45, 2.0**-25, -0.0, np.nan], "<f4")
    with np.errstate(invalid="ignore"):
        beside = [np.nextafter(middles, np.float32(way)) for way in (-np.inf, np.inf)]
    values = np.concatenate([finite, middles, *beside, random, limits]).astype("<f4")
    narrowed = np.empty(values.size, "<f2")
    halves_library.narrow(c_void_p(values.ctypes.data), c_void_p(narrowed.ctypes.data), values.size)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        wanted = values.astype("<f2")
    np.testing.assert_array_equal(narrowed, wanted)
    known = ~np.isnan(values)
    np.testing.assert_array_equal(np.signbit(narrowed[known]), np.signbit(wanted[known]))


PROGRAM = """
import ctypes, sys

other = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
library = ctypes.CDLL(sys.argv[2])
print(library.mluOpDynamicScatterBackward(*[None] * 14, None, ctypes.c_size_t(0), None, None))
"""


def test_functions_of_another_library_are_not_taken_for_its_own(folder, tmp_path):
    """One of the document's pair calls the other by name, which a library that is loaded already may have, too."""
    source = tmp_path / "other.c"
    source.write_text("int mluOpDynamicPointToVoxelBackward(void) { return 0; }\n")
    other = compile_library(tmp_path / "other.so", source)
    command = [sys.executable, "-c", PROGRAM, other, folder / LIBRARY]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{BAD_PARAM}\n"
