"""Digests by which stored values are known."""

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from mluops_gtest.files.mapped import pieces
from mluops_gtest.model.tensor import Tensor

_DIGITS: Final = 32


def digest_bytes(data: bytes | memoryview) -> str:
    """SHA-256 of a file's bytes, shortened alike."""
    return hashlib.sha256(data).hexdigest()[:_DIGITS]


def digest_tensors(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of id, type, dims, strides and bytes of these tensors in order, shortened to 32 digits."""
    import numpy as np  # late, as all of numpy in the model

    digest = hashlib.sha256()
    for tensor in tensors:
        desc, data = tensor.desc, tensor.data
        digest.update(_head(tensor.id, desc.dtype.value, desc.dims, desc.strides, data is not None))
        if data is not None:
            for _, piece in pieces(np.ascontiguousarray(data).reshape(-1).view(np.uint8)):
                digest.update(piece.data)
    return digest.hexdigest()[:_DIGITS]


# Many cases of a run have the same descriptors.
@lru_cache(1024)
def _head(name: str, dtype: str, dims: tuple[int, ...], strides: tuple[int, ...] | None, has_data: bool) -> bytes:
    return json.dumps([name, dtype, dims, strides, has_data]).encode() + b"\n"
