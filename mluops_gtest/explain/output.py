"""One output with wrong elements explained: the law of its wrong values, and the simplest set that they fill."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from mluops_gtest.explain.rearrangements import rearrangements
from mluops_gtest.explain.value_laws import Fit, last_resorts, rounding, value_laws
from mluops_gtest.explain.where import Found, hull_of, lines_of, where_wrong
from mluops_gtest.explain.wrong_output import MAX_COMPUTED, WrongOutput
from mluops_gtest.model.dtypes import Array
from mluops_gtest.model.explanation import MAX_SAMPLES, Explanation, Fitted, Law, NeverWritten, WrongMap, WrongSample
from mluops_gtest.model.picture import Picture, folded_width

_SIGNS: Final = np.array(list(".123456789#"))


def map_of(wrong: Array) -> WrongMap:
    """Which share of each cell is wrong."""
    picture = Picture.over(wrong.shape)
    counts = np.bincount(picture.cell_of(np.flatnonzero(wrong)), minlength=picture.rows * picture.columns)
    shares = counts / picture.sizes
    # From a single one on it is some, and all only where it is all.
    classes = np.where(shares >= 1, 10, np.clip(np.ceil(shares * 9), counts > 0, 9)).astype(int)
    cells = "".join(_SIGNS[classes].tolist())
    return WrongMap(picture.rows, picture.columns, cells, folded_width(wrong.shape))


# A law that does not hold of all wrong elements must hold of this share of them to be told.
_SHARE: Final = 0.75
_MAX_LAWS: Final = 8


# NaN, infinities and overflow are looked at as what they are.
@np.errstate(all="ignore")
def explained(
    out: WrongOutput,
    output: str,
    text: Callable[[tuple[int, ...]], tuple[str, str]],
    suspects: Callable[[], Iterable[Fit]] = tuple,
    recomputed: Callable[[], Iterable[Fit]] = tuple,
) -> Explanation:
    """Where the output is wrong, and how; `text` gives both values at an index.

    `suspects` are what the operator names, `recomputed` what is asked where nothing simpler holds.
    """
    fits = _fits(out, suspects, recomputed)
    classes = _classes(out)
    bare = where_wrong(out.wrong, out.wrong, classes)
    fitted = [_fitted(out, fit, classes, bare) for fit in fits]
    # Of laws that are as sure the one whose elements have a simple set is told.
    exact = [one.sure and one.lawful == out.count and one.inside == out.count + one.agreeing for one in fitted]
    if any(exact):
        fitted.insert(0, fitted.pop(exact.index(True)))
    return Explanation(
        output=output,
        dims=out.wrong.shape,
        wrong=out.count,
        held_to=out.held_to,
        fitted=(*fitted, _placed(None, bare, out.count)),
        hull=hull_of(out.wrong),
        lines=lines_of(out.wrong),
        first=_index(out, int(out.wrong.argmax())),
        last=_index(out, out.wrong.size - 1 - int(out.wrong.reshape(-1)[::-1].argmax())),
        map=map_of(out.wrong),
        samples=_samples(out, text),
    )


def _placed(law: Law | None, found: Found, lawful: int, *, sure: bool = False) -> Fitted:
    return Fitted(law, found.where, found.inside, found.agreeing, found.also, lawful, sure)


def _fitted(out: WrongOutput, fit: Fit, classes: dict[str, Array], bare: Found) -> Fitted:
    """The law with the set of elements that it fills; `bare` is that of the wrong elements alone."""
    allowed = np.ones_like(out.wrong) if fit.whole else out.wrong
    if isinstance(fit.law, NeverWritten) and out.kept is not None:
        allowed = allowed | out.kept
    share = float(np.mean(fit.holds))
    lawful = out.count if share == 1 else int(share * out.count)
    if not fit.whole and fit.predicted is not None and out.wrong.size <= MAX_COMPUTED:
        predicted = fit.predicted()
        allowed = out.wrong | out.agreeing(predicted)
        if lawful == out.count > len(out.places):
            lawful = out.lawful(predicted)
    found = bare if allowed is out.wrong else where_wrong(out.wrong, allowed, classes)
    return _placed(fit.law, found, lawful, sure=fit.sure)


def _fits(
    out: WrongOutput, suspects: Callable[[], Iterable[Fit]], recomputed: Callable[[], Iterable[Fit]]
) -> list[Fit]:
    """The laws that hold of all wrong elements, those that chance does not explain first; else the one of the most.

    Where all is within rounding, nothing else is tried: other laws are as near to it.
    """
    if within := rounding(out):
        return within
    tried: list[Fit] = [*suspects(), *value_laws(out)]
    # In a small output several laws hold, of which cases may share the last one.
    if out.held_to != "written":
        tried += rearrangements(out)
        if not any(fit.sure and fit.holds.all() for fit in tried):
            tried += recomputed()
        # What they say of some elements is not counted on all.
        if len(out.places) == out.count:
            tried += last_resorts(out)
    whole = [fit for fit in tried if fit.holds.all()]
    # What explains the right elements, too, explains most.
    whole.sort(key=lambda fit: (not fit.sure, not fit.whole))
    once = {fit.law: fit for fit in reversed(whole)}
    whole = [fit for fit in whole if once[fit.law] is fit]
    # The last one, which says least, may be all that cases share.
    whole = [*whole[: _MAX_LAWS - 1], *whole[_MAX_LAWS - 1 :][-1:]]
    if whole and whole[0].sure:
        return whole
    partly = [fit for fit in tried if fit.sure and np.mean(fit.holds) >= _SHARE]
    return [*whole, *sorted(partly, key=lambda fit: -np.mean(fit.holds))[:1]]


def _classes(out: WrongOutput) -> dict[str, Array]:
    """Sets of elements by their right value."""
    b = out.baseline
    if b.size > MAX_COMPUTED or b.dtype.kind not in "fiu":
        return {}
    classes = {"zero": b == 0}
    if b.dtype.kind != "u":
        classes["negative"] = b < 0
    if b.dtype.kind == "f":
        tiny = np.finfo(b.dtype).tiny
        classes |= {"nan": np.isnan(b), "infinite": np.isinf(b), "subnormal": (b != 0) & (np.abs(b) < tiny)}
    return classes


def _samples(out: WrongOutput, text: Callable[[tuple[int, ...]], tuple[str, str]]) -> tuple[WrongSample, ...]:
    chosen = out.places[:: -(-len(out.places) // MAX_SAMPLES)].tolist()
    return tuple(WrongSample(index, *text(index)) for index in (_index(out, place) for place in chosen))


def _index(out: WrongOutput, place: int) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(place, out.wrong.shape))
