"""get_indice_pairs against the document written out as loops; its checks, rulings and network shapes."""

import contextlib
import itertools
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from generators._shared.clouds import random_sites
from mluops_gtest.authoring import Draw, DType, Handle, Layout, OpCall, Status, TensorArg, TensorDesc, call_of
from mluops_gtest.catalog.operators import load_operator

OPERATOR = load_operator(Path(__file__).parents[2] / "generators" / "get_indice_pairs" / "__init__.py")
POISON = np.frombuffer(b"\xa5" * 4, "<i4")[0]
ONES = (1, 1, 1)
TENSORS = ("indices", "indice_pairs", "out_indices", "indice_num")
ARRAYS = ("pad", "stride", "dilation", "input_space", "filter_space", "output_space")


def make_case(recipe, params, **arguments):
    return OPERATOR.recipes[recipe](Draw(1), params, DType.INT32, **arguments)


def by_document(indices, params):
    """§3.1, steps 1 to 13, one site and one kernel offset at a time."""
    pad, stride, dilation = params["pad"], params["stride"], params["dilation"]
    space, kernel = params["output_space"], params["filter_space"]
    sites = [tuple(int(c) for c in row) for row in indices]
    expanded = []  # per offset: (input row, output site)
    for kd in range(kernel[0]):
        for kh in range(kernel[1]):
            for kw in range(kernel[2]):
                found = []
                for row, (n, d, h, w) in enumerate(sites):
                    places = [c + p - k * g for c, p, k, g in zip((d, h, w), pad, (kd, kh, kw), dilation, strict=True)]
                    if any(place < 0 or place % s for place, s in zip(places, stride, strict=True)):
                        continue
                    out = (n, *(place // s for place, s in zip(places, stride, strict=True)))
                    if any(o >= limit for o, limit in zip(out[1:], space, strict=True)):
                        continue
                    if params["sub_m"] and out not in sites:
                        continue
                    found.append((row, out))
                expanded.append(found)
    outputs = sites if params["sub_m"] else sorted({out for found in expanded for _, out in found})
    row_of = {site: row for row, site in enumerate(outputs)}
    pairs = np.full((len(expanded), 2, len(sites)), -1, "<i4")
    for k, found in enumerate(expanded):
        for column, (row, out) in enumerate(found):
            pairs[k, :, column] = row, row_of[out]
    return {
        "out_indices": np.array(outputs, "<i4").reshape(-1, 4),
        "indice_pairs": pairs,
        "indice_num": np.array([len(found) for found in expanded], "<i4"),
    }


def poisoned(operator_call_outputs):
    return {name: np.full(array.shape, POISON, "<i4") for name, array in operator_call_outputs.items()}


def assert_reference_and_kernel_give(expected, indices, params, spare=0):
    baseline = OPERATOR.reference(call_of(OPERATOR.name, params, {"indices": indices}))
    assert baseline.scalars == {"num_act_out": len(expected["out_indices"])}
    for name, array in expected.items():
        assert baseline.outputs[name].dtype == np.dtype("<i4")
        assert baseline.outputs[name].flags.c_contiguous
        np.testing.assert_array_equal(baseline.outputs[name], array, err_msg=name)
    outputs = poisoned(expected)
    outputs["out_indices"] = np.full((len(expected["out_indices"]) + spare, 4), POISON, "<i4")
    call = call_of(OPERATOR.name, params, {"indices": indices}, outputs)
    before = indices.copy()
    assert OPERATOR.kernel(call) is Status.SUCCESS
    if outputs["out_indices"].size == 0:  # an empty tensor ends the call early
        assert call.scalars == {"num_act_out": 0}
        return
    assert call.scalars == {"num_act_out": len(expected["out_indices"])}
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name][: len(array)], array, err_msg=name)
    assert (outputs["out_indices"][len(expected["out_indices"]) :] == POISON).all()
    np.testing.assert_array_equal(indices, before)


