"""What a run leaves: its files, read back with their types, merged, remembered."""
