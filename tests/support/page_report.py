"""Reports for tests of the page: small ones with everything in them, and one as large as the page must carry."""

import math

from mluops_gtest.core.call import Status
from mluops_gtest.core.cause import Exceeded, Excess, Places
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.core.report import RunReport
from mluops_gtest.core.result import Attempt, CaseInfo, CaseResult, Perf, Profile, Reading, TensorInfo, Worst
from tests.support.reports import legacy_reasons

HOSTILE = "toy/<script>window.hacked=1</script>&'\"</script><!--"
DEVICE = {"name": "desk", "bandwidth": 1e10, "peak": {"float": 4e10, "half": 8e10}}


def result(case: str, outcome: Outcome = Outcome.PASSED, **fields: object) -> CaseResult:
    """A result with what every computed case has."""
    fields_of_all: dict = {
        "operator": case.partition("/")[0],
        "tags": ("smoke",),
        "status": Status.SUCCESS,
        "expected_status": Status.SUCCESS,
        "readings": (Reading("out", "diff1", 2e-6, 1e-5, True),),
        "seconds": 0.00125,
        "repro": f"mluops-test run {case} --backend mine",
        "compared": True,
        "info": CaseInfo(
            (TensorInfo("features", "float", "NHWC", (2, 16, 16, 4)),),
            (TensorInfo("out", "float", "ARRAY", (64, 40)),),
            {"kernel_size": [3, 3, 3], "sub_m": 1},
            "§3.2: windows across the edge",
            80_000.0,
            160_000.0,
        ),
    }
    return CaseResult(case=case, outcome=outcome, **(fields_of_all | fields))


def exceeded(value: float, beyond: int, bits: int) -> Exceeded:
    """The cause of a failed result."""
    return Exceeded("out", (Excess("diff1", value, 1e-5),), Places(1200, 2560, 0, 2559), False, False, beyond, bits)


def failed(case: str, fingerprint: str = "v1:1111", **fields: object) -> CaseResult:
    """A failed result with a profile: worse further down the map, one cell lost, one cell equal."""
    cells = [2.0 ** (-28 + row * 0.9) for row in range(32) for _ in range(32)]
    cells[0], cells[-1] = 0.0, math.inf
    fields_of_all: dict = {
        "readings": (Reading("out", "diff1", 0.02, 1e-5, False), Reading("out", "diff3", math.nan, 0.0, False)),
        "worst": Worst("out", (3, 17), "nan", "0.25", 1200, 2560, 8_000_000, 960, 1201),
        "causes": (exceeded(0.02, 960, 1201),),
        "fingerprint": fingerprint,
        "profile": Profile("out", (*range(31), 735), 32, 32, tuple(cells)),
    }
    return result(case, **({"outcome": Outcome.FAILED} | fields_of_all | fields))


def report(*results: CaseResult, interrupted: bool = False) -> RunReport:
    """A report of these results."""
    return RunReport(
        tool_version="0.1.0",
        backend={"name": "mine", "spec": "mine.py:backend", "runtime": None, "isolated": True},
        environment={"python": "3.11.7", "machine": "x86_64", "cpus": 2, "device": DEVICE},
        selection={"select": [], "operators": ["toy"], "cases": len(results)},
        started="2026-03-01T10:00:00+00:00",
        seconds=12.5,
        results=results,
        timing={"load": 1.5, "backend": 8.0},
        interrupted=interrupted,
    )


def small_report() -> RunReport:
    """Every outcome once, two operators, a hostile name, times, output, attempts."""
    samples = (*(50_000 + 37 * (n * 17 % 101) for n in range(60)), 400_000)
    others = [o for o in Outcome if o not in (Outcome.PASSED, Outcome.FAILED, Outcome.FLAKY)]
    return report(
        result("toy/plain"),
        result("toy/timed", tags=("network",), perf=Perf(samples, tuple(s // 2 for s in samples), 4096)),
        result("other/tagged", tags=("boundary", "negative"), readings=()),
        failed("toy/same_way"),
        failed(HOSTILE, output="</script><script>window.hacked=2</script>\x1b[31m", notes=("a note",)),
        failed("other/its_own_way", "v1:2222", tags=("boundary",)),
        failed(
            "toy/flaky",
            "v1:3333",
            outcome=Outcome.FLAKY,
            attempts=(Attempt(Outcome.FAILED, legacy_reasons("first try")),),
        ),
        *(result(f"other/{o.value}", o, causes=legacy_reasons(f"because of {o.value}")) for o in others),
    )


def large_report(count: int = 2000, failures: int = 200) -> RunReport:
    """Results that share as little as results do, each with times."""

    def info(n: int) -> CaseInfo:
        dims = [(n + 1, 3 + n % 7), (n // 3 + 1, 64), (n % 5 + 1, 32, 32, n % 129 + 1), (2 * n + 1, 4)]
        names = ("grad_voxel_features", "features", "voxel_point_indices", "point2voxel_map")
        tensors = [TensorInfo(name, "float", "ARRAY", dim) for name, dim in zip(names, dims, strict=True)]
        params = {"kernel_size": [3, 3, n], "pad": [n % 3] * 3, "stride": [1, 1, 1], "batch": n, "sub_m": n % 2}
        doc = f"§3.{n % 9}: windows across the bottom of {n} rows, once for every side of the feature"
        return CaseInfo(tuple(tensors[:3]), tuple(tensors[3:]), params, doc, 1000.0 + 37 * n, 51.0 * n)

    def one(n: int) -> CaseResult:
        case = f"indice_convolution_backward_data/edge_of_the_last_block_{n}_float"
        samples = tuple(20_000 + 13 * n + 11 * (k * 29 % 97) for k in range(60))
        timed = {"info": info(n), "seconds": 1e-4 * (n % 77) + n * 1e-9, "perf": Perf(samples, (), 1024 * n)}
        value = 1e-7 * (1 + n % 83) / 3
        readings = tuple(Reading("out", f"diff{k}", value / k, 1e-5, True) for k in (1, 2, 4))
        if n >= failures:
            return result(case, readings=readings, tags=("boundary", "random"), **timed)
        return failed(case, f"v1:{n:08x}", causes=(exceeded(value, n, n),), **timed)

    return report(*map(one, range(count)))
