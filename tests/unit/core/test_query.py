"""A query goes through files and comes back the same."""

import pytest

from mluops_gtest.base.errors import ContentError
from mluops_gtest.base.typed_files import Source, convert, decode_json, json_bytes
from mluops_gtest.core.case import Query
from mluops_gtest.results.records import check_selection

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
