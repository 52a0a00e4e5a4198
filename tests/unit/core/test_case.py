"""The backend contract: what is missing has its default, what does not fit is told. A query goes through files."""

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import Source, convert, decode_json, json_bytes
from mluops_gtest.core.case import MEMBERS, BackendAdapter, Query, invalid_members
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
