"""Case files, the schema and the lock, to and from disk, as text and binary."""
