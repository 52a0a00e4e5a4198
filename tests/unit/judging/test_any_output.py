"""Whatever an output holds, it is explained without a fault, and files keep the explanation."""

import msgspec
import numpy as np
import pytest

from mluops_gtest.base.typed_files import Source
from mluops_gtest.core.explanation import Explanation
from mluops_gtest.core.readings import format_explanation
from mluops_gtest.judging.explaining import explained
from mluops_gtest.judging.value_laws import WrongOutput
from mluops_gtest.results.records import check_explanation
from tests.support.examples import examples

EPSILON = {"f2": 2.0**-10, "f4": 2.0**-23, "f8": 2.0**-52}
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, 1e-40, 6e4)


def values(rng, shape, dtype):
    numbers = rng.integers(-4, 5, shape) * 10.0 ** rng.integers(-3, 4)
    if dtype.kind in "fc":
        numbers[rng.random(shape) < 0.1] = rng.choice(SPECIAL)
        return numbers.astype(dtype)
    return numbers.astype("i8").astype(dtype)


@pytest.mark.parametrize("name", ["f2", "f4", "f8", "i2", "i4", "i8", "u1", "u4", "?", "c8"])
def test_every_type_is_explained(name):
    rng, dtype = np.random.default_rng(7), np.dtype(name)
    tried = 0
    while tried < examples(100):
        shape = tuple(rng.integers(1, 7, size=rng.integers(1, 5)))
        changed = rng.random(shape) < rng.choice([0.05, 0.3, 1.0])
        with np.errstate(all="ignore"):
            baseline = values(rng, shape, dtype)
            other = np.roll(baseline, 1) if rng.random() < 0.3 else values(rng, shape, dtype)
            evaluated = np.where(changed, other, baseline)
            wrong = (evaluated != baseline) & ~(np.isnan(evaluated) & np.isnan(baseline))
        if not wrong.any():
            continue
        out = WrongOutput(evaluated, baseline, wrong, "equality", epsilon=EPSILON.get(name, 0.0))
        found = explained(out, "out", lambda index, e=evaluated, b=baseline: (str(e[index]), str(b[index])))
        assert all(format_explanation(found, lang) for lang in ("en", "zh"))
        again = msgspec.json.decode(msgspec.json.encode(found), type=Explanation)
        assert again == found
        check_explanation(again, Source("report.json", ""), ".explained[0]")
        tried += 1
