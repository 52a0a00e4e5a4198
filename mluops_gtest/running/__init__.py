"""Runs planned cases on a backend, in worker processes or in this one, and times them."""
