"""A library that writes down how it is called, and a call of each operator that it has.

Dims differ from tensor to tensor, so that a swapped argument shows in the journal.
"""

import ctypes
from dataclasses import replace

import numpy as np

from mluops_gtest.core.call import OpCall, TensorArg
from mluops_gtest.core.tensor import DType, Layout, TensorDesc

KINDS = ("handle", "tensor descriptor", "parameter descriptor", "queue", "device buffer", "notifier")
INT, FLOAT = DType.INT32, DType.FLOAT


class Fake:
    """A compiled fake library and what it wrote down."""

    def __init__(self, path):
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.fakeJournal.restype = ctypes.c_char_p

    def reset(self):
        self.library.fakeReset()

    def refuse(self, function, code):
        self.library.fakeRefuse(function.encode(), code)

    def behave(self, how):
        self.library.fakeBehave(how.encode())

    def want_workspace(self, size):
        self.library.fakeWantWorkspace(ctypes.c_int64(size))

    @property
    def journal(self):
        return self.library.fakeJournal().decode().split("\n")[1:]

    def lines(self, function):
        return [line for line in self.journal if line.split()[0] == function]

    def arguments(self, function):
        """What the first call of that function was given."""
        return self.lines(function)[0].split(maxsplit=1)[1]

    @property
    def functions(self):
        return [line.split()[0] for line in self.journal]

    @property
    def live(self):
        """What the library handed out and did not get back."""
        return {kind: self.library.fakeLive(number) for number, kind in enumerate(KINDS)}


def tensor(dims, dtype=INT, layout=Layout.ARRAY, strides=None):
    desc = TensorDesc(dtype, layout, dims, strides)
    flat = np.arange(desc.extent).astype(dtype.storage)
    return TensorArg(desc, desc.view(flat))


def im2col(**changes):
    inputs = {
        "feature": tensor((1, 2, 4, 5), FLOAT, Layout.NCHW),
        "mask_h_idx": tensor((3,)),
        "mask_w_idx": tensor((3,)),
    }
    outputs = {"data_col": tensor((12, 3), FLOAT)}
    params = {"kernel_h": 3, "kernel_w": 2, "pad_h": -1, "pad_w": 7}
    return replace(OpCall("masked_im2col_forward", params, inputs, outputs), **changes)


def pairs(**changes):
    params = {"dimnb": 5, "batch": 2, "pad": (0, 1, 2), "stride": (1, 2, 3), "dilation": (4, 5, 6)}
    params |= {"input_space": (7, 8, 9), "filter_space": (1, 2, 3), "output_space": (10, 11, 12)}
    params |= {"sub_m": 1, "transpose": 0, "inverse": 0}
    outputs = {"out_indices": tensor((7, 4)), "indice_pairs": tensor((6, 2, 5)), "indice_num": tensor((6,))}
    return replace(OpCall("get_indice_pairs", params, {"indices": tensor((5, 4))}, outputs), **changes)


def backward_data(**changes):
    inputs = {
        "output_grad": tensor((5, 4), DType.HALF),
        "filters": tensor((3, 1, 2, 4), DType.HALF, Layout.NHWC),
        "indice_pairs": tensor((3, 2, 6)),
    }
    outputs = {"input_grad": tensor((6, 2), DType.HALF)}
    params = {"inverse": 0, "sub_m": 2**40, "indice_num": (1, 2, 3)}
    return replace(OpCall("indice_convolution_backward_data", params, inputs, outputs), **changes)


def pooling(**changes):
    inputs = {"geom_xyz": tensor((2, 3, 3)), "input_features": tensor((2, 3, 4), FLOAT)}
    outputs = {"output_features": tensor((2, 6, 5, 4), FLOAT), "pos_memo": tensor((2, 3, 3))}
    names = ("batch_size", "num_points", "num_channels", "num_voxel_x", "num_voxel_y", "num_voxel_z")
    params = dict(zip(names, (2, 3, 4, 5, 6, 7), strict=True))
    return replace(OpCall("voxel_pooling_forward", params, inputs, outputs), **changes)


def scatter(**changes):
    inputs = {
        "grad_voxel_feats": tensor((3, 4), FLOAT),
        "feats": tensor((5, 4), FLOAT),
        "voxel_feats": tensor((3, 4), FLOAT),
        "point2voxel_map": tensor((5,)),
        "voxel_points_count": tensor((3,)),
        "voxel_num": tensor((1,)),
    }
    outputs = {"grad_feats": tensor((5, 4), FLOAT)}
    return replace(OpCall("dynamic_scatter_backward", {"reduce_type": 2}, inputs, outputs), **changes)


def with_input(call, name, arg):
    return replace(call, inputs={**call.inputs, name: arg})


def with_output(call, name, arg):
    return replace(call, outputs={**call.outputs, name: arg})
