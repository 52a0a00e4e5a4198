"""Runs planned cases on a backend and judges what comes back."""
