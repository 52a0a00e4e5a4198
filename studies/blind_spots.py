"""Which wrong elements are seen, and by whom: `python -m studies.blind_spots [--op OP] [--places N] [--json FILE]`.

Every default and network case is run on the numpy backend. Then one element of a float output is doubled, zeroed,
negated or replaced by its neighbour, at N random places each, and each such output is judged: by the document's
criteria alone, and with the element-wise check, which holds half outputs to half arithmetic. Only what one element
adds to the sums of diff1 and diff2 is computed anew; `--verify` asks the real judge about some of the places. Integer
outputs are left out: one differing element of them fails under any criterion.
"""

import argparse
import json
import math
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mluops_gtest.backends.numpy_backend import NumpyBackend
from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.catalog.source import BoundCache
from mluops_gtest.core.case import Query
from mluops_gtest.core.cause import BeyondBound
from mluops_gtest.core.declaration import Bound
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.tensor import Array, CriterionKind, DType, Precision, WorkingPrecision
from mluops_gtest.judging.blocks import elements_of
from mluops_gtest.judging.elementwise import ElementwiseCheck, allowances, can_be_bounded
from mluops_gtest.judging.figures import EPSILON
from mluops_gtest.judging.verdict import judge_values
from mluops_gtest.results.saved_outputs import CaseOutputs, OutputPair
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options

# What becomes of the chosen elements of a flat output.
CHANGES: Mapping[str, Callable[[Array, Array], Array]] = {
    "doubled": lambda flat, places: flat[places] * 2,
    "zeroed": lambda flat, places: np.zeros_like(flat[places]),
    "negated": lambda flat, places: -flat[places],
    "neighbour": lambda flat, places: flat[(places + 1) % flat.size],
}
HEAD = (
    "| operator | data type | default cases: criteria alone | with the element-wise check | held to float "
    "| network cases: criteria alone | with the element-wise check | held to float |"
)
# The real judge looks at whole outputs: of larger ones it is not asked.
_JUDGED_WHOLE = 1 << 20


@dataclass(slots=True)
class Tally:
    """How many elements were made wrong, and how many of them were found."""

    changed: int = 0
    by_criteria: int = 0
    # By the criteria or the element-wise check; and by one that holds half outputs to float, where that is declared.
    found: int = 0
    by_float: int = 0
    # Changed by more than twice what arithmetic allows there, and how many of these were found.
    large: int = 0
    large_found: int = 0
    # Places at which the real judge was asked, too.
    verified: int = 0

    def add(self, other: "Tally") -> None:
        for name, count in asdict(other).items():
            setattr(self, name, getattr(self, name) + count)


class Sums:
    """What the criteria measure of one output, and what one changed element makes of it."""

    def __init__(self, pair: OutputPair) -> None:
        self._pair = pair
        self._small = elements_of(pair.tensor.desc.dtype).small
        e, b = (array.reshape(-1).astype(np.float64) for array in (pair.got, pair.expected))
        finite = np.isfinite(e) & np.isfinite(b)
        difference, weight = np.abs(e[finite] - b[finite]), np.abs(b[finite])
        self._difference = math.fsum(_block_sums(difference)), math.fsum(_block_sums(difference**2))
        self._weight = math.fsum(_block_sums(weight)), math.fsum(_block_sums(weight**2))
        relative = self._relative(difference, weight)
        # The largest of all, and the largest without that one.
        order = np.argpartition(relative, -2)[-2:] if relative.size > 1 else np.arange(relative.size)
        places = np.flatnonzero(finite)
        self._largest = sorted(((float(relative[i]), int(places[i])) for i in order), reverse=True) or [(0.0, -1)]
        self._e, self._b = e, b

    def find_wrong(self, places: Array, changed: Array) -> Array:
        """Per place whether the criteria fail with that one element instead of the right one."""
        e, b = self._e[places], self._b[places]
        finite = np.isfinite(changed) & np.isfinite(b)
        same = (changed == b) | (np.isnan(changed) & np.isnan(b))
        found: Array = ~finite & ~same
        new, old, weight = np.abs(changed - b), np.abs(e - b), np.abs(b)
        for criterion in self._pair.criteria:
            reading = self._reading(criterion.kind.canonical, places, new, old, weight)
            found |= finite & ~(reading <= criterion.threshold)
        return found

    def _reading(self, kind: CriterionKind, places: Array, new: Array, old: Array, weight: Array) -> Array:
        if kind is CriterionKind.DIFF1:
            return np.asarray(np.maximum(self._difference[0] - old + new, new) / (self._weight[0] + EPSILON))
        if kind is CriterionKind.DIFF2:
            squared = np.maximum(self._difference[1] - old**2 + new**2, new**2)
            return np.asarray(np.sqrt(squared / (self._weight[1] + EPSILON)))
        if kind is CriterionKind.DIFF3:
            (first, at), *rest = self._largest
            second = rest[0][0] if rest else 0.0
            return np.asarray(np.maximum(self._relative(new, weight), np.where(places == at, second, first)))
        raise ValueError(
            f"{self._pair.tensor.id} is held to {kind.value}; what one element makes of that is known of diff1, diff2 "
            "and diff3 alone. Leave that operator out with --op."
        )

    def _relative(self, difference: Array, weight: Array) -> Array:
        assert self._small is not None, "integers are left out"
        relative: Array = np.where(weight >= self._small, difference / (weight + EPSILON), difference)
        return relative


