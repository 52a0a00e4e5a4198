"""References at network scale beside plain C loops, plain numpy, BLAS and spconv; all must give the same answer."""

import ctypes
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.plain_c import at, compiled, number
from benchmarks.rows import Goal, Rounds, Row, interleaved
from mluops_gtest.authoring import Draw, call_of
from mluops_gtest.backends.numpy_backend import NumpyBackend, TorchBackend
from mluops_gtest.catalog.declarations import load_declarations
from mluops_gtest.catalog.operators import load_operator, load_operators
from mluops_gtest.core.call import OpCall
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import Array, DType

ROOT = Path(__file__).resolve().parents[1]
C, BLAS, SPCONV = "plain C, 1 thread", "BLAS alone, float64", "spconv"
# A way answers the compared output of a call.
Way = Callable[[OpCall], Array]


def pooled_in_c(call: OpCall) -> Array:
    geometry, features = call.array("geom_xyz"), call.array("input_features")
    batches, points, channels = features.shape
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    sums = np.zeros((batches, height, width, channels))
    out, memo = np.empty(sums.shape, np.float32), np.empty_like(geometry)
    sizes = map(number, (batches, points, channels, width, height, depth))
    library().pool(at(geometry), at(features), *sizes, at(sums), at(out), at(memo))
    return out


def pooled_by_bincount(call: OpCall) -> Array:
    """One float64 bincount per channel."""
    x, y, z = np.moveaxis(call.array("geom_xyz").astype(np.int64), -1, 0)
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
    cells = ((np.arange(len(x))[:, None] * height + y) * width + x)[inside]
    features = call.array("input_features")[inside]
    sums = np.empty((len(x) * height * width, features.shape[1]), np.float32)
    for channel in range(features.shape[1]):
        sums[:, channel] = np.bincount(cells, features[:, channel], len(sums))
    return sums.reshape(len(x), height, width, -1)


def scattered_in_c(call: OpCall) -> Array:
    names = ("grad_voxel_feats", "feats", "voxel_feats", "point2voxel_map")
    arrays = [call.array(name) for name in names]
    points, channels = arrays[1].shape
    voxels = int(call.array("voxel_num")[0])
    claimed, out = np.zeros(arrays[2].shape, np.uint8), np.zeros((points, channels), np.float32)
    library().scatter(*map(at, arrays), *map(number, (points, voxels, channels)), at(claimed), at(out))
    return out


def columns_in_c(call: OpCall) -> Array:
    feature, rows, cols = (call.array(name) for name in ("feature", "mask_h_idx", "mask_w_idx"))
    _, channels, height, width = feature.shape
    kernel = [call.param(name) for name in ("kernel_h", "kernel_w", "pad_h", "pad_w")]
    out = np.empty((channels * kernel[0] * kernel[1], rows.size), np.float32)
    sizes = map(number, (channels, height, width, rows.size, *kernel))
    library().columns(at(feature), at(rows), at(cols), *sizes, at(out))
    return out


def nearest_in_c(call: OpCall) -> Array:
    unknown, known = call.array("unknown"), call.array("known")
    out = np.zeros(unknown.shape, np.int32)
    library().nearest(at(unknown), at(known), *map(number, (*unknown.shape[:2], known.shape[1])), at(out))
    return out


def listed_in_c(call: OpCall) -> Array:
    centres, points = call.array("new_xyz"), call.array("xyz")
    out = np.zeros((*centres.shape[:2], call.param("nsample")), np.int32)
    radii = (ctypes.c_float(np.float32(call.param(name)) ** 2) for name in ("min_radius", "max_radius"))
    sizes = map(number, (*centres.shape[:2], points.shape[1], out.shape[2]))
    library().ball(at(centres), at(points), *sizes, *radii, at(out))
    return out


def paired_in_c(call: OpCall) -> Array:
    sites = call.array("indices")
    names = ("filter_space", "stride", "pad", "dilation", "output_space")
    three = np.array([call.param(name) for name in names], np.int64)
    batches, sub_m = call.param("batch"), int(bool(call.param("sub_m")))
    grid = np.zeros(batches * int(np.prod(three[-1])), np.int32)
    pairs = np.full((int(np.prod(three[0])), 2, len(sites)), -1, np.int32)
    library().pair(at(sites), number(len(sites)), at(three), number(batches), number(sub_m), at(grid), at(pairs))
    return pairs


def multiplied_alone(call: OpCall) -> Array:
    """What BLAS takes for the products with filters of a sparse convolution: no gather, no addition, no answer."""
    backward = "output_grad" in call.inputs
    *_, inputs, outputs = call.array("filters").shape
    weights = np.ones((outputs, inputs) if backward else (inputs, outputs))
    rows = np.ones((max(call.param("indice_num")), len(weights)))
    for count in call.param("indice_num"):
        rows[:count] @ weights
    return call.array("input_grad" if backward else "features_out")


def multiplied_pairs(call: OpCall) -> Array:
    """What BLAS takes for the products of indice_convolution_backward_filter."""
    longest = max(call.param("indice_num"))
    features, grads = (np.ones((longest, call.array(name).shape[1])) for name in ("features", "output_grad"))
    for count in call.param("indice_num"):
        features[:count].T @ grads[:count]
    return call.array("filters_grad")


