"""Reasoning shortcuts: sums of two digits that don't say which digit is which."""
