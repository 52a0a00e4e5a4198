"""Time and memory of references and kernels at network scale, beside plain ways: `python benchmarks/baselines.py`.

All contestants of a case run in turn, round after round, so that a busy machine slows them alike: read the ratios.
Every plain way must give the reference's answer, otherwise its time would mean nothing.
"""

import argparse
import itertools
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mluops_gtest.authoring import Draw, call_of
from mluops_gtest.content.declarations import load_declarations
from mluops_gtest.content.operators import load_operator
from mluops_gtest.errors import HarnessError
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.case import CaseDraft
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.status import Status

ROOT = Path(__file__).resolve().parents[1]

# A plain way answers one output of the call, from its inputs alone.
Plain = Callable[[OpCall], Array]


def pooled_by_bincount(call: OpCall) -> Array:
    """voxel_pooling_forward: one float64 bincount per channel."""
    cells, features, output = pooling_operands(call)
    sums = np.empty_like(output)
    for channel in range(output.shape[1]):
        sums[:, channel] = np.bincount(cells, features[:, channel], len(output))
    return sums


def pooled_by_rank_rounds(call: OpCall) -> Array:
    """voxel_pooling_forward: rank rounds over the whole float64 output, without any blocks."""
    cells, features, output = pooling_operands(call)
    order = np.argsort(cells, kind="stable")
    starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
    counts = np.diff(starts, append=len(order))
    sums = np.zeros(output.shape, np.float64)
    for rank in range(counts.max()):
        points = order[starts[counts > rank] + rank]
        sums[cells[points]] += features[points]
    return sums.astype(np.float32)


def pooled_by_add_at(call: OpCall) -> Array:
    """voxel_pooling_forward: np.add.at in float64."""
    cells, features, output = pooling_operands(call)
    sums = np.zeros(output.shape, np.float64)
    np.add.at(sums, cells, features)
    return sums.astype(np.float32)


def pooling_operands(call: OpCall) -> tuple[Array, Array, Array]:
    x, y, z = np.moveaxis(call.array("geom_xyz").astype(np.int64), -1, 0)
    width, height, depth = (call.param(f"num_voxel_{axis}") for axis in "xyz")
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (z >= 0) & (z < depth)
    cells = (np.arange(len(x))[:, None] * height + y) * width + x
    features = call.array("input_features")
    return cells[inside], features[inside], np.empty((len(x) * height * width, features.shape[-1]), np.float32)


def paired_by_unique(call: OpCall) -> Array:
    """get_indice_pairs: all candidates of all offsets at once, np.unique and searchsorted."""
    sites = call.array("indices").astype(np.int64)
    space = call.param("output_space")
    kernels = itertools.product(*map(range, call.param("filter_space")))
    keys, valid = [], []
    for kernel in kernels:
        moved = sites[:, 1:] + call.param("pad") - np.multiply(kernel, call.param("dilation"))
        out, rest = np.divmod(moved, call.param("stride"))
        valid.append(((rest == 0) & (out >= 0) & (out < space)).all(axis=1))
        keys.append(np.ravel_multi_index((sites[:, 0], *out.T), (call.param("batch"), *space), mode="clip"))
    if call.param("sub_m"):
        own = np.ravel_multi_index(tuple(sites.T), (call.param("batch"), *space))
        rows = np.argsort(own)
        sorted_keys = own[rows]
        valid = [v & np.isin(k, own) for v, k in zip(valid, keys, strict=True)]
    else:
        sorted_keys = np.unique(np.concatenate([k[v] for v, k in zip(valid, keys, strict=True)]))
        rows = np.arange(len(sorted_keys))
    pairs = np.full((len(keys), 2, len(sites)), -1, "<i4")
    for pair, v, k in zip(pairs, valid, keys, strict=True):
        pair[0, : v.sum()] = np.flatnonzero(v)
        pair[1, : v.sum()] = rows[np.searchsorted(sorted_keys, k[v])]
    return pairs


def gradient_by_whole_offsets(call: OpCall) -> Array:
    """indice_convolution_backward_data: per offset one gather, one float64 product, one indexed addition."""
    pairs, grads = call.array("indice_pairs"), call.array("output_grad")
    weights = call.array("filters").reshape(len(pairs), -1, grads.shape[1]).astype(np.float64)
    sums = np.zeros((pairs.shape[2], weights.shape[1]), np.float64)
    for (inputs, outputs), count, weight in zip(pairs, call.param("indice_num"), weights, strict=True):
        sums[inputs[:count]] += grads[outputs[:count]].astype(np.float64) @ weight.T
    return sums.astype(grads.dtype)


def scattered_by_minimum_at(call: OpCall) -> Array:
    """dynamic_scatter_backward: np.minimum.at finds the first point of each voxel and channel that matches."""
    feats, voxel_feats = call.array("feats"), call.array("voxel_feats")
    voxels = call.array("point2voxel_map")
    points = np.flatnonzero((voxels >= 0) & (voxels < call.array("voxel_num")[0]))
    candidates = np.where(feats[points] == voxel_feats[voxels[points]], points[:, None], len(feats))
    first = np.full(voxel_feats.shape, len(feats))
    np.minimum.at(first, voxels[points], candidates)
    result = np.zeros((len(feats) + 1, feats.shape[1]), np.float32)
    np.put_along_axis(result, first, call.array("grad_voxel_feats"), axis=0)
    return result[:-1]


