"""Fuzzing on several backends at once: each is asked, and what one of them gets wrong is kept."""

from pathlib import Path

from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import Status
from mluops_gtest.core.case import Query
from mluops_gtest.running.caller import InlineCaller
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.running.options import RunOptions
from mluops_gtest.search.audit_declarations import Implementation
from mluops_gtest.search.corpus import Corpus
from mluops_gtest.search.fuzz import FuzzRequest, targets_of
from studies.fuzz_backends import EveryBackend, cache_last, fuzz_operator

NAME = "masked_col2im_forward"


def test_what_one_backend_gets_wrong_is_found_whatever_the_others_say(tmp_path: Path, capsys):
    session = Session()
    operator = session.catalogue.operators[NAME]

    def forgetful(call):
        return operator.early_answer(call) or Status.SUCCESS

    executors = {
        name: CaseRun(InlineCaller(Implementation(name, run)), Options(elementwise=True, bounds_alone=True))
        for name, run in (("right", operator.kernel), ("wrong", forgetful))
    }
    corpus = Corpus(tmp_path, session.catalogue.operators)
    request = FuzzRequest(RunOptions(Query(), ("builtin",), "both"), (NAME,), tmp_path, seed=0)
    (target,) = targets_of(request, session, corpus)
    assert fuzz_operator(target, EveryBackend(executors), corpus, cases=6) > 0
    out, err = capsys.readouterr()
    assert f"| {NAME} | 6 |" in out
    assert ", right 11, wrong 11 |" in out, "six draws, and what making the failure smaller took"
    assert "on wrong: failed: " in err
    assert "on right" not in err
    assert corpus.files(NAME)


def test_what_must_come_back_is_computed_once_per_case():
    asked = []
    kept = cache_last(lambda case, operator: asked.append((case, operator)) or len(asked))
    one, other = object(), object()
    assert [kept(case, None) for case in (one, one, other, other, one)] == [1, 1, 2, 2, 3]
