"""What follows from a declaration: the checks of each group in order, sizes, reductions, positions, C functions."""

import itertools
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from mluops_gtest.authoring import (
    SIZE_NULL,
    Baseline,
    Bound,
    Definition,
    DType,
    EnumSpec,
    Layout,
    Operator,
    OutputSpec,
    ParamField,
    ParamMessage,
    QueryChecks,
    Status,
    TensorArg,
    TensorDesc,
    TensorSpec,
    Theory,
    axis,
    call_of,
    exact,
)
from mluops_gtest.authoring import checks as groups
from mluops_gtest.authoring.c_api import c_function
from mluops_gtest.authoring.reductions import axis_reductions
from mluops_gtest.base.errors import OperatorError
from mluops_gtest.catalog.operators import first_mistake

FLOATS = (DType.FLOAT, DType.HALF)


def gathers(**fields):
    """rows[B, C, M] gathered at places[B, N], scaled: a shape of each kind."""
    declared = {
        "inputs": (
            TensorSpec("rows", "[B, C, M]", FLOATS, (Layout.NCHW,)),
            TensorSpec("places", "[B, N]", (DType.INT32,), names="M"),
        ),
        "outputs": (OutputSpec("out", "[B·reach, 3 + C, N]", dict.fromkeys(FLOATS, exact())),),
        "params": ParamMessage(
            "gathers_param",
            1,
            "GathersParam",
            (
                ParamField("reach", 1, least=1, most=8),
                ParamField("mode", 2, "enum", enum=EnumSpec("Mode", {"SUM": 0, "MEAN": 1}), allowed=(1,)),
                ParamField("pad", 3, label="repeated", length=2, least=0),
            ),
            descriptor="gathers_desc",
        ),
        "axes": {"batches": axis("B", of="rows"), "cells": axis("M", of="rows"), "points": axis("N", of="places")},
    }
    return Operator(
        name="gathers",
        released_name="gathers",
        op_type=("GATHERS", 1),
        summary="out = rows[places]",
        kernel=lambda call: Status.SUCCESS,
        **{"checks": (), "reference": lambda call: Baseline({}), **declared, **fields},
    )


def undeclared(name):
    """What a field of Operator holds where nobody says it."""
    return next(one.default for one in fields(Operator) if one.name == name)


def call(**changes):
    """A valid call of 2 batches, 3 channels, 5 cells, 4 points and reach 2, with other arguments."""
    valid = call_of(
        "gathers",
        {"reach": 2, "mode": 1, "pad": (0, 1)},
        {"rows": np.ones((2, 3, 5), "<f4"), "places": np.zeros((2, 4), "<i4")},
        {"out": np.ones((4, 6, 4), "<f4")},
        {"rows": Layout.NCHW},
    )
    return replace(valid, **changes)


def with_dims(name, *dims):
    tensor = TensorArg(TensorDesc(DType.INT32 if name == "places" else DType.FLOAT, Layout.ARRAY, dims), None)
    role = "outputs" if name == "out" else "inputs"
    return call(**{role: {**getattr(call(), role), name: tensor}})


