"""Threads of ours beside a BLAS of one: results in order, and nothing stays changed."""

import threading
import warnings

import numpy as np
import pytest

from generators._shared import products
from generators._shared.products import each


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A BLAS of two threads: the numbers that it was set to."""
    asked: list[int] = []
    monkeypatch.setattr(products, "_openblas", lambda: (lambda: 2, asked.append))
    return asked


def test_results_come_in_the_order_of_the_items(two_threads: list[int]) -> None:
    # The first waits for the second, so that both must run at once.
    second = threading.Event()

    def work(item: int) -> int:
        assert second.wait(60) if item == 0 else second.set() is None
        return item * item

    assert each(work, range(9)) == [n * n for n in range(9)]
    assert two_threads == [1, 2]


def test_blas_has_its_threads_again_after_an_error(two_threads: list[int]) -> None:
    with pytest.raises(ZeroDivisionError):
        each(lambda item: 1 // item, [1, 0])
    assert two_threads == [1, 2]


def test_one_item_is_left_to_blas(two_threads: list[int]) -> None:
    assert each(lambda item: item, ["alone"]) == ["alone"]
    assert not two_threads


def test_another_blas_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_openblas", lambda: None)
    assert each(str, range(3)) == ["0", "1", "2"]


@pytest.mark.usefixtures("two_threads")
def test_numpy_warns_in_threads_as_it_does_outside() -> None:
    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("error")
        each(lambda number: np.float32(number) * np.float32(number), [1e30, 1e31])
    with pytest.raises(FloatingPointError), np.errstate(over="raise"):
        each(lambda number: np.float32(number) * np.float32(number), [1e30, 1e31])


def test_the_blas_of_numpy_multiplies_on_one_thread_inside() -> None:
    functions = products._openblas()
    if functions is None:
        pytest.skip("numpy multiplies with another BLAS")
    number, _ = functions
    before = number()
    assert each(lambda _: number(), range(2)) == [1, 1]
    assert number() == before
