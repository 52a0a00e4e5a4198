"""The smallest case that fails for the same cause as a given one."""
