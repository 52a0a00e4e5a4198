"""Looks for what the suite misses: fuzzing, smaller failures, the audit of operators and cases."""
