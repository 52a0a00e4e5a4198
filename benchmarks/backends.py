"""Time of the backends numpy and torch beside the reference at network scale: `python benchmarks/backends.py`.

All backends of a case run in turn, round after round, so that a busy machine slows them alike: read the ratios.
Every backend must give the reference's answer, otherwise its time would mean nothing.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from baselines import ROOT, medians, network_cases, prepared

from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.backends.reference_backend import ReferenceBackend
from mluops_gtest.backends.torch_backend import TorchBackend
from mluops_gtest.content.operators import load_operators
from mluops_gtest.errors import BackendError
from mluops_gtest.model.backend import Backend
from mluops_gtest.model.call import OpCall
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.operator import Operator
from mluops_gtest.model.status import Status


def backends_of(operator: Operator, torch: TorchBackend) -> list[Backend]:
    """The reference first: the others are held to its answer and told as shares of its time."""
    operators = {operator.name: operator}
    return [ReferenceBackend(operators), NumpyBackend(operators), torch]


def outputs_of(backend: Backend, call: OpCall) -> dict[str, Array]:
    """The outputs that the backend writes, from buffers that hold nothing useful."""
    for name in call.outputs:
        call.array(name).view(np.uint8)[...] = 0xA5
    if backend.run(call) is not Status.SUCCESS:
        raise SystemExit(f"{backend.name} refuses the case")
    return {name: call.array(name).astype(np.float64) for name in call.outputs}


def check_answers(backends: list[Backend], call: OpCall) -> None:
    """Stop where an answer is not the reference's; another rounding is a backend's right."""
    wanted = outputs_of(backends[0], call)
    for backend in backends[1:]:
        for name, values in outputs_of(backend, call).items():
            if not np.linalg.norm((values - wanted[name]).ravel()) <= 3e-3 * np.linalg.norm(wanted[name].ravel()):
                raise SystemExit(f"{backend.name} does not give the reference's {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only cases whose id contains one of these, e.g. voxel retinanet")
    parser.add_argument("--device", default="cpu", help="where torch computes, e.g. cuda:0 (copies are counted)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="at most this long per case (one round at least)")
    options = parser.parse_args()
    try:
        torch = TorchBackend(load_operators(ROOT), options.device)
    except BackendError as error:
        raise SystemExit(str(error)) from error
    for operator, draft in network_cases(options.words):
        call = prepared(operator, draft)
        backends = backends_of(operator, torch)
        check_answers(backends, call)
        works: dict[str, Callable[[], object]] = {backend.name: partial(backend.run, call) for backend in backends}
        print(f"\n{draft.id}", flush=True)
        seconds = medians(works, options.rounds, options.seconds)
        for name, value in seconds.items():
            print(f"  {name:12} {value * 1e3:9.2f} ms  {value / seconds['reference']:6.2f} x reference")


if __name__ == "__main__":
    main()
