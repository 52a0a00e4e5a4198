"""The adapter to C libraries, seen from a library that writes down how it is called."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.backends.c_library import CLibraryBackend
from mluops_gtest.backends.c_memory import NOTIFIERS, RUNTIME
from mluops_gtest.base.errors import BackendError
from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.call import Declined, Handle, QueryAnswer, Status, TensorArg, Violated
from mluops_gtest.core.case import Backend
from mluops_gtest.core.operator_parts import C_API
from mluops_gtest.core.tensor import DType, Layout, TensorDesc
from tests.conftest import ROOT
from tests.support.native import compile_library, needs_gcc
from tests.unit.backends.fake_library import (
    FLOAT,
    INT,
    Fake,
    backward_data,
    im2col,
    pairs,
    pooling,
    scatter,
    tensor,
    with_input,
    with_output,
)

pytestmark = needs_gcc

SOURCE = Path(__file__).with_name("fake_mluops.c")
OPERATORS = load_operators(ROOT)
DEVICE = ("RUNTIME", "NOTIFIERS", "HOOKS")
GIVES_BACK = {"cnrtQueueDestroy", "cnrtFree", "cnrtNotifierDestroy"}

IM2COL, IM2COL_QUERY = "mluOpMaskedIm2colForward", "mluOpGetMaskedIm2colForwardWorkspaceSize"
SET_SPARSE = "mluOpSetSparseConvolutionDescriptor"


def open_library(*arguments):
    """The backend, with the C functions of our operators."""
    return CLibraryBackend(lambda name: OPERATORS.part(name, C_API), *arguments)


def run(library, call):
    return open_library(library.path).run(call)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A fake with these features, compiled once."""
    folder, libraries = tmp_path_factory.mktemp("fakes"), {}

    def get(*features):
        if features not in libraries:
            target = folder / f"lib{'_'.join(features) or 'host'}.so"
            libraries[features] = Fake(compile_library(target, SOURCE, flags=tuple(f"-D{name}" for name in features)))
        return libraries[features]

    return get


@pytest.fixture
def host(compiled):
    """A library on host memory; nothing may be left in it."""
    yield from checked(compiled("HOOKS"))


@pytest.fixture
def device(compiled):
    """A library that brings a device runtime; nothing may be left in it."""
    yield from checked(compiled(*DEVICE))


@pytest.fixture(params=["host", "device"])
def fake(request):
    """Either of them."""
    return request.getfixturevalue(request.param)


def checked(library):
    library.reset()
    before = library.live
    yield library
    assert library.live == before


@pytest.fixture
def leaking_device(compiled):
    """A library with a device, in which something may be left."""
    library = compiled(*DEVICE)
    library.reset()
    return library


class TestLoading:
    def test_is_a_backend_named_after_the_library(self, host):
        backend = open_library(host.path)
        assert isinstance(backend, Backend)
        assert backend.name == "c:libHOOKS.so"

    def test_finds_a_bare_file_name_in_the_current_folder(self, host, monkeypatch):
        monkeypatch.chdir(host.path.parent)
        assert open_library(host.path.name).run(im2col()) is Status.SUCCESS

    def test_a_file_that_is_no_library_tells_what_the_loader_says(self, tmp_path):
        (tmp_path / "text.so").write_text("not a library")
        with pytest.raises(BackendError, match=r"text\.so does not load: .*(file too short|invalid ELF header)"):
            open_library(tmp_path / "text.so")

    @pytest.mark.parametrize(
        ("features", "runtime", "words"),
        [
            (["NO_CORE"], None, "does not export mluOpCreateTensorDescriptor, mluOpDestroyTensor"),
            (["RUNTIME", "NO_FREE"], None, r"does not export cnrtFree\."),
            (["HOOKS"], ["HOOKS"], "does not export cnrtSetDevice, cnrtQueueCreate"),
        ],
    )
    def test_functions_that_are_missing_are_named(self, compiled, features, runtime, words):
        with pytest.raises(BackendError, match=words):
            open_library(compiled(*features).path, runtime and compiled(*runtime).path)

    def test_mlu_may_have_another_runtime(self):
        with pytest.raises(BackendError, match=r"libother\.so"):
            CLibraryBackend.mlu(lambda _: None, "libother.so")

    def test_an_operator_whose_function_is_missing_is_declined_by_its_name(self, compiled):
        backend = open_library(compiled("NO_IM2COL").path)
        for ask in (backend.run, backend.workspace_size):
            with pytest.raises(Declined, match=r"^libNO_IM2COL\.so does not export mluOpMaskedIm2colForward$"):
                ask(im2col())
        assert backend.run(pooling()) is Status.SUCCESS

    def test_missing_sparse_functions_concern_one_operator(self, compiled):
        backend = open_library(compiled("NO_SPARSE").path)
        with pytest.raises(Declined, match="mluOpCreateSparseConvolutionDescriptor, mluOpDestroySparse"):
            backend.run(pairs())
        assert backend.run(im2col()) is Status.SUCCESS

    def test_an_unknown_operator_is_declined(self, host):
        with pytest.raises(Declined, match=r"no C functions for rotated_box: it declares no `c_api`"):
            run(host, replace(im2col(), operator="rotated_box"))


