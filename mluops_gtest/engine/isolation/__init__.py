"""Backends in processes of their own: a crash or a hang costs one case and never the run."""
