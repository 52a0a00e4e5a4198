"""Times: samples, statistics, efficiency, and what a device can do."""