SCATTERED = (
    "handle=there reduce=2 grad_voxel_feats [3,4]@there feats [5,4]@there voxel_feats [3,4]@there "
    "point2voxel_map [5]@there voxel_points_count [3]@there voxel_num [1]@there workspace=NULL size=0 "
    "grad_feats [5,4]@there first=00"
)
# Dims differ from tensor to tensor, so a swapped argument shows.
ARGUMENTS = {
    IM2COL_QUERY: "handle=there feature [1,2,4,5] mask_h_idx [3] mask_w_idx [3] kernel=3,2 data_col [12,3]",
    IM2COL: "handle=there feature [1,2,4,5]@there mask_h_idx [3]@there mask_w_idx [3]@there kernel=3,2 pad=-1,7 "
    "workspace=there size=100 data_col [12,3]@there first=a5",
    SET_SPARSE: "dimnb=5 batch=2 pad=0,1,2,0 stride=1,2,3 dilation=4,5,6 input_space=7,8,9 filter_space=1,2,3 "
    "output_space=10,11,12 sub_m=1 transpose=0 inverse=0",
    "mluOpGetIndicePairsWorkspaceSize": "handle=there sparse=there indices [5,4] indice_pairs [6,2,5] "
    "out_indices [7,4] indice_num [6]",
    "mluOpGetIndicePairs": "handle=there sparse=there indices [5,4]@there workspace=NULL size=0 "
    "indice_pairs [6,2,5]@there out_indices [7,4]@there indice_num [6]@there first=00",
    "mluOpGetIndiceConvolutionBackwardDataWorkspaceSize": "handle=there output_grad [5,4] filters [3,1,2,4] "
    "indice_pairs [3,2,6] input_grad [6,2] [1,2,3,0] inverse=0",
    "mluOpIndiceConvolutionBackwardData": "handle=there output_grad [5,4]@there filters [3,1,2,4]@there "
    "indice_pairs [3,2,6]@there [1,2,3,0] inverse=0 sub_m=1099511627776 workspace=NULL size=0 "
    "input_grad [6,2]@there first=00",
    "mluOpVoxelPoolingForward": "handle=there 2,3,4,5,6,7 geom_xyz [2,3,3]@there input_features [2,3,4]@there "
    "output_features [2,6,5,4]@there pos_memo [2,3,3]@there first=00",
    "mluOpGetDynamicPointToVoxelBackwardWorkspaceSize": "handle=there reduce=2 grad_voxel_feats [3,4] feats [5,4] "
    "voxel_feats [3,4] point2voxel_map [5] voxel_points_count [3] voxel_num [1]",
    "mluOpDynamicPointToVoxelBackward": SCATTERED,
    "mluOpGetDynamicScatterBackwardWorkspaceSize": "handle=there reduce=2 feats [5,4]",
    "mluOpDynamicScatterBackward": SCATTERED,
}