def _block_sums(values: Array) -> Iterator[float]:
    """Sums of blocks, to be added exactly as the criteria add them."""
    return (float(values[start : start + (1 << 15)].sum()) for start in range(0, values.size, 1 << 15))


def tallies_of(outputs: CaseOutputs, bounds: Mapping[str, Bound], places: int, verify: int) -> Mapping[DType, Tally]:
    """All changes of all float outputs of one case, by the type of the output."""
    found: dict[DType, Tally] = defaultdict(Tally)
    random = np.random.default_rng(zlib.crc32(outputs.case.id.encode()))
    for pair in outputs.pairs():
        dtype = pair.tensor.desc.dtype
        if not can_be_bounded(dtype) or not pair.got.size:
            continue
        with np.errstate(all="ignore"):  # NaN and Inf are changed like any other value
            sums, flat = Sums(pair), pair.got.reshape(-1)
            for change in CHANGES.values():
                chosen = np.arange(flat.size) if flat.size <= places else random.integers(0, flat.size, places)
                found[dtype].add(_tally(outputs, pair, bounds, sums, chosen, change(flat, chosen), verify))
    return found


def _tally(
    outputs: CaseOutputs,
    pair: OutputPair,
    bounds: Mapping[str, Bound],
    sums: Sums,
    places: Array,
    changed: Array,
    verify: int,
) -> Tally:
    right, b = (array.reshape(-1)[places].astype(np.float64) for array in (pair.got, pair.expected))
    wrong = changed.astype(np.float64)
    moved = (wrong != right) & (wrong != b) & ~(np.isnan(wrong) & np.isnan(b))
    places, changed, right, wrong, b = (values[moved] for values in (places, changed, right, wrong, b))
    by_criteria = sums.find_wrong(places, wrong)
    bound, dtype = bounds.get(pair.tensor.id), pair.tensor.desc.dtype
    beyond, allowed = _checked_elements(pair, bound, places, changed, WorkingPrecision().excused("", dtype))
    beyond_float, _ = _checked_elements(pair, bound, places, changed, Precision.FLOAT)
    found = by_criteria | beyond
    large = ~(np.abs(wrong - right) <= 2 * allowed)
    sample = slice(0, verify if pair.got.size <= _JUDGED_WHOLE else 0)
    _verify(outputs, pair, bounds, places[sample], changed[sample], by_criteria[sample], beyond[sample])
    return Tally(
        changed=places.size,
        by_criteria=int(by_criteria.sum()),
        found=int(found.sum()),
        by_float=int((by_criteria | beyond_float).sum()),
        large=int(large.sum()),
        large_found=int((large & found).sum()),
        verified=places[sample].size,
    )


def _checked_elements(
    pair: OutputPair, bound: Bound | None, places: Array, changed: Array, precision: Precision
) -> tuple[Array, Array]:
    """Per place whether the element-wise check finds it; and the bound of the right or the wrong element, if larger."""
    if bound is None:
        return np.zeros(places.size, bool), np.full(places.size, np.inf)
    index = np.unravel_index(places, pair.got.shape)
    here = bound.part(slice(0, pair.got.shape[0]), pair.tensor.desc.dims).part(index, pair.got.shape)
    right, baseline = pair.got[index], pair.expected[index]
    dtype = pair.tensor.desc.dtype
    at_wrong, at_right = (allowances(e, baseline, dtype, here, precision) for e in (changed, right))
    wrong, b = changed.astype(np.float64), baseline.astype(np.float64)
    beyond = (np.abs(wrong - b) > at_wrong) & ~np.isnan(at_wrong)
    return beyond | ~(np.isfinite(wrong) & np.isfinite(b)), np.fmax(at_wrong, at_right)


