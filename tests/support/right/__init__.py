"""Right implementations of every kind, per operator: what no bound may refuse."""
