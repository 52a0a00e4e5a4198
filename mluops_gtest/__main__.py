"""`python -m mluops_gtest`."""

from mluops_gtest.cli.main import main

main()
