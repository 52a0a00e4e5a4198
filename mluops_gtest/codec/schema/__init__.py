"""The schema of case files, put together from the operators."""