@pytest.mark.parametrize(
    ("group", "names"),
    [
        (groups.handle("§1"), ["handle_null"]),
        (groups.descriptors(doc="§1"), ["rows_desc_null", "places_desc_null", "out_desc_null"]),
        (groups.descriptors("gathers_desc", "out", doc="§1"), ["gathers_desc_null", "out_desc_null"]),
        (groups.arrays(doc="§1"), ["pad_array_null"]),
        (groups.params(doc="§1"), ["reach", "mode", "pad"]),
        (groups.params("pad", doc="§1", name="{}_value"), ["pad_value"]),
        (groups.ranks(doc="§1"), ["rows_rank", "places_rank", "out_rank"]),
        (groups.layouts("rows", doc="§1"), ["rows_layout"]),
        (groups.dtypes("rows", "out = rows", doc="§1"), ["rows_dtype", "out_dtype"]),
        (groups.dtypes("out = rows", doc="§1", name="dtype_equal"), ["out_dtype_equal"]),
        (groups.dims(doc="§1"), ["places_dim0", "out_dim0", "out_dim1", "out_dim2"]),
        (groups.dims("out.2", "places.0 = rows.0", doc="§1"), ["out_dim2", "places_dim0"]),
        (groups.strided("out", doc="§1"), ["out_strided"]),
        (groups.large(doc="§1"), ["rows_large", "places_large", "out_large"]),
        (groups.empty("out", doc="§1"), ["out_empty"]),
        (groups.workspace("§1"), ["workspace_null"]),
        (groups.pointers(doc="§1"), ["rows_ptr_null", "places_ptr_null", "out_ptr_null"]),
        (groups.arch("§1"), ["arch"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_group_stands_for_its_checks_in_order(group, names):
    found = gathers(checks=(group,)).checks
    assert [check.name for check in found] == names
    assert {check.doc for check in found} == {"§1"}
    assert all(check.holds(call()) for check in found)
    assert all(check.place.startswith(__file__) for check in found), "the line of the operator's file"


@pytest.mark.parametrize(
    ("group", "broken"),
    [
        (groups.ranks("rows", doc=""), with_dims("rows", 2, 3)),
        (groups.dims("places.0", doc=""), with_dims("places", 3, 4)),
        (groups.dims("out.0", doc=""), with_dims("out", 2, 6, 4)),
        (groups.dims("out.1", doc=""), with_dims("out", 4, 3, 4)),
        (groups.dims("out.2 = places.1", doc=""), with_dims("out", 4, 6, 5)),
        (groups.params("reach", doc=""), call(params={"reach": 0})),
        (groups.params("reach", doc=""), call(params={"reach": 9})),
        (groups.params("mode", doc=""), call(params={"mode": 0})),
        (groups.params("pad", doc=""), call(params={"pad": (0, -1)})),
        (groups.params("pad", doc=""), call(params={"pad": (0, 0, 0)})),
        (groups.descriptors("gathers_desc", doc=""), call(params=None)),
    ],
)
def test_a_check_of_a_group_refuses_what_the_declaration_excludes(group, broken):
    (check,) = gathers(checks=(group,)).checks
    assert check.holds(call())
    assert not check.holds(broken)
    assert check.status is Status.BAD_PARAM


def test_limits_in_words_name_what_is_allowed():
    fields = {field.name: field.limits_in_words for field in gathers().param_fields}
    assert fields == {"reach": "at least 1 and at most 8", "mode": "MEAN", "pad": "2 values, each at least 0"}


def test_the_status_of_a_group_can_be_another():
    found = gathers(
        checks=(
            groups.strided("out", doc="", status=Status.BAD_PARAM),
            groups.empty("out", doc="", status=Status.SUCCESS, writes=True),
            groups.dtypes("out", "rows = out", doc="", status=Status.NOT_SUPPORTED),
            groups.dims("out.2", doc="", status=Status.NOT_SUPPORTED),
            groups.large("out", doc="", status=Status.BAD_PARAM),
        )
    ).checks
    bad, unsupported = (Status.BAD_PARAM, False), (Status.NOT_SUPPORTED, False)
    found = [(check.status, check.writes) for check in found]
    assert found == [bad, (Status.SUCCESS, True), *[unsupported] * 3, bad]


def test_a_check_of_a_group_may_be_subsumed():
    operator = gathers(checks=(groups.large(doc=""),), subsumed={"out_large": "rows is asked first"})
    assert [check.subsumed for check in operator.checks] == [None, None, "rows is asked first"]


def test_a_query_names_the_checks_before_another():
    ordered = (groups.handle(""), groups.descriptors(doc=""), groups.ranks(doc=""))
    query = QueryChecks(("handle_null", SIZE_NULL, "… rows_rank"), silent=("… rows_rank",), without=("places",))
    complete = gathers(checks=ordered, queries={"mluOpAsk": query}).queries["mluOpAsk"]
    assert complete.names == ("handle_null", "size_null", "rows_desc_null", "out_desc_null")
    assert complete.silent == ("rows_desc_null", "out_desc_null")


def test_checks_are_asked_by_the_call_by_queries_or_by_both():
    ordered = (
        groups.handle(""),
        groups.descriptors(doc="", asked_by="call"),
        SIZE_NULL,
        groups.large("rows", doc="", asked_by="query"),
        groups.require("own", lambda _: True, "", "", asked_by="call"),
        groups.empty("rows", doc=""),
        groups.workspace(""),
        groups.pointers("rows", doc=""),
    )
    operator = gathers(checks=ordered, queries={"mluOpAsk": QueryChecks(silent=("rows_empty",))})
    descriptors = ["rows_desc_null", "places_desc_null", "out_desc_null"]
    by_call = ["handle_null", *descriptors, "own", "rows_empty", "workspace_null", "rows_ptr_null"]
    assert [check.name for check in operator.checks] == by_call
    assert operator.queries["mluOpAsk"].names == ("handle_null", "size_null", "rows_large", "rows_empty")
    assert operator.query_answer("mluOpAsk", call(size_null=True)).check == "size_null"
    huge = with_dims("rows", 2, 1 << 30, 5)
    assert operator.query_answer("mluOpAsk", huge).check == "rows_large"
    assert operator.answer(replace(huge, handle=None)).check == "handle_null"
    assert operator.answer(huge).computes
    assert operator.query_answer("mluOpAsk", with_dims("rows", 0, 3, 5)) is None, "silent"


# The orders that specifications have, each as a tuple of groups, with the names and statuses that it gives.
FIRST = (groups.handle(""), groups.descriptors("rows", doc=""))
REAL_ORDERS = {
    "arch before shapes": (
        (groups.arch(""), groups.ranks("rows", doc=""), groups.dims("out.2", doc="")),
        "arch:5 rows_rank:3 out_dim2:3",
    ),
    "dtypes behind large": (
        (groups.large("rows", doc=""), groups.dtypes("rows", "out = rows", doc="")),
        "rows_large:7 rows_dtype:3 out_dtype:3",
    ),
    "an own limit between strided and large": (
        (
            groups.strided("rows", doc=""),
            groups.require("cells_limit", lambda call: call.tensor("rows").dims[2] < 9, "", ""),
            groups.large("rows", doc=""),
        ),
        "rows_strided:7 cells_limit:3 rows_large:7",
    ),
    "one pointer before an early return that writes": (
        (groups.pointers("out", doc=""), groups.empty("rows", doc="", writes=True), groups.pointers("rows", doc="")),
        "out_ptr_null:3 rows_empty:0 rows_ptr_null:3",
    ),
    "large in the query only": (
        (groups.ranks("rows", doc=""), groups.large("rows", doc="", asked_by="query"), groups.pointers("rows", doc="")),
        "rows_rank:3 rows_ptr_null:3",
    ),
    "strided as BAD_PARAM": (
        (groups.strided("rows", "out", doc="", status=Status.BAD_PARAM),),
        "rows_strided:3 out_strided:3",
    ),
    "an axis that equals a parameter at a place of its own": (
        (groups.dims("places.0", doc=""), groups.params("reach", doc=""), groups.dims("rows.1", "rows.2", doc="")),
        "places_dim0:3 reach:3 rows_dim1:3 rows_dim2:3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", REAL_ORDERS)
def test_every_order_of_the_specifications_can_be_written(order):
    ordered, expected = REAL_ORDERS[order]
    operator = gathers(**EQUAL, checks=(*FIRST, *ordered), queries={"mluOpAsk": QueryChecks()})
    found = " ".join(f"{check.name}:{check.status.value}" for check in operator.checks)
    assert found == f"handle_null:3 rows_desc_null:3 {expected}"
    asked = [name for name in operator.queries["mluOpAsk"].names if name.endswith("large")]
    assert asked == [check.name for check in operator.checks if check.name.endswith("large")] or "query only" in order
    assert operator.answer(call(params={"reach": 3, "mode": 1, "pad": (1, 5), "channels": 3})).computes


# C of rows equals the parameter `channels`, M the product of `pad`; `reach` equals no symbol.
EQUAL = {
    "params": ParamMessage(
        "gathers_param",
        1,
        "GathersParam",
        (
            ParamField("reach", 1, least=1),
            ParamField("mode", 2),
            ParamField("pad", 3, label="repeated", length=2, least=0),
            ParamField("channels", 4),
            ParamField("cells", 5, equals="M"),
        ),
    ),
    "axes": {
        "channels": axis("C", of="rows", equals="channels"),
        "cells": axis("M", of="rows", equals="pad"),
        "points": axis("N", of="places"),
    },
}


def test_an_axis_may_equal_a_parameter_and_a_parameter_a_symbol():
    ordered = (groups.dims("rows.1", "rows.2", doc="§1"), groups.params("cells", doc="§2"))
    operator = gathers(**EQUAL, checks=ordered)
    fine = {"reach": 2, "mode": 1, "pad": (1, 5), "channels": 3, "cells": 5}
    wrong = {"rows_dim1": {"channels": 4}, "rows_dim2": {"pad": (2, 5)}, "cells": {"cells": 4}}
    assert operator.answer(call(params=fine)).computes
    for name, changes in wrong.items():
        assert operator.answer(call(params={**fine, **changes})).check == name
    messages = ["axis 1 of rows must be channels", "axis 2 of rows must be ∏pad", "cells must be M"]
    assert [check.message for check in operator.checks] == messages
    assert {"rows_dim1", "rows_dim2"} < {one.name for one in gathers(**EQUAL, checks=(groups.dims(doc=""),)).checks}
    # What the symbol is in the call, the parameters follow.
    assert operator.params_along("M", 2, fine) == {"pad": (2, 1), "cells": 2}
    made = axis_reductions(operator)["cells"].without(call(params=fine), 1, 4)
    assert made.inputs["rows"].shape == (2, 3, 2)
    assert (made.params["pad"], made.params["cells"]) == ((2, 1), 2)
    assert "cells" in axis_reductions(operator)
    assert "channels" in axis_reductions(operator)


def test_the_standard_checks_stand_in_the_usual_order():
    own = groups.require("own", lambda _: True, "", "")
    operator = gathers(checks=groups.standard_checks(own, doc="§1"), queries={"mluOpAsk": QueryChecks()})
    kinds = [check.name.split("_", 1)[-1] for check in operator.checks]
    assert [kind for kind, _ in itertools.groupby(kinds)] == [
        *("null", "desc_null", "array_null", "rank", "dim0", "dim1", "dim2", "reach", "mode", "pad", "dtype"),
        *("strided", "large", "own", "empty", "null", "ptr_null"),
    ]  # fmt: skip
    assert operator.queries["mluOpAsk"].names == tuple(check.name for check in operator.checks[:-4])
    assert operator.checks[0].place.startswith(__file__)


def test_sizes_follow_from_axes_on_the_output_that_has_them():
    sizes = gathers().sizes
    assert {name: (size.tensor, size.axis) for name, size in sizes.items()} == {
        "batches": ("rows", 0),
        "cells": ("rows", 2),
        "points": ("out", 2),
    }


def test_reductions_follow_from_axes_and_parameters():
    reductions = axis_reductions(gathers())
    assert list(reductions) == ["batches", "cells", "points", "reach"]
    made = reductions["cells"].without(call(), 1, 4)
    assert made.inputs["rows"].shape == (2, 3, 2)


def test_a_symbol_loses_its_places_of_products():
    table = TensorSpec("table", "[M·reach, B·M]", FLOATS)
    spec, out = TensorSpec("rows", "[B, M]", FLOATS), OutputSpec("out", "[M·reach, B]", dict.fromkeys(FLOATS, exact()))
    axes = {"batches": axis("B", of="rows"), "cells": axis("M", of="rows")}
    reductions = axis_reductions(gathers(inputs=(spec, table), outputs=(out,), axes=axes))
    arrays = {"rows": np.ones((2, 3), "<f4"), "table": np.arange(36, dtype="<f4").reshape(6, 6)}
    given = call_of("gathers", {"reach": 2}, arrays, {"out": np.ones((6, 2), "<f4")})
    for name, rows, columns, dims in (
        ("cells", [0, 1, 4, 5], [0, 2, 3, 5], (4, 2)),
        ("batches", range(6), [0, 1, 2], (6, 1)),
        ("reach", [0, 2, 4], range(6), (3, 2)),
    ):
        made = reductions[name].without(given, 1, 2)
        np.testing.assert_array_equal(made.inputs["table"], arrays["table"][np.ix_(rows, columns)])
        assert made.outputs == {"out": dims}


def test_positions_are_renumbered_with_their_axis_and_may_not_leave_it():
    places = np.array([[0, 4, 2, 3], [4, 4, 4, 4]], "<i4")
    named = call(inputs={**call().inputs, "places": replace(call().tensor("places"), array=places)})
    made = axis_reductions(gathers())["cells"].without(named, 1, 4)
    assert made.inputs["places"].tolist() == [[0, 1, 0, 0], [1, 1, 1, 1]]
    assert gathers().broken(named) is None
    places[1, 3] = 5
    assert gathers().broken(named) == "places leaves 0 … 4"
    places[1, 3] = -1
    assert gathers().broken(named) is not None


@pytest.mark.parametrize(("outside", "allowed"), [("", (0, 4)), ("-1", (-1, 4)), ("skipped", (-7, 99))])
def test_what_lies_outside_is_refused_unless_the_document_skips_it(outside, allowed):
    operator = gathers()
    rows, places = operator.inputs
    operator = gathers(inputs=(rows, replace(places, outside=outside)))
    for value, is_defined in [*((one, True) for one in allowed), (-8, outside == "skipped"), (5, outside == "skipped")]:
        array = np.full((2, 4), value, "<i4")
        made = call(inputs={**call().inputs, "places": replace(call().tensor("places"), array=array)})
        assert (operator.broken(made) is None) is is_defined, value


def test_positions_can_be_named_by_column():
    rows, _ = gathers().inputs
    by_column = TensorSpec("places", "[B, 2]", (DType.INT32,), names={0: "M", 1: "pad.1"})
    operator = gathers(inputs=(rows, by_column), axes={})
    fine = call_of("gathers", {"pad": (1, 3)}, {"rows": np.ones((1, 1, 5), "<f4"), "places": np.array([[4, 2]], "<i4")})
    assert operator.broken(fine) is None
    fine.array("places")[0] = 2, 4
    assert operator.broken(fine) == "column 1 of places leaves 0 … 2"


@pytest.mark.parametrize(
    ("shape", "names", "values", "twice"),
    [
        ("[B, N]", "M", [[0, 1, 2], [2, 1, 0]], None),
        ("[B, N]", "M", [[0, 1, 2], [2, 0, 2]], "at [1, 0] and [1, 2]"),
        ("[B, N]", "M", [[-1, 1, -1], [7, 7, 0]], None),
        ("[L, 2]", {0: "M", 1: "N"}, [[0, 1], [1, 0], [1, 1]], None),
        ("[L, 2]", {0: "M", 1: "N"}, [[1, 1], [1, 0], [1, 1]], "at [0] and [2]"),
        ("[B, L, 2]", {0: "M", 1: "N"}, [[[1, 1], [1, 0]], [[1, 1], [0, 0]]], None),
        ("[B, L, 2]", {0: "M"}, [[[1, 1], [0, 0]], [[2, 1], [2, 0]]], "at [1, 0] and [1, 1]"),
    ],
)
def test_distinct_positions_stand_once_in_a_row(shape, names, values, twice):
    rows, _ = gathers().inputs
    spec = TensorSpec("places", shape, (DType.INT32,), names=names, outside="skipped", distinct=True)
    more = TensorSpec("more", "[N]", (DType.INT32,))
    operator = gathers(inputs=(rows, spec, more), axes={})
    arrays = {"rows": np.ones((2, 3, 3), "<f4"), "places": np.array(values, "<i4"), "more": np.zeros(2, "<i4")}
    words = operator.broken(call_of("gathers", {}, arrays))
    assert words == (twice and f"places has one position twice, {twice}")
    loose = gathers(inputs=(rows, replace(spec, distinct=False), more), axes={})
    assert loose.broken(call_of("gathers", {}, arrays)) is None


def test_distinct_positions_are_not_renumbered_into_each_other():
    rows, places = gathers().inputs
    operator = gathers(inputs=(rows, replace(places, distinct=True)))
    values = np.array([[0, 4, 2, 3], [4, 1, 3, 0]], "<i4")
    named = call(inputs={**call().inputs, "places": replace(call().tensor("places"), array=values)})
    cells = axis_reductions(operator)["cells"]
    assert cells.without(named, 1, 4) is None
    values[...] = [[0, 4, 2, 3], [4, 2, 3, 0]]
    assert cells.without(named, 1, 2).inputs["places"].tolist() == [[0, 3, 1, 2], [3, 1, 2, 0]]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"axes": {"cells": axis("M", of="rows", equals="rach")}},
            "equals='rach' is no parameter. Did you mean 'reach'?",
        ),
        (
            {"params": ParamMessage("p", 1, "P", (ParamField("count", 1, equals="X"),))},
            "equals='X' is no symbol of the shapes. Known: B, C, M, N",
        ),
        (
            {"inputs": (gathers().inputs[0], TensorSpec("places", "[B, N]", (DType.INT32,), distinct=True))},
            "the values of 'places' are distinct positions of nothing. Say along what by names=.",
        ),
        (
            {"checks": (groups.handle("§1", asked_by="all"),)},
            "the check 'handle_null' is asked by 'all'. Write both, call or query.",
        ),
    ],
)
def test_what_follows_from_nothing_is_refused(fields, words):
    message = first_mistake(gathers(**fields), Path(__file__))
    assert message is not None
    assert words in message


def test_c_arguments_stand_in_their_usual_places():
    def names(function):
        return [argument.name or argument.source.name for argument in function.arguments]

    plain = gathers(params=replace(gathers().params, descriptor=None), outputs=gathers().outputs)
    (signature,) = c_function("mluOpGathers", query="mluOpAsk")(plain)
    tensors = ["rows", "rows", "places", "places"]
    memory = ["WORKSPACE", "WORKSPACE_SIZE"]
    assert names(signature.function) == ["HANDLE", *tensors, "reach", "mode", "pad", *memory, "out", "out"]
    assert names(signature.query) == ["HANDLE", "rows", "places", "reach", "mode", "pad", "out", "ASKED_SIZE"]
    (alone,) = c_function("mluOpGathers")(plain)
    assert alone.query is None
    assert "WORKSPACE" not in names(alone.function)


def test_bytes_of_all_tensors_are_the_default_theory():
    theory = gathers().theory(call())
    assert (theory.io_bytes, theory.ops) == (4 * (30 + 8 + 96), 0)


def test_an_axis_that_no_tensor_has_is_refused():
    with pytest.raises(Exception, match=r"rows .* has no axis 'X'"):
        gathers(axes={"lost": axis("X", of="rows")})


def test_what_an_operator_does_not_say_follows_from_its_definition():
    baseline, bound = Baseline({"out": np.ones(3)}), {"out": Bound(1.0)}
    definition = Definition(
        reference=lambda _: baseline,
        bound=lambda _: bound,
        suspects={"it is lost": lambda _: {}},
        theory=lambda _: Theory(1, 2),
    )
    operator = gathers(definition=definition, reference=undeclared("reference"))
    assert operator.reference(call()) is baseline
    assert operator.bound(call()) is bound
    assert operator.theory(call()) == Theory(1, 2)
    own = gathers(
        definition=definition,
        reference=lambda _: Baseline({}),
        bound=lambda _: {},
        suspects={"it is late": lambda _: {}},
        theory=lambda _: Theory(3, 4),
    )
    assert (own.reference(call()).outputs, own.bound(call()), own.theory(call())) == ({}, {}, Theory(3, 4))
    assert list(own.suspects) == ["it is lost", "it is late"]


def test_an_operator_without_reference_and_definition_is_refused():
    with pytest.raises(OperatorError, match=r"gathers: .* give definition=… or reference=…"):
        gathers(reference=undeclared("reference"))


def test_checks_under_a_condition_hold_where_it_does_not():
    def has_mode(call):
        return call.param("mode") == 1

    operator = gathers(
        checks=(
            groups.descriptors("rows", doc="§1"),
            groups.only_if(
                has_mode, groups.ranks("places", doc="§2"), groups.pointers("places", doc="§2", asked_by="call")
            ),
        )
    )
    assert [check.name for check in operator.checks] == ["rows_desc_null", "places_rank", "places_ptr_null"]
    assert [(check.doc, check.asked_by) for check in operator.checks[1:]] == [("§2", "both"), ("§2", "call")]
    for mode, status in ((0, Status.SUCCESS), (1, Status.BAD_PARAM)):
        broken = replace(with_dims("places", 4), params={"mode": mode})
        assert operator.answer(broken).status is status


def test_a_check_may_clear_declared_outputs_alone():
    check = groups.pointers("rows", doc="§1", may_clear=("out",))
    assert gathers(checks=(check,)).checks[0].may_clear == ("out",)
    unknown = gathers(checks=(groups.pointers("rows", doc="§1", may_clear=("ouput",)),))
    assert "may clear the unknown output 'ouput'" in first_mistake(unknown, Path(__file__))