class TestArguments:
    @pytest.mark.parametrize(
        ("features", "call", "functions"),
        [
            ("HOOKS", im2col(workspace=np.full(100, 0xA5, np.uint8), workspace_size=100), {IM2COL_QUERY, IM2COL}),
            ("HOOKS", pairs(), {name for name in ARGUMENTS if "Pairs" in name} | {SET_SPARSE}),
            ("HOOKS", backward_data(), {name for name in ARGUMENTS if "ConvolutionBackward" in name}),
            ("HOOKS", pooling(size_null=True), {"mluOpVoxelPoolingForward"}),
            ("HOOKS", scatter(), {name for name in ARGUMENTS if "PointToVoxel" in name}),
            ("DOCUMENT_NAMES", scatter(), {name for name in ARGUMENTS if "ScatterBackward" in name}),
        ],
        ids=lambda value: getattr(value, "operator", None),
    )
    def test_every_function_gets_its_arguments_in_order(self, compiled, features, call, functions):
        library, call = compiled(features), replace(call, scalars={}, queries=[])
        library.reset()
        backend = open_library(library.path)
        library.want_workspace(call.workspace_size)
        assert backend.workspace_size(call) == call.workspace_size
        assert backend.run(call) is Status.SUCCESS
        assert {name: library.arguments(name) for name in functions} == {name: ARGUMENTS[name] for name in functions}
        assert call.scalars == ({"num_act_out": 42} if SET_SPARSE in functions else {})
        # An operator without a query has no answer of one.
        assert len(call.queries) == (len(functions) > 1)

    def test_descriptors_carry_the_numbers_of_the_c_api(self, host):
        large = TensorDesc(DType.BFLOAT16, Layout.NCDHW, (2**33, 1))
        strided = tensor((3, 4), INT, Layout.NHWC, strides=(9, 2))
        call = with_input(with_input(im2col(), "feature", TensorArg(large, None)), "mask_h_idx", strided)
        assert run(host, call) is Status.SUCCESS
        assert host.lines("mluOpSetTensorDescriptor_v2")[0].endswith(" layout=5 dtype=17 [8589934592,1]")
        assert [line.split(maxsplit=1)[1] for line in host.lines("mluOpSetTensorDescriptorEx_v2")] == [
            "layout=1 dtype=6 [3,4] [9,2]"
        ]

    def test_a_type_without_a_number_is_declined(self, host):
        call = with_input(im2col(), "feature", tensor((2,), DType.COMPLEX128))
        with pytest.raises(Declined, match="no number for the type complex128 of feature"):
            run(host, call)

    def test_an_answer_that_is_no_status_is_an_error(self, host):
        host.behave("answer 99")
        with pytest.raises(ValueError, match="mluOpMaskedIm2colForward answered 99, which is not an mluOpStatus_t"):
            run(host, im2col())


def without_pointer(call, name, change):
    """The call with a null pointer beside the descriptor of that tensor."""
    return change(call, name, replace(call.tensor(name), array=None, null=True))


class TestNulls:
    @pytest.mark.parametrize(
        ("call", "function", "text"),
        [
            (im2col(handle=None), IM2COL, " handle=NULL "),
            (im2col(handle=None), IM2COL_QUERY, " handle=NULL "),
            (with_input(im2col(), "mask_w_idx", None), IM2COL, " mask_w_idx=NULL@there "),
            (without_pointer(im2col(), "feature", with_input), IM2COL, " feature [1,2,4,5]@NULL "),
            (without_pointer(im2col(), "data_col", with_output), IM2COL, " data_col [12,3]@NULL "),
            (with_input(im2col(), "mask_w_idx", tensor((0,))), IM2COL, " mask_w_idx [0]@there "),
            (pairs(params=None), "mluOpGetIndicePairs", " sparse=NULL "),
            *(
                (pairs(params={**pairs().params, name: None}), SET_SPARSE, f" {name}=NULL ")
                for name in ("pad", "stride", "dilation", "input_space", "filter_space", "output_space")
            ),
            (
                backward_data(params={**backward_data().params, "indice_num": None}),
                "mluOpIndiceConvolutionBackwardData",
                "@there NULL inverse",
            ),
        ],
    )
    def test_what_is_none_is_null_and_all_else_there(self, fake, call, function, text):
        call = replace(call, scalars={})
        run(fake, call)
        assert text in fake.lines(function)[0]
        assert ("mluOpCreate" in fake.functions) is (call.handle is not None)
        assert ("num_act_out" in call.scalars) is (call.operator == "get_indice_pairs" and call.params is not None)

    def test_a_descriptor_without_data_has_a_page_that_must_not_be_written(self, fake):
        call = with_output(im2col(), "data_col", TensorArg(TensorDesc(FLOAT, Layout.ARRAY, (2**20, 2**11)), None))
        backend = open_library(fake.path)
        assert backend.run(call) is Status.SUCCESS
        assert " data_col [1048576,2048]@there" in fake.lines(IM2COL)[0]
        fake.behave("follow the output")
        with pytest.raises(Violated, match=r"^wrote to data_col, which is a descriptor without data$"):
            backend.run(call)


