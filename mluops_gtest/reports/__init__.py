"""Listeners of a run's events and readers of its report."""
