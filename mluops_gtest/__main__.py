"""`python -m mluops_gtest`."""

from mluops_gtest.cli.main import main

# Processes that `generate -j` starts read this file as well.
if __name__ == "__main__":
    main()
