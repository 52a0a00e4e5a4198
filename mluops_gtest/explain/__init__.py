"""From wrong elements to their cause: where and how an output is wrong, and what the cases that fail have in common."""