def random_params(rng):
    def triple(low, high):
        return tuple(rng.randint(low, high) for _ in range(3))

    sub_m = rng.random() < 0.4
    space, kernel, pad = triple(1, 5), triple(1, 4), triple(0, 3)
    if sub_m:
        if rng.random() < 0.5:
            pad = tuple(k // 2 for k in kernel)
        return {"batch": rng.randint(1, 3), "input_space": space, "filter_space": kernel, "pad": pad, "sub_m": 1}
    stride = triple(1, 3)
    dilation = tuple(1 if s > 1 else rng.randint(1, 3) for s in stride)
    params = {"batch": rng.randint(1, 3), "input_space": space, "filter_space": kernel, "pad": pad}
    return {**params, "stride": stride, "dilation": dilation, "output_space": triple(1, 6)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_reference_and_kernel_are_the_document(seed):
    rng = random.Random(seed)
    for _ in range(60):
        params = random_params(rng)
        cells = params["batch"] * int(np.prod(params["input_space"]))
        stream = Draw(rng.getrandbits(32)).stream("indices")
        # Not by the recipe, which refuses sites without neighbours.
        sites = random_sites(stream, params["batch"], params["input_space"], rng.randint(1, min(cells, 20)))
        case = make_case("listed", params, sites=tuple(sites.ravel().tolist()))
        indices = case.inputs["indices"]
        expected = by_document(indices, case.params)
        room = params["batch"] * int(np.prod(case.params["output_space"])) - len(expected["out_indices"])
        assert_reference_and_kernel_give(expected, indices, case.params, spare=rng.choice([0, min(3, room)]))


def test_scattered_sites_have_neighbours_in_sub_m():
    params = {"input_space": (1, 1, 6), "filter_space": (1, 1, 2), "sub_m": 1}
    recipe, neighbours = OPERATOR.recipes["scattered"], []
    for seed in range(20):
        with contextlib.suppress(ValueError):
            sites = np.sort(recipe(Draw(seed), params, DType.INT32, sites=2).inputs["indices"][:, 3])
            neighbours.append(sites[1] - sites[0])
    assert 0 < len(neighbours) < 20
    assert set(neighbours) == {1}


def test_network_twins_are_the_document():
    downwards = ("down_41x1440x1440", "down_21x720x720", "down_11x360x360", "out_5x180x180")
    for layer in (*downwards, "subm_41x1440x1440", "subm_5x180x180"):
        case = make_case("cloud", {}, layer=layer, keep=32)
        indices = case.inputs["indices"]
        assert_reference_and_kernel_give(by_document(indices, case.params), indices, case.params)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "sites", "offsets", "outputs"),
    [
        ("subm_41x1440x1440", 248636, 27, 248636),
        ("down_41x1440x1440", 248636, 27, 280511),
        ("down_21x720x720", 280511, 27, 149100),
        ("down_11x360x360", 149100, 27, 58838),
        ("subm_5x180x180", 58838, 27, 58838),
        ("out_5x180x180", 58838, 3, 45406),
    ],
)
def test_network_cases_have_the_documents_shapes(layer, sites, offsets, outputs):
    case = make_case("cloud", {}, layer=layer)
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs))
    assert case.inputs["indices"].shape == (sites, 4)
    assert case.params["batch"] == 4
    assert baseline.outputs["indice_pairs"].shape == (offsets, 2, sites)
    assert baseline.outputs["out_indices"].shape == (outputs, 4)
    assert (baseline.outputs["indice_num"] > 0).all()


def answer_of(params, *sites, spare=0):
    case = make_case("listed", params, sites=tuple(itertools.chain(*sites)))
    indices = case.inputs["indices"]
    assert_reference_and_kernel_give(by_document(indices, case.params), indices, case.params, spare)
    return OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs)).outputs


