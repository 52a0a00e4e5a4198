"""`python cli.py …` from a bare checkout, nothing installed but the core packages."""

from mluops_gtest.cli.main import main

main()
