"""Cases to and from disk; the modules beside this one do the work."""

from mluops_gtest.codec.case_files.convert import convert
from mluops_gtest.codec.case_files.reader import OperatorsByName, read_case, read_operator_name
from mluops_gtest.codec.case_files.writer import case_text, write_case

__all__ = ["OperatorsByName", "case_text", "convert", "read_case", "read_operator_name", "write_case"]