def test_ruling_only_multiples_of_the_stride_are_outputs():
    # §3.2's division alone would also pair the site at 1 with output 0 at offset 0.
    params = {"input_space": (1, 1, 4), "filter_space": (1, 1, 2), "stride": (1, 1, 2)}
    outputs = answer_of(params, (0, 0, 0, 1), (0, 0, 0, 2))
    assert outputs["indice_num"].tolist() == [1, 1]
    assert outputs["indice_pairs"].tolist() == [[[1, -1], [1, -1]], [[0, -1], [0, -1]]]
    assert outputs["out_indices"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 1]]


def test_ruling_no_output_is_taken_for_a_mark():
    params = {"input_space": (1, 1, 3), "filter_space": (1, 1, 1)}
    outputs = answer_of(params, (0, 0, 0, 2), (0, 0, 0, 0))
    assert outputs["out_indices"].tolist() == [[0, 0, 0, 0], [0, 0, 0, 2]]
    assert outputs["indice_pairs"].tolist() == [[[0, 1], [1, 0]]]


def test_ruling_sub_m_uses_the_given_pad():
    params = {"input_space": (1, 1, 3), "filter_space": (1, 1, 3), "pad": (0, 0, 0), "sub_m": 1}
    outputs = answer_of(params, (0, 0, 0, 2), (0, 0, 0, 0), (0, 0, 0, 1))
    # Pad 0: offset k reaches k cells to the left, so the first offset is the identity.
    assert outputs["indice_num"].tolist() == [3, 2, 1]
    assert outputs["indice_pairs"][2].tolist() == [[0, -1, -1], [1, -1, -1]]
    assert outputs["out_indices"].tolist() == [[0, 0, 0, 2], [0, 0, 0, 0], [0, 0, 0, 1]]


def test_the_output_space_of_sub_m_is_the_input_space_whatever_the_pad():
    case = make_case("everywhere", {"input_space": (2, 3, 4), "filter_space": (3, 3, 3), "sub_m": 1})
    assert case.params["output_space"] == (2, 3, 4)


def test_a_kernel_that_does_not_fit_is_refused_when_the_output_space_is_derived():
    with pytest.raises(ValueError, match="the kernel does not fit"):
        make_case("everywhere", {"input_space": (2, 2, 2), "filter_space": (3, 1, 1)})


def test_no_output_at_all_is_computed_where_there_is_room():
    params = {"input_space": (1, 1, 4), "filter_space": ONES, "stride": (1, 1, 2), "output_space": (1, 1, 2)}
    outputs = answer_of(params, (0, 0, 0, 1), (0, 0, 0, 3), spare=2)
    assert outputs["indice_num"].tolist() == [0]
    assert (outputs["indice_pairs"] == -1).all()


def test_spare_rows_are_minus_one_in_the_baseline_and_too_few_are_refused():
    case = make_case("everywhere", {"input_space": (1, 1, 3), "filter_space": ONES})
    room = {"out_indices": np.empty((3, 4), "<i4")}
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs, room))
    np.testing.assert_array_equal(baseline.outputs["out_indices"], case.inputs["indices"])
    room = {"out_indices": np.empty((5, 4), "<i4")}
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs, room))
    assert baseline.outputs["out_indices"][3:].tolist() == [[-1] * 4] * 2
    room = {"out_indices": np.empty((2, 4), "<i4")}
    with pytest.raises(ValueError, match="2 rows for 3 output sites"):
        OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs, room))


def valid_call(rng):
    """A call that computes, default or sub_m, with poisoned outputs."""
    while True:
        params = random_params(rng)
        case = OPERATOR.recipes["scattered"](Draw(rng.getrandbits(32)), params, DType.INT32, sites=1)
        baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs))
        call = call_of(OPERATOR.name, case.params, case.inputs, poisoned(baseline.outputs))
        if OPERATOR.answer(call).computes:
            return call


