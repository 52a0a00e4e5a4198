"""The checks of get_indice_pairs in the order in which they answer."""

import math
from collections.abc import Callable
from dataclasses import replace

from mluops_gtest.authoring import SIZE_NULL, Check, DType, OpCall, QueryChecks
from mluops_gtest.authoring import checks as common

_TENSORS = ("indices", "indice_pairs", "out_indices", "indice_num")
_ARRAYS = ("pad", "stride", "dilation", "input_space", "filter_space", "output_space")

_MAX_OFFSETS = 4096
_MAX_SITES = 1_000_000


def _sites(call: OpCall) -> int:
    return call.tensor("indices").dims[0]


def _offsets(call: OpCall) -> int:
    return math.prod(call.param("filter_space"))


def _axes(name: str, least: int) -> Check:
    """`<name>_value`: one value per spatial axis, none below `least`."""
    return common.require(
        f"{name}_value",
        lambda call: len(call.param(name)) == 3 and min(call.param(name)) >= least,
        f"{name} must be three values of at least {least}",
        "released",
    )


def _setting(name: str, holds: Callable[[int], bool], message: str, doc: str) -> Check:
    return common.require(f"{name}_value", lambda call: holds(call.param(name)), f"{name} must be {message}", doc)


def _for_sub_m(name: str, holds: Callable[[OpCall], bool], message: str) -> Check:
    return common.require(f"sub_m_{name}", lambda call: not call.param("sub_m") or holds(call), message, "§1.2")


def _subsumed(check: Check, reason: str) -> Check:
    return replace(check, subsumed=reason)


# The setter of the descriptor refuses these, so they answer before the device is looked at.
_DESCRIPTOR = (
    _setting("dimnb", lambda value: value == 5, "5: only 3-D convolutions exist", "§1.4 (1)"),
    _setting("batch", lambda value: value > 0, "at least 1", "released"),
    _setting("transpose", lambda value: value == 0, "0", "§1.4 (2)"),
    _setting("inverse", lambda value: value == 0, "0", "§1.4 (2)"),
    _axes("pad", 0),
    _axes("stride", 1),
    _axes("dilation", 1),
    _axes("input_space", 1),
    _axes("filter_space", 1),
    _axes("output_space", 1),
)

_SHAPES = (
    common.rank("indices", 2, "§1.4"),
    common.rank("indice_pairs", 3, "§1.4"),
    common.rank("out_indices", 2, "§1.4"),
    common.rank("indice_num", 1, "§1.4"),
    common.dim("indices", 1, 4, "indices must hold n, d, h, w", "§1.4"),
    common.dim("out_indices", 1, 4, "out_indices must hold n, d, h, w", "§1.4"),
    common.dim("indice_pairs", 1, 2, "indice_pairs must hold input and output rows", "§1.4"),
    common.dim("indice_pairs", 2, _sites, "indice_pairs must have one column per site", "§1.4"),
    common.require(
        "indice_num_dim0",
        lambda call: call.tensor("indice_pairs").dims[0] == call.tensor("indice_num").dims[0],
        "indice_num and indice_pairs must have the same number of kernel offsets",
        "§1.4 (5)",
    ),
    # The products below are exact integers; the released code overflows int32.
    common.require(
        "indices_dim0",
        lambda call: _sites(call) <= call.param("batch") * math.prod(call.param("input_space")),
        "there cannot be more sites than cells of the input space",
        "released",
    ),
    common.require(
        "dilated_stride",
        lambda call: all(
            stride == 1 or dilation == 1
            for stride, dilation in zip(call.param("stride"), call.param("dilation"), strict=True)
        ),
        "an axis cannot have both a stride and a dilation",
        "released",
    ),
    common.dim("indice_pairs", 0, _offsets, "indice_pairs must have one row per kernel offset", "§1.4"),
    common.require(
        "offsets_limit",
        lambda call: _offsets(call) <= _MAX_OFFSETS,
        f"the kernel must have at most {_MAX_OFFSETS} offsets",
        "released",
    ),
    common.require(
        "out_indices_dim0",
        lambda call: call.tensor("out_indices").dims[0] <= call.param("batch") * math.prod(call.param("output_space")),
        "out_indices cannot have more rows than the output space has cells",
        "released",
    ),
)

