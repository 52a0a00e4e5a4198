"""A hostile week on demand: `python -m tests.campaign` (about a quarter of an hour) or `--quick` (about a minute).

Backends that misbehave in every way we know, kills, mutated files and full disks, each held to the promises of
docs/reference/trust.md. pytest collects nothing here: a campaign takes too long for a test run, and it also looks for
what nobody thought of.
"""
