"""Backends in processes of their own: a crash, a hang or a leak costs one case and never the run."""
