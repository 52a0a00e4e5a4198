"""One way to change a call, what a broken call has instead of its base's, and the checks that do not hold for it."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import field
from msgspec.structs import replace

from mluops_gtest.base.frozen import Value
from mluops_gtest.catalog.make import changed, each_check
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import OpCall, Params, ParamValue
from mluops_gtest.core.case import Case, Change, Expect
from mluops_gtest.core.declaration import Check
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.tensor import TensorDesc

# The call with the change; None where it cannot have it.
Apply = Callable[[Case], Case | None]

EMPTY, LARGE, STRIDED, NULL = "empty", "large", "strided", "null"
CATEGORIES: Final = (EMPTY, LARGE, STRIDED, NULL, "device", "rank", "dtype", "layout", "dim", "param")
# Begins the target of a size that changes wherever it stands.
EVERYWHERE: Final = "all_"
_BEYOND_INT64: Final = 2**63


class Kind(Value):
    """One way to change a call: `what` becomes of `target`, a tensor, a parameter, a symbol or the caller."""

    target: str
    what: str
    category: str
    apply: Apply
    # Along a range: the checks that hold until just before this number, or still hold at it. None: no such number.
    limit_of: frozenset[str] | None = None
    # The last number at which these checks hold.
    is_valid: bool = False

    @property
    def is_everywhere(self) -> bool:
        """It changes every tensor and parameter that has this size."""
        return self.target.startswith(EVERYWHERE) and self.category != "param"

    @property
    def slug(self) -> str:
        """What stands in the names of cases."""
        return f"{self.target}_{self.what}".lower()


def apply_kinds(kinds: Iterable[Kind], case: Case | None) -> Case | None:
    """The call with these kinds of change, one after the other; None where it cannot have them."""
    for kind in kinds:
        case = None if case is None else kind.apply(case)
    return case


class Violation(Value):
    """What a broken call has instead of its base's: descriptors, parameters, nulls, device, workspace."""

    slug: str
    changes: Mapping[str, Change] = field(default_factory=dict)
    params: Params = field(default_factory=dict)
    # Status and check are not part of a violation.
    caller: Expect = Expect()

    def apply(self, base: Case) -> Case:
        """The base with this violation."""
        return replace(changed(base, self.changes, self.params), expect=self.caller)


def violation_between(base: Case, case: Case, slug: str) -> Violation:
    """What the case has instead of its base's."""
    pairs = zip(base.tensors, case.tensors, strict=True)
    return Violation(
        slug,
        {old.id: _change_between(old.desc, new.desc) for old, new in pairs if old.desc != new.desc},
        {name: value for name, value in case.params.items() if not _is_same(value, base.params.get(name))},
        case.expect,
    )


def _is_same(value: ParamValue, other: ParamValue) -> bool:
    """Equal, and of one sign: −0 is another parameter than 0."""
    return value == other and str(value) == str(other)


def _change_between(old: TensorDesc, new: TensorDesc) -> Change:
    return Change(
        dims=new.dims if new.dims != old.dims else None,
        dtype=new.dtype.value if new.dtype is not old.dtype else None,
        layout=new.layout.value if new.layout is not old.layout else None,
        strides=new.strides,
    )


def broken_checks(operator: Operator, case: Case) -> tuple[Check, ...]:
    """The checks that do not hold, each asked by itself; one that cannot look at the call is not among them."""
    answers = each_check(bind_values(case, operator), operator)
    return tuple(check for check, holds in zip(operator.checks, answers, strict=True) if holds is False)


def is_beyond_arrays(desc: TensorDesc) -> bool:
    """No element, but so long axes beside the empty one that there is no array of such dims."""
    return desc.is_empty and math.prod(filter(None, desc.dims)) * desc.dtype.itemsize > sys.maxsize


def is_call(case: Case, operator: Operator, defined: Callable[[OpCall], bool] | None) -> bool:
    """A library can be called so: its numbers fit, and it reads beyond no array."""
    return has_arrays(case) and (defined is None or defined(bind_values(case, operator)))


def has_arrays(case: Case) -> bool:
    """There are arrays of these dims, and distances within them are 64-bit numbers."""
    descriptors = [tensor.desc for tensor in case.tensors]
    if any(min(desc.dims, default=0) < 0 for desc in descriptors):
        return False
    return not any(is_beyond_arrays(desc) or desc.extent >= _BEYOND_INT64 for desc in descriptors)
