"""Where a tensor's values come from: the first source that is present, checked against the shape."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from mluops_gtest.codec.case_files.blobs import read_blob, resolve
from mluops_gtest.codec.case_files.elements import decode, from_reals, part_of
from mluops_gtest.codec.schema.schema import VALUE_FIELDS, TensorDocument
from mluops_gtest.codec.wire import libstdcxx
from mluops_gtest.errors import CaseFileError
from mluops_gtest.model.dtypes import Array, DType
from mluops_gtest.model.tensor import TensorDesc
from mluops_gtest.value import Value

# Values that a file describes without holding them (drawn, padded, decompressed): at most 2 GiB a tensor, four
# times the largest tensor of the network cases, so that a few bytes cannot claim a machine's memory.
DESCRIBED_BYTES: Final = 1 << 31
DEFAULT_SEED: Final = 23
_UNIFORM: Final = 1
_GAUSSIAN: Final = 2


class Rules(Value):
    """How a case's values are read: the folder that paths start from, and what is tolerated."""

    folder: Path
    strict: bool = False
    allow_outside_paths: bool = False


def load_values(tensor: TensorDocument, desc: TensorDesc, rules: Rules, *, output: bool) -> tuple[Array | None, str]:
    """The flat buffer of the tensor, or None where the file has no values for it; and what was tolerated."""
    wanted = desc.extent
    for field in VALUE_FIELDS:
        entries = tensor.values.get(field.name)
        if entries is not None and len(entries):
            return _fitted(decode(field.name, entries, desc.dtype), field.name, desc, rules, output)
    if tensor.message.HasField("path"):
        name = tensor.message.path
        if isinstance(name, bytes):
            raise CaseFileError(f"path {name!r} is not UTF-8")
        path = resolve(name, rules.folder, rules.allow_outside_paths)
        if path.suffix == ".zst":
            check_described(desc, "decompressed")
        return read_blob(path, desc.dtype.storage, wanted), ""
    if tensor.message.HasField("random_data") and not output:
        check_described(desc, "drawn")
        return _drawn(tensor.message.random_data, desc.dtype, wanted), ""
    return (None if wanted else np.empty(0, desc.dtype.storage)), ""


def _fitted(data: Array, field: str, desc: TensorDesc, rules: Rules, output: bool) -> tuple[Array, str]:
    """The stored values, padded with zeros where an input has too few."""
    wanted = desc.extent
    if len(data) == wanted:
        return data, ""
    found = f"{field} holds {len(data)} elements, the shape {wanted}"
    if len(data) > wanted or output or rules.strict:
        raise CaseFileError(found)
    check_described(desc, "padded with zeros")
    padded = np.zeros(wanted, desc.dtype.storage)
    padded[: len(data)] = data
    return padded, f"{found}: padded with zeros"


def check_described(desc: TensorDesc, how: str) -> None:
    """An error if a small file asks for more memory than a tensor of a real network needs."""
    # Strides may spread few elements over many bytes, or repeat few bytes in many elements.
    asked = max(desc.nbytes, desc.count * desc.dtype.itemsize)
    if asked > DESCRIBED_BYTES:
        raise CaseFileError(
            f"the shape asks for {asked} bytes of values to be {how}; at most {DESCRIBED_BYTES} are, "
            "so store them in a file of their own (path)"
        )


def _drawn(random: Any, dtype: DType, count: int) -> Array:
    """What the C++ runner draws; the generator starts anew for every tensor."""
    part = part_of(dtype)
    if random.distribution not in (_UNIFORM, _GAUSSIAN):
        name = random.DESCRIPTOR.fields_by_name["distribution"].enum_type.values_by_number[random.distribution].name
        raise CaseFileError(f"random_data: the distribution {name} is not reproduced; known: UNIFORM, GAUSSIAN")
    if part.kind == "bits" or (dtype in (DType.INT8, DType.INT16) and not random.convert_dtype):
        raise CaseFileError(
            f"random_data: {dtype.value} is drawn only with convert_dtype, as quantisation is not known"
        )
    real = np.float64 if part.storage == np.dtype("<f8") else np.float32
    seed = random.seed if random.HasField("seed") else DEFAULT_SEED
    entries = count * part.per_element
    if random.distribution == _UNIFORM:
        values = libstdcxx.uniform(seed, _bound(random, "lower_bound"), _bound(random, "upper_bound"), entries, real)
    else:
        values = libstdcxx.gaussian(seed, _bound(random, "mu"), _bound(random, "sigma"), entries, real)
    if part.kind == "integer":
        values = np.floor(values)
    return np.ascontiguousarray(from_reals(values, dtype)).view(dtype.storage)


def _bound(random: Any, name: str) -> float:
    """The double variant of a number wins where it is given."""
    chosen = f"{name}_double" if random.HasField(f"{name}_double") else name
    return float(getattr(random, chosen))
