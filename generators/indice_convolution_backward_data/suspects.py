"""Mistakes that kernels make where pairs of several offsets meet in a row."""

from mluops_gtest.authoring.lost_terms import lost_terms
from mluops_gtest.authoring.products import terms_of_pairs

from .reference import products_of

SUSPECTS = lost_terms("input_grad", "pair", "row", lambda call: terms_of_pairs(products_of(call)), lambda sums, _: sums)
