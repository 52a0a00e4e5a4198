"""What a run leaves: its files, reports, gate and history, and the statistics of its times."""
