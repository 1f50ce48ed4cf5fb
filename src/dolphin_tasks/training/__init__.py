"""The shared trainer: one loop, one run folder, one set of options for every task."""
