"""The backend contract and its defaults, queries in files, and the call that a case makes, with its limited remarks."""

import numpy as np
import pytest

from mluops_gtest.authoring import SizedAxis, call_of
from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import Source, convert, decode_json, json_bytes
from mluops_gtest.core.buffers import bind
from mluops_gtest.core.call import DEFAULT_ARCH, DEFAULT_NRAM_BYTES, Notes, OpCall, notes_within_limit
from mluops_gtest.core.case import MEMBERS, BackendAdapter, Case, Expect, Query, invalid_members
from mluops_gtest.results.records import check_selection


class Plain:
    name = "plain"

    def run(self, call):
        return 0


class Everything(Plain):
    version = "1.2"
    deterministic = False
    precision = "tf32"
    host_memory = False
    is_reference = True
    closed = False

    def supports(self, operator):
        return operator == "mine"

    def workspace_size(self, call):
        return 64

    def healthy(self):
        return False

    def device_seconds(self):
        return 0.5

    def run_empty(self, call):
        self.went = call

    def close(self):
        self.closed = True


def answers(backend):
    """Everything that a backend is asked, in the order of the contract."""
    yield from (backend.supports("any"), backend.workspace_size(None), backend.healthy(), backend.device_seconds())
    yield from (backend.version, backend.deterministic, backend.precision, backend.host_memory, backend.is_reference)


def test_what_a_backend_does_not_offer_has_a_default():
    backend = BackendAdapter(Plain())
    assert backend.members == ("name", "run")
    assert list(answers(backend)) == [True, 0, True, None, "", True, "float", True, False]
    backend.close()


def test_what_a_backend_offers_is_asked():
    own = Everything()
    backend = BackendAdapter(own)
    assert set(backend.members) == {member.name for member in MEMBERS}
    assert list(answers(backend)) == [False, 64, False, 0.5, "1.2", False, "tf32", False, True]
    assert backend.run_empty("a call") == 0
    assert own.went == "a call"
    backend.close()
    assert own.closed
    assert list(invalid_members(own)) == []


@pytest.mark.parametrize("member", MEMBERS, ids=lambda member: member.name)
def test_a_member_of_another_kind_is_told(member):
    backend = type("Odd", (Everything,), {member.name: 3.5})()
    (problem,) = invalid_members(backend)
    assert f"`{member.signature}`" in problem


@pytest.mark.parametrize("precision", ["half", {"voxel": "tf32"}, {"voxel": {"half": "half"}, "ball": "tf32"}, {}])
def test_a_precision_for_all_by_operator_and_by_data_type(precision):
    backend = type("Stated", (Plain,), {"precision": precision})()
    assert BackendAdapter(backend).precision == precision
    assert list(invalid_members(backend)) == []


@pytest.mark.parametrize(
    "precision",
    [
        *("fp8", 16, {"voxel": "fp8"}, None),
        *({"voxel": {"half": "fp8"}}, {"voxel": {"int32": "half"}}, {"voxel": {"half": {"half": "half"}}}),
    ],
)
def test_a_precision_that_is_none_is_told_and_counts_as_float(precision):
    class Odd(Plain):
        pass

    Odd.precision = precision
    assert BackendAdapter(Odd()).precision == "float"
    (problem,) = invalid_members(Odd())
    assert problem == (
        "Its `precision` does not fit; it must be `precision: str | dict[str, str | dict[str, str]]`. "
        "Precisions: float, tf32, bfloat16, half; data types: half, bfloat16, float, double."
    )


SOURCE = Source("report.json", "Run again.")
QUERIES = [Query(), Query(("op/*", "mine"), ("op",), ("smoke",), "edge and not half", everything=True)]


@pytest.mark.parametrize("query", QUERIES)
def test_a_file_keeps_it(query):
    read = decode_json(json_bytes(query.to_json()), SOURCE)
    assert convert(read, Query, SOURCE) == query
    assert Query.from_report({**read, "roots": ["builtin"], "cases": 3}) == query
    check_selection(read, SOURCE)


@pytest.mark.parametrize("missing", Query().to_json())
def test_a_report_that_does_not_record_all_of_it_has_none(missing):
    assert Query.from_report({name: value for name, value in Query().to_json().items() if name != missing}) is None


@pytest.mark.parametrize(
    "spoiled", [{"select": None}, {"tags": 3}, {"operators": [1]}, {"keyword": ["edge"]}, {"everything": "yes"}]
)
def test_a_spoiled_one_is_refused(spoiled):
    with pytest.raises(ContentError, match=rf"report\.json: \$\.{next(iter(spoiled))}.*expected"):
        check_selection({**Query().to_json(), **spoiled}, SOURCE)


