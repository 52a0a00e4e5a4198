import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from mluops_gtest.casefiles import elements as libstdcxx
from mluops_gtest.casefiles.elements import Engine, gaussian, uniform

DRAW = {"uniform": uniform, "gaussian": gaussian}
REAL = {"float": np.float32, "double": np.float64}
SOURCE = Path(__file__).with_name("draws.cpp")

# Printed by draws.cpp (g++ 12.2, glibc 2.36): kind, type, seed → bits of the first five values from -1 and 3.
GOLDEN = {
    ("uniform", "float", 23): "bf7fd0d0 bf6605a3 3f04043a 3f99105e 3c6ef900",
    ("uniform", "float", -5): "403fff7c 401e5389 bcb7ad00 3f952bce 3f5e7242",
    ("uniform", "float", 0): "bf7ffdf3 bef29c52 40016f59 3f55a860 3f90c6dc",
    ("uniform", "double", 23): "bfecc0b456f2f706 3ff3220be83d08b6 bfeb625803ac9a67 3ff749f2f0a7a7a0 3fefbc63009ea408",
    ("uniform", "double", -5): "4003ca7143ef29a3 3ff2a579eaa9de3a 4000fe494e01e048 3fd235ec0330c170 bfe7a4044e8c7670",
    ("uniform", "double", 0): "bfde538a1f794d24 3feab50c2aac438a bfbfc929c03c0938 3ffb7284ff33cfa0 4005e90113a31d9c",
    ("gaussian", "float", 23): "3fcd8b3e c0ee3df2 bece31b0 c04c4a1b bf8f1e2f",
    ("gaussian", "float", -5): "be6410b0 c0b9c0ba 405fccf4 bfc31c5a bfadcc26",
    ("gaussian", "float", 0): "bfe37de6 40738174 c0afe678 bef38e9a bf2467bc",
    ("gaussian", "double", 23): "bfebbd522a31d5de c00253b508006df2 bfe639c60d819baa c001f4480c9230e9 3ff044c2791c3b60",
    ("gaussian", "double", -5): "bfe44a91a2b48fa3 40021568f9f35333 c0086c4704a61bf3 4001cdf64e74a7de bff198d0b938b0d6",
    ("gaussian", "double", 0): "bff5dab72ea5b82a c0110ab47cf9a99b 3ff0d88e094c37e2 c010e6fb273a53ef bfecce5e8d8e9e52",
}


def bits(values):
    return values.view(f"<u{values.itemsize}").tolist()


@pytest.mark.parametrize(("kind", "real", "seed"), GOLDEN)
def test_the_values_of_cpp(kind, real, seed):
    wanted = [int(word, 16) for word in GOLDEN[kind, real, seed].split()]
    for count in range(6):
        assert bits(DRAW[kind](seed, -1, 3, count, REAL[real])) == wanted[:count]


def test_the_engine_is_its_definition_over_blocks():
    drawn = Engine(23).draw(70_000)
    x = 23
    for k in range(70_000):
        x = x * 16807 % (2**31 - 1)
        if k % 9973 == 0 or k > 65_530:
            assert drawn[k] == x
    halves = Engine(23)
    assert np.array_equal(np.concatenate([halves.draw(12_345), halves.draw(57_655)]), drawn)


@pytest.mark.parametrize("real", REAL.values())
@pytest.mark.parametrize("draw", DRAW.values())
def test_chunks_do_not_show(monkeypatch, draw, real):
    whole = draw(23, -1, 3, 5_001, real)
    for chunk in (1, 7, 1000):
        monkeypatch.setattr(libstdcxx, "_CHUNK", chunk)
        assert bits(draw(23, -1, 3, 5_001, real)) == bits(whole)


def test_the_standard_s_own_check_value():
    # [rand.predef]: the 10000th draw of a default-constructed minstd_rand0 is 1043618065.
    assert Engine(1).draw(10_000)[-1] == 1043618065


def test_a_uniform_value_never_reaches_the_upper_bound():
    values = uniform(23, 0, 1, 200_000, np.float32)
    assert values.dtype == np.float32
    assert values.min() >= 0
    assert values.max() < 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ here; the committed values stand for it")
def test_long_runs_against_a_compiled_program(tmp_path):
    program = tmp_path / "draws"
    subprocess.run(["g++", "-O1", str(SOURCE), "-o", str(program)], check=True)
    for kind, real, seed, a, b in [
        ("uniform", "float", 2147483647, -1000, 0.1),
        ("uniform", "double", 7, 1, 0),
        ("gaussian", "float", 9, 0, 1),
        ("gaussian", "double", -2147483648, 0.1, 5),
    ]:
        count = 20_001
        command = [str(program), kind, real, str(seed), str(a), str(b), str(count)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert bits(DRAW[kind](seed, a, b, count, REAL[real])) == [int(word, 16) for word in printed.split()]