class TestHostMemory:
    def test_works_on_the_harness_own_buffers_with_a_null_queue(self, host):
        host.behave("fill")
        backend, call = open_library(host.path), im2col()
        assert backend.run(call) is Status.SUCCESS
        assert (call.array("data_col").view(np.uint8) == 1).all()
        assert host.lines("mluOpSetQueue") == ["mluOpSetQueue NULL"]
        assert call.notes == ["no runtime: host memory, null queue, time by the wall clock"]
        assert backend.device_seconds() is None

    def test_a_changed_host_array_is_found(self, host):
        host.behave("change the host array")
        with pytest.raises(Violated, match=r"^changed the host array indice_num$"):
            run(host, backward_data())


@pytest.mark.parametrize("make", [im2col, pairs, backward_data])
def test_an_empty_call_makes_everything_but_the_operator_and_gives_it_back(fake, make):
    backend = open_library(fake.path)
    backend.run(make())
    whole = fake.functions
    fake.reset()
    backend.run_empty(make())
    functions = {"mluOpMaskedIm2colForward", "mluOpGetIndicePairs", "mluOpIndiceConvolutionBackwardData"}
    wanted = [name for name in whole if name not in functions]
    assert (fake.functions, len(whole) - len(wanted)) == (wanted, 1)
    assert not any(fake.live.values())