def _verify(
    outputs: CaseOutputs,
    pair: OutputPair,
    bounds: Mapping[str, Bound],
    places: Array,
    changed: Array,
    by_criteria: Array,
    beyond: Array,
) -> None:
    """The real judge says the same of outputs that hold these elements."""
    flat = pair.got.reshape(-1)
    for place, value, *predicted in zip(places, changed, by_criteria, beyond, strict=True):
        arrays = {**outputs.arrays, pair.tensor.id: outputs.arrays[pair.tensor.id].copy()}
        arrays[pair.tensor.id][np.unravel_index(place, pair.got.shape)] = value
        look = ElementwiseCheck(
            outputs.case, outputs.operator, WorkingPrecision(), decides=True, bounds=lambda *_: bounds
        )
        judged = judge_values(
            outputs.case,
            outputs.operator,
            outputs.expectation,
            arrays,
            outputs.scalars,
            bitwise=False,
            elementwise=look,
        )
        kinds = {isinstance(cause, BeyondBound) for cause in judged.failures}
        if [False in kinds, True in kinds] != [bool(one) for one in predicted]:
            where = f"{outputs.case.id}: {pair.tensor.id}[{place}] = {value!r} instead of {flat[place]!r}"
            raise AssertionError(f"{where}: predicted {predicted}, but the judge says {judged.failures}")


def tallies(
    session: Session, selected: Iterable[Selected], places: int, verify: int = 0
) -> Iterator[tuple[Selected, DType, Tally]]:
    """Every case that computes a float output and passes on numpy, by the type of the output."""
    selected = tuple(selected)
    source, operators = session.source(selected), session.catalogue.operators
    bounds = BoundCache(lambda operator: session.catalogue.root_of(operator).generators)
    seen: list[CaseOutputs] = []
    executor = CaseRun(InlineCaller(NumpyBackend(operators)), Options(elementwise=False), seen.append)
    for chosen in selected:
        seen.clear()
        case = source.load(chosen.id)
        result = executor.run_case(case, operators[case.operator])
        if result.outcome is not Outcome.PASSED:
            raise AssertionError(f"{case.id} {result.outcome.value} on numpy: {result.reason}")
        # The buffers stay as they are until the next call.
        by_type = tallies_of(seen[0], bounds(case, operators[case.operator]), places, verify) if seen else {}
        yield from ((chosen, dtype, tally) for dtype, tally in by_type.items() if tally.changed)


def table(found: Mapping[tuple[str, str, str], Tally]) -> Iterator[str]:
    """Markdown: a row per operator and data type, shares of the default and of the network cases."""
    yield HEAD
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for operator, dtype in sorted({(operator, dtype) for operator, dtype, _ in found}):
        cells = []
        for kind in ("default", "network"):
            tally = found.get((operator, dtype, kind), Tally())
            cells += [_share(part, tally.changed) for part in (tally.by_criteria, tally.found, tally.by_float)]
        yield f"| {operator} | {dtype} | {' | '.join(cells)} |"


def _share(part: int, whole: int) -> str:
    if not whole:
        return "–"
    # Never rounded up to all of them.
    return "100 %" if part == whole else f"{math.floor(part / whole * 1e4) / 100:.2f} %"


def main(arguments: list[str] | None = None) -> int:
    """The table; 1 where an element that changed by more than twice the bound is not found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--op", action="append", default=[], help="only this operator, e.g. --op voxel_pooling_forward")
    parser.add_argument("--places", type=int, default=1000, metavar="N", help="places per output and change (1000)")
    parser.add_argument("--verify", type=int, default=1, metavar="N", help="places per change for the real judge (1)")
    parser.add_argument("--no-network", action="store_true", help="the default cases alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the counts")
    options = parser.parse_args(arguments)
    session = Session()
    default = session.select(Query()).cases
    network = () if options.no_network else session.select(Query(tags=("network",))).cases
    found: dict[tuple[str, str, str], Tally] = defaultdict(Tally)
    for kind, cases in (("default", default), ("network", network)):
        wanted = [case for case in cases if not options.op or case.operator in options.op]
        for case, dtype, tally in tallies(session, wanted, options.places, options.verify):
            found[case.operator, dtype.value, kind].add(tally)
            if kind == "network":
                print(f"{case.id}: {tally}", file=sys.stderr)
    print("\n".join(table(found)))
    whole = Tally()
    for tally in found.values():
        whole.add(tally)
    print(
        f"\n{whole.changed} elements made wrong, {whole.large} of them by more than twice the bound: "
        f"{whole.large_found} of these found; the judge agrees at {whole.verified} places"
    )
    if options.json is not None:
        counts = {" ".join(key): asdict(tally) for key, tally in found.items()}
        options.json.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    return int(whole.large_found != whole.large)


if __name__ == "__main__":
    sys.exit(main())
