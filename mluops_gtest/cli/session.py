"""What a command works with; api/session.py has it."""

from mluops_gtest.api.session import Session

__all__ = ["Session"]
