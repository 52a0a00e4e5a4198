"""Mistakes that kernels make where pairs of several offsets meet in a row, and about matrices and rows."""

from mluops_gtest.authoring.products import products_suspects

from .reference import products_of

SUSPECTS = products_suspects("features_out", products_of)
