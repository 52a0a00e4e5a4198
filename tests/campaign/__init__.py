"""A hostile week on demand: `python -m tests.campaign` (about half an hour) or `--quick` (about a minute).

Backends that misbehave in every way we know, kills, mutated files and full disks, each held to the promises of
docs/reference/trust.md; started by root, also as another user (`--user nobody`). pytest collects nothing here: a
campaign takes too long for a test run, and it also looks for what nobody thought of.
"""
