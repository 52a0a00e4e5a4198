"""`exec:COMMAND`: any program in any language, reached through a folder per call."""
