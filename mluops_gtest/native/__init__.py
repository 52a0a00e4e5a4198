"""One small C library for what numpy cannot do near the machine's limit; without it numpy gives the same bits."""