def with_tensor(call, name, change):
    """The call with another argument for that tensor; a null descriptor stays null."""
    side = "inputs" if name in call.inputs else "outputs"
    tensors = getattr(call, side)
    arg = tensors[name]
    return replace(call, **{side: {**tensors, name: arg and change(arg)}})


def with_desc(call, name, **changes):
    return with_tensor(call, name, lambda arg: TensorArg(replace(arg.desc, **changes), None, arg.null))


def with_params(call, **changes):
    return call if call.params is None else replace(call, params={**call.params, **changes})


def with_handle(call, rng):
    return replace(call, handle=rng.choice([None, Handle(arch=270), Handle(arch=290), Handle(arch=370)]))


def without_params(call, rng):
    return replace(call, params=None)


def without_descriptor(call, rng):
    return with_tensor(call, rng.choice(TENSORS), lambda arg: None)


def without_pointer(call, rng):
    return with_tensor(call, rng.choice(TENSORS), lambda arg: replace(arg, array=None, null=True))


def without_workspace(call, rng):
    return replace(call, workspace=None, workspace_size=rng.choice([0, 1024]))


def with_array(call, rng):
    values = [None, (0, 1, 1), (1, -1, 1), (1, 1), (2, 2, 2), ONES, (17, 1, 241)]
    return with_params(call, **{rng.choice(ARRAYS): rng.choice(values)})


def with_setting(call, rng):
    return with_params(call, **{rng.choice(["dimnb", "transpose", "inverse", "sub_m"]): rng.choice([0, 1, 4, 5])})


def with_batch(call, rng):
    return with_params(call, batch=rng.choice([-1, 0, 1, 100000]))


def with_stride_and_dilation(call, rng):
    return with_params(call, stride=rng.choice([ONES, (1, 2, 1)]), dilation=rng.choice([ONES, (1, 2, 1)]))


def with_sub_m(call, rng):
    spaces = {"input_space": (9, 9, 9), "output_space": rng.choice([(9, 9, 9), (9, 9, 8)])}
    return with_stride_and_dilation(with_params(call, sub_m=1, **spaces), rng)


def with_dtype(call, rng):
    return with_desc(call, rng.choice(TENSORS), dtype=rng.choice([DType.FLOAT, DType.INT64, DType.INT32]))


def with_dims(call, rng):
    def change(arg):
        dims = list(arg.dims)
        dims[rng.randrange(len(dims))] = rng.choice([0, 1, 2, 3, 4, 5, 1000001, 2**29])
        shapes = [tuple(dims), tuple(dims), (*dims, 1), tuple(dims[1:])]
        return TensorArg(replace(arg.desc, dims=rng.choice(shapes)), None, arg.null)

    return with_tensor(call, rng.choice(TENSORS), change)


def with_strides(call, rng):
    def change(arg):
        strides = tuple(rng.choice([1, 2, 4, 8]) for _ in arg.dims)
        return TensorArg(replace(arg.desc, strides=strides), None, arg.null)

    return with_tensor(call, rng.choice(TENSORS), change)


def with_sizes(call, rng):
    """Consistent dims for another number of sites, outputs and kernel offsets."""
    sites, rows = rng.choice([0, 1, 1000000, 1000001, 2**29]), rng.choice([0, 1, 2**29])
    offsets = rng.choice([1, 2, 4096, 4097])
    spaces = [(1, 1, 1), (1000, 1000, 1), (1024, 1024, 512)]
    call = with_params(
        call, filter_space=(offsets, 1, 1), input_space=rng.choice(spaces), output_space=rng.choice(spaces)
    )
    call = with_desc(call, "indices", dims=(sites, 4))
    call = with_desc(call, "indice_pairs", dims=(offsets, 2, sites))
    call = with_desc(call, "out_indices", dims=(rows, 4))
    return with_desc(call, "indice_num", dims=(offsets,))


