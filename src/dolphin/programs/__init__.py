"""Programs made of operations: with choices, for one sample, with branches, recursive."""