def interpolated_in_c(call: OpCall) -> Array:
    features, indices, weights = (call.array(name) for name in ("features", "indices", "weights"))
    out = np.empty((*features.shape[:2], indices.shape[1]), np.float32)
    sizes = map(number, (*features.shape, indices.shape[1]))
    library().interpolate(at(features), at(indices), at(weights), *sizes, at(out))
    return out


def interpolated_back_in_c(call: OpCall) -> Array:
    grads, indices, weights = (call.array(name) for name in ("grad_output", "indices", "weights"))
    batches, channels, cells = call.tensor("grad_features").dims
    sums, out = np.empty(cells), np.empty((batches, channels, cells), np.float32)
    sizes = map(number, (batches, channels, cells, indices.shape[1]))
    library().interpolate_back(at(grads), at(indices), at(weights), *sizes, at(sums), at(out))
    return out


def by_spconv(call: OpCall) -> Array:
    """As a backend would call it; examples/spconv_backend says how."""
    sys.path.insert(0, str(ROOT / "examples" / "spconv_backend"))
    from spconv_kernels import backend  # type: ignore[import-not-found]

    backend.run(call)
    return call.array("indice_pairs")


def library():
    found = compiled()
    assert found is not None
    return found


@dataclass(frozen=True, slots=True)
class Compared:
    """A network case, its compared output, and other ways to it."""

    case: str
    output: str
    ways: dict[str, Way]
    limit: str = C


PAIRED: dict[str, Way] = {C: paired_in_c} | ({SPCONV: by_spconv} if find_spec("spconv") else {})
COMPARED = (
    Compared("get_indice_pairs/network_subm_41x1440x1440", "indice_pairs", PAIRED),
    Compared("get_indice_pairs/network_down_11x360x360", "indice_pairs", PAIRED),
    Compared("indice_convolution_backward_data/centerpoint_0_float", "input_grad", {BLAS: multiplied_alone}, BLAS),
    Compared("indice_convolution_forward/centerpoint_3_float", "features_out", {BLAS: multiplied_alone}, BLAS),
    Compared("indice_convolution_backward_filter/centerpoint_3_float", "filters_grad", {BLAS: multiplied_pairs}, BLAS),
    Compared("voxel_pooling_forward/bevdepth", "output_features", {C: pooled_in_c, "np.bincount": pooled_by_bincount}),
    Compared("dynamic_scatter_backward/network_mvxnet", "grad_feats", {C: scattered_in_c}),
    Compared("masked_im2col_forward/retinanet_3x3_float", "data_col", {C: columns_in_c}),
    Compared("three_nn_forward/network_b2_16384_float", "idx", {C: nearest_in_c}),
    Compared("ball_query/pointnet2_first", "idx", {C: listed_in_c}),
    Compared("three_interpolate_forward/propagation_512x128x2048_float", "output", {C: interpolated_in_c}),
    Compared("three_interpolate_backward/propagation_512x128x2048_float", "grad_features", {C: interpolated_back_in_c}),
)


def rows() -> Iterator[Row]:
    for one in COMPARED:
        goals = (Goal(one.limit, 2), *((Goal(SPCONV, 1),) if SPCONV in one.ways else ()))
        what = f"the reference of {one.case}"
        yield Row(f"baselines/{one.case}", what, partial(_rounds, one), goals, one.limit)


def _rounds(one: Compared) -> Rounds:
    operator, call = prepared(one.case)
    wanted = operator.reference(call).outputs[one.output]
    ways = one.ways if compiled() is not None else {name: way for name, way in one.ways.items() if name != C}
    for name, way in ways.items():
        # spconv numbers its outputs in another order, and BLAS alone answers nothing.
        if name not in (SPCONV, BLAS) and not np.array_equal(way(call), wanted):
            raise SystemExit(f"{one.case}: {name} does not give the reference's answer")
    contestants = {"reference": lambda: operator.reference(call)} | {name: partial(w, call) for name, w in ways.items()}
    yield from interleaved(contestants | _backends(operator, call))


def _backends(operator: Operator, call: OpCall) -> dict[str, Callable[[], object]]:
    """What users run beside the reference; in the buffers of the call."""
    operators = {operator.name: operator}
    found: dict[str, Callable[[], object]] = {"numpy backend": partial(NumpyBackend(operators).run, call)}
    if find_spec("torch"):
        found["torch backend"] = partial(TorchBackend(load_operators(ROOT), "cpu").run, call)
    return found


def prepared(case: str) -> tuple[Operator, OpCall]:
    """The operator and the call of a declared case, with output buffers that hold the reference's answer."""
    name = case.partition("/")[0]
    operator = load_operator(ROOT / "generators" / name / "__init__.py")
    drafts = load_declarations(ROOT / "cases" / f"{name}.yaml", operator)
    draft = next(draft for draft in drafts if draft.id == case)
    made = operator.recipes[draft.recipe](Draw(draft.seed), dict(draft.params), DType.named(draft.dtype), **draft.args)
    layouts = {spec.id: spec.layouts[0] for spec in operator.tensors} | dict(made.layouts)
    # Of these the reference reads the dims alone.
    room = {name: np.empty(dims, DType.named(draft.dtype).storage) for name, dims in made.outputs.items()}
    bare = call_of(operator.name, made.params, made.inputs, room, layouts=layouts)
    buffers = {output: array.copy() for output, array in operator.reference(bare).outputs.items()}
    return operator, call_of(operator.name, made.params, made.inputs, buffers, layouts=layouts)
