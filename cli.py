"""`python cli.py …` from a bare checkout, nothing installed but the core packages."""

from mluops_gtest.__main__ import main

# Processes that `generate -j` starts read this file as well.
if __name__ == "__main__":
    main()
