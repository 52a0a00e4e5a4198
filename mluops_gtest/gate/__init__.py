"""Decides from a report, a reference and a list of waivers whether a change may be merged."""
