"""What a device can do at best: a YAML file that a user can write, or have measured."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mluops_gtest.errors import ContentError, shown, suggestion
from mluops_gtest.files.yaml_lines import Lines, load_yaml
from mluops_gtest.model.dtypes import DType
from mluops_gtest.value import Value

_KEYS: Final = ("name", "bandwidth_bytes_per_s", "peak_ops_per_s")
_EXAMPLE: Final = "{name: my-device, bandwidth_bytes_per_s: 1.2e+12, peak_ops_per_s: 9.6e+13}"


class DeviceSpec(Value):
    """Bytes per second of its memory and operations per second; several peaks go by the output's data type."""

    name: str
    bandwidth: float
    peak: float | Mapping[str, float]

    @property
    def figures(self) -> dict[str, Any]:
        """Plain values, as reports keep them."""
        peak = dict(self.peak) if isinstance(self.peak, Mapping) else self.peak
        return {"name": self.name, "bandwidth": self.bandwidth, "peak": peak}


def read_device_spec(path: Path) -> DeviceSpec:
    """The description in `path`, or an error that says the line and what is allowed."""
    document = load_yaml(path)
    if not isinstance(document, Lines):
        raise ContentError(f"{path}:1: describe a device by a mapping such as {_EXAMPLE}.")
    for key in document:
        if key not in _KEYS:
            raise ContentError(f"{path}:{document.line_of(key)}: unknown key {shown(key)}.{suggestion(key, _KEYS)}")
    for key in _KEYS:
        if key not in document:
            raise ContentError(f"{path}:{document.line}: the key {shown(key)} is missing; write e.g. {_EXAMPLE}.")
    name = document["name"]
    if not isinstance(name, str) or not name.strip():
        raise ContentError(
            f"{path}:{document.line_of('name')}: name is {shown(name)}; it must be a name for the device."
        )
    bandwidth = _figure(path, document, "bandwidth_bytes_per_s")
    peaks = document["peak_ops_per_s"]
    if not isinstance(peaks, Lines):
        return DeviceSpec(name, bandwidth, _figure(path, document, "peak_ops_per_s"))
    known = [dtype.value for dtype in DType]
    for word in peaks:
        if word not in known:
            raise ContentError(
                f"{path}:{peaks.line_of(word)}: unknown data type {shown(word)}.{suggestion(word, known)}"
            )
    if not peaks:
        raise ContentError(f"{path}:{peaks.line}: peak_ops_per_s is empty; write a number, or one per data type.")
    return DeviceSpec(name, bandwidth, {word: _figure(path, peaks, word) for word in peaks})


def device_spec_text(spec: DeviceSpec, remark: str = "") -> str:
    """The YAML that `read_device_spec` reads."""
    lines = [f"# {line}" for line in remark.splitlines()]
    # A JSON string is a YAML string, whatever is in it.
    lines += [f"name: {json.dumps(spec.name)}", f"bandwidth_bytes_per_s: {spec.bandwidth:.4e}"]
    if isinstance(spec.peak, Mapping):
        lines += ["peak_ops_per_s:", *(f"  {word}: {peak:.4e}" for word, peak in spec.peak.items())]
    else:
        lines.append(f"peak_ops_per_s: {spec.peak:.4e}")
    return "\n".join(lines) + "\n"


def _figure(path: Path, mapping: Lines, key: str) -> float:
    """A positive number; `1e12` is one, too, which YAML takes for a word."""
    value = mapping[key]
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        where = f"{path}:{mapping.line_of(key)}"
        raise ContentError(
            f"{where}: {key} is {shown(value)}; it must be a number above 0 without a unit, e.g. 1.2e+12."
        )
    return number
