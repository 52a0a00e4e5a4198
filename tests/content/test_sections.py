"""Where a rule stands: § of checks and cases are sections of the operator's document, other rules say `released`."""

import re

import pytest

# The numbered checks end at 3.7 or 3.8, and only one document divides them further.
_FIRST = "1.1 1.2 1.3 1.4 1.5 1.5.1 1.5.2 2.1 2.2 3.1 3.2 3.3"
_SHORT = f"{_FIRST} 3.4 3.5 3.6 3.7"
_LONG = f"{_SHORT} 3.8"
SECTIONS = {
    "ball_query": _SHORT,
    "dynamic_point_to_voxel_forward": f"{_SHORT} 3.1.1 3.1.2",
    "dynamic_scatter_backward": _LONG,
    "get_indice_pairs": _LONG,
    "indice_convolution_backward_data": f"{_LONG} 1.2.1 1.2.2 3.4.1 3.8.1 3.8.2 3.8.3 3.8.4 3.8.5",
    "indice_convolution_backward_filter": _FIRST,
    "indice_convolution_forward": _LONG,
    "masked_col2im_forward": _SHORT,
    "masked_im2col_forward": _SHORT,
    "three_interpolate_backward": _SHORT,
    "three_interpolate_forward": _SHORT,
    "three_nn_forward": _LONG,
    "voxel_pooling_forward": _SHORT,
    "voxelization": _SHORT,
}
# Documents that say something of tensors of 2^31 elements, and of older devices.
KNOW_LARGE = {
    "ball_query",
    "dynamic_point_to_voxel_forward",
    "indice_convolution_backward_data",
    "voxel_pooling_forward",
}
KNOW_ARCH = {"indice_convolution_backward_data", "indice_convolution_forward", "voxel_pooling_forward"}


def sections_in(text):
    return re.findall(r"§(\d+(?:\.\d+)*)", text)


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_is_one_of_the_document(catalogue, name):
    known = set(SECTIONS[name].split())
    texts = [(check.name, check.doc) for check in catalogue.operators[name].checks]
    texts += [(draft.id, draft.doc) for draft in catalogue.drafts_of(name).values()]
    assert [(where, text) for where, text in texts if not set(sections_in(text)) <= known] == []


@pytest.mark.parametrize("name", SECTIONS)
def test_rules_that_no_section_has_are_released_ones(catalogue, name):
    for check in catalogue.operators[name].checks:
        if check.name.endswith("_large"):
            assert check.doc.startswith("released") is (name not in KNOW_LARGE), check.name
        if check.name == "arch":
            assert check.doc.startswith("released") is (name not in KNOW_ARCH)
    released = {check.name for check in catalogue.operators[name].checks if check.doc.startswith("released")}
    # A derived case beside a limit names the section of that.
    of_them = [
        draft
        for draft in catalogue.drafts_of(name).values()
        if draft.expect.check in released and "just valid for" not in draft.doc
    ]
    assert [draft.id for draft in of_them if "released" not in draft.doc] == []
