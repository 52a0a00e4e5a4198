"""examples/spconv_backend where spconv is installed: pip install 'mluops-test[spconv]'."""

import importlib.util

import pytest

from tests.conftest import ROOT

FOLDER = ROOT / "examples" / "spconv_backend"
BACKEND = FOLDER / "spconv_kernels.py"
installed = pytest.mark.skipif(
    importlib.util.find_spec("spconv") is None, reason="spconv is not installed: pip install 'mluops-test[spconv]'"
)


@pytest.fixture
def one_thread(monkeypatch):
    """Its scatter_add is wrong now and then with more."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@installed
@pytest.mark.slow
def test_with_one_thread_it_passes_the_smoke_cases(run, one_thread):
    result = run("--tag", "smoke", "-k", "indice and not negative", "--backend", BACKEND)
    outcomes = {case["outcome"] for case in result.results.values()}
    assert outcomes <= {"passed", "skipped"}
    assert {case["operator"] for case in result.results.values() if case["outcome"] == "passed"} == {
        "get_indice_pairs",
        "indice_convolution_forward",
        "indice_convolution_backward_data",
        "indice_convolution_backward_filter",
    }


@installed
@pytest.mark.slow
def test_keys_of_32_bits_are_found(run, one_thread):
    case = "get_indice_pairs/keys_equal_in_32_bits_sub_m_1"
    found = run(case, "--backend", BACKEND, "--arbitrate").expect_code(1).results[case]
    assert found["arbitrated"][0]["baseline"] == found["arbitrated"][0]["disputed"]


def test_the_readme_names_cases_that_exist(catalogue):
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for case in ("get_indice_pairs/axis_of_2_31_minus_1", "get_indice_pairs/keys_equal_in_32_bits_sub_m_1"):
        assert case in text
        assert catalogue.draft(case) is not None
    for name in ("indice_convolution_forward", "indice_convolution_backward_data"):
        assert catalogue.draft(f"{name}/race_one_offset") is not None