class TestDeviceMemory:
    def test_everything_travels_and_comes_back(self, device):
        device.behave("fill")
        backend, call = open_library(device.path), im2col()
        assert backend.run(call) is Status.SUCCESS
        assert (call.array("data_col").view(np.uint8) == 1).all()
        assert call.notes == []
        assert backend.device_seconds() == pytest.approx(1.5e-3)
        device.refuse("mluOpCreate", 4)
        backend.run(im2col())
        assert backend.device_seconds() is None

    def test_order_of_calls(self, device):
        run(device, im2col(device=3))
        once = [name for name, before in zip(device.functions, ["", *device.functions], strict=False) if name != before]
        upload, back = once.index("cnrtMalloc"), once.index("cnrtNotifierCreate")
        before = "cnrtSetDevice cnrtQueueCreate mluOpCreate mluOpSetQueue"
        described = "mluOpCreateTensorDescriptor mluOpSetTensorDescriptor_v2"
        assert once[:upload] == [*before.split(), *described.split() * 4, IM2COL_QUERY]
        assert set(once[upload:back]) == {"cnrtMalloc", "cnrtMemcpy"}
        timed = f"cnrtPlaceNotifier {IM2COL} cnrtPlaceNotifier cnrtQueueSync cnrtWaitNotifier cnrtNotifierDuration"
        after = "cnrtNotifierDestroy cnrtFree mluOpDestroyTensorDescriptor mluOpDestroy cnrtQueueDestroy"
        assert once[back:] == ["cnrtNotifierCreate", *timed.split(), "cnrtMemcpy", *after.split()]
        assert device.lines("cnrtSetDevice") == ["cnrtSetDevice 3"]
        assert device.lines("mluOpSetQueue") == ["mluOpSetQueue queue"]

    @pytest.mark.parametrize(
        ("feature", "size"), [(im2col().tensor("feature"), 160), (tensor((2, 3), FLOAT, strides=(5, 1)), 32)]
    )
    def test_buffers_lie_between_guard_zones_with_the_gaps_of_strided_rows(self, device, feature, size):
        run(device, with_input(im2col(), "feature", feature))
        sizes = [int(line.split()[1]) for line in device.lines("cnrtMalloc")]
        assert sizes == [2048 + size for size in (size, 12, 12, 144)]

    def test_what_the_operator_leaves_alone_is_as_the_harness_put_it(self, device):
        call = im2col()
        call.array("data_col").view(np.uint32)[...] = 0x7FA5A5A5
        run(device, call)
        assert (call.array("data_col").view(np.uint32) == 0x7FA5A5A5).all()

    @pytest.mark.parametrize(
        ("how", "words"),
        [
            ("overrun the workspace", "wrote past the end of workspace, first at byte 1 behind it"),
            ("past the end", "wrote past the end of data_col, first at byte 3 behind it"),
        ],
    )
    def test_a_write_behind_a_buffer_is_found_on_the_device(self, device, how, words):
        device.behave(how)
        call = im2col(workspace=np.full(64, 0xA5, np.uint8), workspace_size=64)
        with pytest.raises(Violated, match=f"^{words}$"):
            run(device, call)

    def test_a_changed_input_comes_back_to_the_harness_which_compares_it(self, device):
        device.behave("change the input")
        call, other = im2col(), im2col()
        assert run(device, call) is Status.SUCCESS
        changed = call.array("feature").view("u1") != other.array("feature").view("u1")
        assert np.flatnonzero(changed).tolist() == [9]

    def test_a_refused_call_is_checked_as_well(self, device):
        device.refuse("mluOpMaskedIm2colForward", 3)
        call = im2col()
        assert run(device, call) is Status.BAD_PARAM
        assert call.notes == []
        assert "cnrtQueueSync queue" in device.journal

    def test_the_workspace_may_be_used(self, device):
        device.behave("use the workspace")
        assert run(device, im2col(workspace=np.full(64, 0xA5, np.uint8), workspace_size=64)) is Status.SUCCESS
        assert "cnrtMalloc 2112" in device.journal

    def test_a_runtime_of_its_own_library(self, host, compiled):
        runtime = compiled("RUNTIME")
        runtime.reset()
        call = im2col()
        assert open_library(host.path, runtime.path).run(call) is Status.SUCCESS
        assert host.lines("mluOpSetQueue") == ["mluOpSetQueue queue"]
        assert len(runtime.lines("cnrtMalloc")) == len(runtime.lines("cnrtFree")) == 4
        assert call.notes == ["no notifiers: time by the wall clock"]

    @pytest.mark.parametrize("function", sorted(name for name in {**RUNTIME, **NOTIFIERS} if name not in GIVES_BACK))
    def test_a_failing_runtime_function_is_named(self, device, function):
        device.refuse(function, 632)
        call = im2col(device=0)
        assert run(device, call) is (Status.ALLOC_FAILED if function == "cnrtMalloc" else Status.EXECUTION_FAILED)
        assert call.notes == [f"{function} answered 632"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("function", "about"),
        [
            ("mluOpCreate", ""),
            ("mluOpSetQueue", ""),
            ("mluOpCreateTensorDescriptor", ""),
            ("mluOpSetTensorDescriptor_v2", " for indices"),
            ("mluOpCreateSparseConvolutionDescriptor", ""),
            (SET_SPARSE, ""),
            ("mluOpSetTensorDescriptorEx_v2", " for out_indices"),
            ("mluOpGetSparseConvolutionNumActOut", ""),
        ],
    )
    def test_a_refusal_around_the_call_is_the_status(self, function, about, fake):
        fake.refuse(function, 4)
        call = with_output(pairs(), "out_indices", tensor((7, 4), strides=(5, 1)))
        is_behind = function.endswith("NumActOut")
        assert is_behind or open_library(fake.path).workspace_size(call) == 0
        assert run(fake, call) is Status.INTERNAL_ERROR
        assert (call.notes, call.scalars) == ([f"status from {function}{about}"], {})
        assert ("mluOpGetIndicePairs" in fake.functions) is is_behind

    def test_success_without_a_descriptor_is_no_success(self, host):
        host.behave("make nothing")
        call = im2col()
        assert run(host, call) is Status.INTERNAL_ERROR
        assert call.notes == ["mluOpCreateTensorDescriptor answered SUCCESS and made nothing"]

    @pytest.mark.parametrize("status", [Status.NOT_SUPPORTED, Status.SUCCESS])
    def test_a_refused_query_leaves_the_answer_to_the_operator(self, host, status):
        host.refuse(IM2COL_QUERY, 5)
        host.behave("refuse" if status else "")
        backend, call = open_library(host.path), im2col(workspace=np.zeros(8, np.uint8), workspace_size=8)
        assert backend.workspace_size(call) == 0
        assert backend.run(call) is status
        assert call.queries == [QueryAnswer(IM2COL_QUERY, Status.ARCH_MISMATCH)]
        assert " workspace=NULL size=0 " in host.lines(IM2COL)[0]

    def test_a_call_with_less_workspace_than_the_query_asks_gets_what_it_has(self, host):
        host.want_workspace(100)
        call = im2col(workspace_size=64)
        run(host, call)
        assert call.queries == [QueryAnswer(IM2COL_QUERY, Status.SUCCESS, 100)]
        assert " workspace=NULL size=64 " in host.lines(IM2COL)[0]

    def test_a_query_without_a_pointer_to_the_size_is_one_more(self, host):
        host.want_workspace(100)
        backend = open_library(host.path)
        call = im2col(size_null=True, workspace=np.zeros(100, np.uint8), workspace_size=100)
        assert backend.workspace_size(call) == 100
        assert backend.run(call) is Status.SUCCESS
        assert call.queries == [
            QueryAnswer(IM2COL_QUERY, Status.SUCCESS, 100),
            QueryAnswer(IM2COL_QUERY, Status.BAD_PARAM, size_null=True),
        ]
        assert [line.endswith("size=NULL") for line in host.lines(IM2COL_QUERY)] == [False, False, True]
        assert " workspace=there size=100 " in host.lines(IM2COL)[0]

    def test_no_count_and_no_remark_of_a_call_that_fails(self, host):
        host.behave("refuse")
        call = pairs()
        assert run(host, call) is Status.NOT_SUPPORTED
        assert call.notes == []
        assert "mluOpGetSparseConvolutionNumActOut" not in host.functions