_SITES_LIMIT = common.require(
    "sites_limit", lambda call: _sites(call) <= _MAX_SITES, f"there must be at most {_MAX_SITES} sites", "released"
)

_LARGE = common.not_large(_TENSORS, "released")
_NOT_LARGE = (
    _subsumed(_LARGE[0], "sites_limit keeps indices at 4 million elements"),
    _LARGE[1],
    _LARGE[2],
    _subsumed(_LARGE[3], "offsets_limit keeps indice_num at 4096 elements"),
)

_SUB_M = (
    _for_sub_m(
        "space",
        lambda call: call.param("input_space") == call.param("output_space"),
        "sub_m needs an output space equal to the input space",
    ),
    _for_sub_m("stride", lambda call: call.param("stride") == (1, 1, 1), "sub_m needs stride 1"),
    _for_sub_m("dilation", lambda call: call.param("dilation") == (1, 1, 1), "sub_m needs dilation 1"),
)

# §1.1: a call without elements returns at once, with num_act_out 0.
_EMPTY = (
    common.not_empty("indices", "§1.1"),
    _subsumed(common.not_empty("indice_pairs", "§1.1"), "its axes are K ≥ 1, 2 and the number of sites"),
    common.not_empty("out_indices", "§1.1"),
    _subsumed(common.not_empty("indice_num", "§1.1"), "its length is K, a product of values of at least 1"),
)

CHECKS: tuple[Check, ...] = (
    common.handle_present("released"),
    common.params_present("sparse_conv_desc", "released"),
    *common.descriptors_present(_TENSORS, "released"),
    *common.param_arrays_present(_ARRAYS, "released"),
    *_DESCRIPTOR,
    common.arch_supported("released"),
    *_SHAPES,
    *common.contiguous(_TENSORS, "§1.4"),
    _SITES_LIMIT,
    *_NOT_LARGE,
    *(common.dtype(tensor, (DType.INT32,), "§1.4 (3)") for tensor in _TENSORS),
    *_SUB_M,
    *_EMPTY,
    *common.pointers_present(_TENSORS, "released"),
    common.workspace_present("released"),
)

# The operator's own checks up to the early return. A query that looks for empty tensors first, as the released one
# does, keeps to the document, too: what it owes to a call that is wrong otherwise is said nowhere.
_EMPTY_NAMES = tuple(check.name for check in _EMPTY)
_NULLS = common.names_before("pad_array_null", CHECKS)
QUERIES = {
    "mluOpGetIndicePairsWorkspaceSize": QueryChecks(
        (
            *_NULLS,
            SIZE_NULL,
            *_EMPTY_NAMES,
            *common.names_before("indices_empty", CHECKS)[len(_NULLS) :],
        ),
        silent=_EMPTY_NAMES,
    )
}

# Without one of these another check answers with the same status.
ANSWERED_ANYWAY = {"indices_empty": "without sites indice_pairs is empty as well"}

# Pairs for which a bounded search found no call that breaks both: most exclude each other (a tensor without elements
# is neither strided nor large), the others are not proved to.
NOT_TOGETHER = {
    "arch": (
        "offsets_limit",
        "sites_limit",
    ),
    "indices_dim0": (
        "indice_pairs_large",
        "indices_empty",
    ),
    "indice_pairs_dim0": (
        "indice_pairs_large",
        "indices_empty",
    ),
    "offsets_limit": ("indices_empty",),
    "out_indices_dim0": ("out_indices_empty",),
    "indices_strided": (
        "sub_m_space",
        "sub_m_stride",
        "sub_m_dilation",
        "indices_empty",
    ),
    "indice_pairs_strided": (
        "sub_m_space",
        "sub_m_stride",
        "sub_m_dilation",
        "indices_empty",
    ),
    "out_indices_strided": (
        "sub_m_space",
        "sub_m_stride",
        "sub_m_dilation",
        "out_indices_empty",
    ),
    "indice_num_strided": (
        "sub_m_space",
        "sub_m_stride",
        "sub_m_dilation",
    ),
    "sites_limit": ("indices_empty",),
    "indice_pairs_large": (
        "sub_m_space",
        "sub_m_stride",
        "sub_m_dilation",
        "indices_empty",
    ),
    "out_indices_large": (
        "sub_m_space",
        "sub_m_stride",
        "sub_m_dilation",
        "out_indices_empty",
    ),
}
