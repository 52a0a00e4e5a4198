"""Indices and counts in fewer bits than int32 has: the cases for large sizes tell each of them."""

from dataclasses import replace

import numpy as np
import pytest

from mluops_gtest.catalog.make import make_case
from mluops_gtest.core.call import Status
from mluops_gtest.core.outcome import Outcome
from mluops_gtest.search.audit_declarations import judged

# What an index or a count passes through: half has no odd numbers above 2048, the others wrap at 2^15 and 2^16.
NARROW = (np.float16, np.int16, np.uint16)
READ = (
    ("three_interpolate_forward", "indices", "cells_65537_half"),
    ("three_interpolate_backward", "indices", "cells_65537_half"),
    ("masked_col2im_forward", "mask_h_idx", "many_rows_65537_half"),
    ("indice_convolution_forward", "indice_pairs", "size_rows_65537"),
    ("indice_convolution_backward_data", "indice_pairs", "size_rows_65537"),
    ("indice_convolution_backward_filter", "indice_pairs", "size_pairs_65537_float"),
    ("dynamic_scatter_backward", "point2voxel_map", "voxels_65537"),
    ("dynamic_scatter_backward", "voxel_num", "voxels_65537"),
)
WRITTEN = (
    ("three_nn_forward", "idx", "many_known_65537_half"),
    ("ball_query", "idx", "points_65537_half"),
    ("voxel_pooling_forward", "pos_memo", "cells_65537"),
    ("dynamic_point_to_voxel_forward", "point2voxel_map", "voxels_65537"),
    ("dynamic_point_to_voxel_forward", "voxel_num", "voxels_65537"),
    ("dynamic_point_to_voxel_forward", "voxel_points_count", "counts_max_to_65537"),
    ("get_indice_pairs", "indice_pairs", "sites_65537"),
    ("voxelization", "coors", "long_0"),
    ("voxelization", "num_points_per_voxel", "counts_to_65537"),
    ("voxelization", "voxel_num", "voxels_65537"),
)


def narrowed(array, narrow):
    with np.errstate(all="ignore"):
        values = array.astype(narrow).astype(np.float64)
    return np.nan_to_num(values, posinf=0).astype("<i4")


@pytest.fixture
def untold(catalogue, operators):
    """The narrow types with which the kernel that `spoilt` makes of the right one passes unseen."""

    def judge(name, case_name, spoilt):
        operator = operators[name]
        case = make_case(catalogue.drafts[f"{name}/{case_name}"], operator)
        found = []
        for narrow in NARROW:
            result = judged(narrow.__name__, spoilt(operator.kernel, narrow), case, operator, each_element=True)
            assert result.outcome in (Outcome.PASSED, Outcome.FAILED), result.reason
            if result.outcome is Outcome.PASSED and not any(reading.beyond for reading in result.elements):
                found.append(narrow.__name__)
        return found

    return judge


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tensor", "case"), READ)
def test_indices_that_are_read_in_fewer_bits_are_told(untold, name, tensor, case):
    def spoilt(kernel, narrow):
        def run(call):
            given = call.inputs[tensor]
            # Where the narrow number would be no legal index the kernel reads row 0 instead.
            array = np.maximum(narrowed(given.array, narrow), np.minimum(given.array, 0))
            return kernel(replace(call, inputs={**call.inputs, tensor: replace(given, array=array)}))

        return run

    assert untold(name, case, spoilt) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tensor", "case"), WRITTEN)
def test_indices_that_are_written_in_fewer_bits_are_told(untold, name, tensor, case):
    def spoilt(kernel, narrow):
        def run(call):
            status = kernel(call)
            assert status is Status.SUCCESS
            output = call.array(tensor)
            output[...] = np.where(output < 0, output, narrowed(output, narrow))
            return status

        return run

    assert untold(name, case, spoilt) == []
