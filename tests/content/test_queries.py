"""What workspace queries owe to the stored negative cases, held to what the specification says of each query."""

from dataclasses import replace

import pytest

from mluops_gtest.catalog.selection import Selected, Session
from mluops_gtest.core.buffers import bind_values
from mluops_gtest.core.call import Status
from mluops_gtest.core.operator_parts import C_API

# Written down from the specification, by case: what the query owes; None where nobody says.
OK, BAD, OLD, NOT = Status.SUCCESS, Status.BAD_PARAM, Status.ARCH_MISMATCH, Status.NOT_SUPPORTED
OWED = {
    # Handle, known_desc, size null, rank 3; it sees known alone.
    "three_nn_forward": {
        "handle_null": BAD, "known_desc_null": BAD, "unknown_desc_null": OK, "idx_desc_null": OK,
        "known_rank_less": BAD, "unknown_rank_less": OK, "known_large_all_m_357913942": None, "unknown_large": OK,
        "no_known_half": OK, "known_ptr_null": OK, "workspace_null": OK,
    },
    # Handle, arch, then descriptors or size null, nothing else; it sees feats and coors.
    "dynamic_point_to_voxel_forward": {
        "handle_null": BAD, "feats_desc_null": BAD, "coors_desc_null": BAD, "voxel_feats_desc_null": OK,
        "workspace_null": OK, "feats_large": OK,
    },
    # The operator's own up to the empty return, then size null.
    "indice_convolution_forward": {
        "handle_null": BAD, "arch_270": OLD, "features_padded": NOT, "no_channels_in": OK, "workspace_null": OK,
        "features_desc_null": BAD, "features_ptr_null": OK,
    },
    # Size null first, then the operator's own.
    "indice_convolution_backward_filter": {
        "handle_null": BAD, "features_padded": NOT, "output_grad_transposed": NOT, "workspace_null": OK,
    },
    # Handle, size null, then the operator's own.
    "masked_col2im_forward": {
        "handle_null": BAD, "col_desc_null": BAD, "everything_empty": BAD, "no_masks_float": OK, "workspace_null": OK,
        "im_ptr_null": OK,
    },
    # The operator's own up to the early return; the query takes neither data nor a workspace.
    "masked_im2col_forward": {
        "handle_null": BAD, "feature_desc_null": BAD, "workspace_null": OK, "feature_ptr_null": OK,
    },
    # Likewise, and it takes no sub_m.
    "indice_convolution_backward_data": {
        "handle_null": BAD, "workspace_null": OK, "output_grad_ptr_null": OK, "inverse_2": BAD, "inverse_1": NOT,
        "sub_m_2": OK, "sub_m_rows_sub_m_more": OK,
    },
    "get_indice_pairs": {
        "handle_null": BAD, "sparse_conv_desc_null": BAD, "workspace_null": OK, "indices_ptr_null": OK,
    },
    # Nulls and the device; what it makes of the rest of what it sees is said nowhere. It does not see grad_feats.
    "dynamic_scatter_backward": {
        "handle_null": BAD, "arch_270": OLD, "feats_desc_null": BAD, "grad_feats_desc_null": OK, "workspace_null": OK,
        "feats_ptr_null": OK, "feats_strided_gap": None, "reduce_type_less": None, "grad_feats_strided_gap": OK,
    },
    # The operator's own up to the early return, the size behind the descriptors; it takes neither data nor a workspace.
    # Handle, input_desc, size null, nothing else.
    "active_rotated_filter_forward": {
        "handle_null": BAD, "input_desc_null": BAD, "indices_desc_null": OK, "output_desc_null": OK,
        "input_strided_gap": OK, "no_filters": OK, "workspace_null": OK, "input_ptr_null": OK,
    },
    # Handle, arch, input_desc, size null, nothing else.
    "moe_dispatch_backward_gate": {
        "handle_null": BAD, "arch_270": OLD, "input_desc_null": BAD, "dispatch_desc_null": OK,
        "input_strided_gap": OK, "no_samples": OK, "workspace_null": OK, "input_ptr_null": OK,
    },
    # Handle, pts_feature_desc, size null, nothing else: not even the device.
    "roiaware_pool3d_forward": {
        "handle_null": BAD, "pts_feature_desc_null": BAD, "rois_desc_null": OK, "pts_desc_null": OK,
        "argmax_desc_null": OK, "arch_270": OK, "rois_strided_gap": OK, "workspace_null": OK, "rois_ptr_null": OK,
    },
    # Size null first, then the operator's own; large tensors are refused here alone, before empty ones.
    "roipoint_pool3d": {
        "handle_null": BAD, "points_desc_null": BAD, "pooled_empty_flag_desc_null": BAD, "strided_before_dtype": NOT,
        "pooled_empty_flag_dtype_float": BAD, "large_pooled_features": NOT, "no_points": BAD, "workspace_null": OK,
        "points_ptr_null": OK,
    },
    "voxelization": {
        "handle_null": BAD, "voxel_num_desc_null": BAD, "arch_270": OLD, "not_deterministic": BAD, "no_points": BAD,
        "points_strided_gap": NOT, "coors_large_of_no_places": NOT, "max_points_0": OK, "workspace_null": OK,
        "workspace_null_of_no_points": OK, "points_ptr_null": OK,
    },
}  # fmt: skip
# The place of the size, where the specification has one.
PLACES = {
    "dynamic_point_to_voxel_forward/size_null_behind_arch": OLD,
    "indice_convolution_forward/size_null_behind_strided": NOT,
    "indice_convolution_forward/size_null_behind_empty": OK,
    "indice_convolution_backward_filter/size_null_before_strided": BAD,
    "masked_col2im_forward/size_null_before_strided": BAD,
    "masked_col2im_forward/size_null_before_no_masks": BAD,
    "voxelization/size_null_before_arch": BAD,
    "voxelization/size_null_before_no_places": BAD,
}