def test_only_the_empty_one_means_the_default_set():
    assert [query.is_default for query in (*QUERIES, Query(keyword="edge"))] == [True, False, False]


@pytest.mark.parametrize(
    ("expect", "arch", "nram_bytes"),
    [
        (Expect(), DEFAULT_ARCH, DEFAULT_NRAM_BYTES),
        (Expect(arch=270), 270, DEFAULT_NRAM_BYTES),
        (Expect(arch=0, nram_bytes=0), 0, 0),
    ],
)
def test_the_handle_is_as_the_case_asks(operators, expect, arch, nram_bytes):
    operator = operators["voxel_pooling_forward"]
    call = bind(Case("id", operator.name, (), (), {}, (), expect), operator, {}, {})
    assert call.handle is not None
    assert (call.handle.arch, call.handle.nram_bytes) == (arch, nram_bytes)


def test_few_remarks_stay_as_they_are():
    notes = Notes(["a"])
    notes.append("b")
    notes.extend(["c", 4])
    assert notes.within_limit() == ("a", "b", "c", "4")
    assert notes == ["a", "b", "c", "4"]


def test_of_many_the_first_and_the_last_are_kept():
    notes = Notes(most=10_000)
    largest = 0
    for i in range(100_000):
        notes.append(f"note {i}")
        largest = max(largest, len(notes))
    kept = notes.within_limit()
    assert largest < 300  # never more than twice the limit
    assert kept[:2] == ("note 0", "note 1")
    assert kept[-1] == "note 99999"
    (cut,) = [note for note in kept if "cut" in note]
    assert cut == f"[… {100_000 - (len(kept) - 1)} notes cut …]"
    assert sum(map(len, kept)) <= 10_000
    assert notes.within_limit() == kept


@pytest.mark.parametrize("size", [0, 1, 3000, 10**6])
def test_whatever_the_sizes_the_limit_holds(size):
    notes = Notes(("x" * size for _ in range(500)), most=10_000)
    kept = notes.within_limit()
    assert sum(map(len, kept)) <= 10_100
    assert kept[0][:1] == kept[-1][:1] == "x"[:size]


def test_a_list_that_was_filled_behind_our_back_is_cut_in_the_end():
    notes = Notes(most=1000)
    notes[:] = ["x" * 100] * 1000
    assert sum(map(len, notes.within_limit())) <= 1100
    assert len(notes_within_limit(["x" * 100] * 1000, 1000)) < 20


def test_a_call_has_such_notes():
    call = OpCall("op", {}, {}, {})
    for _ in range(100):
        call.notes.append("x" * 100_000)
        call.refusals.append("y" * 100_000)
    assert sum(map(len, notes_within_limit(call.notes))) + sum(map(len, notes_within_limit(call.refusals))) <= 1 << 20


def call():
    inputs = {"x": np.arange(6, dtype="<f4").reshape(2, 3) + 1, "places": np.array([4, 7], "<i4")}
    return call_of("any", {}, inputs, {"y": np.ones((2, 3), "<f4")})


@pytest.mark.parametrize(("axis", "size"), [(0, 2), (1, 3), (-1, 3)])
def test_a_size_is_the_length_of_the_axis(axis, size):
    assert SizedAxis("x", axis).size(call()) == size


def test_a_size_may_be_counted_and_an_axis_that_the_tensor_does_not_have_is_named():
    assert SizedAxis("x", count=lambda call: int(call.array("places").max())).size(call()) == 7
    with pytest.raises(ValueError, match=r"x \[2, 3\] has no axis 2"):
        SizedAxis("x", 2).size(call())


def test_a_lost_index_is_0_in_floats_and_minus_1_in_indices_and_nothing_else_changes():
    one = call()
    lost = SizedAxis("x", 1).lost(one, 2)
    assert lost.keys() == {"x"}
    assert lost["x"].tolist() == [[1, 2, 0], [4, 5, 0]]
    assert SizedAxis("places").lost(one, 0)["places"].tolist() == [-1, 7]
    assert one.array("x")[0, 2] == 3
    assert one.array("places")[0] == 4
    assert SizedAxis("y").lost(one, 1) == {}, "an output loses no input"


def test_an_operator_may_say_what_the_call_is_without_an_index():
    axis = SizedAxis("x", without=lambda call, index: {"places": call.array("places") + index})
    assert axis.lost(call(), 1)["places"].tolist() == [5, 8]
