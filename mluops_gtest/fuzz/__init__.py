"""Calls that nobody declared: drawn from the operators' spaces, steered by coverage, kept where they fail."""
