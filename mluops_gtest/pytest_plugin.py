"""pytest collects cases as tests: `pytest --mluops-backend my_kernels.py:backend`.

Everything else of this package is imported only once a backend or a case is asked for.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from mluops_gtest.catalog.selection import Selected
    from mluops_gtest.core.result import CaseResult
    from mluops_gtest.results.gate_reference import Waiver
    from mluops_gtest.running.session import CaseHandle, CaseRunner

_MARKER: Final = (
    "mluops(*select, operators=…, tags=…, keyword=…, everything=…, roots=…): the cases that the fixture `mluops_case` "
    "goes through, selected as by mluops_gtest.cases"
)
_COLLECTION: Final = pytest.StashKey["CaseCollection"]()


class CaseFailed(AssertionError):  # noqa: N818 - a verdict on the kernel, not an error
    """A case did not pass; the message says why, as `mluops-test run` does."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; each has its own prefix, so that no other plugin is in the way."""
    group = parser.getgroup("mluops", "cases of accelerator operators")
    group.addoption(
        "--mluops-backend",
        metavar="BACKEND",
        help="Collect cases and run them on this backend, as `mluops-test run --backend` names it, e.g. "
        "--mluops-backend my_kernels.py:backend.",
    )
    group.addoption(
        "--mluops-select",
        action="append",
        default=[],
        metavar="SELECT",
        help="Only these cases: ids, operators, globs over ids, files or folders; may be repeated, "
        "e.g. --mluops-select 'get_indice_pairs/subm_*'. "
        "Default: every declared case that is not tagged network, race, heavy, undefined or subnormal.",
    )
    group.addoption(
        "--mluops-root",
        action="append",
        default=[],
        metavar="DIR",
        help="A folder with generators/, cases/ and prototxt/, or the word builtin; may be repeated, e.g. "
        "--mluops-root ../my_operators.",
    )
    group.addoption(
        "--mluops-waivers",
        metavar="FILE",
        help="Failures that are known, as for `mluops-test gate --waivers`: such a case is xfailed, e.g. "
        "--mluops-waivers waivers.yaml.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, and add the files of the cases where no path is given."""
    config.addinivalue_line("markers", _MARKER)
    if not config.getoption("--mluops-backend"):
        given = [name for name in ("select", "root", "waivers") if config.getoption(f"--mluops-{name}")]
        if given:
            raise pytest.UsageError(f"--mluops-{given[0]} needs --mluops-backend: it names what to test.")
        return
    collection = config.stash[_COLLECTION] = CaseCollection(config)
    for tag in collection.tags:
        config.addinivalue_line("markers", f"{tag}: cases of mluops-test with that tag")
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args += map(str, collection.by_file)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the backend give back what it holds."""
    if _COLLECTION in config.stash:
        config.stash[_COLLECTION].close()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "CaseFile | None":
    """The declarations of an operator, or a case file that is selected."""
    collection = parent.config.stash.get(_COLLECTION, None)
    if collection is None or file_path.resolve() not in collection.by_file:
        return None
    # A file outside of pytest's root would get an empty id; its path is one that can be typed again.
    inside = file_path.is_relative_to(parent.config.rootpath)
    place = file_path.relative_to(parent.config.rootpath) if inside else file_path
    file: CaseFile = CaseFile.from_parent(parent, path=file_path, nodeid=place.as_posix())
    return file


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `mluops_case` runs once for every case that its marker selects."""
    if "mluops_case" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("mluops")
    if marker is None:
        pytest.fail(
            f"{metafunc.definition.nodeid}: say which cases with @pytest.mark.mluops('voxel_pooling_forward/*').",
            pytrace=False,
        )
    import mluops_gtest as mt

    try:
        found = mt.cases(*marker.args, **marker.kwargs)
    except (mt.HarnessError, TypeError) as error:
        pytest.fail(f"{metafunc.definition.nodeid}: {error}", pytrace=False)
    metafunc.parametrize("mluops_case", [AssertedCase(case) for case in found], ids=[case.id for case in found])


@pytest.fixture
def mluops_case(request: pytest.FixtureRequest) -> "AssertedCase":
    """One case that the marker `mluops` selects."""
    case: AssertedCase = request.param  # pragma: no cover - parametrised by pytest_generate_tests
    return case


class AssertedCase:
    """A case as mluops_gtest.cases gives it, whose `check` fails the test where the outputs are wrong."""

    def __init__(self, case: "CaseHandle") -> None:
        self._case = case

    def __getattr__(self, name: str) -> Any:
        return getattr(self._case, name)

    def __repr__(self) -> str:
        return repr(self._case)

    def check(self, *arguments: Any, **keywords: Any) -> "CaseResult":
        """As CaseHandle.check; the verdict where it is `passed`, else a failure of the test."""
        __tracebackhide__ = True
        result = self._case.check(*arguments, **keywords)
        if not result.passed:
            raise CaseFailed(failure_text(result))
        return result


class CaseCollection:
    """The selected cases of a pytest run, and the backend that runs them, opened for the first."""

    def __init__(self, config: pytest.Config) -> None:
        from mluops_gtest.base.errors import HarnessError
        from mluops_gtest.catalog.root import BUILTIN
        from mluops_gtest.catalog.selection import Session
        from mluops_gtest.core.case import TAGS, Query

        self.tags = TAGS
        self._backend: str = config.getoption("--mluops-backend")
        self._roots = tuple(config.getoption("--mluops-root")) or (BUILTIN,)
        self._runner: CaseRunner | None = None
        try:
            self.session: Session = Session(self._roots)
            self._cases = self.session.select(Query(tuple(config.getoption("--mluops-select")))).cases
            self.waivers: tuple[Waiver, ...] = ()
            if (file := config.getoption("--mluops-waivers")) is not None:
                from mluops_gtest.results.gate_reference import load_waivers

                self.waivers = load_waivers(Path(file))
        except HarnessError as error:
            raise pytest.UsageError(str(error)) from error

    @cached_property
    def by_file(self) -> "dict[Path, list[Selected]]":
        """The cases under the file that declares or holds them."""
        found: dict[Path, list[Selected]] = {}
        for case in self._cases:
            file = Path(case.draft.where.rpartition(":")[0]) if case.draft is not None else case.path
            assert file is not None, "a case is declared, or a file"
            found.setdefault(file.resolve(), []).append(case)
        return found

    @property
    def runner(self) -> "CaseRunner":
        """The open backend; one that does not load fails the run, not a case."""
        if self._runner is None:
            from mluops_gtest.base.errors import HarnessError
            from mluops_gtest.core.case import Query
            from mluops_gtest.running.options import RunOptions
            from mluops_gtest.running.session import CaseRunner

            request = RunOptions(selection=Query(), roots=self._roots, backend=self._backend)
            try:
                self._runner = CaseRunner(self.session, request).__enter__()
            except HarnessError as error:
                pytest.exit(str(error), int(error.exit_code))
        return self._runner

    def close(self) -> None:
        """Close the backend where it was opened."""
        if self._runner is not None:
            self._runner.__exit__(None, None, None)


class CaseFile(pytest.File):
    """A file of declared cases, or one case file."""

    def collect(self) -> "Iterator[CaseItem]":
        """Its selected cases, in its order."""
        for case in self.config.stash[_COLLECTION].by_file[self.path.resolve()]:
            name = case.id.partition("/")[2] if case.draft is not None else self.path.stem
            yield CaseItem.from_parent(self, name=name, case=case)


class CaseItem(pytest.Item):
    """One case as a test."""

    def __init__(self, *, case: "Selected", **keywords: Any) -> None:
        super().__init__(**keywords)
        self.case = case
        for tag in case.tags:
            self.add_marker(tag)
        self.extra_keyword_matches.add(case.operator)

    def runtest(self) -> None:
        """Run the case; a waived failure is expected, and a waived case that passes is not."""
        collection = self.config.stash[_COLLECTION]
        runner = collection.runner
        result = runner.run(self.case)
        if result.fingerprint:
            self.user_properties.append(("fingerprint", result.fingerprint))
        if result.output:
            self.add_report_section("call", "backend output", _harmless(result.output))
        waived = _waived(collection.waivers, result, runner.backend)
        if result.outcome.blocks and waived:
            pytest.xfail(waived)
        if result.outcome.blocks or waived:
            raise CaseFailed(failure_text(result, waived))
        if not result.passed:
            pytest.skip(_harmless(result.reason))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What the harness says of a case; a traceback only where the harness itself is at fault."""
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where the case is declared."""
        draft = self.case.draft
        line = None if draft is None else int(draft.where.rpartition(":")[2]) - 1
        return self.path, line, self.case.id


def _waived(waivers: "tuple[Waiver, ...]", result: "CaseResult", backend: str) -> str:
    """Why the case may fail, or why it may not pass; empty where no waiver that holds today is about it."""
    if not waivers:
        return ""
    import datetime

    from mluops_gtest.results.gate_reference import apply_waivers

    found = apply_waivers(waivers, {result.case: result}, backend, datetime.date.today(), set())
    if waiver := found.covered.get(result.case):
        return f"{waiver.reason} ({waiver.owner}, until {waiver.expires})"
    if waiver := found.xpassed.get(result.case):
        return f"it passes, although {waiver.file}:{waiver.line} waives it; remove the waiver or narrow its glob"
    return ""


def failure_text(result: "CaseResult", more: str = "") -> str:
    """A failure for people: what, where, the worst element, and how to repeat it."""
    from mluops_gtest.core.readings import format_explanation
    from mluops_gtest.results.reports.files import details

    explained = [format_explanation(explanation) for explanation in result.explained]
    lines = [f"{result.case}: {result.outcome.words['en']}", *([more] if more else []), *explained, details(result)]
    return _harmless("\n".join(lines))


def _harmless(text: str) -> str:
    """Text from outside without control characters, and with no line that a CI system takes for a command."""
    import re

    from mluops_gtest.base.text import strip_controls

    return re.sub(r"^(\s*)::", r"\1\\::", strip_controls(text), flags=re.MULTILINE)
