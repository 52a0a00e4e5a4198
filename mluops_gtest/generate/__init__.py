"""Declared case → tensors → baseline → files."""