def columns_by_sliding_windows(call: OpCall) -> Array:
    """masked_im2col_forward: every window as a view of the padded image, then the masks picked."""
    size = call.param("kernel_h"), call.param("kernel_w")
    pads = [
        (call.param(f"pad_{axis}"), call.param(f"pad_{axis}") + length) for axis, length in zip("hw", size, strict=True)
    ]
    padded = np.pad(call.array("feature")[0], [(0, 0), *pads])
    windows = np.lib.stride_tricks.sliding_window_view(padded, size, axis=(1, 2))
    picked = windows[:, call.array("mask_h_idx"), call.array("mask_w_idx")]
    return picked.transpose(0, 2, 3, 1).reshape(-1, picked.shape[1])


# Per operator: the output that plain ways answer, and the ways.
PLAIN: dict[str, tuple[str, tuple[Plain, ...]]] = {
    "get_indice_pairs": ("indice_pairs", (paired_by_unique,)),
    "indice_convolution_backward_data": ("input_grad", (gradient_by_whole_offsets,)),
    "dynamic_scatter_backward": ("grad_feats", (scattered_by_minimum_at,)),
    "voxel_pooling_forward": ("output_features", (pooled_by_bincount, pooled_by_rank_rounds, pooled_by_add_at)),
    "masked_im2col_forward": ("data_col", (columns_by_sliding_windows,)),
}


def network_cases(words: list[str]) -> Iterator[tuple[Operator, CaseDraft]]:
    """Every declared network case whose id contains one of the words; an operator that does not load is told."""
    for name in PLAIN:
        try:
            operator = load_operator(ROOT / "generators" / name / "__init__.py")
            drafts = load_declarations(ROOT / "cases" / f"{name}.yaml", operator)
        except (HarnessError, OSError) as error:
            print(f"\n{name}: left out: {error}")
            continue
        for draft in drafts:
            if (
                "network" in draft.tags
                and draft.expect.check is None
                and any(word in draft.id for word in words or [""])
            ):
                yield operator, draft


def prepared(operator: Operator, draft: CaseDraft) -> OpCall:
    """The call of the case with output buffers that hold the reference's answer."""
    made = operator.recipes[draft.recipe](Draw(draft.seed), dict(draft.params), DType.named(draft.dtype), **draft.args)
    layouts = {spec.id: spec.layouts[0] for spec in operator.tensors} | dict(made.layouts)
    bare = call_of(operator.name, made.params, made.inputs, layouts=layouts)
    buffers = {name: array.copy() for name, array in operator.reference(bare).outputs.items()}
    return call_of(operator.name, made.params, made.inputs, buffers, layouts=layouts)


def contestants_of(operator: Operator, call: OpCall) -> dict[str, Callable[[], Array]]:
    """The reference first, then the kernel and the plain ways; each gives the compared output."""
    output, ways = PLAIN[operator.name]

    def kernel() -> Array:
        if operator.kernel(call) is not Status.SUCCESS:
            raise SystemExit(f"the kernel of {operator.name} refuses the case")
        return call.array(output)

    return {
        "reference": lambda: operator.reference(call).outputs[output],
        "kernel": kernel,
        **{way.__name__: partial(way, call) for way in ways},
    }


def peaks(contestants: dict[str, Callable[[], Array]]) -> dict[str, int]:
    """The most bytes that each holds at once, its results included; stops where an answer is not the reference's."""
    wanted = contestants["reference"]().astype(np.float64).reshape(-1)
    held = {}
    for name, work in contestants.items():
        tracemalloc.start()
        answer = work()
        held[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # Another rounding is a contestant's right, another answer is not.
        if not np.linalg.norm(answer.reshape(-1) - wanted) <= 3e-3 * np.linalg.norm(wanted):
            raise SystemExit(f"{name} does not give the reference's answer")
    return held


def medians(contestants: dict[str, Callable[[], Array]], rounds: int, seconds: float) -> dict[str, float]:
    """Seconds per call."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    end = time.perf_counter() + seconds
    for turn in range(rounds):
        if turn and time.perf_counter() > end:
            break
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only cases whose id contains one of these, e.g. voxel bevdepth")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="at most this long per case (one round at least)")
    options = parser.parse_args()
    for operator, draft in network_cases(options.words):
        call = prepared(operator, draft)
        contestants = contestants_of(operator, call)
        held = peaks(contestants)
        results = sum(arg.array.nbytes for arg in call.outputs.values() if arg is not None and arg.array is not None)
        print(f"\n{draft.id}: results of {results / 1e6:.1f} MB", flush=True)
        seconds = medians(contestants, options.rounds, options.seconds)
        for name, value in seconds.items():
            ratio = f"{value / seconds['reference']:6.2f} x reference"
            print(f"  {name:28} {value * 1e3:9.1f} ms  {ratio}  peak {held[name] / 1e6:8.1f} MB")


if __name__ == "__main__":
    main()
