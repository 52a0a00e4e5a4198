"""Plain files: read whole and checked against a type, written at once or not at all; YAML with line numbers."""
