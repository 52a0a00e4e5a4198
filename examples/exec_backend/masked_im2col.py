"""A kernel behind exec: in Python; it needs numpy alone. Try it from the checkout:

mluops-test run --op masked_im2col_forward --backend 'exec:python3 examples/exec_backend/masked_im2col.py' --serve

Without --serve it is started once per case, with the folder of the call as its argument.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

SUCCESS, BAD_PARAM, NOT_SUPPORTED = 0, 3, 7
DTYPES = {"float": "<f4", "half": "<f2", "int32": "<i4"}


def answer(folder: Path) -> dict:
    """Do what call.json asks; the outputs are files, the rest is returned."""
    call = json.loads((folder / "call.json").read_text())
    if call["operator"] != "masked_im2col_forward":
        return {"declined": f"no kernel for {call['operator']}"}
    tensors = {tensor["id"]: tensor for tensor in call["tensors"]}
    status = check(call, tensors)
    if status != SUCCESS or tensors["mask_h_idx"]["descriptor"]["dims"] == [0]:
        return {"status": status}
    feature, mask_h, mask_w = (load(folder, tensors[name]) for name in ("feature", "mask_h_idx", "mask_w_idx"))
    start = time.perf_counter()
    columns = masked_im2col(feature[0], mask_h, mask_w, call["params"])
    seconds = time.perf_counter() - start
    columns.tofile(folder / tensors["data_col"]["data"])
    return {"status": SUCCESS, "device_seconds": seconds}


def load(folder: Path, tensor: dict) -> np.ndarray:
    """The values of an input: raw little-endian elements."""
    descriptor = tensor["descriptor"]
    return np.fromfile(folder / tensor["data"], DTYPES[descriptor["dtype"]]).reshape(descriptor["dims"])


def masked_im2col(image: np.ndarray, mask_h: np.ndarray, mask_w: np.ndarray, params: dict) -> np.ndarray:
    """One column per mask position: its window channel by channel, zeros outside the image."""
    channels, height, width = image.shape
    kernel_h, kernel_w = params["kernel_h"], params["kernel_w"]
    # 64 bits, because mask − pad may leave 32.
    rows = mask_h.astype(np.int64) - params["pad_h"] + np.arange(kernel_h)[:, None, None]
    cols = mask_w.astype(np.int64) - params["pad_w"] + np.arange(kernel_w)[:, None]
    inside = (rows >= 0) & (rows < height) & (cols >= 0) & (cols < width)
    windows = image[:, rows.clip(0, height - 1), cols.clip(0, width - 1)]
    windows[:, ~inside] = 0
    return windows.reshape(channels * kernel_h * kernel_w, len(mask_h))


def check(call: dict, tensors: dict) -> int:
    """The parameter checks in the order of the operator's document; a SUCCESS here may still mean nothing to do."""
    names = ("feature", "mask_h_idx", "mask_w_idx", "data_col")
    descriptors = [tensors[name]["descriptor"] for name in names]
    if call["handle"] is None or None in descriptors:
        return BAD_PARAM
    feature, mask_h, mask_w, data_col = descriptors
    if feature["layout"] != "NCHW" or feature["dtype"] not in ("float", "half"):
        return BAD_PARAM
    if [mask_h["dtype"], mask_w["dtype"], data_col["dtype"]] != ["int32", "int32", feature["dtype"]]:
        return BAD_PARAM
    if len(feature["dims"]) != 4 or feature["dims"][0] != 1:
        return BAD_PARAM
    if len(mask_h["dims"]) != 1 or mask_w["dims"] != mask_h["dims"]:
        return BAD_PARAM
    kernel_h, kernel_w = call["params"]["kernel_h"], call["params"]["kernel_w"]
    rows = feature["dims"][1] * kernel_h * kernel_w
    if data_col["dims"] != [rows, *mask_h["dims"]] or kernel_h <= 0 or kernel_w <= 0:
        return BAD_PARAM
    if any(strided(descriptor) or count(descriptor) >= 2**31 for descriptor in descriptors):
        return NOT_SUPPORTED
    if count(feature) == 0:
        return BAD_PARAM
    if count(mask_h) == 0:
        return SUCCESS
    workspace_missing = call["workspace"]["null"] and call["workspace"]["size"] > 0
    return BAD_PARAM if workspace_missing or any(tensors[name]["data"] == "null" for name in names) else SUCCESS


def count(descriptor: dict) -> int:
    """Number of elements; Python integers do not overflow."""
    elements = 1
    for dim in descriptor["dims"]:
        elements *= dim
    return elements


def strided(descriptor: dict) -> bool:
    """Has strides that are not those of a dense row-major tensor; the stride of an axis of length 1 may be any."""
    if descriptor["strides"] is None or count(descriptor) == 0:
        return False
    dense = 1
    for dim, stride in zip(reversed(descriptor["dims"]), reversed(descriptor["strides"]), strict=True):
        if dim != 1 and stride != dense:
            return True
        dense *= dim
    return False


def work(folder: Path) -> None:
    """One call from folder to result.json."""
    (folder / "result.json").write_text(json.dumps(answer(folder)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(Path(sys.argv[1]))
    else:
        # --serve: a line with a folder comes in, the line "done" goes out.
        for line in sys.stdin:
            work(Path(line.rstrip("\n")))
            print("done", flush=True)
