"""Case files, calls and the lock to and from disk."""
