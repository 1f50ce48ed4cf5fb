"""Rounds of a fixpoint: noted, remembered, and run as one loop."""