MUTATIONS = (
    with_handle,
    without_params,
    without_descriptor,
    without_pointer,
    without_workspace,
    with_array,
    with_setting,
    with_batch,
    with_stride_and_dilation,
    with_sub_m,
    with_dtype,
    with_dims,
    with_strides,
    with_sizes,
)


@pytest.mark.slow
def test_the_kernels_own_checks_agree_with_the_list():
    rng = random.Random(7)
    pool = [valid_call(rng) for _ in range(60)]
    met = set()
    for _ in range(6000):
        call = rng.choice(pool)
        for _ in range(rng.choice([1, 1, 2, 3])):
            call = rng.choice(MUTATIONS)(call, rng)
        answer = OPERATOR.answer(call)
        if answer.computes:
            continue
        met.add(answer.check)
        call = replace(call, scalars={})
        assert OPERATOR.kernel(call) is answer.status, answer
        assert call.scalars == ({"num_act_out": 0} if answer.status is Status.SUCCESS else {})
        for arg in call.outputs.values():
            assert arg is None or arg.array is None or (arg.array == POISON).all()
    assert met == {check.name for check in OPERATOR.checks if check.subsumed is None}


def described(params, dims):
    """A call of descriptors alone."""
    args = {
        name: TensorArg(TensorDesc(DType.INT32, Layout.ARRAY, shape), None)
        for name, shape in zip(TENSORS, dims, strict=True)
    }
    return OpCall(OPERATOR.name, params, {"indices": args.pop("indices")}, args)


def test_subsumed_checks_never_answer_first():
    base = make_case("everywhere", {"input_space": ONES, "filter_space": ONES}).params
    lengths = (0, 1, 2, 4096, 4097, 1_000_000, 1_000_001, 2**29, 2**31)
    answered = set()
    for sites, rows, offsets, counts in itertools.product(lengths, lengths, lengths, lengths):
        for kernel in {(1, 1, 1), (offsets or 1, 1, 1)}:
            params = {
                **base,
                "input_space": (2**16, 2**16, 1),
                "output_space": (2**16, 2**16, 1),
                "filter_space": kernel,
            }
            call = described(params, ((sites, 4), (offsets, 2, sites), (rows, 4), (counts,)))
            answered.add(OPERATOR.answer(call).check)
    subsumed = {check.name for check in OPERATOR.checks if check.subsumed is not None}
    assert subsumed == {"indices_large", "indice_num_large", "indice_pairs_empty", "indice_num_empty"}
    assert not subsumed & answered
    assert {
        "sites_limit",
        "offsets_limit",
        "indice_pairs_large",
        "out_indices_large",
        "indices_empty",
        "out_indices_empty",
    } <= answered


def test_theory_counts_every_tensor_once():
    case = make_case("everywhere", {"input_space": (1, 1, 3), "filter_space": (1, 1, 2)})
    baseline = OPERATOR.reference(call_of(OPERATOR.name, case.params, case.inputs))
    theory = OPERATOR.theory(call_of(OPERATOR.name, case.params, case.inputs, baseline.outputs))
    assert (theory.io_bytes, theory.ops) == (4 * (12 + 8 + 12 + 2), 0)


@pytest.mark.parametrize(
    ("recipe", "arguments", "message"),
    [
        ("listed", {"sites": (0, 0, 0, 5)}, "distinct and inside"),
        ("listed", {"sites": (0, 0, 0, 1, 0, 0, 0, 1)}, "distinct and inside"),
        ("block", {"first": (0, 0, 0, 1), "size": (1, 1, 1, 5)}, "leaves the space"),
        ("cloud", {"layer": "out_5x180x180"}, "brings its own parameters"),
    ],
)
def test_recipes_refuse_what_they_cannot_make(recipe, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_case(recipe, {"input_space": (1, 1, 5), "filter_space": ONES}, **arguments)


def test_a_recipe_without_a_space_says_what_is_missing():
    with pytest.raises(ValueError, match="params must give filter_space and input_space"):
        make_case("everywhere", {})
