"""Verdicts on outputs: criteria, bounds of arithmetic, explanations, arbitration, fingerprints."""
