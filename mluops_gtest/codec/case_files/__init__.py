"""Case files, text and binary: read, written, converted."""