class TestGivingBack:
    @pytest.mark.parametrize(
        ("function", "count", "status", "note"),
        [
            ("mluOpDestroy", 1, Status.BAD_PARAM, "status from mluOpDestroy: a handle was not given back"),
            ("cnrtFree", 4, Status.EXECUTION_FAILED, "cnrtFree answered 3: a device buffer was not"),
        ],
    )
    def test_a_refusal_to_take_back_is_told(self, leaking_device, function, count, status, note):
        leaking_device.refuse(function, 3)
        call = im2col()
        assert run(leaking_device, call) is status
        assert [words.startswith(note) for words in call.notes] == [True] * count

    def test_the_operators_own_refusal_goes_before_it(self, leaking_device):
        leaking_device.refuse("mluOpDestroy", 3)
        leaking_device.behave("refuse")
        call = im2col()
        assert run(leaking_device, call) is Status.NOT_SUPPORTED
        assert call.notes == ["status from mluOpDestroy: a handle was not given back"]

    def test_calls_do_not_see_each_other(self, host):
        backend = open_library(host.path)
        backend.run(im2col(handle=Handle(arch=270)))
        host.reset()
        backend.run(im2col())
        assert host.functions.count("mluOpCreate") == 1
        assert "mluOpTestSetArch" not in host.functions


class TestOtherDevices:
    def test_arch_and_nram_go_through_the_hooks(self, host):
        run(host, im2col(handle=Handle(arch=270, nram_bytes=113)))
        assert host.lines("mluOpTestSetArch") == ["mluOpTestSetArch 270"]
        assert host.lines("mluOpTestSetNramBytes") == ["mluOpTestSetNramBytes 113"]

    @pytest.mark.parametrize(
        ("handle", "words"),
        [
            (Handle(arch=270), "library cannot simulate an older device (it does not export mluOpTestSetArch)"),
            (Handle(nram_bytes=9), "library cannot simulate another NRAM size (it does not export mluOpTestSetNram"),
        ],
    )
    def test_without_hooks_such_cases_are_declined(self, compiled, handle, words):
        with pytest.raises(Declined, match=f"^{re.escape(words)}"):
            run(compiled("RUNTIME"), im2col(handle=handle))

    def test_a_hook_that_refuses_declines(self, host):
        host.refuse("mluOpTestSetArch", 3)
        with pytest.raises(Declined, match=r"older device \(mluOpTestSetArch refuses 369\)"):
            run(host, im2col(handle=Handle(arch=369)))


class TestHealth:
    def test_makes_everything_but_an_operator(self, device, monkeypatch):
        monkeypatch.setenv("MLUOPS_TEST_DEVICE", "2")
        backend = open_library(device.path)
        assert backend.healthy()
        assert "cnrtSetDevice 2" in device.journal
        assert {"mluOpCreate", "cnrtQueueCreate", "cnrtMalloc", "cnrtQueueSync", "cnrtFree"} <= set(device.functions)

    def test_on_host_memory(self, host):
        assert open_library(host.path).healthy()
        assert host.functions == ["mluOpCreate", "mluOpSetQueue", "mluOpDestroy"]

    @pytest.mark.parametrize(
        "function", ["mluOpCreate", "cnrtQueueCreate", "cnrtMalloc", "cnrtQueueSync", "mluOpDestroy", "cnrtFree"]
    )
    def test_any_refusal_is_bad_health(self, leaking_device, function):
        leaking_device.refuse(function, 5)
        assert not open_library(leaking_device.path).healthy()
