"""What faulty draws aim at, and the faults that reach it."""

from functools import cache
from pathlib import Path
from random import Random

import pytest

from mluops_gtest.catalog.operators import load_operators
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.operator_parts import SPACE
from mluops_gtest.search.draws import Draws
from mluops_gtest.search.fault_search import Aim, Broken, Shows, aims_of, broken_by

ROOT = Path(__file__).parents[3]


@cache
def draws(name):
    known = load_operators(ROOT)
    return Draws(known[name], known.part(name, SPACE), 0)


def reached(name, aim):
    """Some call with the faults of a way to the aim, and what the checks say of it."""
    hunt, random = draws(name), Random(0)
    for _ in range(20):
        faults = hunt._ways.together(aim, random)
        for call in hunt._probes():
            spoilt = hunt._ways.applied(call, faults, random)
            broken = None if spoilt is None else broken_by(spoilt, hunt.operator, hunt._space.defined)
            if broken is not None and aim.misses(broken) == 0:
                return spoilt, broken
    pytest.fail(f"no call reaches {aim}")


def test_what_is_in_the_way_of_an_aim_is_counted():
    aim = Aim("b", Shows.TOLD)
    assert aim.misses(Broken(("a",))) is None
    assert aim.misses(Broken(("b",), told=True)) == 0
    assert aim.misses(Broken(("b", "c"))) < aim.misses(Broken(("b", "c", "d")))
    assert aim.misses(Broken(("b", "c"))) < aim.misses(Broken(("a", "b", "c"), told=True))
    assert Aim("b", later="c").misses(Broken(("b",))) is None
    assert Aim("b", later="c").misses(Broken(("b", "c"))) == 0


def test_neighbours_of_two_statuses_come_first():
    first, others = aims_of(draws("voxel_pooling_forward").operator)
    assert Aim("pos_memo_ptr_null", later="arch") in first
    assert Aim("handle_null", later="arch") in others
    assert Aim("handle_null", later="geom_xyz_desc_null") not in first, "both answer alike"
    assert Aim("batch_size", Shows.WRITTEN) not in first, "without batches there is no output"
    assert Aim("num_points", Shows.WRITTEN) in first
    assert Aim("geom_xyz_large", Shows.TOLD) not in first, "another answers anyway"


def test_what_must_change_in_step_does():
    """The kernel, every table that has a row per offset, and nothing that another check refuses."""
    case, broken = reached("get_indice_pairs", Aim("offsets_limit", Shows.TOLD))
    dims = {tensor.id: tensor.desc.dims for tensor in case.outputs}
    assert dims["indice_pairs"][0] == dims["indice_num"][0] == case.params["filter_space"][0] > 4096
    assert broken.checks == ("offsets_limit",)


@pytest.mark.parametrize("check", ["batch_value", "sites_limit", "indice_pairs_large"])
def test_several_faults_together_leave_one_check_to_answer(check):
    _, broken = reached("get_indice_pairs", Aim(check, Shows.TOLD))
    assert broken.checks[0] == check


@pytest.mark.slow
def test_filters_of_any_layout_change_in_step():
    case, _ = reached("indice_convolution_backward_data", Aim("indice_pairs_large", Shows.WRITTEN))
    (output,) = case.outputs
    assert output.desc.nbytes <= 1 << 20
    assert all(tensor.data is None for tensor in case.inputs if tensor.desc.is_large), "a descriptor alone"


def test_two_checks_are_broken_together():
    case, broken = reached("dynamic_scatter_backward", Aim("arch", later="grad_voxel_feats_desc_null"))
    assert broken.checks[:2] == ("arch", "grad_voxel_feats_desc_null")
    operator = draws("dynamic_scatter_backward").operator
    assert operator.answer(bind_values(case, operator)).check == "arch"


def test_ways_follow_from_the_seed_alone():
    known = load_operators(ROOT)
    name, aim = "get_indice_pairs", Aim("batch_value", Shows.TOLD)
    fresh = Draws(known[name], known.part(name, SPACE), 0)
    assert fresh._ways.to(aim) == draws(name)._ways.to(aim)
