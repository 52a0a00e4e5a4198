"""Case files, results and the lock to and from disk."""