@pytest.fixture(scope="module")
def session():
    return Session()


def load(session, *ids):
    drafts = [session.catalogue.drafts[one] for one in ids]
    source = session.source(tuple(Selected(one.id, one.operator, one.tags, draft=one) for one in drafts))
    return [source.load(one) for one in ids]


def owed(session, function, case, *, size_null=False):
    operator = session.catalogue.operators[case.operator]
    return operator.query_answer(function, replace(bind_values(case, operator), size_null=size_null))


def status(answer):
    return None if answer is None else answer.status


def test_every_query_of_every_operator_says_what_it_checks(session):
    operators = session.catalogue.operators
    for name, operator in operators.items():
        queries = {one.query.declared_name for one in operators.part(name, C_API) if one.query is not None}
        assert set(operator.queries) == queries
    assert {name for name, operator in operators.items() if operator.queries} == set(OWED)


@pytest.mark.parametrize("name", OWED)
def test_a_query_owes_what_the_specification_says(session, name):
    for function in session.catalogue.operators[name].queries:
        for case in load(session, *(f"{name}/{one}" for one in OWED[name])):
            assert status(owed(session, function, case)) is OWED[name][case.id.partition("/")[2]], (function, case.id)
        (case,) = load(session, f"{name}/size_null")
        assert case.expect.null_pointer == ("size",)
        assert status(owed(session, function, case, size_null=True)) is BAD
        assert status(owed(session, function, case)) is OK


def test_the_size_has_its_place(session):
    for case in load(session, *PLACES):
        (function,) = session.catalogue.operators[case.operator].queries
        assert status(owed(session, function, case, size_null=True)) is PLACES[case.id]


@pytest.mark.parametrize("name", OWED)
def test_every_check_of_a_query_is_the_first_that_some_stored_case_breaks(session, name):
    catalogue = session.catalogue
    operator = catalogue.operators[name]
    ids = [one.id for one in catalogue.drafts_of(name).values() if "negative" in one.tags]
    cases = load(session, *(one for one in ids if catalogue.stored_path(one).exists()))
    subsumed = set(operator.subsumed)
    for function, declared in operator.queries.items():
        answers = [
            owed(session, function, case, size_null=size_null)
            for case in cases
            for size_null in {False, "size" in case.expect.null_pointer}
        ]
        asked = {answer.check for answer in answers if answer is not None}
        assert asked - {None} == set(declared.names) - set(declared.silent) - subsumed
